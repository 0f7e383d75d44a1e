// Package addons makes what an RKE1 cluster gets applied once its control plane answers: the
// network of pods, DNS, metrics, ingress, and what users bring. Deciding is a function of the
// config and the version data; only what a user includes by an address or a path is read.
//
// The texts are those of the version data where these have a template for the version, as KDM's
// do. The embedded data have none; for them there are texts of our own below manifests. Names and
// selectors of workloads are RKE's in both, so that either replaces the other in place: a
// selector cannot be changed.
//
// Wire source: rancher/rke cluster/addons.go and cluster/network.go (names, values of templates),
// rancher/kontainer-driver-metadata pkg/rke/templates (which values they use).
package addons

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

// The names of add-ons: of their ConfigMaps in kube-system, and what Jobs of RKE begin with.
const (
	Network   = "rke-network-plugin"
	CoreDNS   = "rke-coredns-addon"
	KubeDNS   = "rke-kube-dns-addon"
	NodeLocal = "rke-nodelocal-addon"
	Metrics   = "rke-metrics-addon"
	Ingress   = "rke-ingress-controller"
	User      = "rke-user-addon"
	Includes  = "rke-user-includes-addons"
)

// Addon is one text of YAML that is applied under a name.
type Addon struct {
	Name string
	// Text has the objects; "" means that they should not be there.
	Text string
	// Users says that a user brought it: a failure does not end a run.
	Users bool
	// Replaced are objects to delete before a changed text is applied: Jobs, which cannot be
	// changed in place, and what the text has no more.
	Replaced []Object
}

// Change says in a line what becomes of an add-on whose text is not what the cluster keeps.
func (a Addon) Change() string {
	if a.Text == "" {
		return "add-on " + a.Name + ": remove its objects"
	}
	return "add-on " + a.Name + ": apply"
}

// Object names an object in the cluster.
type Object struct{ APIVersion, Kind, Namespace, Name string }

// Of is every add-on that the cluster has by itself, in the order in which they are applied, and
// with an empty text those that a config could have and this one does not. c is filled
// (config.WithDefaults). Equal arguments give equal bytes.
//
// For the plugin none there is no entry, so that the network stays that pods are using while
// a user brings another one. Of the two providers of DNS the one that goes comes first, because
// both have the Service kube-dns.
//
// Errors name the field of cluster.yml, and what a person can do.
func Of(c *config.Cluster, v *versions.Data) ([]Addon, error) {
	w := &writer{c: c, data: v, version: config.ReadVersion(c.KubernetesVersion)}
	if !w.version.Known() {
		return nil, fmt.Errorf("kubernetes_version: %.60q is not a version such as v1.30.5-rancher1-1", c.KubernetesVersion)
	}
	var all []Addon
	add := func(name string, text string, err error) error {
		if err != nil {
			return fmt.Errorf("add-on %s: %w", name, err)
		}
		all = append(all, Addon{Name: name, Text: text})
		return nil
	}
	if c.Network.Plugin != config.PluginNone {
		text, err := w.network()
		if err := add(Network, text, err); err != nil {
			return nil, err
		}
	}
	for _, next := range []struct {
		name string
		make func() (string, error)
	}{{otherDNS(c), nothing}, {chosenDNS(c), w.dns}, {NodeLocal, w.nodeLocal}, {Metrics, w.metrics}, {Ingress, w.ingress}} {
		text, err := next.make()
		if err := add(next.name, text, err); err != nil {
			return nil, err
		}
	}
	if last := &all[len(all)-1]; last.Text != "" {
		last.Replaced = replacedByIngress(&c.Ingress)
	}
	return all, nil
}

func nothing() (string, error) { return "", nil }

// dnsOf is the config of DNS, which a config that is not filled has not.
func dnsOf(c *config.Cluster) *config.DNS { return cmp.Or(c.DNS, &config.DNS{Provider: config.None}) }

func chosenDNS(c *config.Cluster) string {
	if dnsOf(c).Provider == "kube-dns" {
		return KubeDNS
	}
	return CoreDNS
}

func otherDNS(c *config.Cluster) string {
	if chosenDNS(c) == KubeDNS {
		return CoreDNS
	}
	return KubeDNS
}
