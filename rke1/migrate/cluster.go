// What the config of a cluster asks for, topic by topic, and how RKE2 is told the same.

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// manifests is where RKE2 applies files from.
const manifests = "/var/lib/rancher/rke2/server/manifests"

// move is about the way itself.
func (p *planner) move() {
	p.do("the move", "containers of Docker, certificates and an etcd of RKE1", "RKE2 makes certificates and an etcd of its own, and its installation does not take a cluster of RKE1 over: "+
		"make a new cluster, on new hosts or on hosts of this one that were drained, removed and cleaned; bring objects over from manifests or a backup of them; "+
		"kubeconfigs and tokens of service accounts are new")
	if p.c.Authorization.Mode == config.None {
		p.without("authorization", "authorization.mode is none", "RKE2 always has RBAC: make the roles that people and workloads need first")
	}
}

// plugins are the settings of network plugins: cni, and the chart whose values take the options.
var plugins = map[string]string{config.PluginCanal: "canal", config.PluginCalico: "calico", config.PluginFlannel: "flannel"}

func (p *planner) network() {
	const topic = "network plugin"
	n := p.c.Network
	name, bundled := plugins[n.Plugin]
	switch {
	case n.Plugin == config.None:
		p.set(topic, "none: yours", "cni: none; install yours as before", "cni")
		return
	case n.Plugin == config.PluginWeave:
		p.without(topic, "weave", "RKE2 has canal, calico, cilium and flannel: choose one, and look at network policies with it")
		return
	case n.Plugin == config.PluginACI:
		p.do(topic, "aci", "cni: none; ask Cisco for their installation on RKE2", "cni")
		return
	case !bundled:
		p.do(topic, n.Plugin, "is not known here")
		return
	}
	p.set(topic, n.Plugin, "cni: "+name, "cni")
	values := map[string]string{
		"canal_iface": "flannel.iface", "canal_flannel_backend_type": "flannel.backend", "flannel_iface": "flannel.iface", "flannel_backend_type": "flannel.backend",
	}
	usual := map[string]string{
		"canal_flannel_backend_type": "vxlan", "canal_flannel_backend_port": "8472", "canal_flannel_backend_vni": "1",
		"flannel_backend_type": "vxlan", "flannel_backend_port": "8472", "flannel_backend_vni": "1", "calico_cloud_provider": config.None,
	}
	for _, option := range slices.Sorted(maps.Keys(n.Options)) {
		value := n.Options[option]
		switch {
		case value == usual[option] || value == "" || strings.HasSuffix(option, "_flex_volume_plugin_dir"):
		case values[option] != "":
			p.set(topic, "option "+option+"="+value, "HelmChartConfig rke2-"+name+": "+values[option])
		default:
			p.do(topic, "option "+option, "find its value in the chart rke2-"+name+", and give it by a HelmChartConfig")
		}
	}
	if n.MTU != 0 {
		p.do(topic, fmt.Sprintf("mtu %d", n.MTU), "HelmChartConfig rke2-"+name+" has the MTU")
	}
}

func (p *planner) ranges() {
	s := p.c.Services
	for _, v := range []struct{ is, usual, setting string }{
		{s.KubeController.ClusterCIDR, "10.42.0.0/16", "cluster-cidr"},
		{s.KubeAPI.ServiceClusterIPRange, "10.43.0.0/16", "service-cidr"},
		{s.Kubelet.ClusterDNSServer, "10.43.0.10", "cluster-dns"},
		{s.Kubelet.ClusterDomain, "cluster.local", "cluster-domain"},
		{s.KubeAPI.ServiceNodePortRange, "30000-32767", "service-node-port-range"},
	} {
		if v.is != v.usual && v.is != "" {
			p.set("addresses and names", v.is, v.setting+": "+v.is, v.setting)
		}
	}
}

func (p *planner) ingress() {
	const topic, chart = "ingress", "rke2-ingress-nginx"
	in := p.c.Ingress
	if in.Provider == config.None {
		p.set(topic, "none", "disable: "+chart, "disable")
		return
	}
	p.set(topic, in.Provider+", mode "+in.NetworkMode, "the chart "+chart+", which listens on the hosts' ports 80 and 443; its class is nginx as well")
	values := []struct {
		found string
		is    bool
		value string
	}{
		{"options: " + keys(in.Options), len(in.Options) > 0, "controller.config"},
		{"extra_args: " + keys(in.ExtraArgs), len(in.ExtraArgs) > 0, "controller.extraArgs"},
		{"extra_envs, extra_volumes or extra_volume_mounts", len(in.ExtraEnvs)+len(in.ExtraVolumes)+len(in.ExtraVolumeMounts) > 0,
			"controller.extraEnvs, controller.extraVolumes and controller.extraVolumeMounts"},
		{"node_selector", len(in.NodeSelector) > 0, "controller.nodeSelector"},
		{"tolerations", len(in.Tolerations) > 0, "controller.tolerations"},
		{fmt.Sprintf("ports %d and %d", in.HTTPPort, in.HTTPSPort), in.HTTPPort != 80 || in.HTTPSPort != 443, "controller.hostPort.ports"},
		{"network_mode hostNetwork", in.NetworkMode == "hostNetwork", "controller.hostNetwork"},
		{"a default backend", in.DefaultBackend != nil && *in.DefaultBackend, "defaultBackend.enabled"},
	}
	for _, v := range values {
		if v.is {
			p.set(topic, v.found, "HelmChartConfig "+chart+": "+v.value)
		}
	}
}

func (p *planner) metrics() {
	const topic, chart = "metrics", "rke2-metrics-server"
	m := p.c.Monitoring
	switch {
	case m.Provider == config.None:
		p.set(topic, "none", "disable: "+chart, "disable")
	case len(m.Options)+len(m.NodeSelector)+len(m.Tolerations) > 0 || m.Replicas != nil && *m.Replicas != 1:
		p.set(topic, "metrics-server with settings of its own", "HelmChartConfig "+chart)
	default:
		p.add(Item{Topic: topic, Level: Same, Found: "metrics-server"})
	}
}

func (p *planner) dns() {
	const topic, chart = "DNS", "rke2-coredns"
	d := p.c.DNS
	if d == nil {
		return
	}
	switch d.Provider {
	case config.None:
		p.set(topic, "none", "disable: "+chart, "disable")
		return
	case "kube-dns":
		p.do(topic, "kube-dns", "RKE2 has coredns: see that upstream servers and stub domains are in its values")
	default:
		p.add(Item{Topic: topic, Level: Same, Found: d.Provider})
	}
	if len(d.UpstreamNameservers)+len(d.StubDomains)+len(d.ReverseCIDRs) > 0 {
		p.set(topic, "upstream servers, stub domains or reverse ranges", "HelmChartConfig "+chart+": servers")
	}
	if d.NodeLocal != nil && d.NodeLocal.IPAddress != "" {
		p.set(topic, "a cache on each node", "HelmChartConfig "+chart+": nodelocal.enabled and nodelocal.ip_address")
	}
}

func (p *planner) addons() {
	const topic = "add-ons of your own"
	if p.c.Addons != "" {
		p.set(topic, "addons", "files in "+manifests+" on every server, or applied by you; look for API versions that have ended")
	}
	if n := len(p.c.AddonsInclude); n > 0 {
		p.set(topic, fmt.Sprintf("addons_include names %d texts", n), "the same")
	}
}

func (p *planner) registries() {
	const topic, file = "registries", "/etc/rancher/rke2/registries.yaml"
	for _, r := range p.c.PrivateRegistries {
		if r.ECRCredentialPlugin != nil {
			p.do(topic, r.Host()+" with passwords by ECR", "registries.yaml has no such plugin: install a credential provider of the kubelet, or mirror the images", "kubelet-arg")
			continue
		}
		p.set(topic, r.Host(), "configs in "+file+" of every host")
		if r.IsDefault {
			p.do(topic, r.Host()+" has the system images", "system-default-registry: "+r.Host()+"; it needs RKE2's images", "system-default-registry")
		}
	}
}

func (p *planner) access() {
	const topic = "access to the API server"
	a := p.c.Authentication
	if len(a.SANs) > 0 {
		p.set(topic, "names "+strings.Join(a.SANs, ", "), "tls-san with the same", "tls-san")
	}
	if a.Webhook != nil {
		p.set(topic, "authentication by a webhook", "its file on every server, and kube-apiserver-arg: authentication-token-webhook-config-file=PATH", "kube-apiserver-arg")
	}
}

func (p *planner) encryption() {
	const topic = "encryption of Secrets"
	e := p.c.Services.KubeAPI.SecretsEncryptionConfig
	switch {
	case e == nil || !e.Enabled:
		p.add(Item{Topic: topic, Level: Same, Found: "off", Needs: "RKE2 encrypts them"})
	case e.CustomConfig != nil:
		p.do(topic, "a configuration of your own", "RKE2 keeps its own (secrets-encryption-provider, where its release has it: aescbc or secretbox); KMS and other resources have no setting")
	default:
		p.set(topic, "on", "RKE2 encrypts them with keys of its own; keep the export of this cluster as long as snapshots of its etcd are kept")
	}
}

func (p *planner) audit() {
	const topic = "audit log"
	log := p.c.Services.KubeAPI.AuditLog
	if log == nil || !log.Enabled || log.Configuration == nil {
		return
	}
	p.set(topic, "on, at "+log.Configuration.Path, "the policy as audit-policy-file on every server, and the rest as kube-apiserver-arg: "+
		fmt.Sprintf("audit-log-path, audit-log-maxage=%d, audit-log-maxbackup=%d, audit-log-maxsize=%d", log.Configuration.MaxAge, log.Configuration.MaxBackup, log.Configuration.MaxSize)+
		"; collectors find it below /var/lib/rancher/rke2/server/logs by default", "audit-policy-file", "kube-apiserver-arg")
}

func (p *planner) admission() {
	const topic = "admission"
	api := p.c.Services.KubeAPI
	if api.PodSecurityConfiguration == "restricted" {
		p.set(topic, "pod security: restricted", "pod-security-admission-config-file with the same, or profile: cis", "profile")
	}
	if api.EventRateLimit != nil && api.EventRateLimit.Enabled {
		p.set(topic, "a limit of events", "kube-apiserver-arg: enable-admission-plugins and admission-control-config-file", "kube-apiserver-arg")
	}
	if api.AdmissionConfiguration != nil {
		p.set(topic, "a configuration of your own", "kube-apiserver-arg: admission-control-config-file=PATH", "kube-apiserver-arg")
	}
	if api.AlwaysPullImages {
		p.set(topic, "always_pull_images", "kube-apiserver-arg: enable-admission-plugins=NodeRestriction,AlwaysPullImages", "kube-apiserver-arg")
	}
}

func (p *planner) cloud() {
	const topic = "cloud provider"
	switch name := p.c.CloudProvider.Name; name {
	case "":
	case "external", "external-aws":
		p.set(topic, name, "cloud-provider-name: external, and the provider's own deployment", "cloud-provider-name")
	case "aws", "azure", "openstack", "vsphere":
		p.do(topic, name+", in Kubernetes itself", "Kubernetes has no "+name+" inside any more: install its external provider and its CSI driver (cloud-provider-name: external); "+
			"names of nodes, load balancers and volumes depend on it", "cloud-provider-name")
	default:
		p.do(topic, name, "cloud-provider-name and cloud-provider-config take it where it is an external one", "cloud-provider-name", "cloud-provider-config")
	}
}

func (p *planner) etcd() {
	if e := p.c.Services.Etcd; len(e.ExternalURLs) > 0 {
		p.do("etcd", "an etcd of your own", "RKE2 runs its own on its servers: plan one, three or five hosts for it")
	} else if e.UID != 0 || e.GID != 0 {
		p.set("etcd", fmt.Sprintf("runs as %d:%d", e.UID, e.GID), "profile: cis runs it as the user etcd", "profile")
	}
}

func (p *planner) snapshots() {
	const topic = "snapshots of etcd"
	e := p.c.Services.Etcd
	b := e.BackupConfig
	switch {
	case e.Snapshot != nil && !*e.Snapshot && b == nil || b != nil && b.Enabled != nil && !*b.Enabled:
		p.set(topic, "off", "RKE2 takes them by itself: etcd-disable-snapshots: true, if that is meant", "etcd-disable-snapshots")
		return
	case b == nil:
		p.set(topic, fmt.Sprintf("every %s, kept for %s", e.Creation, e.Retention), "etcd-snapshot-schedule-cron and etcd-snapshot-retention (a number)", "etcd-snapshot-schedule-cron", "etcd-snapshot-retention")
		return
	}
	p.set(topic, fmt.Sprintf("every %d h, %d are kept", b.IntervalHours, b.Retention), fmt.Sprintf("etcd-snapshot-schedule-cron: every %d h, etcd-snapshot-retention: %d; "+
		"those of RKE1 are for RKE1 alone, so keep its files", b.IntervalHours, b.Retention), "etcd-snapshot-schedule-cron", "etcd-snapshot-retention")
	if b.S3 != nil {
		p.set(topic, "in a bucket at "+b.S3.Endpoint, "etcd-s3 and its settings, in a folder of their own", "etcd-s3", "etcd-s3-endpoint", "etcd-s3-bucket", "etcd-s3-folder")
	}
}

// keys are the keys of a map for a sentence; values may be secret.
func keys(m map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
