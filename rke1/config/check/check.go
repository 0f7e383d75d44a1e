// Package check says what is wrong with a cluster.yml whose form is right: with its version,
// its nodes and its settings, and with what they are together. The order is that of the RKE
// CLI, so that the first error is the one that it would give.
package check

// check.go has the version and the nodes, settings.go what settings mean, forms.go single values, by package forms.

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
)

// Cluster says everything that is wrong with a filled config, and what is likely a mistake or
// ends badly later. Both are sentences with a field, and with its line in written, which is nil
// for a config that is in no file. A config with errors must not be carried out.
//
// Beyond what the CLI refuses, it refuses a cluster without a control plane, internal addresses
// and node names that are there twice, an explicit enable_cri_dockerd: false where the kubelet has no
// other runtime, and values that fail later in the CLI's run.
func Cluster(c config.Cluster, known config.Versions, written *config.File) (errs, warnings strictyaml.Errors) {
	k := &checker{c: &c, known: known, file: written}
	k.version = k.kubernetesVersion()
	k.duplicates()
	for i := range c.Nodes {
		k.node(i)
	}
	k.roles()
	k.authentication()
	k.network()
	k.ranges()
	k.cloud()
	k.ingress()
	k.addons()
	k.docker()
	k.podSecurity()
	k.services()
	k.kinds()
	k.backup()
	f := values{k}
	f.durations()
	f.components()
	f.limits()
	f.places()
	k.upgrade()
	k.registries()
	return k.errs, k.warnings
}

type checker struct {
	c              *config.Cluster
	known          config.Versions
	file           *config.File
	version        config.Version
	errs, warnings strictyaml.Errors
}

func (k *checker) fail(path, format string, args ...any) {
	k.errs = append(k.errs, k.file.At(path, fmt.Sprintf(format, args...)))
}

func (k *checker) warn(path, format string, args ...any) {
	k.warnings = append(k.warnings, k.file.At(path, fmt.Sprintf(format, args...)))
}

// oneOf refuses a value that is none of some words. Passwords are not among such fields.
func (k *checker) oneOf(path, value string, words ...string) {
	if !slices.Contains(words, value) {
		k.fail(path, "%q is not one of %s", cut(value), strings.Join(words, ", "))
	}
}

// refuse refuses a value for a reason, "" for none.
func (k *checker) refuse(path, value, reason string) {
	if reason != "" {
		k.fail(path, "%q %s", cut(value), reason)
	}
}

func cut(text string) string {
	if len(text) > 100 {
		return strings.ToValidUTF8(text[:100], "") + "…"
	}
	return text
}

func (k *checker) kubernetesVersion() config.Version {
	const path = "kubernetes_version"
	v := config.ReadVersion(k.c.KubernetesVersion)
	if !v.Known() {
		k.fail(path, "%q is not a version such as v1.30.5-rancher1-1", cut(k.c.KubernetesVersion))
		return v
	}
	if _, err := k.known.Images(k.c.KubernetesVersion); err == nil {
		k.imageOfAnother(v)
		return v
	} else if missing := k.missingImages(v); len(missing) > 0 {
		k.fail(path, "%v; or give its images, of which system_images lacks %s", err, strings.Join(missing, ", "))
	}
	return v
}

// imageOfAnother looks at an image of Kubernetes of the user's own, whose tag decides on the flags. Older command lines
// wrote all images into a file and left the version open, which is another one in each release.
func (k *checker) imageOfAnother(v config.Version) {
	const path, field = "kubernetes_version", "system_images.kubernetes"
	image := k.c.SystemImages.Kubernetes
	tag := tagOf(image)
	is := config.ReadVersion(tag)
	switch {
	case !is.Known() || is.Minor == v.Minor:
	case k.file != nil && k.file.Cluster.KubernetesVersion == "":
		k.fail(path, "is not given, so that it would be %s, and %s is of Kubernetes 1.%d.%d: write the version that the cluster runs, %s",
			k.c.KubernetesVersion, field, is.Minor, is.Patch, k.released(tag))
		return
	default:
		k.warn(field, "is of Kubernetes 1.%d.%d, and kubernetes_version is %s: components get the flags of the one, add-ons are those of the other", is.Minor, is.Patch, k.c.KubernetesVersion)
	}
	if k.known.Flags == nil {
		return
	}
	if err := k.known.Flags(k.c.KubernetesVersion, image); err != nil {
		k.fail(field, "%v", err)
	}
}

// released is the last version with an image's tag, v1.28.9-rancher1-1 of v1.28.9-rancher1, as far as the data know one.
func (k *checker) released(tag string) string {
	last := "such as " + cut(tag) + "-1"
	for i := 1; i < 10; i++ {
		version := tag + "-" + strconv.Itoa(i)
		if _, err := k.known.Images(version); err == nil {
			last = version
		}
	}
	return last
}

// tagOf is the tag of an image's name, "" without one.
func tagOf(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return tag
}

// missingImages are the images without which a version that is not known cannot be deployed.
func (k *checker) missingImages(v config.Version) []string {
	i, c := &k.c.SystemImages, k.c
	type image struct{ name, value string }
	needed := []image{
		{"etcd", i.Etcd}, {"kubernetes", i.Kubernetes}, {"pod_infra_container", i.PodInfraContainer}, {"alpine", i.Alpine},
		{"nginx_proxy", i.NginxProxy}, {"cert_downloader", i.CertDownloader}, {"kubernetes_services_sidecar", i.ServicesSidecar},
	}
	needed = append(needed, map[string][]image{
		config.PluginFlannel: {{"flannel", i.Flannel}, {"flannel_cni", i.FlannelCNI}},
		config.PluginCanal:   {{"canal_node", i.CanalNode}, {"canal_cni", i.CanalCNI}, {"canal_flannel", i.CanalFlannel}},
		config.PluginCalico: {
			{"calico_cni", i.CalicoCNI}, {"calico_ctl", i.CalicoCtl}, {"calico_node", i.CalicoNode}, {"calico_controllers", i.CalicoControllers},
		},
		config.PluginWeave: {{"weave_cni", i.WeaveCNI}, {"weave_node", i.WeaveNode}},
		config.PluginACI: {
			{"aci_cni_deploy_container", i.ACICNIDeployContainer}, {"aci_host_container", i.ACIHostContainer},
			{"aci_opflex_container", i.ACIOpflexContainer}, {"aci_mcast_container", i.ACIMcastContainer},
			{"aci_ovs_container", i.ACIOVSContainer}, {"aci_controller_container", i.ACIControllerContainer},
		},
	}[c.Network.Plugin]...)
	if c.DNS != nil {
		needed = append(needed, map[string][]image{
			"coredns": {{"coredns", i.CoreDNS}, {"coredns_autoscaler", i.CoreDNSAutoscaler}},
			"kube-dns": {
				{"kubedns", i.KubeDNS}, {"dnsmasq", i.DNSMasq}, {"kubedns_sidecar", i.KubeDNSSidecar}, {"kubedns_autoscaler", i.KubeDNSAutoscaler},
			},
		}[c.DNS.Provider]...)
		if c.DNS.NodeLocal != nil {
			needed = append(needed, image{"nodelocal", i.NodeLocal})
		}
	}
	if c.Monitoring.Provider != config.None {
		needed = append(needed, image{"metrics_server", i.MetricsServer})
	}
	if c.Ingress.Provider != config.None {
		needed = append(needed, image{"ingress", i.Ingress}, image{"ingress_backend", i.IngressBackend})
		if v.AtLeast(21) {
			needed = append(needed, image{"ingress_webhook", i.IngressWebhook})
		}
	}
	var missing []string
	for _, one := range needed {
		if one.value == "" {
			missing = append(missing, one.name)
		}
	}
	return missing
}

// duplicates refuses two nodes that are one, or that would become one in Kubernetes or in etcd.
func (k *checker) duplicates() {
	twins := map[[2]int]bool{} // one word about each two nodes
	for _, field := range []struct {
		path, is string
		of       func(*config.Node) string
	}{
		{"address", "the address", func(n *config.Node) string { return n.Address }},
		{"hostname_override", "the name in Kubernetes", func(n *config.Node) string { return n.HostnameOverride }},
		{"internal_address", "the internal address", func(n *config.Node) string { return n.InternalAddress }},
		{"nodeName", "the name", func(n *config.Node) string { return n.NodeName }},
	} {
		first := map[string]int{}
		for i := range k.c.Nodes {
			value := field.of(&k.c.Nodes[i])
			before, twice := first[value]
			switch {
			case value == "":
			case !twice:
				first[value] = i
			case !twins[[2]int{before, i}]:
				twins[[2]int{before, i}] = true
				k.fail(nodePath(i, field.path), "%q is also %s of nodes[%d]; each host stands here once, with all its roles", cut(value), field.is, before)
			}
		}
	}
}

func nodePath(i int, field string) string { return "nodes[" + strconv.Itoa(i) + "]." + field }

func (k *checker) node(i int) {
	n := &k.c.Nodes[i]
	if n.Address == "" {
		k.fail(nodePath(i, "address"), "is missing; it is where the host is reached")
	} else {
		k.host(nodePath(i, "address"), n.Address)
		k.host(nodePath(i, "internal_address"), n.InternalAddress)
	}
	if n.User == "" {
		k.fail(nodePath(i, "user"), "is missing; it is the user of SSH, who may use the Docker socket")
	}
	if len(n.Role) == 0 {
		k.fail(nodePath(i, "role"), "is missing; it is a list of %s, %s, %s", config.RoleControlPlane, config.RoleEtcd, config.RoleWorker)
	}
	switch name := n.HostnameOverride; {
	case name == "" || forms.Subdomain(name):
	case name == strings.ToLower(n.Address):
		k.fail(nodePath(i, "hostname_override"), "is missing, and the address, %q, cannot be the name of a node in Kubernetes", cut(name))
	default:
		k.fail(nodePath(i, "hostname_override"), "%q is not a DNS name of at most 253 letters, digits, - and .", cut(name))
	}
	for j, role := range n.Role {
		k.oneOf(nodePath(i, "role["+strconv.Itoa(j)+"]"), role, config.RoleControlPlane, config.RoleEtcd, config.RoleWorker)
	}
	k.refuse(nodePath(i, "port"), n.Port, forms.Port(n.Port))
	values{k}.labels(nodePath(i, "labels"), n.Labels)
	values{k}.taints(i)
}

// host refuses what can be neither an address nor a name.
func (k *checker) host(path, value string) {
	if _, err := netip.ParseAddr(value); err == nil {
		return
	}
	if len(value) > 253 || strings.ContainsAny(value, "/:@[]\"'\\ \t\r\n") {
		k.fail(path, "%q is neither an IP address nor a DNS name", cut(value))
	}
}

// roles counts who does what.
func (k *checker) roles() {
	count := map[string]int{}
	for i := range k.c.Nodes {
		for _, role := range []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker} {
			if k.c.Nodes[i].Has(role) {
				count[role]++
			}
		}
	}
	external := len(k.c.Services.Etcd.ExternalURLs) > 0
	if len(k.c.Nodes) == 0 {
		k.fail("nodes", "is missing; a cluster has at least one host with the roles %s and %s", config.RoleEtcd, config.RoleControlPlane)
		return
	}
	switch etcd := count[config.RoleEtcd]; {
	case external && etcd > 0:
		k.fail("services.etcd.external_urls", "is an etcd elsewhere, and %d of the nodes have the role %s; a cluster has one or the other", etcd, config.RoleEtcd)
	case external:
	case etcd == 0:
		k.fail("nodes", "none has the role %s; give it to one, three or five of them", config.RoleEtcd)
	case etcd%2 == 0:
		k.warn("nodes", "%d of them have the role %s; an even number bears the loss of no more hosts than %d would, and there is one more to be lost", etcd, config.RoleEtcd, etcd-1)
	}
	if count[config.RoleControlPlane] == 0 {
		k.fail("nodes", "none has the role %s; give it to one of them at least", config.RoleControlPlane)
	}
	if count[config.RoleWorker] == 0 {
		k.warn("nodes", "none has the role %s; pods without tolerations will find no node", config.RoleWorker)
	}
}
