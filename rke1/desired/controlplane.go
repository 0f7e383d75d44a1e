// The sidekick and the three containers of the control plane.

package desired

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
)

// sidekick lends the volume of the helper image to the others. It is created and never started.
func (o host) sidekick() nodeconfig.Process {
	return nodeconfig.Process{
		Name:        Sidekick,
		Image:       o.config.SystemImages.ServicesSidecar,
		Command:     []string{"/bin/bash"},
		NetworkMode: "none",
	}
}

// component is what the containers of the Kubernetes image have in common.
func (o host) component(name string, all []string, health string) nodeconfig.Process {
	return nodeconfig.Process{
		Name:          name,
		Image:         o.config.SystemImages.Kubernetes,
		Command:       command(name, all),
		VolumesFrom:   []string{Sidekick},
		NetworkMode:   "host",
		RestartPolicy: "always",
		HealthCheck:   nodeconfig.HealthCheck{URL: health},
	}
}

func (o host) kubernetesBind() string { return o.path("/etc/kubernetes") + ":/etc/kubernetes:z" }

func (o host) apiServer() nodeconfig.Process {
	c := o.config.Services.KubeAPI
	cert, key := pem(pki.APIServer)
	proxyCert, proxyKey := pem(pki.ProxyClient)
	f := flags{
		"admission-control-config-file": admissionFile,
		"client-ca-file":                caFile,
		"cloud-provider":                cloudFlag(o.config.CloudProvider.Name),
		"kubelet-client-certificate":    cert,
		"kubelet-client-key":            key,
		"proxy-client-cert-file":        proxyCert,
		"proxy-client-key-file":         proxyKey,
		"requestheader-allowed-names":   pki.ProxyClient,
		"requestheader-client-ca-file":  pki.Path(pki.RequestHeaderCA),
		"service-account-key-file":      pki.KeyPath(pki.ServiceAccount),
		"service-cluster-ip-range":      c.ServiceClusterIPRange,
		"service-node-port-range":       c.ServiceNodePortRange,
		"tls-cert-file":                 cert,
		"tls-private-key-file":          key,
	}
	o.toEtcd(f)
	o.cloudConfigFlag(f)
	if w := o.config.Authentication.Webhook; w != nil {
		f["authentication-token-webhook-config-file"] = webhookFile
		f["authentication-token-webhook-cache-ttl"] = w.CacheTimeout
	}
	if o.Encryption != "" {
		f["encryption-provider-config"] = EncryptionFile
	}
	if o.config.Services.Kubelet.GenerateServingCertificate {
		f["kubelet-certificate-authority"] = caFile
	}
	f.override(o.options.KubeAPI)
	o.computed(f)
	binds := []string{o.kubernetesBind()}
	if c.AuditLog != nil && c.AuditLog.Enabled {
		binds = append(binds, o.path("/var/log/kube-audit")+":/var/log/kube-audit")
	}
	p := o.component(KubeAPIServer, f.list(c.Service), "https://localhost:6443/healthz")
	p.Binds = o.binds(binds, c.ExtraBinds)
	p.Env = once(append(o.sums.apiServer(), c.ExtraEnv...))
	return p
}

// toEtcd are the API server's flags for etcd. It asks the host's own member first.
func (o host) toEtcd(f flags) {
	c := o.config.Services.Etcd
	if len(c.ExternalURLs) > 0 {
		f["etcd-servers"] = strings.Join(c.ExternalURLs, ",")
		f["etcd-prefix"] = c.Path
		f["etcd-cafile"] = pki.Path(pki.EtcdClientCA)
		f["etcd-certfile"], f["etcd-keyfile"] = pem(pki.EtcdClient)
		return
	}
	var servers []string
	for _, n := range o.with(config.RoleEtcd) {
		url := "https://" + address(internal(n), 2379)
		if n == o.node {
			servers = append([]string{url}, servers...)
		} else {
			servers = append(servers, url)
		}
	}
	f["etcd-servers"] = strings.Join(servers, ",")
	f["etcd-prefix"] = "/registry"
	f["etcd-cafile"] = caFile
	f["etcd-certfile"], f["etcd-keyfile"] = pem(pki.Node)
}

// computed are the API server's flags that the version data cannot change.
func (o host) computed(f flags) {
	c := o.config.Services.KubeAPI
	if o.config.Authorization.Mode == "rbac" {
		f["authorization-mode"] = "Node,RBAC"
	}
	if _, err := netip.ParseAddr(internal(o.node)); err == nil {
		f["advertise-address"] = internal(o.node)
	}
	plugins := "enable-admission-plugins"
	if _, set := f[plugins]; !set {
		plugins = "admission-control" // of data for versions before 1.10
	}
	if c.PodSecurityPolicy && !o.version.AtLeast(1, 25) {
		f["runtime-config"] = "policy/v1beta1/podsecuritypolicy=true"
		f[plugins] += ",PodSecurityPolicy"
	}
	if c.AlwaysPullImages {
		f[plugins] += ",AlwaysPullImages"
	}
	if c.EventRateLimit != nil && c.EventRateLimit.Enabled {
		f[plugins] += ",EventRateLimit"
	}
	// The peer sets these with enabled: false, too, without the file; the API server would not start.
	if a := c.AuditLog; a != nil && a.Enabled && a.Configuration != nil {
		f["audit-policy-file"] = auditFile
		f["audit-log-path"] = a.Configuration.Path
		f["audit-log-maxage"] = strconv.Itoa(a.Configuration.MaxAge)
		f["audit-log-maxbackup"] = strconv.Itoa(a.Configuration.MaxBackup)
		f["audit-log-maxsize"] = strconv.Itoa(a.Configuration.MaxSize)
		f["audit-log-format"] = a.Configuration.Format
	}
}

func (o host) controllerManager() nodeconfig.Process {
	c := o.config.Services.KubeController
	f := flags{
		"cloud-provider":                   cloudFlag(o.config.CloudProvider.Name),
		"cluster-cidr":                     c.ClusterCIDR,
		"root-ca-file":                     caFile,
		"service-account-private-key-file": pki.KeyPath(pki.ServiceAccount),
		"service-cluster-ip-range":         c.ServiceClusterIPRange,
		"kubeconfig":                       pki.KubeconfigPath(pki.ControllerManager),
	}
	o.cloudConfigFlag(f)
	f.override(o.options.KubeController)
	o.authKubeconfigs(f)
	health := "https://localhost:10257/healthz"
	if !o.image.AtLeast(1, 22) {
		health = "http://localhost:10252/healthz"
	}
	p := o.component(ControllerManager, f.list(c.Service), health)
	if o.config.Authorization.Mode == "rbac" {
		p.Args = []string{"--use-service-account-credentials=true"}
	}
	p.Binds = o.binds([]string{o.kubernetesBind()}, c.ExtraBinds)
	p.Env = once(slices.Concat(c.ExtraEnv, o.sums.cloudEnv()))
	return p
}

func (o host) scheduler() nodeconfig.Process {
	c := o.config.Services.Scheduler
	f := flags{"kubeconfig": pki.KubeconfigPath(pki.Scheduler)}
	f.override(o.options.Scheduler)
	o.authKubeconfigs(f)
	health := "https://localhost:10259/healthz"
	if !o.image.AtLeast(1, 23) {
		health = "http://localhost:10251/healthz"
	}
	p := o.component(Scheduler, f.list(c.Service), health)
	p.Binds = o.binds([]string{o.kubernetesBind()}, c.ExtraBinds)
	p.Env = slices.Clone(c.ExtraEnv)
	return p
}

// authKubeconfigs lets a component ask the API server about those who ask it, from 1.22 on.
func (o host) authKubeconfigs(f flags) {
	if o.version.AtLeast(1, 22) {
		f["authentication-kubeconfig"], f["authorization-kubeconfig"] = f["kubeconfig"], f["kubeconfig"]
	}
}

// The names of clouds that mean something here.
const (
	cloudAWS         = "aws"
	cloudExternalAWS = "external-aws"
	cloudHarvester   = "harvester"
)

// cloudFlag is the value of --cloud-provider.
func cloudFlag(cloud string) string {
	if cloud == cloudExternalAWS || cloud == cloudHarvester {
		return "external"
	}
	return cloud
}

func (p *Plan) cloudConfigFlag(f flags) {
	if p.config.CloudProvider.Name != "" {
		f["cloud-config"] = cloudConfigFile
	}
}

// namedByCloud says whether the helper image asks AWS for the node's name.
func (p *Plan) namedByCloud(clouds ...string) bool {
	asked := p.config.CloudProvider.UseInstanceMetadataHostname
	if slices.Contains(clouds, p.config.CloudProvider.Name) {
		return asked != nil && *asked
	}
	return false
}
