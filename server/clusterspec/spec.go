// Package clusterspec is the cluster as its owner writes it down: the fields of a
// provisioning.cattle.io/v1 Cluster, or of a management.cattle.io/v3 Cluster of Docker
// hosts, that drover acts on, how they are read from YAML or JSON, and what is refused.
// Nothing is stored that did not pass here.
//
// Wire source: rancher/rancher pkg/apis/provisioning.cattle.io/v1, pkg/apis/rke.cattle.io/v1
// and pkg/apis/management.cattle.io/v3.
package clusterspec

import (
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/rke1/config"
)

// APIVersion and Kind of the document.
const (
	APIVersion = "provisioning.cattle.io/v1"
	Kind       = "Cluster"
)

// DockerAPIVersion is that of a cluster whose hosts give the server their Docker sockets.
// Its kind is Kind, too.
const DockerAPIVersion = "management.cattle.io/v3"

// DefaultNamespace is where clusters live unless their document says otherwise.
const DefaultNamespace = apitypes.DefaultNamespace

// Document is one cluster document.
type Document struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	// Notes are what reading left out of the document, and why; Warnings has them, too.
	Notes []string `json:"-"`
}

// Metadata are the parts of the metadata that an owner may set.
type Metadata struct {
	// Name never changes. Example: harbour
	Name string `json:"name"`
	// Namespace is where the cluster lives. Default: fleet-default
	Namespace string `json:"namespace,omitempty"`
	// Labels are what lists are asked for by.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are for people and programs.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Spec is what is wanted of the cluster.
type Spec struct {
	// RancherKubernetesEngineConfig makes a cluster of Docker hosts: RKE1's, or, where it is empty, of hosts that are
	// at hand and on which nothing is provisioned. Nothing else may stand beside it.
	RancherKubernetesEngineConfig *RancherKubernetesEngineConfig `json:"rancherKubernetesEngineConfig,omitempty"`
	// KubernetesVersion picks the distribution, too: k3s or RKE2. `drover versions ls` lists those that are known. Example: v1.34.4+rke2r1
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// RKEConfig drives the hosts. Without it, and without a version, the cluster is one that is imported.
	RKEConfig *RKEConfig `json:"rkeConfig,omitempty"`
	// AgentEnvVars are the environment of the install instruction and the install script; empty values are skipped. Example: [{name: HTTPS_PROXY,
	// value: "http://proxy.lan:3128"}]
	AgentEnvVars []EnvVar `json:"agentEnvVars,omitempty"`
	// LocalClusterAuthEndpoint is direct access to the cluster without the server.
	LocalClusterAuthEndpoint *LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitempty"`

	// Blanks are what was written and asks for nothing.
	Blanks []Blank `json:"-"`
}

// Docker says whether the cluster's hosts are looked after through their Docker sockets.
func (s Spec) Docker() bool { return s.RancherKubernetesEngineConfig != nil }

// Imported says whether the cluster was made elsewhere: its document asks for nothing, and the server changes nothing in it
// but what is its own.
func (s Spec) Imported() bool {
	return s.RancherKubernetesEngineConfig == nil && s.RKEConfig == nil && s.KubernetesVersion == ""
}

// RancherKubernetesEngineConfig is RKE1's part of the spec.
type RancherKubernetesEngineConfig = RKE1Config

// RKE1Config is the config of an RKE1 cluster, without nodes; of others it is empty. The error says that a stored config cannot be read.
func (s Spec) RKE1Config() (config.Cluster, error) {
	if !s.RKE1() {
		return config.Cluster{}, nil
	}
	return s.RancherKubernetesEngineConfig.Cluster()
}

// RKE1Text is the config of an RKE1 cluster as it is kept, which may have passwords; of others it is nil.
func (s Spec) RKE1Text() []byte {
	if !s.RKE1() {
		return nil
	}
	return *s.RancherKubernetesEngineConfig
}

// RKE1 says whether the cluster is made of containers on its Docker hosts.
func (s Spec) RKE1() bool {
	return s.RancherKubernetesEngineConfig != nil && len(*s.RancherKubernetesEngineConfig) > 0
}

// EnvVar is one environment variable.
type EnvVar struct {
	// Name is the variable. Example: NO_PROXY
	Name string `json:"name"`
	// Value is its value. Example: 10.0.0.0/8,.lan
	Value string `json:"value,omitempty"`
}

// LocalClusterAuthEndpoint says whether users reach the cluster's API without the server.
type LocalClusterAuthEndpoint struct {
	// Enabled has kubeconfigs lead to the control planes, too, and tokens of the server count there. Default: false
	Enabled bool `json:"enabled,omitempty"`
	// FQDN is a name of the cluster's API behind a load balancer of yours. Example: api.harbour.example.com
	FQDN string `json:"fqdn,omitempty"`
	// CACerts is PEM of the authority of the certificate there, where it is not the cluster's own.
	CACerts string `json:"caCerts,omitempty"`
}

// RKEConfig is the part of the spec that reaches the hosts.
type RKEConfig struct {
	// MachineGlobalConfig is merged into the distribution's config of every machine; `drover versions show VERSION` lists its keys. Example: {cni:
	// cilium, disable: [rke2-ingress-nginx]}
	MachineGlobalConfig map[string]any `json:"machineGlobalConfig,omitempty"`
	// MachineSelectorConfig is merged after machineGlobalConfig, in order, where the selector matches the machine's labels.
	MachineSelectorConfig []SelectorConfig `json:"machineSelectorConfig,omitempty"`
	// MachineSelectorFiles are files for machines whose labels match.
	MachineSelectorFiles []SelectorFiles `json:"machineSelectorFiles,omitempty"`
	// ChartValues become one HelmChartConfig per chart of the distribution. Example: {rke2-cilium: {kubeProxyReplacement: true}}
	ChartValues map[string]any `json:"chartValues,omitempty"`
	// AdditionalManifest is YAML applied by the control plane.
	AdditionalManifest string `json:"additionalManifest,omitempty"`
	// Registries become registries.yaml of the runtime and of the agent.
	Registries *Registries `json:"registries,omitempty"`
	// ETCD are the settings of etcd's snapshots.
	ETCD *ETCD `json:"etcd,omitempty"`
	// UpgradeStrategy is order and drain of changes to more than one machine.
	UpgradeStrategy *UpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// Networking picks the loopback host of probes.
	Networking *Networking `json:"networking,omitempty"`
	// DataDirectories moves the runtime's and the agent's state.
	DataDirectories *DataDirectories `json:"dataDirectories,omitempty"`
	// ProvisionGeneration restarts all machines in turn when it grows. Default: 0
	ProvisionGeneration int `json:"provisionGeneration,omitempty"`
	// Requests ask for something to be done once for each value of theirs. They reach no plan.
	Requests
}

// SelectorConfig is config for machines whose labels match.
type SelectorConfig struct {
	// MachineLabelSelector says which machines have it. Default: all machines
	MachineLabelSelector *LabelSelector `json:"machineLabelSelector,omitempty"`
	// Config is merged into the distribution's config of these machines. Example: {node-taint: ["gpu=true:NoSchedule"]}
	Config map[string]any `json:"config,omitempty"`
}

// SelectorFiles are files for machines whose labels match.
type SelectorFiles struct {
	// MachineLabelSelector says which machines have them. Default: all machines
	MachineLabelSelector *LabelSelector `json:"machineLabelSelector,omitempty"`
	// FileSources are the objects whose values become files.
	FileSources []FileSource `json:"fileSources,omitempty"`
}

// FileSource is a Secret or a ConfigMap of the cluster's namespace whose values become files.
type FileSource struct {
	// Secret is the Secret whose values become files.
	Secret *FileObject `json:"secret,omitempty"`
	// ConfigMap is the ConfigMap whose values become files.
	ConfigMap *FileObject `json:"configMap,omitempty"`
}

// Object is the one of the two that the source names, and whether it is the Secret; nil where it names none.
func (f FileSource) Object() (o *FileObject, secret bool) {
	if f.Secret.named() {
		return f.Secret, true
	}
	if f.ConfigMap.named() {
		return f.ConfigMap, false
	}
	return nil, false
}

// FileObject says which values of an object become which files.
type FileObject struct {
	// Name is the object's, in the namespace of the cluster. Example: audit-policy
	Name string `json:"name"`
	// DefaultPermissions are octal, for items without their own. Default: "0600"
	DefaultPermissions string `json:"defaultPermissions,omitempty"`
	// Items are the files, one a value.
	Items []FileItem `json:"items,omitempty"`
}

// named is false for what clients send of an object that they do not mean.
func (o *FileObject) named() bool { return o != nil && (o.Name != "" || len(o.Items) > 0) }

// FileItem is one file.
type FileItem struct {
	// Key is that of the value in the object. Example: policy.yaml
	Key string `json:"key"`
	// Path is where the file is on the host. Example: /etc/rancher/rke2/audit-policy.yaml
	Path string `json:"path"`
	// Dynamic says that a change of the file does not restart the node. Default: false
	Dynamic bool `json:"dynamic,omitempty"`
	// Permissions are octal. Default: defaultPermissions of the object
	Permissions string `json:"permissions,omitempty"`
	// Hash is base64 of the SHA-256 of the value; another value is then refused. Empty takes any.
	Hash string `json:"hash,omitempty"`
}

// LabelSelector is a Kubernetes label selector.
type LabelSelector struct {
	// MatchLabels are labels that a machine has to have, with these values. Example: {pool: gpu}
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// MatchExpressions have to be true, all of them.
	MatchExpressions []Requirement `json:"matchExpressions,omitempty"`
}

// Requirement is one expression of a label selector; Operator is In, NotIn, Exists or DoesNotExist.
type Requirement struct {
	// Key is the label. Example: pool
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist. Example: NotIn
	Operator string `json:"operator"`
	// Values are those of In and NotIn. Example: [gpu]
	Values []string `json:"values,omitempty"`
}

// Registries are mirrors and access of image registries.
type Registries struct {
	// Mirrors are, by the name of a registry or `*`, where its images are fetched instead. Example: {docker.io: {endpoint: ["https://mirror.lan"]}}
	Mirrors map[string]Mirror `json:"mirrors,omitempty"`
	// Configs are trust and credentials, by host or host:port of a registry. Example: {mirror.lan: {authConfigSecretName: mirror}}
	Configs map[string]RegistryConfig `json:"configs,omitempty"`
}

// Mirror lists where images of one registry are fetched instead.
type Mirror struct {
	// Endpoint are URLs that are asked in their order. Example: ["https://mirror.lan:5000"]
	Endpoint []string `json:"endpoint,omitempty"`
	// Rewrite changes names of images, by regular expressions. Example: {"^rancher/(.*)": "mirrored/rancher/$1"}
	Rewrite map[string]string `json:"rewrite,omitempty"`
}

// RegistryConfig is trust and credentials for one registry host.
type RegistryConfig struct {
	// AuthConfigSecretName names a Secret of the cluster's namespace with user name and password. Example: mirror
	AuthConfigSecretName string `json:"authConfigSecretName,omitempty"`
	// TLSSecretName names a Secret of the cluster's namespace with a client certificate and its key. Example: mirror-client
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// CABundle is PEM of the authority of the registry's certificate, or base64 of it as Rancher's clients write it.
	CABundle string `json:"caBundle,omitempty"`
	// InsecureSkipVerify takes any certificate. Default: false
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// CA is CABundle as PEM.
func (c RegistryConfig) CA() string { return CleanPEM(c.CABundle) }

// UpgradeStrategy bounds how many machines change at once.
type UpgradeStrategy struct {
	// ControlPlaneConcurrency is how many control planes change at once, as a number or a share; members of etcd change one at a time in any case.
	// Default: "1"
	ControlPlaneConcurrency string `json:"controlPlaneConcurrency,omitempty"`
	// WorkerConcurrency is how many workers change at once, as a number or a share. Default: "1" Example: "10%"
	WorkerConcurrency string `json:"workerConcurrency,omitempty"`
	// ControlPlaneDrainOptions say whether control planes are drained before they change.
	ControlPlaneDrainOptions *DrainOptions `json:"controlPlaneDrainOptions,omitempty"`
	// WorkerDrainOptions say whether workers are drained before they change.
	WorkerDrainOptions *DrainOptions `json:"workerDrainOptions,omitempty"`
}

// DrainOptions say whether and how a node is emptied before it changes.
type DrainOptions struct {
	// Enabled drains the node before it changes. Default: false
	Enabled bool `json:"enabled,omitempty"`
	// Force takes pods without a controller, too. Default: false
	Force bool `json:"force,omitempty"`
	// IgnoreDaemonSets leaves pods of DaemonSets where they are. Default: true
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`
	// IgnoreErrors is refused when true: Rancher accepts it and does nothing with it.
	IgnoreErrors bool `json:"ignoreErrors,omitempty"`
	// DeleteEmptyDirData takes pods whose emptyDir is lost with them, too. Default: false
	DeleteEmptyDirData bool `json:"deleteEmptyDirData,omitempty"`
	// DisableEviction deletes pods instead of evicting them, past their budgets. Default: false
	DisableEviction bool `json:"disableEviction,omitempty"`
	// GracePeriod is how long pods may take to end, in seconds; 0 is none at all, and a negative number each pod's own time. Default: each pod's own
	// time
	GracePeriod *int `json:"gracePeriod,omitempty"`
	// Timeout is how long one try may take, in seconds. Default: 600
	Timeout int `json:"timeout,omitempty"`
	// SkipWaitForDeleteTimeoutSeconds above 0 does not wait for pods that are in deletion for so long already. Default: 0
	SkipWaitForDeleteTimeoutSeconds int `json:"skipWaitForDeleteTimeoutSeconds,omitempty"`
	// PreDrainHooks are waited for before the node is drained.
	PreDrainHooks []DrainHook `json:"preDrainHooks,omitempty"`
	// PostDrainHooks are waited for after it, before the node changes.
	PostDrainHooks []DrainHook `json:"postDrainHooks,omitempty"`
}

// DrainHook is an annotation that another controller sets when the drain may go on.
type DrainHook struct {
	// Annotation is its name. Example: example.com/volumes-moved
	Annotation string `json:"annotation"`
}

// Networking says which address families the cluster uses.
type Networking struct {
	// StackPreference is dual, ipv4 or ipv6: by which loopback address probes ask. Default: dual
	StackPreference string `json:"stackPreference,omitempty"`
}

// DataDirectories are absolute, clean, different paths; they never change after creation.
type DataDirectories struct {
	// K8sDistro is where the distribution keeps its data. Default: /var/lib/rancher/k3s or /var/lib/rancher/rke2
	K8sDistro string `json:"k8sDistro,omitempty"`
	// Provisioning is where scripts of plans are. Default: /var/lib/rancher/capr
	Provisioning string `json:"provisioning,omitempty"`
	// SystemAgent is where the system agent keeps its data. Default: /var/lib/rancher/agent
	SystemAgent string `json:"systemAgent,omitempty"`
}

// Matches says whether labels satisfy the selector; a nil selector matches everything.
func (s *LabelSelector) Matches(labels map[string]string) bool {
	if s == nil {
		return true
	}
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		value, ok := labels[r.Key]
		switch r.Operator {
		case "In":
			ok = ok && slices.Contains(r.Values, value)
		case "NotIn":
			ok = !ok || !slices.Contains(r.Values, value)
		case "DoesNotExist":
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}
