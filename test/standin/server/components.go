// The components and their command lines: a pure function of the settings.

package server

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/drover-project/drover/test/standin/config"
)

// component is one process of the server.
type component struct {
	name string // also the name the binary is started under, which makes it that component
	args []string
	env  []string
}

func etcdComponent(l layout) component {
	return component{name: "etcd", args: []string{l.etcdConfig()}}
}

func apiserverComponent(s *config.Server, l layout) component {
	bind := "0.0.0.0"
	if s.NodeIPs[0].Is6() {
		bind = "::"
	}
	issuer := "https://kubernetes.default.svc." + s.ClusterDomain
	return component{name: "kube-apiserver", args: config.Args(map[string]string{
		"advertise-address": s.AdvertiseAddress.String(), "bind-address": bind, "secure-port": strconv.Itoa(s.ListenPort),
		"allow-privileged": "true", "anonymous-auth": "false", "authorization-mode": "Node,RBAC", "enable-admission-plugins": "NodeRestriction",
		"cert-dir": l.tls("temporary-certs"), "client-ca-file": l.tls("client-ca.crt"),
		"tls-cert-file": l.tls("serving-kube-apiserver.crt"), "tls-private-key-file": l.tls("serving-kube-apiserver.key"),
		"etcd-servers": "https://127.0.0.1:2379", "etcd-cafile": l.tls("etcd/server-ca.crt"),
		"etcd-certfile": l.tls("etcd/client.crt"), "etcd-keyfile": l.tls("etcd/client.key"),
		"kubelet-certificate-authority": l.tls("server-ca.crt"), "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
		"kubelet-client-certificate": l.tls("client-kube-apiserver.crt"), "kubelet-client-key": l.tls("client-kube-apiserver.key"),
		"proxy-client-cert-file": l.tls("client-auth-proxy.crt"), "proxy-client-key-file": l.tls("client-auth-proxy.key"),
		"requestheader-client-ca-file": l.tls("request-header-ca.crt"), "requestheader-allowed-names": "system:auth-proxy",
		"requestheader-username-headers": "X-Remote-User", "requestheader-group-headers": "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"service-account-issuer":             issuer, "api-audiences": issuer + ",k3s",
		"service-account-key-file": l.tls("service.key"), "service-account-signing-key-file": l.tls("service.current.key"),
		"service-cluster-ip-range": s.ServiceCIDR, "service-node-port-range": s.NodePortRange, "profiling": "false",
		// One node and few clients: small queues keep a run-away test from taking the machine's memory.
		"max-requests-inflight": "100", "max-mutating-requests-inflight": "50",
	}, s.APIServerArgs)}
}

func controllerManagerComponent(s *config.Server, l layout) component {
	kubeconfig := l.credential("controller")
	own := map[string]string{
		"kubeconfig": kubeconfig, "authentication-kubeconfig": kubeconfig, "authorization-kubeconfig": kubeconfig,
		"bind-address": "127.0.0.1", "secure-port": "10257", "cert-dir": l.tls("kube-controller-manager"),
		"allocate-node-cidrs": "true", "cluster-cidr": s.ClusterCIDR, "service-cluster-ip-range": s.ServiceCIDR,
		"cluster-signing-cert-file": "", "cluster-signing-key-file": "",
		"cluster-signing-kube-apiserver-client-cert-file": l.tls("client-ca.crt"), "cluster-signing-kube-apiserver-client-key-file": l.tls("client-ca.key"),
		"cluster-signing-kubelet-client-cert-file": l.tls("client-ca.crt"), "cluster-signing-kubelet-client-key-file": l.tls("client-ca.key"),
		"cluster-signing-kubelet-serving-cert-file": l.tls("server-ca.crt"), "cluster-signing-kubelet-serving-key-file": l.tls("server-ca.key"),
		"cluster-signing-legacy-unknown-cert-file": l.tls("server-ca.crt"), "cluster-signing-legacy-unknown-key-file": l.tls("server-ca.key"),
		"controllers": "*,tokencleaner", "leader-elect": "false", "profiling": "false", "root-ca-file": l.tls("server-ca.crt"),
		"service-account-private-key-file": l.tls("service.current.key"), "use-service-account-credentials": "true",
	}
	return component{name: "kube-controller-manager", args: config.Args(dropEmpty(own), s.ControllerManagerArgs)}
}

func schedulerComponent(s *config.Server, l layout) component {
	kubeconfig := l.credential("scheduler")
	return component{name: "kube-scheduler", args: config.Args(map[string]string{
		"kubeconfig": kubeconfig, "authentication-kubeconfig": kubeconfig, "authorization-kubeconfig": kubeconfig,
		"bind-address": "127.0.0.1", "secure-port": "10259", "cert-dir": l.tls("kube-scheduler"),
		"leader-elect": "false", "profiling": "false",
	}, s.SchedulerArgs)}
}

func kubeletComponent(s *config.Server, l layout, clusterDNS string) component {
	own := map[string]string{
		"kubeconfig": l.agent("kubelet.kubeconfig"), "hostname-override": s.NodeName, "node-ip": joinAddrs(s.NodeIPs),
		"client-ca-file": l.agent("client-ca.crt"), "tls-cert-file": l.agent("serving-kubelet.crt"),
		"tls-private-key-file": l.agent("serving-kubelet.key"), "cert-dir": l.agent("pki"), "cloud-provider": "external",
		"cluster-dns": clusterDNS, "cluster-domain": s.ClusterDomain, "node-labels": strings.Join(s.NodeLabels, ","),
		"register-with-taints": strings.Join(s.NodeTaints, ","), "resolv-conf": "",
	}
	if s.DisableCloudController {
		delete(own, "cloud-provider")
		own["provider-id"] = providerID(s)
	}
	return component{name: "kubelet", args: config.Args(dropEmpty(own), s.KubeletArgs), env: []string{"TMPDIR=" + l.scratch()}}
}

func providerID(s *config.Server) string { return "k3s://" + s.NodeName }

// dropEmpty leaves out the arguments without a value.
func dropEmpty(args map[string]string) map[string]string {
	for name, value := range args {
		if value == "" {
			delete(args, name)
		}
	}
	return args
}

func joinAddrs(addrs []netip.Addr) string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, ",")
}

// serviceAddress is the n-th address of the first service range: the first is the API's, the tenth the name server's.
func serviceAddress(s *config.Server, n int) (netip.Addr, error) {
	first, _, _ := strings.Cut(s.ServiceCIDR, ",")
	prefix, err := netip.ParsePrefix(first)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("service-cidr %q is not a network such as 10.43.0.0/16", first)
	}
	addr := prefix.Masked().Addr()
	for range n {
		addr = addr.Next()
	}
	return addr, nil
}
