package check

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/rke1/config"
)

func (k *checker) authentication() {
	a := &k.c.Authentication
	for _, part := range a.Parts() {
		k.oneOf("authentication.strategy", part, "x509", "webhook")
	}
	if !a.Uses("x509") {
		k.fail("authentication.strategy", "has to contain x509, by which the components know each other; write x509 or x509|webhook")
	}
	k.oneOf("authorization.mode", k.c.Authorization.Mode, "rbac", config.None)
}

func (k *checker) network() {
	n := &k.c.Network
	k.oneOf("network.plugin", n.Plugin, config.PluginCanal, config.PluginCalico, config.PluginFlannel, config.PluginWeave, config.PluginACI, config.PluginNone)
	switch {
	case n.Plugin == config.PluginFlannel && n.MTU != 0:
		k.fail("network.mtu", "cannot be set with %s; leave it out", config.PluginFlannel)
	case n.MTU < 0:
		k.fail("network.mtu", "%d is not a size; 0 leaves it to the plugin", n.MTU)
	}
	if n.Plugin == config.PluginWeave {
		if other := n.Options["weave_password"]; other != "" && other != n.Options["WeavePassword"] {
			k.fail("network.options", "weave_password is not the option of the password, so that the rke command line runs without one; "+
				"write weave_network_provider.password where traffic between pods is encrypted, and take it out otherwise")
		}
		switch {
		case k.version.AtLeast(30):
			k.fail("network.plugin", "%s is not there from Kubernetes 1.30 on; clusters that have it stay at 1.29", config.PluginWeave)
		case k.version.AtLeast(27):
			k.warn("network.plugin", "%s is deprecated from Kubernetes 1.27 on and not there from 1.30 on", config.PluginWeave)
		}
	}
	if n.Plugin != config.PluginACI {
		return
	}
	for _, setting := range n.ACI.Missing(n.Options) {
		k.fail("network.aci_network_provider", "lacks %s", setting)
	}
}

// ranges looks at the addresses of services and pods, and at that of DNS among them.
func (k *checker) ranges() {
	s := &k.c.Services
	services := k.cidrs("services.kube-api.service_cluster_ip_range", s.KubeAPI.ServiceClusterIPRange)
	k.cidrs("services.kube-controller.service_cluster_ip_range", s.KubeController.ServiceClusterIPRange)
	pods := k.cidrs("services.kube-controller.cluster_cidr", s.KubeController.ClusterCIDR)
	if s.KubeAPI.ServiceClusterIPRange != s.KubeController.ServiceClusterIPRange {
		k.warn("services.kube-controller.service_cluster_ip_range", "%q is not that of kube-api, %q; the two are one range",
			cut(s.KubeController.ServiceClusterIPRange), cut(s.KubeAPI.ServiceClusterIPRange))
	}
	if reason := forms.Overlap(pods, services); reason != "" {
		k.warn("services.kube-controller.cluster_cidr", "%s", reason)
	}
	if plugin := k.c.Network.Plugin; (len(services) > 1 || len(pods) > 1) && plugin != config.PluginCalico && plugin != config.PluginACI {
		k.fail("network.plugin", "%s has no dual stack, and there are two ranges of pods or services; write one, or use %s or %s", plugin, config.PluginCalico, config.PluginACI)
	}
	const dns = "services.kubelet.cluster_dns_server"
	if s.Kubelet.ClusterDNSServer == "" {
		return // services reports it
	}
	addresses, reason := forms.Addresses(spaceless(s.Kubelet.ClusterDNSServer))
	k.refuse(dns, s.Kubelet.ClusterDNSServer, reason)
	if reason = forms.Outside(addresses, services); reason != "" && len(services) > 0 {
		k.warn(dns, "%s", reason)
	}
}

// cidrs reads one range or two with a comma between them.
func (k *checker) cidrs(path, value string) []netip.Prefix {
	if value == "" {
		k.fail(path, "is empty; it is a range such as %s", forms.ExampleRange)
		return nil
	}
	ranges, reason := forms.Ranges(spaceless(value))
	k.refuse(path, value, reason)
	return ranges
}

// spaceless is a list without the spaces that components of RKE1 take in it.
func spaceless(list string) string { return strings.ReplaceAll(list, " ", "") }

func (k *checker) cloud() {
	p := &k.c.CloudProvider
	if p.Name == "" && p.Custom != "" {
		k.fail("cloud_provider.name", "is missing, and there is a customCloudProvider; the name is that of the kubelet's flag --cloud-provider")
	}
	if p.Name == "aws" && k.version.AtLeast(27) {
		k.fail("cloud_provider.name", "aws is not there from Kubernetes 1.27 on; use external-aws")
	}
}

func (k *checker) ingress() {
	in := &k.c.Ingress
	k.oneOf("ingress.provider", in.Provider, "nginx", config.None)
	if in.DNSPolicy != "" {
		k.oneOf("ingress.dns_policy", in.DNSPolicy, "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
	}
	k.numberedPort("ingress.http_port", in.HTTPPort)
	k.numberedPort("ingress.https_port", in.HTTPSPort)
	if in.HTTPPort == in.HTTPSPort {
		k.fail("ingress.https_port", "%d is also the http_port; the two are different", in.HTTPSPort)
	}
	if in.NetworkMode != "" {
		k.oneOf("ingress.network_mode", in.NetworkMode, "hostPort", "hostNetwork", config.None)
	}
}

func (k *checker) numberedPort(path string, port int) {
	if port < 0 || port > 65535 {
		k.fail(path, "%d is not a port from 0 to 65535", port)
	}
}

func (k *checker) addons() {
	if k.c.DNS != nil && k.c.DNS.Provider != "" {
		k.oneOf("dns.provider", k.c.DNS.Provider, "coredns", "kube-dns", config.None)
	}
	k.oneOf("monitoring.provider", k.c.Monitoring.Provider, "metrics-server", config.None)
	if k.c.AddonJobTimeout < 0 {
		k.fail("addon_job_timeout", "%d is not a number of seconds", k.c.AddonJobTimeout)
	}
}

// docker looks at the way from the kubelet to Docker.
func (k *checker) docker() {
	if k.c.EnableCRIDockerd == nil || !k.version.Known() {
		return
	}
	switch on := *k.c.EnableCRIDockerd; {
	case on && !k.version.AtLeast(21):
		k.fail("enable_cri_dockerd", "cri-dockerd is there from Kubernetes 1.21 on; leave it out")
	case on || !k.version.AtLeast(24):
	case k.ownRuntime():
		k.warn("enable_cri_dockerd", "is false, and the kubelet has the %s of extra_args: what listens there is yours to look after", runtimeFlag)
	default:
		k.fail("enable_cri_dockerd", "false leaves the kubelet without a way to Docker: Kubernetes has none of its own from 1.24 on; leave it out, "+
			"or give the kubelet a runtime of yours by services.kubelet.extra_args.%s", runtimeFlag)
	}
}

const runtimeFlag = "container-runtime-endpoint"

// ownRuntime says that a user has kubelets talk to a runtime that is on the hosts already.
func (k *checker) ownRuntime() bool {
	kubelet := &k.c.Services.Kubelet
	return kubelet.ExtraArgs[runtimeFlag] != "" || len(kubelet.ExtraArgsArray[runtimeFlag]) > 0
}

func (k *checker) podSecurity() {
	const policies = "services.kube-api.pod_security_policy"
	switch asked := k.c.Services.KubeAPI.PodSecurityPolicy; {
	case asked && k.version.AtLeast(25):
		k.warn(policies, "is ignored: pod security policies have ended with Kubernetes 1.25, and pod_security_configuration has come with 1.23")
	case asked:
		k.warn(policies, "lets pods start by policies alone, which a cluster of the rke command line has; drover brings none")
	}
	const path = "services.kube-api.pod_security_configuration"
	level := k.c.Services.KubeAPI.PodSecurityConfiguration
	if level == "" {
		return
	}
	k.oneOf(path, level, "privileged", "restricted")
	if k.c.Authorization.Mode != "rbac" {
		if k.file != nil && k.file.Cluster.Services.KubeAPI.PodSecurityConfiguration == "" {
			k.fail("authorization.mode", "has to be rbac from Kubernetes 1.23 on, where every API server has a configuration of pod security, which needs it; leave it out, or write rbac")
		} else {
			k.fail(path, "needs authorization.mode: rbac")
		}
	}
	if k.version.Known() && !k.version.AtLeast(23) {
		k.fail(path, "is there from Kubernetes 1.23 on; leave it out")
	}
}

// kinds looks at the objects of Kubernetes: the API server would not start with others.
func (k *checker) kinds() {
	api := &k.c.Services.KubeAPI
	// Without both it is taken: the file has them anyhow.
	if e := api.SecretsEncryptionConfig; e != nil && e.CustomConfig != nil && e.CustomConfig.TypeMeta != (config.TypeMeta{}) {
		k.kind("secrets_encryption_config.custom_config", e.CustomConfig.TypeMeta, "EncryptionConfiguration", "apiserver.config.k8s.io/v1")
	}
	if a := api.AdmissionConfiguration; a != nil {
		k.kind("admission_configuration", a.TypeMeta, "AdmissionConfiguration", "apiserver.config.k8s.io/v1")
	}
	if e := api.EventRateLimit; e != nil && e.Configuration != nil {
		k.kind("event_rate_limit.configuration", e.Configuration.TypeMeta, "Configuration", "eventratelimit.admission.k8s.io/v1alpha1")
	}
	if a := api.AuditLog; a != nil && a.Configuration != nil && a.Configuration.Policy != nil {
		k.kind("audit_log.configuration.policy", a.Configuration.Policy.TypeMeta, "Policy", "audit.k8s.io/v1")
	}
}

func (k *checker) kind(path string, is config.TypeMeta, kind, version string) {
	if is.Kind != kind || is.APIVersion != version {
		k.fail("services.kube-api."+path, "is kind %q of apiVersion %q; it has to be %s of %s", cut(is.Kind), cut(is.APIVersion), kind, version)
	}
}

func (k *checker) services() {
	s := &k.c.Services
	for _, needed := range []struct{ path, value string }{
		{"services.kubelet.cluster_dns_server", s.Kubelet.ClusterDNSServer},
		{"services.kubelet.cluster_domain", s.Kubelet.ClusterDomain},
	} {
		if needed.value == "" {
			k.fail(needed.path, "is empty")
		}
	}
	// Images of an unknown version are kubernetesVersion's matter.
	if _, err := k.known.Images(k.c.KubernetesVersion); err == nil {
		for _, image := range []struct{ path, value string }{
			{"system_images.etcd", s.Etcd.Image}, {"system_images.kubernetes", s.Kubelet.Image},
			{"services.kubelet.infra_container_image", s.Kubelet.InfraContainerImage},
		} {
			if image.value == "" {
				k.fail(image.path, "is empty, and the version data have no image for it")
			}
		}
	}
	etcd := &s.Etcd
	if etcd.UID < 0 || etcd.GID < 0 {
		k.fail("services.etcd.uid", "uid and gid are numbers from 0 on")
	}
	if len(etcd.ExternalURLs) == 0 {
		return
	}
	for _, needed := range []struct{ path, value string }{
		{"ca_cert", etcd.CACert}, {"cert", etcd.Cert}, {"key", etcd.Key}, {"path", etcd.Path},
	} {
		if needed.value == "" {
			k.fail("services.etcd."+needed.path, "is missing; with external_urls there are ca_cert, cert, key and path")
		}
	}
}

// backup looks at where snapshots go.
func (k *checker) backup() {
	b := k.c.Services.Etcd.BackupConfig
	if b == nil {
		return
	}
	const path = "services.etcd.backup_config"
	for _, number := range []struct {
		name  string
		value int
	}{{"interval_hours", b.IntervalHours}, {"retention", b.Retention}, {"timeout", b.Timeout}} {
		if number.value < 0 {
			k.fail(path+"."+number.name, "%d is less than none", number.value)
		}
	}
	if b.S3 == nil {
		return
	}
	if b.S3.Endpoint == "" {
		k.fail(path+".s3backupconfig.endpoint", "is missing; that of Amazon is s3.amazonaws.com")
	}
	if b.S3.BucketName == "" {
		k.fail(path+".s3backupconfig.bucket_name", "is missing")
	}
	if b.S3.CustomCA != "" {
		block, _ := pem.Decode([]byte(b.S3.CustomCA))
		if block == nil {
			k.fail(path+".s3backupconfig.custom_ca", "is not a certificate in PEM")
		} else if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			k.fail(path+".s3backupconfig.custom_ca", "is PEM, but not a certificate")
		}
	}
	if strings.Contains(b.S3.Endpoint, "://") {
		k.warn(path+".s3backupconfig.endpoint", "%s is taken by no program as it is: it is a host, or host:port, and TLS is always used", b.S3.Endpoint)
	}
	if (b.S3.AccessKey == "") != (b.S3.SecretKey == "") {
		k.warn(path+".s3backupconfig", "there is one key of two, access_key and secret_key: no bucket opens by it")
	}
	if etcd := k.c.Services.Etcd; b.S3.HasKeys() && (etcd.Snapshot == nil || *etcd.Snapshot) {
		k.warn("services.etcd.snapshot", "etcd-rolling-snapshots has the bucket's keys in its environment, where everybody reads them who may use Docker on an etcd host: "+
			"to keep them off the hosts, set it to false and run drover rke etcd snapshot-save from a timer")
	}
}

func (k *checker) upgrade() {
	u := k.c.UpgradeStrategy
	if u == nil {
		return
	}
	k.share("upgrade_strategy.max_unavailable_worker", u.MaxUnavailableWorker)
	k.share("upgrade_strategy.max_unavailable_controlplane", u.MaxUnavailableControlplane)
	if in := u.DrainInput; in != nil && in.Timeout < 0 {
		k.fail("upgrade_strategy.node_drain_input.timeout", "%d is not a number of seconds", in.Timeout)
	}
}

// share refuses what is neither a number of hosts nor a percentage of them.
func (k *checker) share(path, value string) {
	number, percent := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		k.fail(path, "%q is neither a number of hosts from 1 on nor a percentage from 1%% to 100%%", cut(value))
	}
}

func (k *checker) registries() {
	for i, r := range k.c.PrivateRegistries {
		path := "private_registries[" + strconv.Itoa(i) + "].url"
		switch reason := forms.Registry(r.URL, true); {
		case r.IsDefault && r.URL != "" && reason != "": // it stands before the name of each image; it can have a password in it
			k.fail(path, "%s", reason)
		case strings.Contains(r.URL, "://"):
			k.warn(path, "has a scheme; names of images have none, so that it fits no image")
		}
	}
}
