package addons_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/versions"
)

// withTemplates are version data in KDM's format with templates for every version.
func withTemplates(t *testing.T, templates map[string]string) *versions.Data {
	t.Helper()
	byPlugin := map[string]map[string]string{"templateKeys": {}}
	for plugin, text := range templates {
		byPlugin[plugin] = map[string]string{">=1.8.0-rancher0": plugin + "-key"}
		byPlugin["templateKeys"][plugin+"-key"] = text
	}
	images, err := embedded(t).Images(newest)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(map[string]any{"K8sVersionRKESystemImages": map[string]any{newest: images}, "K8sVersionedTemplates": byPlugin})
	if err != nil {
		t.Fatal(err)
	}
	d, err := versions.Read("data.json", doc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"

// The forms are those in which KDM's templates use their values.
func TestTemplatesOfTheVersionData(t *testing.T) {
	tests := []struct{ name, plugin, addon, more, template, want string }{
		{"canal", "canal", addons.Network, everything, head + `
{{- if eq .RBACConfig "rbac"}}
  rbac: "on"
{{- end}}
  cidr: {{.ClusterCIDR}}
  images: {{.NodeImage}} {{.CNIImage}} {{.ControllersImage}} {{.CanalFlannelImg}} {{.FlexVolImg}}
  backend: {{.FlannelBackend.Type}} {{.FlannelBackend.VNI}} {{.FlannelBackend.Port}}
{{- if .MTU}}{{if ne .MTU 0}}
  mtu: "{{.MTU}}"
{{- end}}{{end}}
  class: {{ .CanalPriorityClassName | default "x" }} {{ .CalicoKubeControllersPriorityClassName | default "x" }}
  files: {{.KubeCfg}} {{.ClientCertPath}} {{.ClientKeyPath}} {{.ClientCAPath}} {{.APIRoot}} {{.FlexVolPluginDir}}
  iface: {{.CanalInterface}} {{.BlackholeRoute}}
  selector:{{ range $k, $v := .NodeSelector }}
    {{ $k }}: "{{ $v }}"
  {{ end }}
  strategy:
{{ toYaml .UpdateStrategy | indent 4}}
  tolerations:
{{ toYaml .Tolerations | indent 2}}
`, head + `  rbac: "on"
  cidr: 10.42.0.0/16
  images: R/rancher/mirrored-calico-node:v3.28.1 R/rancher/calico-cni:v3.28.1-rancher1 R/rancher/mirrored-calico-kube-controllers:v3.28.1 R/rancher/mirrored-flannel-flannel:v0.25.1 R/rancher/mirrored-calico-pod2daemon-flexvol:v3.28.1
  backend: vxlan 4096 4789
  mtu: "1400"
  class: net ctl
  files: /etc/kubernetes/ssl/kubecfg-kube-node.yaml /etc/kubernetes/ssl/kube-node.pem /etc/kubernetes/ssl/kube-node-key.pem /etc/kubernetes/ssl/kube-ca.pem https://127.0.0.1:6443 /opt/flex
  iface: eth1 false
  selector:
    net: "yes"
  
  strategy:
    rollingUpdate:
      maxUnavailable: 20%
    type: RollingUpdate
  tolerations:
  - effect: NoExecute
    key: a
    operator: Exists
    tolerationSeconds: 1000000
`},
		{"weave", "weave", addons.Network, "network: {plugin: weave, options: {WeavePassword: secret}, mtu: 1300}",
			head + "  a: {{.WeavePassword}} {{.MTU}} {{.WeaveNetPriorityClassName | default \"node\"}} {{ge .ClusterVersion \"v1.12\"}}\n", head + "  a: secret 1300 node true\n"},
		{"calico with two families", "calico", addons.Network, "network: {plugin: calico}\nservices: {kube-controller: {cluster_cidr: '10.42.0.0/16,fd00::/56'}}",
			`{{- $cidrs := splitList "," .ClusterCIDR }}` + head + "  a: {{first $cidrs}} {{last $cidrs}} {{len $cidrs}} {{.CloudProvider}} {{.Calicoctl}}\n",
			head + "  a: 10.42.0.0/16 fd00::/56 2 none rancher/mirrored-calico-ctl:v3.28.1\n"},
		{"canal without ways to nowhere", "canal", addons.Network, "network: {canal_network_provider: {iface: eth2, blackhole_route: 'true'}}", head + "  a: {{.CanalInterface}} {{.BlackholeRoute}}\n", head + "  a: eth2 true\n"},
		{"an old ingress controller", "nginxIngress", addons.Ingress, "system_images: {ingress: 'nginx:0.15.0-rancher1'}", head + "  a: {{.AlpineImage}} {{len .ExtraArgs}}\n", head + "  a: rancher/rke-tools:v0.1.103 0\n"},
		{"flannel", "flannel", addons.Network, "network: {plugin: flannel}", head + "  a: {{.Image}} {{.CNIImage}}{{if .FlannelInterface}} {{.FlannelInterface}}{{end}} {{.KubeFlannelPriorityClassName | default \"b\"}}\n",
			head + "  a: rancher/mirrored-flannel-flannel:v0.25.1 rancher/flannel-cni:v1.4.1-rancher1 b\n"},
		{"coredns", "coreDNS", addons.CoreDNS, everything, head + `  a: {{.ClusterDomain}} {{.ClusterDNSServer}} {{ if .ReverseCIDRs }}{{ .ReverseCIDRs }}{{ end }}
  b: {{range $i, $v := .UpstreamNameservers}}{{if $i}} {{end}}{{.}}{{end}}
  c: '{"linear":{{.LinearAutoscalerParams}}}'
  d: {{.CoreDNSImage}} {{.CoreDNSAutoScalerImage}} {{.CoreDNSPriorityClassName}} {{.CoreDNSAutoscalerPriorityClassName}}
  e:
{{toYaml .UpdateStrategy | indent 4}}
`, head + `  a: cluster.local 10.43.0.10 172.31.0.0/16 10.0.0.0/8
  b: 192.0.2.1 192.0.2.2
  c: '{"linear":{"coresPerReplica":64,"nodesPerReplica":2.5,"min":2,"max":9}}'
  d: R/rancher/mirrored-coredns-coredns:1.11.1 R/rancher/mirrored-cluster-proportional-autoscaler:v1.8.9 dns scale
  e:
    type: Recreate
`},
		{"kube-dns", "kubeDNS", addons.KubeDNS, "dns: {provider: kube-dns, stubdomains: {a.example: [192.0.2.1]}}",
			head + "  a: '{{ GetKubednsStubDomains .StubDomains }}'\n  b: {{.KubeDNSImage}} {{.DNSMasqImage}} {{.KubeDNSSidecarImage}} {{.KubeDNSAutoScalerImage}}\n",
			head + "  a: '{\"a.example\":[\"192.0.2.1\"]}'\n  b: rancher/mirrored-k8s-dns-kube-dns:1.23.0 rancher/mirrored-k8s-dns-dnsmasq-nanny:1.23.0 rancher/mirrored-k8s-dns-sidecar:1.23.0 rancher/mirrored-cluster-proportional-autoscaler:v1.8.9\n"},
		{"nodelocal", "nodelocal", addons.NodeLocal, everything, head + "  a: {{.NodelocalImage}} {{.IPAddress}} {{.NodeLocalDNSPriorityClassName}} {{.ClusterDNSServer}}\n",
			head + "  a: R/rancher/mirrored-k8s-dns-node-cache:1.23.0 169.254.20.10 cache 10.43.0.10\n"},
		{"metrics", "metricsServer", addons.Metrics, everything, head + "  a: {{.MetricsServerImage}} {{.Version}} {{if .Replicas}}{{.Replicas}}{{end}} {{.MetricsServerPriorityClassName}}{{ range $k,$v := .Options }} --{{ $k }}={{ $v }}{{ end }}\n",
			head + "  a: R/rancher/mirrored-metrics-server:v0.7.1 v0.7 2 metrics --metric-resolution=30s\n"},
		{"ingress", "nginxIngress", addons.Ingress, everything, head + `  a: {{.IngressImage}} {{.IngressBackend}} {{.IngressWebhook}} {{.HTTPPort}} {{.HTTPSPort}} {{.NetworkMode}} {{.DNSPolicy}} {{.AlpineImage}}
  b: {{with (index .ExtraArgs "http-port")}}{{.}}{{else}}80{{end}}{{if .DefaultIngressClass}} default{{end}}{{if .DefaultBackend}} backend{{end}}
  c: {{.NginxIngressControllerPriorityClassName}} {{.DefaultHTTPBackendPriorityClassName}}
  d:
  - name: OWN
{{toYaml .ExtraEnvs | indent 2}}
  e:
{{toYaml .ExtraVolumes | indent 2}}
  f: {{range $k, $v := .ExtraArgs}}--{{$k}}{{if ne $v ""}}={{$v}}{{end}} {{end}}
`, head + `  a: R/rancher/nginx-ingress-controller:nginx-1.11.2-rancher1 R/rancher/mirrored-nginx-ingress-controller-defaultbackend:1.5-rancher1 R/rancher/mirrored-ingress-nginx-kube-webhook-certgen:v1.4.1 8080 8443 hostPort ClusterFirstWithHostNet ` + `
  b: 80 backend
  c: nginx backend
  d:
  - name: OWN
  - name: FOO
    value: 'a: b'
  e:
  - hostPath:
      path: /data
    name: extra
  f: --default-ssl-certificate=a/b --enable-ssl-passthrough --watch-ingress-without-class=true ` + `
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := addons.Of(cluster(t, newest, tt.more), withTemplates(t, map[string]string{tt.plugin: tt.template}))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				if a.Name == tt.addon {
					if diff := cmp.Diff(strings.ReplaceAll(tt.want, "R/", "registry.example.com/"), a.Text); diff != "" {
						t.Errorf("-want +got:\n%s", diff)
					}
				}
			}
		})
	}
}

func TestACI(t *testing.T) {
	more := `
services: {kube-controller: {cluster_cidr: 10.2.0.0/16}}
network:
  plugin: aci
  aci_network_provider: {system_id: lab, token: secret, apic_hosts: [192.0.2.1, 192.0.2.2], vrf_name: v, kube_api_vlan: 7, aep: a,
    node_snat_redirect_exclude: [{group: g, labels: [x]}],
    l3out: out, l3out_external_networks: [net], extern_dynamic: 10.3.0.0/24, extern_static: 10.4.0.1/24, node_svc_subnet: 10.5.0.0/24, node_subnet: 10.1.0.1/16}
`
	text := head + `  a: {{.SystemIdentifier}} {{.Tenant}} {{.VRFName}} {{.KubeAPIVlan}} {{.AEP}} {{.L3Out}} {{.CApic}} {{.OVSMemoryLimit}} {{.ServiceMonitorInterval}} {{.AciMultipod}} {{.UseAciAnywhereCRD}} {{.MTUHeadRoom}}
  b: {{range $i, $h := .ApicHosts}}{{if $i}},{{end}}{{$h}}{{end}} {{range .L3OutExternalNetworks}}{{.}}{{end}}{{if .KafkaBrokers}}x{{end}} {{range .NodeSnatRedirectExclude}}{{.Group}}{{index .Labels 0}}{{end}}
  c: '{{range $index, $item := .PodNetwork}}{{$item.Gateway}} {{$item.Subnet}}{{end}} {{range .PodIPPool}}{{.Start}}-{{.End}}{{end}} {{range .PodSubnet}}{{.}}{{end}}'
  d: '{{range .ServiceIPPool}}{{.Start}}-{{.End}}{{end}} {{range .StaticServiceIPPool}}{{.Start}}-{{.End}}{{end}} {{.NodeServiceIPStart}}-{{.NodeServiceIPEnd}} {{range .NodeSubnet}}{{.}}{{end}}'
{{- if ne .EpRegistry ""}}
  e: {{.EpRegistry}}
{{- end}}
`
	all, err := addons.Of(cluster(t, newest, more), withTemplates(t, map[string]string{"aci": text}))
	if err != nil {
		t.Fatal(err)
	}
	want := head + `  a: lab lab v 7 a out false 1Gi 5 false false 0
  b: 192.0.2.1,192.0.2.2 net gx
  c: '10.2.0.1 10.2.0.0/16 10.2.0.2-10.2.255.254 "10.2.0.0/16"'
  d: '10.3.0.2-10.3.0.254 10.4.0.2-10.4.0.254 10.5.0.2-10.5.0.254 "10.1.0.1/16"'
`
	if diff := cmp.Diff(want, all[0].Text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Every option that the plugin has by default reaches the templates.
func TestACIOptionsHaveValues(t *testing.T) {
	c := cluster(t, newest, "network: {plugin: aci, aci_network_provider: {extern_dynamic: 10.3.0.0/24, extern_static: 10.4.0.0/24, node_svc_subnet: 10.5.0.0/24}}")
	marked := 0
	for option, value := range c.Network.Options {
		if strings.HasPrefix(option, "aci_") && !strings.Contains(value, "/") {
			c.Network.Options[option] = "is-" + option
			marked++
		}
	}
	all, err := addons.Of(c, withTemplates(t, map[string]string{"aci": head + "{{range $k, $v := .}}  {{$k}}: '{{$v}}'\n{{end}}"}))
	if err != nil {
		t.Fatal(err)
	}
	for option, value := range c.Network.Options {
		if !strings.Contains(all[0].Text, "'"+value+"'") && !strings.Contains(value, "/") {
			t.Errorf("no value is that of %s", option)
		}
	}
	for _, option := range []string{"aci_enable_opflex_agent_reconnect", "aci_disable_hpp_rendering", "aci_toleration_seconds"} { // since RKE 1.4.17
		if c.Network.Options[option] == "" {
			t.Errorf("%s has no default", option)
		}
	}
	if marked < 50 {
		t.Errorf("only %d options were looked at", marked)
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	tests := []struct{ template, want string }{
		{"{{.ClusterCIDR | rot13}}", `the template for canal in data.json: it cannot be read by this release of drover: `},
		{head + "  a: {{.Tomorrow}}\n", "it uses a value that this release of drover does not give it"},
		{"a: [", "data.json: its text:1: is not YAML"},
		{"kind: ConfigMap\napiVersion: v1\n", "has no metadata.name"},
		{"{{fail}}", "it cannot be read"},
	}
	for _, tt := range tests {
		all, err := addons.Of(cluster(t, newest, ""), withTemplates(t, map[string]string{"canal": tt.template}))
		if err == nil || !strings.HasPrefix(err.Error(), "add-on rke-network-plugin: ") || !strings.Contains(err.Error(), tt.want) || all != nil {
			t.Errorf("%q gives %v, want %q", tt.template, err, tt.want)
		}
	}
}
