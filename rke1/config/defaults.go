package config

// defaults.go fills what a config does not say. The filled config is what is validated, carried
// out and kept in the state; values and order are those of the RKE CLI, contract section 1.

import (
	"cmp"
	"reflect"
	"strings"

	"github.com/drover-project/drover/rke1/config/aci"
)

// Versions is what the version data know, as far as a config needs it.
type Versions struct {
	// Default is the Kubernetes version of a cluster that names none.
	Default string
	// Images are the system images of a version; the error says that it is unknown, and what is.
	Images func(version string) (SystemImages, error)
	// Flags says why the components of a version cannot be given flags, or those of a Kubernetes image whose tag names another
	// version; nil looks at none.
	Flags func(version, kubernetesImage string) error
}

// Values that stand in more than one place.
const (
	serviceRange = "10.43.0.0/16"
	podRange     = "10.42.0.0/16"

	// AdmissionFileArg is the flag of the API server by which a user brings an admission
	// configuration of his own. There are no defaults for it then.
	AdmissionFileArg = "admission-control-config-file"
)

// WithDefaults is a config with everything filled in that it leaves open. The argument stays as
// it is. What depends on a version that cannot be read is left open; package check reports it.
// Filling a filled config changes nothing.
//
// In one place it does more than the CLI: there always is a drain input, also where drain is true
// and where nothing is said about upgrades.
func WithDefaults(written Cluster, known Versions) Cluster {
	c := clone(written)
	fill(&c.SSHKeyPath, "~/.ssh/id_rsa")
	fill(&c.PrefixPath, "/")
	fill(&c.ClusterName, "local")
	fill(&c.KubernetesVersion, known.Default)
	fill(&c.Authorization.Mode, "rbac")
	c.AddonJobTimeout = cmp.Or(c.AddonJobTimeout, 45)
	fillPointer(&c.IgnoreDockerVersion, false)
	c.defaultNodes()
	c.defaultImages(known)

	version := ReadVersion(c.KubernetesVersion)
	if version.AtLeast(24) {
		fillPointer(&c.EnableCRIDockerd, true)
	}
	c.defaultCloud()
	c.defaultServices()
	c.defaultKubeAPI(version)
	c.defaultNetwork()
	c.defaultAuthentication()
	c.defaultUpgrade()
	c.defaultDNS(version)
	c.defaultIngress(version)
	fill(&c.Monitoring.Provider, "metrics-server")
	fillPointer(&c.Monitoring.Replicas, 1)
	c.Monitoring.Update = c.Monitoring.Update.orDefault(IntOrText{Text: "25%"}, IntOrText{Text: "25%"})
	return c
}

func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func fillPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func fillKey(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	if _, ok := (*m)[key]; !ok {
		(*m)[key] = value
	}
}

func (c *Cluster) defaultNodes() {
	if c.BastionHost.Address != "" {
		fill(&c.BastionHost.Port, "22")
		fill(&c.BastionHost.SSHKeyPath, c.SSHKeyPath)
		c.BastionHost.SSHAgentAuth = c.SSHAgentAuth
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		fill(&n.InternalAddress, n.Address)
		fill(&n.HostnameOverride, n.Address)
		n.HostnameOverride = strings.ToLower(n.HostnameOverride)
		fill(&n.SSHKeyPath, c.SSHKeyPath)
		fill(&n.Port, "22")
		n.SSHAgentAuth = c.SSHAgentAuth
	}
}

// defaultImages fills the images that the config does not name itself, from the default
// registry. Of an unknown version there are none.
func (c *Cluster) defaultImages(known Versions) {
	images, err := known.Images(c.KubernetesVersion)
	if err != nil {
		return
	}
	registry := ""
	for _, r := range c.PrivateRegistries {
		if r.IsDefault {
			registry = r.URL
			break
		}
	}
	own, standard := reflect.ValueOf(&c.SystemImages).Elem(), reflect.ValueOf(images)
	for i := range own.NumField() {
		image := standard.Field(i).String()
		if image != "" && registry != "" {
			image = registry + "/" + image
		}
		if own.Field(i).String() == "" {
			own.Field(i).SetString(image)
		}
	}
}

// defaultCloud names the cloud of a configuration that is there without a name.
func (c *Cluster) defaultCloud() {
	p := &c.CloudProvider
	if p.Harvester != nil || p.Name == "harvester" {
		p.Name = "external" // what kubelets are given
	}
	for name, configured := range map[string]bool{
		"aws": p.AWS != nil, "azure": p.Azure != nil, "openstack": p.OpenStack != nil, "vsphere": p.VSphere != nil,
	} {
		if configured {
			fill(&p.Name, name)
		}
	}
	if p.Name == "aws" {
		fillPointer(&p.UseInstanceMetadataHostname, false)
	}
}

func (c *Cluster) defaultServices() {
	s, images := &c.Services, &c.SystemImages
	for _, image := range []*string{&s.KubeAPI.Image, &s.KubeController.Image, &s.Scheduler.Image, &s.Kubelet.Image, &s.KubeProxy.Image} {
		*image = images.Kubernetes
	}
	s.Etcd.Image = images.Etcd

	fill(&s.KubeAPI.ServiceClusterIPRange, serviceRange)
	fill(&s.KubeAPI.ServiceNodePortRange, "30000-32767")
	fill(&s.KubeController.ServiceClusterIPRange, serviceRange)
	fill(&s.KubeController.ClusterCIDR, podRange)
	fill(&s.Kubelet.ClusterDNSServer, "10.43.0.10")
	fill(&s.Kubelet.ClusterDomain, "cluster.local")
	fill(&s.Kubelet.InfraContainerImage, images.PodInfraContainer)

	fillPointer(&s.Etcd.Snapshot, true)
	fill(&s.Etcd.Creation, "12h")
	fill(&s.Etcd.Retention, "72h")
	fillKey(&s.Etcd.ExtraArgs, "election-timeout", "5000")
	fillKey(&s.Etcd.ExtraArgs, "heartbeat-interval", "500")
	if b := s.Etcd.BackupConfig; b != nil && (b.Enabled == nil || *b.Enabled) {
		for _, number := range []struct {
			field    *int
			standard int
		}{{&b.IntervalHours, 12}, {&b.Retention, 6}, {&b.Timeout, 300}} {
			if *number.field == 0 {
				*number.field = number.standard
			}
		}
	}
}

func (c *Cluster) defaultKubeAPI(version Version) {
	api := &c.Services.KubeAPI
	if _, own := api.ExtraArgs[AdmissionFileArg]; !own {
		if limit := api.EventRateLimit; limit != nil && limit.Enabled && limit.Configuration == nil {
			limit.Configuration = &EventRateLimits{
				TypeMeta: TypeMeta{Kind: "Configuration", APIVersion: "eventratelimit.admission.k8s.io/v1alpha1"},
				Limits:   []EventLimit{{Type: "Server", QPS: 5000, Burst: 20000}},
			}
		}
		if version.AtLeast(23) {
			fill(&api.PodSecurityConfiguration, "privileged")
		}
	}
	if version.logsRequests() {
		fillPointer(&api.AuditLog, AuditLog{Enabled: true})
	}
	if api.AuditLog == nil || !api.AuditLog.Enabled {
		return
	}
	fillPointer(&api.AuditLog.Configuration, AuditLogConfig{
		MaxAge: 30, MaxBackup: 10, MaxSize: 100, Path: "/var/log/kube-audit/audit-log.json", Format: "json",
	})
	fillPointer(&api.AuditLog.Configuration.Policy, AuditPolicy{
		TypeMeta: TypeMeta{Kind: "Policy", APIVersion: "audit.k8s.io/v1"},
		Rules:    []PolicyRule{{Level: "Metadata"}},
	})
}

// defaultNetwork fills the plugin's options: what is there wins, then the typed form, then the
// standard.
func (c *Cluster) defaultNetwork() {
	n := &c.Network
	fill(&n.Plugin, PluginCanal)
	if n.Calico != nil {
		fill(&n.Calico.CloudProvider, "none")
		fillKey(&n.Options, "calico_cloud_provider", n.Calico.CloudProvider)
	}
	if n.Flannel != nil {
		fillKey(&n.Options, "flannel_iface", n.Flannel.Iface)
	}
	if n.Canal != nil {
		fillKey(&n.Options, "canal_iface", n.Canal.Iface)
	}
	if n.Weave != nil {
		fillKey(&n.Options, "WeavePassword", n.Weave.Password)
	}
	for option, value := range n.ACI.Options() {
		fillKey(&n.Options, option, value)
	}
	for option := range strings.FieldsSeq(pluginDefaults[n.Plugin]) {
		name, value, _ := strings.Cut(option, "=")
		fillKey(&n.Options, name, value)
	}
	n.Update = n.Update.orDefault()
}

const flexVolumes = "_flex_volume_plugin_dir=/usr/libexec/kubernetes/kubelet-plugins/volume/exec/nodeagent~uds"

// pluginDefaults are the options of each plugin in the form name=value.
var pluginDefaults = map[string]string{
	PluginCanal:   "canal_flannel_backend_type=vxlan canal_flannel_backend_port=8472 canal_flannel_backend_vni=1 canal" + flexVolumes,
	PluginFlannel: "flannel_backend_type=vxlan flannel_backend_port=8472 flannel_backend_vni=1",
	PluginCalico:  "calico_cloud_provider=none calico" + flexVolumes,
	PluginACI:     aci.Defaults,
}

// webhookFile asks the service that answers on each control-plane host. The empty first line is
// part of it: the text is compared.
const webhookFile = `
apiVersion: v1
kind: Config
clusters:
- name: Default
  cluster:
    insecure-skip-tls-verify: true
    server: http://127.0.0.1:6440/v1/authenticate
users:
- name: Default
  user:
    insecure-skip-tls-verify: true
current-context: webhook
contexts:
- name: webhook
  context:
    user: Default
    cluster: Default
`

func (c *Cluster) defaultAuthentication() {
	a := &c.Authentication
	fill(&a.Strategy, "x509")
	if a.Uses("webhook") {
		fillPointer(&a.Webhook, Webhook{})
	}
	if a.Webhook != nil {
		fill(&a.Webhook.ConfigFile, webhookFile)
		fill(&a.Webhook.CacheTimeout, "5s")
	}
}

func (c *Cluster) defaultUpgrade() {
	fillPointer(&c.UpgradeStrategy, UpgradeStrategy{})
	fill(&c.UpgradeStrategy.MaxUnavailableWorker, "10%")
	fill(&c.UpgradeStrategy.MaxUnavailableControlplane, "1")
	fillPointer(&c.UpgradeStrategy.DrainInput, defaultDrain())
}

func defaultDrain() DrainInput {
	ignore := true
	return DrainInput{IgnoreDaemonSets: &ignore, GracePeriod: -1, Timeout: 120}
}

func (c *Cluster) defaultDNS(version Version) {
	fillPointer(&c.DNS, DNS{})
	if c.DNS.Provider == "" && version.Known() {
		c.DNS.Provider = "kube-dns"
		if version.AtLeast(14) {
			c.DNS.Provider = "coredns"
		}
	}
	switch rolling := c.DNS.Update.rolling(); {
	case !rolling:
	case c.DNS.Provider == "coredns":
		c.DNS.Update = c.DNS.Update.filled(&IntOrText{Int: 1}, &IntOrText{Int: 0}, false)
	case c.DNS.Provider == "kube-dns":
		c.DNS.Update = c.DNS.Update.filled(&IntOrText{Int: 0}, &IntOrText{Text: "10%"}, true)
	}
	fillPointer(&c.DNS.Autoscaler, Autoscaler{CoresPerReplica: 128, NodesPerReplica: 4, Min: 1, PreventSinglePointFailure: true})
}

func (c *Cluster) defaultIngress(version Version) {
	in := &c.Ingress
	fill(&in.Provider, "nginx")
	in.Update = in.Update.orDefault()
	in.HTTPPort = cmp.Or(in.HTTPPort, 80)
	in.HTTPSPort = cmp.Or(in.HTTPSPort, 443)
	fillPointer(&in.DefaultIngressClass, true)
	if !version.Known() {
		return
	}
	fillPointer(&in.DefaultBackend, !version.AtLeast(21))
	mode := "hostNetwork"
	if version.AtLeast(21) {
		mode = "hostPort"
	}
	fill(&in.NetworkMode, mode)
}

const rollingUpdate = "RollingUpdate"

// orDefault is the strategy, or one host at a time where it says nothing of that.
func (s *DaemonSetStrategy) orDefault() *DaemonSetStrategy {
	if s != nil && (s.Strategy != rollingUpdate || s.RollingUpdate != nil && s.RollingUpdate.MaxUnavailable != nil) {
		return s
	}
	return &DaemonSetStrategy{Strategy: rollingUpdate, RollingUpdate: &RollingUpdate{MaxUnavailable: &IntOrText{Int: 1}}}
}

// orDefault is the strategy with bounds where it has none.
func (s *DeploymentStrategy) orDefault(unavailable, surge IntOrText) *DeploymentStrategy {
	if s != nil && s.Strategy != rollingUpdate {
		return s
	}
	if s == nil || s.RollingUpdate == nil {
		return &DeploymentStrategy{Strategy: rollingUpdate, RollingUpdate: &RollingUpdate{MaxUnavailable: &unavailable, MaxSurge: &surge}}
	}
	fillPointer(&s.RollingUpdate.MaxUnavailable, unavailable)
	fillPointer(&s.RollingUpdate.MaxSurge, surge)
	return s
}

// rolling says whether a strategy of DNS is a rolling one, which one without a name is there.
func (s *DeploymentStrategy) rolling() bool {
	return s == nil || s.Strategy == "" || s.Strategy == rollingUpdate
}

// filled is the strategy with both bounds where it has none, and else with the one that its
// provider insists on.
func (s *DeploymentStrategy) filled(unavailable, surge *IntOrText, onSurge bool) *DeploymentStrategy {
	if s == nil || s.RollingUpdate == nil {
		return &DeploymentStrategy{Strategy: rollingUpdate, RollingUpdate: &RollingUpdate{MaxUnavailable: unavailable, MaxSurge: surge}}
	}
	if onSurge {
		fillPointer(&s.RollingUpdate.MaxSurge, *surge)
	} else {
		fillPointer(&s.RollingUpdate.MaxUnavailable, *unavailable)
	}
	return s
}
