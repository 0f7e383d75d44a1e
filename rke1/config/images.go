package config

import "reflect"

// SystemImages are the images of everything that a cluster runs by itself, each REPOSITORY:TAG.
// The version data of the RKE CLI has them under the json names.
type SystemImages struct {
	Etcd                     string `yaml:"etcd,omitempty" json:"etcd,omitempty"`
	Alpine                   string `yaml:"alpine,omitempty" json:"alpine,omitempty"`
	NginxProxy               string `yaml:"nginx_proxy,omitempty" json:"nginxProxy,omitempty"`
	CertDownloader           string `yaml:"cert_downloader,omitempty" json:"certDownloader,omitempty"`
	ServicesSidecar          string `yaml:"kubernetes_services_sidecar,omitempty" json:"kubernetesServicesSidecar,omitempty"`
	KubeDNS                  string `yaml:"kubedns,omitempty" json:"kubedns,omitempty"`
	DNSMasq                  string `yaml:"dnsmasq,omitempty" json:"dnsmasq,omitempty"`
	KubeDNSSidecar           string `yaml:"kubedns_sidecar,omitempty" json:"kubednsSidecar,omitempty"`
	KubeDNSAutoscaler        string `yaml:"kubedns_autoscaler,omitempty" json:"kubednsAutoscaler,omitempty"`
	CoreDNS                  string `yaml:"coredns,omitempty" json:"coredns,omitempty"`
	CoreDNSAutoscaler        string `yaml:"coredns_autoscaler,omitempty" json:"corednsAutoscaler,omitempty"`
	NodeLocal                string `yaml:"nodelocal,omitempty" json:"nodelocal,omitempty"`
	Kubernetes               string `yaml:"kubernetes,omitempty" json:"kubernetes,omitempty"`
	Flannel                  string `yaml:"flannel,omitempty" json:"flannel,omitempty"`
	FlannelCNI               string `yaml:"flannel_cni,omitempty" json:"flannelCni,omitempty"`
	CalicoNode               string `yaml:"calico_node,omitempty" json:"calicoNode,omitempty"`
	CalicoCNI                string `yaml:"calico_cni,omitempty" json:"calicoCni,omitempty"`
	CalicoControllers        string `yaml:"calico_controllers,omitempty" json:"calicoControllers,omitempty"`
	CalicoCtl                string `yaml:"calico_ctl,omitempty" json:"calicoCtl,omitempty"`
	CalicoFlexVol            string `yaml:"calico_flexvol,omitempty" json:"calicoFlexVol,omitempty"`
	CanalNode                string `yaml:"canal_node,omitempty" json:"canalNode,omitempty"`
	CanalCNI                 string `yaml:"canal_cni,omitempty" json:"canalCni,omitempty"`
	CanalControllers         string `yaml:"canal_controllers,omitempty" json:"canalControllers,omitempty"`
	CanalFlannel             string `yaml:"canal_flannel,omitempty" json:"canalFlannel,omitempty"`
	CanalFlexVol             string `yaml:"canal_flexvol,omitempty" json:"canalFlexVol,omitempty"`
	WeaveNode                string `yaml:"weave_node,omitempty" json:"weaveNode,omitempty"`
	WeaveCNI                 string `yaml:"weave_cni,omitempty" json:"weaveCni,omitempty"`
	PodInfraContainer        string `yaml:"pod_infra_container,omitempty" json:"podInfraContainer,omitempty"`
	Ingress                  string `yaml:"ingress,omitempty" json:"ingress,omitempty"`
	IngressBackend           string `yaml:"ingress_backend,omitempty" json:"ingressBackend,omitempty"`
	IngressWebhook           string `yaml:"ingress_webhook,omitempty" json:"ingressWebhook,omitempty"`
	MetricsServer            string `yaml:"metrics_server,omitempty" json:"metricsServer,omitempty"`
	WindowsPodInfraContainer string `yaml:"windows_pod_infra_container,omitempty" json:"windowsPodInfraContainer,omitempty"`
	ACICNIDeployContainer    string `yaml:"aci_cni_deploy_container,omitempty" json:"aciCniDeployContainer,omitempty"`
	ACIHostContainer         string `yaml:"aci_host_container,omitempty" json:"aciHostContainer,omitempty"`
	ACIOpflexContainer       string `yaml:"aci_opflex_container,omitempty" json:"aciOpflexContainer,omitempty"`
	ACIMcastContainer        string `yaml:"aci_mcast_container,omitempty" json:"aciMcastContainer,omitempty"`
	ACIOVSContainer          string `yaml:"aci_ovs_container,omitempty" json:"aciOvsContainer,omitempty"`
	ACIControllerContainer   string `yaml:"aci_controller_container,omitempty" json:"aciControllerContainer,omitempty"`
	ACIGBPServerContainer    string `yaml:"aci_gbp_server_container,omitempty" json:"aciGbpServerContainer,omitempty"`
	ACIOpflexServerContainer string `yaml:"aci_opflex_server_container,omitempty" json:"aciOpflexServerContainer,omitempty"`
}

// List is every image in the order of the fields, "" where there is none.
func (i SystemImages) List() []string {
	all := reflect.ValueOf(i)
	list := make([]string, all.NumField())
	for n := range list {
		list[n] = all.Field(n).String()
	}
	return list
}
