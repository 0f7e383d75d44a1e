// Package pki makes and renews the certificates of an RKE1 cluster, as the bundle that
// cluster.rkestate keeps. Deciding and issuing are functions of the bundle before, the
// config, the time and a source of keys; nothing here looks at a clock or a host.
//
// Wire source: rancher/rke v1.6 pki (names, subjects, alternative names, files, texts).
package pki

import (
	"cmp"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// Names of entries that every cluster has.
const (
	CA                = "kube-ca"
	RequestHeaderCA   = "kube-apiserver-requestheader-ca"
	APIServer         = "kube-apiserver"
	ServiceAccount    = "kube-service-account-token"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Proxy             = "kube-proxy"
	Node              = "kube-node"
	Admin             = "kube-admin"
	ProxyClient       = "kube-apiserver-proxy-client"
)

// Names of the entries of an etcd that is not the cluster's own.
const (
	EtcdClient   = "kube-etcd-client"
	EtcdClientCA = "kube-etcd-client-ca"
)

// Prefixes of the entries that one host has.
const (
	etcdPrefix    = "kube-etcd"
	kubeletPrefix = "kube-kubelet"
)

// Dir is the directory of certificates on a host, below its prefix path, with mode 0755.
const Dir = "/etc/kubernetes/ssl"

// Bundle is certificates by their names.
type Bundle map[string]Certificate

// Certificate is one entry of a bundle. All twelve fields are always on the wire. It
// converts to a nodeconfig.Certificate, whose fields are the same.
type Certificate struct {
	// CertificatePEM begins with the entry's own certificate. A CA in the middle of its
	// rotation has the other CA behind it, a custom certificate what is between it and its CA.
	CertificatePEM string `json:"certificatePEM"`
	// KeyPEM is PKCS#1, or empty for a CA whose key is kept elsewhere. A secret.
	KeyPEM string `json:"keyPEM"`
	// Config is a kubeconfig, or empty. That of kube-admin is a secret.
	Config string `json:"config"`
	Name   string `json:"name"`
	// CommonName is what the format stores, which is not always the certificate's.
	CommonName string `json:"commonName"`
	// OUName is the organization (O).
	OUName  string `json:"ouName"`
	EnvName string `json:"envName"`
	// Path, KeyPath and ConfigPath are without the host's prefix path: containers see them so.
	// The ConfigPath of kube-admin is on the machine that runs the engine.
	Path          string `json:"path"`
	KeyEnvName    string `json:"keyEnvName"`
	KeyPath       string `json:"keyPath"`
	ConfigEnvName string `json:"configEnvName"`
	ConfigPath    string `json:"configPath"`
}

// Path is where the certificate of an entry is on a host, below its prefix path.
func Path(name string) string { return Dir + "/" + name + ".pem" }

// KeyPath is where the key of an entry is on a host, below its prefix path.
func KeyPath(name string) string { return Dir + "/" + name + "-key.pem" }

// KubeconfigPath is where the kubeconfig of an entry is on a host, below its prefix path.
func KubeconfigPath(name string) string { return Dir + "/kubecfg-" + name + ".yaml" }

// EtcdName is the name of the entry of an etcd host.
func EtcdName(n config.Node) string { return etcdPrefix + "-" + suffix(n) }

// KubeletName is the name of the entry of a host's kubelet, if those serve with certificates.
func KubeletName(n config.Node) string { return kubeletPrefix + "-" + suffix(n) }

// suffix is a host's address as part of a name. Colons of IPv6, which the rke CLI leaves in, make
// variables that its shell cannot read, so no cluster can have such files; they become dashes as dots do.
func suffix(n config.Node) string {
	address := n.Address
	if n.InternalAddress != "" {
		address = n.InternalAddress
	}
	return strings.ToLower(strings.NewReplacer(".", "-", ":", "-", "%", "-").Replace(address))
}

// entry fills what follows from a name. commonName "" is the format's usual one.
func entry(name, commonName, organization, certificate, key string) Certificate {
	commonName = cmp.Or(commonName, "system:"+name)
	env := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	c := Certificate{
		CertificatePEM: certificate, KeyPEM: key,
		Name: name, CommonName: commonName, OUName: organization,
		EnvName: env, Path: Path(name), KeyEnvName: env + "_KEY", KeyPath: KeyPath(name),
	}
	if hasKubeconfig(name) {
		c.Config = componentKubeconfig(name)
		c.ConfigEnvName = "KUBECFG_" + env
		c.ConfigPath = KubeconfigPath(name)
	}
	return c
}

func hasKubeconfig(name string) bool {
	return name != CA && name != APIServer && name != ServiceAccount && !ofHost(name)
}

// ofHost says whether an entry goes when its host, or the etcd that is not ours, goes.
func ofHost(name string) bool {
	return strings.HasPrefix(name, etcdPrefix) || strings.HasPrefix(name, kubeletPrefix)
}

// with are the nodes that have a role, in their order.
func with(cfg *config.Cluster, role string) []config.Node {
	var all []config.Node
	for _, n := range cfg.Nodes {
		if n.Has(role) {
			all = append(all, n)
		}
	}
	return all
}
