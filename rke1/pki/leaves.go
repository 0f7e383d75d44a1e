// Which leaves a config asks for: subjects, alternative names, and when they are issued again.

package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// rule says when a leaf that is there is issued again.
type rule int

const (
	ifMissing rule = iota
	everyRun
	// ifNamesDiffer looks at the order of names too, as the rke CLI does.
	ifNamesDiffer
	// ifNameSetsDiffer does not.
	ifNameSetsDiffer
)

// leaf is a certificate that a CA of the cluster issues.
type leaf struct {
	name   string
	issuer string
	// common and organization are the subject; stored is the entry's commonName, or "".
	common, organization, stored string
	server                       bool
	names                        names
	renew                        rule
	// service is the word of a rotation by service, or "".
	service string
	// line is how the rke CLI logs the making of it.
	line string
}

func (l leaf) subject() pkix.Name {
	subject := pkix.Name{CommonName: l.common}
	if l.organization != "" {
		subject.Organization = []string{l.organization}
	}
	return subject
}

func (l leaf) usages() []x509.ExtKeyUsage {
	if l.server {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// leaves are those that a config asks for, in the order in which they are made; the API server's is
// the first.
func leaves(cfg *config.Cluster) ([]leaf, error) {
	api, err := clusterNames(cfg, with(cfg, config.RoleControlPlane), cfg.Authentication.SANs)
	if err != nil {
		return nil, err
	}
	all := []leaf{
		{name: APIServer, issuer: CA, common: APIServer, server: true, names: api, renew: ifNamesDiffer, service: "kube-apiserver", line: "Generating Kubernetes API server certificates"},
		{name: ControllerManager, issuer: CA, common: "system:kube-controller-manager", service: "kube-controller-manager", line: "Generating Kube Controller certificates"},
		{name: Scheduler, issuer: CA, common: "system:kube-scheduler", service: "kube-scheduler", line: "Generating Kube Scheduler certificates"},
		{name: Proxy, issuer: CA, common: "system:kube-proxy", service: "kube-proxy", line: "Generating Kube Proxy certificates"},
		{name: Node, issuer: CA, common: "system:node", organization: "system:nodes", stored: "system:node", service: "kubelet", line: "Generating Node certificate"},
		{name: Admin, issuer: CA, common: Admin, organization: "system:masters", stored: Admin, renew: everyRun, line: "Generating admin certificates and kubeconfig"},
		{name: ProxyClient, issuer: RequestHeaderCA, common: ProxyClient, server: true, line: "Generating Kubernetes API server proxy client certificates"},
	}
	etcds := with(cfg, config.RoleEtcd)
	etcdNames, err := clusterNames(cfg, etcds, nil)
	if err != nil {
		return nil, err
	}
	for _, n := range etcds {
		name := EtcdName(n)
		all = append(all, leaf{name: name, issuer: CA, common: etcdPrefix, server: true, names: etcdNames, renew: ifNameSetsDiffer, service: "etcd", line: "Generating " + name + " certificate and key"})
	}
	if cfg.Services.Kubelet.GenerateServingCertificate {
		for _, n := range cfg.Nodes {
			name := KubeletName(n)
			all = append(all, leaf{name: name, issuer: CA, common: name, server: true, names: hostNames(n), renew: ifNamesDiffer, service: "kubelet", line: "Generating " + name + " certificate and key"})
		}
	}
	return all, nil
}

// names are subject alternative names, in the order that counts.
type names struct {
	dns []string
	ips []net.IP
}

// add puts an address where it belongs.
func (n *names) add(address string) {
	if ip := net.ParseIP(address); ip != nil {
		n.ips = append(n.ips, ip)
	} else {
		n.dns = append(n.dns, address)
	}
}

func (n *names) addHost(host config.Node) {
	n.add(host.Address)
	if host.InternalAddress != "" && host.InternalAddress != host.Address {
		n.add(host.InternalAddress)
	}
	if host.HostnameOverride != "" && host.HostnameOverride != host.Address {
		n.dns = append(n.dns, host.HostnameOverride)
	}
}

func hostNames(host config.Node) names {
	var n names
	n.addHost(host)
	return n
}

// clusterNames are those of a server that answers for the cluster: its hosts, extra names, and
// the API server's names inside. Nothing is left out for being there twice.
func clusterNames(cfg *config.Cluster, hosts []config.Node, extra []string) (names, error) {
	var n names
	for _, host := range hosts {
		n.addHost(host)
	}
	for _, name := range extra {
		n.add(name)
	}
	n.ips = append(n.ips, net.ParseIP("127.0.0.1"))
	for text := range strings.SplitSeq(cfg.Services.KubeAPI.ServiceClusterIPRange, ",") {
		first, err := firstAddress(strings.TrimSpace(text))
		if err != nil {
			return names{}, err
		}
		n.ips = append(n.ips, first)
	}
	n.dns = append(n.dns, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc."+cfg.Services.Kubelet.ClusterDomain)
	return n, nil
}

// firstAddress is the one that the Service kubernetes gets: 10.43.0.1 of 10.43.0.0/16.
func firstAddress(cidr string) (net.IP, error) {
	_, network, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, fmt.Errorf("services.kube-api.service_cluster_ip_range: %q is not a network such as 10.43.0.0/16", cidr)
	}
	ip := slices.Clone(network.IP)
	for i := len(ip) - 1; i >= 0; i-- {
		if ip[i]++; ip[i] != 0 {
			break
		}
	}
	return ip, nil
}

// same says whether a certificate has these names.
func (n names) same(c *x509.Certificate, inOrder bool) bool {
	wanted, found := [2][]string{slices.Clone(n.dns), texts(n.ips)}, [2][]string{slices.Clone(c.DNSNames), texts(c.IPAddresses)}
	for i := range wanted {
		if !inOrder {
			slices.Sort(wanted[i])
			slices.Sort(found[i])
		}
		if !slices.Equal(wanted[i], found[i]) {
			return false
		}
	}
	return true
}

func texts(ips []net.IP) []string {
	var all []string
	for _, ip := range ips {
		all = append(all, ip.String())
	}
	return all
}
