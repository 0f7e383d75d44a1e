package config

// network.go is about what pods and people use of the cluster's network: the plugin, DNS,
// ingress and metrics.

import "github.com/drover-project/drover/rke1/config/aci"

// The network plugins.
const (
	PluginNone    = "none"
	PluginFlannel = "flannel"
	PluginCalico  = "calico"
	PluginCanal   = "canal"
	PluginWeave   = "weave"
	PluginACI     = "aci"
)

// None is the provider of DNS, ingress or monitoring that deploys nothing.
const None = "none"

// Network is the network of pods.
type Network struct {
	Plugin string `yaml:"plugin,omitempty" json:"plugin,omitempty"`
	// Options of the plugin, such as canal_iface. The typed forms below are folded into them.
	Options      map[string]string  `yaml:"options,omitempty" json:"options,omitempty"`
	MTU          int                `yaml:"mtu,omitempty" json:"mtu,omitempty"` // 0 is the plugin's choice
	Calico       *Calico            `yaml:"calico_network_provider,omitempty" json:"calicoNetworkProvider,omitempty"`
	Canal        *Canal             `yaml:"canal_network_provider,omitempty" json:"canalNetworkProvider,omitempty"`
	Flannel      *Flannel           `yaml:"flannel_network_provider,omitempty" json:"flannelNetworkProvider,omitempty"`
	Weave        *Weave             `yaml:"weave_network_provider,omitempty" json:"weaveNetworkProvider,omitempty"`
	ACI          aci.Settings       `yaml:"aci_network_provider,omitempty" json:"aciNetworkProvider,omitempty"`
	NodeSelector map[string]string  `yaml:"node_selector,omitempty" json:"nodeSelector,omitempty"`
	Update       *DaemonSetStrategy `yaml:"update_strategy,omitempty" json:"updateStrategy,omitempty"`
	Tolerations  []Toleration       `yaml:"tolerations,omitempty" json:"tolerations,omitempty"`
	// EnableBrNetfilter is of the CLI's lines after 1.6, which write true; nil is not written.
	EnableBrNetfilter *bool `yaml:"enable_br_netfilter,omitempty" json:"enableBrNetfilter,omitempty"`
}

// Calico is the typed form of calico's options.
type Calico struct {
	CloudProvider string `yaml:"cloudprovider" json:"cloudProvider"`
}

// Flannel is the typed form of flannel's options.
type Flannel struct {
	Iface string `yaml:"iface" json:"iface"`
}

// Canal is the typed form of canal's options.
type Canal struct {
	Flannel        `yaml:",inline"`
	BlackholeRoute string `yaml:"blackhole_route,omitempty" json:"blackholeRoute,omitempty"`
}

// Weave is the typed form of weave's options.
type Weave struct {
	Password string `yaml:"password,omitempty" json:"password,omitempty"`
}

// DNS is the cluster's DNS. Upstream, reverse and stub names have no underscores in either form.
type DNS struct {
	Provider            string              `yaml:"provider,omitempty" json:"provider,omitempty"` // coredns, kube-dns, none
	Options             map[string]string   `yaml:"options,omitempty" json:"options,omitempty"`
	UpstreamNameservers []string            `yaml:"upstreamnameservers,omitempty" json:"upstreamnameservers,omitempty"`
	ReverseCIDRs        []string            `yaml:"reversecidrs,omitempty" json:"reversecidrs,omitempty"`
	StubDomains         map[string][]string `yaml:"stubdomains,omitempty" json:"stubdomains,omitempty"`
	NodeSelector        map[string]string   `yaml:"node_selector,omitempty" json:"nodeSelector,omitempty"`
	NodeLocal           *NodeLocal          `yaml:"nodelocal,omitempty" json:"nodelocal,omitempty"`
	Update              *DeploymentStrategy `yaml:"update_strategy,omitempty" json:"updateStrategy,omitempty"`
	Autoscaler          *Autoscaler         `yaml:"linear_autoscaler_params,omitempty" json:"linearAutoscalerParams,omitempty"`
	Tolerations         []Toleration        `yaml:"tolerations,omitempty" json:"tolerations,omitempty"`
}

// NodeLocal is the DNS cache on each node.
type NodeLocal struct {
	IPAddress         string             `yaml:"ip_address,omitempty" json:"ipAddress,omitempty"`
	Update            *DaemonSetStrategy `yaml:"update_strategy,omitempty" json:"updateStrategy,omitempty"`
	NodeSelector      map[string]string  `yaml:"node_selector,omitempty" json:"nodeSelector,omitempty"`
	PriorityClassName string             `yaml:"node_local_dns_priority_class_name,omitempty" json:"nodeLocalDnsPriorityClassName,omitempty"`
}

// Autoscaler says how many pods of DNS there are for how many cores and nodes.
type Autoscaler struct {
	CoresPerReplica           float64 `yaml:"cores_per_replica,omitempty" json:"coresPerReplica,omitempty"`
	NodesPerReplica           float64 `yaml:"nodes_per_replica,omitempty" json:"nodesPerReplica,omitempty"`
	Min                       int     `yaml:"min,omitempty" json:"min,omitempty"`
	Max                       int     `yaml:"max,omitempty" json:"max,omitempty"`
	PreventSinglePointFailure bool    `yaml:"prevent_single_point_failure,omitempty" json:"preventSinglePointFailure,omitempty"`
}

// Ingress is the ingress controller. Options are keys of its ConfigMap.
type Ingress struct {
	Provider          string             `yaml:"provider,omitempty" json:"provider,omitempty"` // nginx or none
	Options           map[string]string  `yaml:"options,omitempty" json:"options,omitempty"`
	NodeSelector      map[string]string  `yaml:"node_selector,omitempty" json:"nodeSelector,omitempty"`
	ExtraArgs         map[string]string  `yaml:"extra_args,omitempty" json:"extraArgs,omitempty"`
	DNSPolicy         string             `yaml:"dns_policy,omitempty" json:"dnsPolicy,omitempty"`
	ExtraEnvs         []map[string]any   `yaml:"extra_envs,omitempty" json:"extraEnvs,omitempty"`                  // EnvVar of Kubernetes
	ExtraVolumes      []map[string]any   `yaml:"extra_volumes,omitempty" json:"extraVolumes,omitempty"`            // Volume
	ExtraVolumeMounts []map[string]any   `yaml:"extra_volume_mounts,omitempty" json:"extraVolumeMounts,omitempty"` // VolumeMount
	Update            *DaemonSetStrategy `yaml:"update_strategy,omitempty" json:"updateStrategy,omitempty"`
	HTTPPort          int                `yaml:"http_port,omitempty" json:"httpPort,omitempty"`
	HTTPSPort         int                `yaml:"https_port,omitempty" json:"httpsPort,omitempty"`
	NetworkMode       string             `yaml:"network_mode,omitempty" json:"networkMode,omitempty"` // hostPort, hostNetwork, none
	Tolerations       []Toleration       `yaml:"tolerations,omitempty" json:"tolerations,omitempty"`
	DefaultBackend    *bool              `yaml:"default_backend,omitempty" json:"defaultBackend,omitempty"`

	BackendPriorityClassName    string `yaml:"default_http_backend_priority_class_name,omitempty" json:"defaultHttpBackendPriorityClassName,omitempty"`
	ControllerPriorityClassName string `yaml:"nginx_ingress_controller_priority_class_name,omitempty" json:"nginxIngressControllerPriorityClassName,omitempty"`
	DefaultIngressClass         *bool  `yaml:"default_ingress_class,omitempty" json:"defaultIngressClass,omitempty"`
}

// Monitoring is the metrics server. Options are flags of it.
type Monitoring struct {
	Provider          string              `yaml:"provider,omitempty" json:"provider,omitempty"` // metrics-server or none
	Options           map[string]string   `yaml:"options,omitempty" json:"options,omitempty"`
	NodeSelector      map[string]string   `yaml:"node_selector,omitempty" json:"nodeSelector,omitempty"`
	Update            *DeploymentStrategy `yaml:"update_strategy,omitempty" json:"updateStrategy,omitempty"`
	Replicas          *int32              `yaml:"replicas,omitempty" json:"replicas,omitempty"`
	Tolerations       []Toleration        `yaml:"tolerations,omitempty" json:"tolerations,omitempty"`
	PriorityClassName string              `yaml:"metrics_server_priority_class_name,omitempty" json:"metricsServerPriorityClassName,omitempty"`
}
