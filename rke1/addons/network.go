package addons

// network.go is about the network of pods.

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// Files of certificates on hosts, for templates that use them.
const (
	nodeConfig = "/etc/kubernetes/ssl/kubecfg-kube-node.yaml"
	nodeCert   = "/etc/kubernetes/ssl/kube-node.pem"
	nodeKey    = "/etc/kubernetes/ssl/kube-node-key.pem"
	caCert     = "/etc/kubernetes/ssl/kube-ca.pem"
)

func (w *writer) network() (string, error) {
	c, n := w.c, &w.c.Network
	images := &c.SystemImages
	v := values{
		"ClusterCIDR":    c.Services.KubeController.ClusterCIDR,
		"ClusterVersion": "v1." + strconv.Itoa(w.version.Minor),
		"MTU":            n.MTU,
		"NodeSelector":   n.NodeSelector,
		"Tolerations":    n.Tolerations,
		"UpdateStrategy": daemonSet(n.Update),
		"KubeCfg":        nodeConfig, "ClientCertPath": nodeCert, "ClientKeyPath": nodeKey, "ClientCAPath": caCert,
		"APIRoot": "https://127.0.0.1:6443",
	}
	own := n.Plugin + ".yaml"
	var err error
	switch n.Plugin {
	case config.PluginFlannel:
		v["Image"], v["CNIImage"] = images.Flannel, images.FlannelCNI
		v["FlannelInterface"] = n.Options["flannel_iface"]
		v["KubeFlannelPriorityClassName"] = n.Options["kube_flannel_priority_class_name"]
		v["BlackholeRoute"] = false
		err = w.flannel(v, "flannel_backend")
	case config.PluginCanal:
		w.calicoImages(v, images.CanalNode, images.CanalCNI, images.CanalControllers, images.CanalFlexVol)
		v["CanalFlannelImg"] = images.CanalFlannel
		v["CanalInterface"] = n.Options["canal_iface"]
		v["CanalPriorityClassName"] = n.Options["canal_priority_class_name"]
		v["FlexVolPluginDir"] = n.Options["canal_flex_volume_plugin_dir"]
		v["BlackholeRoute"] = n.Canal != nil && n.Canal.BlackholeRoute == "true"
		err = w.flannel(v, "canal_flannel_backend")
	case config.PluginCalico:
		w.calicoImages(v, images.CalicoNode, images.CalicoCNI, images.CalicoControllers, images.CalicoFlexVol)
		v["Calicoctl"] = images.CalicoCtl
		v["CloudProvider"] = n.Options["calico_cloud_provider"]
		v["CalicoNodePriorityClassName"] = n.Options["calico_node_priority_class_name"]
		v["FlexVolPluginDir"] = n.Options["calico_flex_volume_plugin_dir"]
		err = w.families(v)
	case config.PluginWeave:
		own = ""
		v["Image"], v["CNIImage"], v["WeaveLoopbackImage"] = images.WeaveNode, images.WeaveCNI, images.Alpine
		v["WeavePassword"] = n.Options["WeavePassword"]
		v["WeaveNetPriorityClassName"] = n.Options["weave_net_priority_class_name"]
	case config.PluginACI:
		own = ""
		err = w.aci(v)
	default:
		err = fmt.Errorf("network.plugin: %.60q is not one of canal, calico, flannel, weave, aci, none", n.Plugin)
	}
	if err != nil {
		return "", err
	}
	return w.text(n.Plugin, own, v)
}

func (w *writer) calicoImages(v values, node, cni, controllers, flexVolume string) {
	v["Images"] = w.c.Network.Plugin // what the names of its images in system_images begin with
	v["NodeImage"], v["CNIImage"], v["ControllersImage"], v["FlexVolImg"] = node, cni, controllers, flexVolume
	v["CalicoKubeControllersPriorityClassName"] = w.c.Network.Options["calico_kube_controllers_priority_class_name"]
	v["Kinds"] = calicoKinds(w.version)
}

// flannel are the settings of flannel's backend, whose options begin with prefix.
func (w *writer) flannel(v values, prefix string) error {
	options := w.c.Network.Options
	backend := map[string]any{"Type": options[prefix+"_type"]}
	for _, number := range []struct {
		key, option string
		standard    int
	}{{"VNI", "_vni", 1}, {"Port", "_port", 8472}} {
		backend[number.key] = number.standard
		if text := options[prefix+number.option]; text != "" {
			n, err := strconv.ParseUint(text, 10, 24)
			if err != nil {
				return fmt.Errorf("network.options.%s: %.40q is not a number", prefix+number.option, text)
			}
			backend[number.key] = int(n)
		}
	}
	v["FlannelBackend"] = backend
	if err := w.families(v); err != nil {
		return err
	}
	if v["IPv6"] != "" {
		return fmt.Errorf("services.kube-controller.cluster_cidr: %q has a range of IPv6, which the plugin %s has not here; use calico",
			w.c.Services.KubeController.ClusterCIDR, w.c.Network.Plugin)
	}
	type settings struct {
		Network string
		Backend map[string]any
	}
	conf := settings{w.c.Services.KubeController.ClusterCIDR, map[string]any{"Type": backend["Type"]}}
	if backend["Type"] == "vxlan" {
		conf.Backend = backend
	}
	text, err := inJSON(conf)
	v["NetConf"] = text
	return err
}

// families are the ranges of pods by their family, "" where there is none.
func (w *writer) families(v values) error {
	v["IPv4"], v["IPv6"] = "", ""
	for text := range strings.SplitSeq(w.c.Services.KubeController.ClusterCIDR, ",") {
		cidr, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("services.kube-controller.cluster_cidr: %.60q is not a range such as 10.42.0.0/16", text)
		}
		family := "IPv4"
		if cidr.Addr().Is6() {
			family = "IPv6"
		}
		if v[family] != "" {
			return fmt.Errorf("services.kube-controller.cluster_cidr: %.100q has two ranges of %s; write one of each family", w.c.Services.KubeController.ClusterCIDR, family)
		}
		v[family] = cidr.String()
	}
	return nil
}

// kind is a kind of objects that calico keeps in the API server.
type kind struct {
	Group, Version, Plural, Singular, Kind, Scope string
	// Approved is where a group of Kubernetes' own was approved, which the API server asks for.
	Approved string
}

// calicoKinds are the kinds of calico's Kubernetes datastore. What is in their objects, calico
// checks itself; their definitions here take everything.
//
// Source: the names in calico's documentation of its datastore.
func calicoKinds(version config.Version) []kind {
	names := strings.Fields(`BGPConfiguration BGPFilter BGPPeer BlockAffinity:BlockAffinities CalicoNodeStatus:CalicoNodeStatuses
		ClusterInformation FelixConfiguration GlobalNetworkPolicy:GlobalNetworkPolicies GlobalNetworkSet HostEndpoint
		IPAMBlock IPAMConfig IPAMHandle IPPool IPReservation KubeControllersConfiguration
		NetworkPolicy:NetworkPolicies NetworkSet`)
	if version.AtLeast(31) { // calico 3.29
		names = append(names, "Tier")
	}
	var kinds []kind
	for _, name := range names {
		singular, plural, ok := strings.Cut(name, ":")
		if !ok {
			plural = singular + "s"
		}
		scope := "Cluster"
		if singular == "NetworkPolicy" || singular == "NetworkSet" {
			scope = "Namespaced"
		}
		kinds = append(kinds, kind{"crd.projectcalico.org", "v1", strings.ToLower(plural), strings.ToLower(singular), singular, scope, ""})
	}
	if version.AtLeast(31) {
		kinds = append(kinds, kind{"policy.networking.k8s.io", "v1alpha1", "adminnetworkpolicies", "adminnetworkpolicy", "AdminNetworkPolicy", "Cluster",
			"https://github.com/kubernetes-sigs/network-policy-api/pull/30"})
	}
	return kinds
}

// strategy is how Kubernetes updates a workload, by its own names.
type strategy struct {
	Type          string                `json:"type,omitempty"`
	RollingUpdate *config.RollingUpdate `json:"rollingUpdate,omitempty"`
}

func daemonSet(s *config.DaemonSetStrategy) *strategy {
	if s == nil {
		return nil
	}
	return &strategy{s.Strategy, s.RollingUpdate}
}

func deployment(s *config.DeploymentStrategy) *strategy {
	if s == nil {
		return nil
	}
	return &strategy{s.Strategy, s.RollingUpdate}
}
