// The health questions of a node, by its roles.

package installers

import (
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans"
)

// Node is what the probes of a node depend on.
type Node struct {
	Etcd, ControlPlane, Worker bool
	// Loopback is localhost, 127.0.0.1 or ::1.
	Loopback string
	DataDir  string
	// Args are the arguments of components as they stand in the node's config, by Component.ArgKey.
	Args map[string][]string
	// CNI are the network plugins of the node's config, as PluginsOf reads them.
	CNI []string
}

// PluginsOf are the network plugins of a config value: a name, a list of names, or names with
// commas between them.
func PluginsOf(values []string) []string {
	var plugins []string
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				plugins = append(plugins, name)
			}
		}
	}
	return plugins
}

// Probes are the health questions of a node, by name.
func (d Distribution) Probes(n Node) map[string]plans.Probe {
	probes := map[string]plans.Probe{}
	if n.Etcd && d.EtcdHealth {
		probes["etcd"] = probe(plans.HTTPGet{URL: n.local("http", etcdHealthPort, "/health")})
	}
	if n.ControlPlane {
		tls := path.Join(n.DataDir, "server/tls")
		probes["kube-apiserver"] = probe(plans.HTTPGet{
			URL:        n.local("https", APIPort, "/readyz"),
			CACert:     tls + "/server-ca.crt",
			ClientCert: tls + "/client-kube-apiserver.crt",
			ClientKey:  tls + "/client-kube-apiserver.key",
		})
		for _, c := range Components() {
			probes[c.Name] = c.probe(n.Args[c.ArgKey], n.Loopback, n.DataDir)
		}
	}
	etcdAlone := n.Etcd && !n.ControlPlane
	if !etcdAlone || d.EtcdHealth {
		probes["kubelet"] = probe(plans.HTTPGet{URL: n.local("http", kubeletHealthPort, "/healthz")})
	}
	if slices.Contains(n.CNI, "calico") && !etcdAlone {
		probes["calico"] = probe(plans.HTTPGet{URL: n.local("http", calicoHealthPort, "/liveness")})
	}
	return probes
}

func (n Node) local(scheme string, port int, at string) string {
	return scheme + "://" + net.JoinHostPort(n.Loopback, strconv.Itoa(port)) + at
}

func probe(get plans.HTTPGet) plans.Probe {
	return plans.Probe{InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5, HTTPGetAction: get}
}
