package addons

// services.go is about DNS, metrics and ingress.

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

func (w *writer) dns() (string, error) {
	d, images := dnsOf(w.c), &w.c.SystemImages
	if domain := w.c.Services.Kubelet.ClusterDomain; !oneWord().MatchString(domain) {
		return "", fmt.Errorf("services.kubelet.cluster_domain: %.60q is not the name of a domain", domain)
	}
	if err := words(d); err != nil {
		return "", err
	}
	autoscaler := config.Autoscaler{CoresPerReplica: 128, NodesPerReplica: 4, Min: 1, PreventSinglePointFailure: true}
	if d.Autoscaler != nil {
		autoscaler = *d.Autoscaler
	}
	linear, err := inJSON(autoscaler)
	if err != nil {
		return "", err
	}
	v := w.clusterDNS(values{
		"UpstreamNameservers":    d.UpstreamNameservers,
		"ReverseCIDRs":           spaced(d.ReverseCIDRs),
		"StubDomains":            d.StubDomains,
		"NodeSelector":           d.NodeSelector,
		"UpdateStrategy":         deployment(d.Update),
		"Tolerations":            d.Tolerations,
		"LinearAutoscalerParams": linear,
	})
	switch d.Provider {
	case "coredns":
		v["CoreDNSImage"], v["CoreDNSAutoScalerImage"] = images.CoreDNS, images.CoreDNSAutoscaler
		v["CoreDNSPriorityClassName"] = d.Options["coredns_priority_class_name"]
		v["CoreDNSAutoscalerPriorityClassName"] = d.Options["coredns_autoscaler_priority_class_name"]
		return w.text("coreDNS", "coredns.yaml", v)
	case "kube-dns":
		v["KubeDNSImage"], v["KubeDNSSidecarImage"] = images.KubeDNS, images.KubeDNSSidecar
		v["KubeDNSAutoScalerImage"], v["DNSMasqImage"] = images.KubeDNSAutoscaler, images.DNSMasq
		v["KubeDNSPriorityClassName"] = d.Options["kube_dns_priority_class_name"]
		v["KubeDNSAutoscalerPriorityClassName"] = d.Options["kube_dns_autoscaler_priority_class_name"]
		return w.text("kubeDNS", "kube-dns.yaml", v)
	case config.None:
		return "", nil
	}
	return "", fmt.Errorf("dns.provider: %.60q is not one of coredns, kube-dns, none", d.Provider)
}

// clusterDNS adds the names and addresses of DNS. There are two addresses with two families.
func (w *writer) clusterDNS(v values) values {
	kubelet := &w.c.Services.Kubelet
	var addresses []string
	for address := range strings.SplitSeq(kubelet.ClusterDNSServer, ",") {
		addresses = append(addresses, strings.TrimSpace(address))
	}
	v["ClusterDomain"], v["ClusterDNSServer"], v["Addresses"] = kubelet.ClusterDomain, kubelet.ClusterDNSServer, addresses
	return v
}

var oneWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^\s{}"#]{1,253}$`) })

// words refuses what would not be one word in a file of CoreDNS.
func words(d *config.DNS) error {
	lists := map[string][]string{"dns.upstreamnameservers": d.UpstreamNameservers, "dns.reversecidrs": d.ReverseCIDRs}
	for _, domain := range slices.Sorted(maps.Keys(d.StubDomains)) {
		if !oneWord().MatchString(domain) {
			return fmt.Errorf("dns.stubdomains: %.60q is not the name of a domain", domain)
		}
		lists["dns.stubdomains."+domain] = d.StubDomains[domain]
		if len(d.StubDomains[domain]) == 0 {
			return fmt.Errorf("dns.stubdomains.%s: names no server", domain)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(lists)) {
		for i, word := range lists[field] {
			if !oneWord().MatchString(word) {
				return fmt.Errorf("%s[%d]: %.60q is not one address or range", field, i, word)
			}
		}
	}
	return nil
}

// nodeLocal is the cache on each node, where DNS is the cluster's.
func (w *writer) nodeLocal() (string, error) {
	d := dnsOf(w.c)
	if d.NodeLocal == nil || d.NodeLocal.IPAddress == "" || d.Provider == config.None {
		return "", nil
	}
	address, err := netip.ParseAddr(d.NodeLocal.IPAddress)
	if err != nil {
		return "", fmt.Errorf("dns.nodelocal.ip_address: %.60q is not an IP address", d.NodeLocal.IPAddress)
	}
	v := w.clusterDNS(values{
		"NodelocalImage":                w.c.SystemImages.NodeLocal,
		"IPAddress":                     address.String(),
		"Health":                        netip.AddrPortFrom(address, 8080).String(),
		"NodeSelector":                  d.NodeLocal.NodeSelector,
		"UpdateStrategy":                daemonSet(d.NodeLocal.Update),
		"NodeLocalDNSPriorityClassName": d.NodeLocal.PriorityClassName,
		"UpstreamNameservers":           []string(nil),
		"StubDomains":                   map[string][]string(nil),
	})
	if d.Provider == "coredns" { // those of kube-dns the cache reads itself
		v["UpstreamNameservers"], v["StubDomains"] = d.UpstreamNameservers, d.StubDomains
	}
	return w.text("nodelocal", "nodelocal.yaml", v)
}

func (w *writer) metrics() (string, error) {
	m := &w.c.Monitoring
	if m.Provider == config.None {
		return "", nil
	}
	image := w.c.SystemImages.MetricsServer
	tag, _ := versions.Parse(versions.Tag(image))
	return w.text("metricsServer", "metrics-server.yaml", values{
		"MetricsServerImage":             image,
		"Version":                        "v" + tag.Line(),
		"Options":                        m.Options,
		"NodeSelector":                   m.NodeSelector,
		"UpdateStrategy":                 deployment(m.Update),
		"Replicas":                       m.Replicas,
		"Tolerations":                    m.Tolerations,
		"MetricsServerPriorityClassName": m.PriorityClassName,
	})
}

func (w *writer) ingress() (string, error) {
	in, images := &w.c.Ingress, &w.c.SystemImages
	if in.Provider == config.None {
		return "", nil
	}
	v := values{
		"Options":           notNil(in.Options),
		"NodeSelector":      in.NodeSelector,
		"DNSPolicy":         in.DNSPolicy,
		"ExtraEnvs":         in.ExtraEnvs,
		"ExtraVolumes":      in.ExtraVolumes,
		"ExtraVolumeMounts": in.ExtraVolumeMounts,
		"AlpineImage":       "",
		"IngressImage":      images.Ingress,
		"IngressBackend":    images.IngressBackend,
		"IngressWebhook":    images.IngressWebhook,
		"HTTPPort":          in.HTTPPort,
		"HTTPSPort":         in.HTTPSPort,
		"NetworkMode":       in.NetworkMode,
		"DefaultBackend":    isTrue(in.DefaultBackend),
		"UpdateStrategy":    daemonSet(in.Update),
		"Tolerations":       in.Tolerations,

		"NginxIngressControllerPriorityClassName": in.ControllerPriorityClassName,
		"DefaultHTTPBackendPriorityClassName":     in.BackendPriorityClassName,
		"DefaultIngressClass":                     isTrue(in.DefaultIngressClass),
	}
	args := notNil(maps.Clone(in.ExtraArgs))
	// Tags are 0.21.0-rancher3 or nginx-1.11.2-rancher1.
	controller, known := versions.Parse(strings.TrimPrefix(versions.Tag(images.Ingress), "nginx-"))
	if known && !controller.AtLeast(0, 16) {
		v["AlpineImage"] = images.Alpine // sets what a controller of that time needs of the kernel
	}
	const withoutClass = "watch-ingress-without-class"
	if _, set := args[withoutClass]; !set && (!known || controller.AtLeast(1, 1)) {
		args[withoutClass] = "true" // or ingresses from before there were classes stop to work
	}
	v["ExtraArgs"] = args
	inside := ports(in, args)
	v["InsideHTTP"], v["InsideHTTPS"] = inside[0], inside[1]
	return w.text("nginxIngress", "ingress-nginx.yaml", v)
}

// ports are where the controller listens: in the host's network at the ports of the config, and
// else at the standard ones, unless its own arguments say so.
func ports(in *config.Ingress, args map[string]string) [2]string {
	ports := [2]string{"80", "443"}
	if in.NetworkMode == "hostNetwork" {
		ports = [2]string{fmt.Sprint(in.HTTPPort), fmt.Sprint(in.HTTPSPort)}
	}
	for i, arg := range []string{"http-port", "https-port"} {
		if args[arg] != "" {
			ports[i] = args[arg]
		}
	}
	return ports
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func isTrue(b *bool) bool { return b != nil && *b }

// replacedByIngress are the Jobs that make the certificate of the webhook, and the default backend
// where there is none any more.
func replacedByIngress(in *config.Ingress) []Object {
	const namespace = "ingress-nginx"
	objects := []Object{
		{"batch/v1", "Job", namespace, "ingress-nginx-admission-create"},
		{"batch/v1", "Job", namespace, "ingress-nginx-admission-patch"},
	}
	if !isTrue(in.DefaultBackend) {
		objects = append(objects, Object{"v1", "Service", namespace, "default-http-backend"}, Object{"apps/v1", "Deployment", namespace, "default-http-backend"})
	}
	return objects
}
