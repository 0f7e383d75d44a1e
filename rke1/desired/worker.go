// The containers of the worker plane, which every host has.

package desired

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
)

// nginxProxy is 127.0.0.1:6443 of hosts without an API server of their own. The argument says nothing to it: it makes a change
// visible to those who compare arguments.
func (o host) nginxProxy() nodeconfig.Process {
	var servers []string
	for _, n := range o.with(config.RoleControlPlane) {
		servers = append(servers, internal(n))
	}
	hosts := []string{"CP_HOSTS=" + strings.Join(servers, ",")}
	return nodeconfig.Process{
		Name:          NginxProxy,
		Image:         o.config.SystemImages.NginxProxy,
		Command:       []string{"nginx-proxy"},
		Args:          hosts,
		Env:           slices.Clone(hosts),
		NetworkMode:   "host",
		RestartPolicy: "always",
	}
}

func (o host) kubelet() nodeconfig.Process {
	c := o.config.Services.Kubelet
	f := flags{
		"client-ca-file":            caFile,
		"cloud-provider":            cloudFlag(o.config.CloudProvider.Name),
		"cluster-dns":               c.ClusterDNSServer,
		"cluster-domain":            c.ClusterDomain,
		"fail-swap-on":              strconv.FormatBool(c.FailSwapOn),
		"hostname-override":         name(o.node),
		"kubeconfig":                pki.KubeconfigPath(pki.Node),
		"pod-infra-container-image": o.pauseImage(),
		"root-dir":                  o.path("/var/lib/kubelet"),
	}
	if o.node.Has(config.RoleControlPlane) && !o.node.Has(config.RoleWorker) {
		f["register-with-taints"] = "node-role.kubernetes.io/controlplane=true:NoSchedule"
	}
	if own := internal(o.node); own != o.node.Address {
		f["node-ip"] = own
	}
	o.cloudConfigFlag(f)
	if o.namedByCloud(cloudExternalAWS) {
		delete(f, "hostname-override")
	}
	if c.GenerateServingCertificate {
		f["tls-cert-file"], f["tls-private-key-file"] = pem(pki.KubeletName(*o.node))
	}
	if o.criDockerd() {
		if !o.version.AtLeast(1, 27) {
			f["container-runtime"] = "remote"
		}
		f["container-runtime-endpoint"] = "/var/run/dockershim.sock"
		if o.version.AtLeast(1, 24) {
			f["container-runtime-endpoint"] = "unix:///var/run/cri-dockerd.sock"
		}
	}
	f.overrideKubelet(o.options.Kubelet, o.prefix)
	if n := nodeLocalDNS(o.config); n != "" { // which beats extra_args, too
		c.ExtraArgs = without(c.ExtraArgs, "cluster-dns")
		f["cluster-dns"] = n
	}
	p := o.component(Kubelet, f.list(c.Service), "http://localhost:10248/healthz")
	p.PidMode, p.Privileged = "host", true
	p.Binds = o.binds(o.kubeletBinds(), c.ExtraBinds)
	p.Env = o.kubeletEnv()
	return p
}

// criDockerd says whether the kubelet talks to Docker through cri-dockerd, without which there is no way from 1.24 on.
func (p *Plan) criDockerd() bool {
	if e := p.config.EnableCRIDockerd; e != nil {
		return *e
	}
	return p.version.AtLeast(1, 24)
}

func nodeLocalDNS(c *config.Cluster) string {
	if c.DNS == nil || c.DNS.NodeLocal == nil {
		return ""
	}
	return c.DNS.NodeLocal.IPAddress
}

func without(m map[string]string, key string) map[string]string {
	left := make(map[string]string, len(m))
	for k, v := range m {
		if k != key {
			left[k] = v
		}
	}
	return left
}

func (o host) kubeletBinds() []string {
	var binds []string
	if o.criDockerd() && o.version.AtLeast(1, 24) {
		binds = append(binds, o.path("/var/lib/cri-dockerd")+":/var/lib/cri-dockerd:z")
	}
	root, kubelet := o.facts.DockerRootDir, o.path("/var/lib/kubelet")
	binds = append(binds,
		o.kubernetesBind(),
		"/etc/cni:/etc/cni:rw,z",
		"/opt/cni:/opt/cni:rw,z",
		o.path("/var/lib/cni")+":/var/lib/cni:z",
		"/var/lib/calico:/var/lib/calico:z",
		"/etc/resolv.conf:/etc/resolv.conf",
		"/sys:/sys:rprivate",
		root+":"+root+":rw,rslave,z",
		kubelet+":"+kubelet+":shared,z",
		"/var/lib/rancher:/var/lib/rancher:shared,z",
		"/var/run:/var/run:rw,rprivate",
		"/run:/run:rprivate",
		o.path("/etc/ceph")+":/etc/ceph",
		"/dev:/host/dev:rprivate",
		"/var/log/containers:/var/log/containers:z",
		"/var/log/pods:/var/log/pods:z",
		"/usr:/host/usr:ro",
		"/etc:/host/etc:ro",
	)
	if kubelet != "/var/lib/kubelet" { // flex volumes are at home where no prefix is
		binds = append(binds, "/var/lib/kubelet/volumeplugins:/var/lib/kubelet/volumeplugins:shared,z")
	}
	return binds
}

func (o host) kubeletEnv() []string {
	c := o.config
	env := slices.Clone(c.Services.Kubelet.ExtraEnv)
	if o.criDockerd() {
		env = append(env, criDockerdOn)
		if c.CRIDockerdStreamServerAddress != "" {
			env = append(env, "CRIDOCKERD_STREAM_SERVER_ADDRESS="+c.CRIDockerdStreamServerAddress)
		}
		if c.CRIDockerdStreamServerPort != "" {
			env = append(env, "CRIDOCKERD_STREAM_SERVER_PORT="+c.CRIDockerdStreamServerPort)
		}
		if strings.Contains(c.Services.KubeController.ClusterCIDR, ",") || strings.Contains(c.Services.KubeAPI.ServiceClusterIPRange, ",") {
			env = append(env, "RKE_KUBELET_CRIDOCKERD_DUALSTACK=true")
		}
	}
	env = append(env, o.sums.cloudEnv()...)
	if o.docker != "" {
		env = append(env, "RKE_KUBELET_DOCKER_CONFIG="+o.docker, "RKE_KUBELET_DOCKER_FILE="+o.path("/var/lib/kubelet/config.json"))
	}
	return once(env)
}

func (o host) kubeProxy() nodeconfig.Process {
	c := o.config.Services.KubeProxy
	f := flags{
		"cluster-cidr":      o.config.Services.KubeController.ClusterCIDR,
		"hostname-override": name(o.node),
		"kubeconfig":        pki.KubeconfigPath(pki.Proxy),
	}
	f.override(o.options.KubeProxy)
	if o.config.CloudProvider.Name != "" { // clouds may name nodes otherwise, and then it does not find its address
		f["bind-address"] = internal(o.node)
	}
	if o.namedByCloud(cloudAWS, cloudExternalAWS) {
		delete(f, "hostname-override")
	}
	p := o.component(KubeProxy, f.list(c.Service), "http://localhost:10256/healthz")
	p.PidMode, p.Privileged = "host", true
	p.Binds = o.binds([]string{o.kubernetesBind(), "/run:/run", "/lib/modules:/lib/modules:ro"}, c.ExtraBinds)
	p.Env = once(slices.Clone(c.ExtraEnv))
	return p
}
