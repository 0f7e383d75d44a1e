// Package config is cluster.yml: its types, how it is read, what it means where it is silent,
// what is refused, and how it is written again. The same types are the rkeConfig of a
// cluster.rkestate and the rancherKubernetesEngineConfig of a management cluster.
//
// Each field has two names that others depend on: its yaml tag is the key in cluster.yml, its
// json tag the key in cluster.rkestate and in the management API. Names, their order and the
// omitempty of the json tags are those of the RKE CLI's line 1.6, so that a state that is read
// and written again stays the same; where a false or an empty struct is written there, it is
// written here. Source of the names: the contract of the engine, section 1, and the documented
// options of RKE.
package config

// Cluster is the whole of a cluster.yml.
type Cluster struct {
	Nodes          []Node         `yaml:"nodes,omitempty" json:"nodes,omitempty"`
	Services       Services       `yaml:"services,omitempty" json:"services"`
	Network        Network        `yaml:"network,omitempty" json:"network"`
	Authentication Authentication `yaml:"authentication,omitempty" json:"authentication"`
	// Addons is YAML of many documents that a Job applies. AddonsInclude are URLs or paths of such.
	Addons        string       `yaml:"addons,omitempty" json:"addons,omitempty"`
	AddonsInclude []string     `yaml:"addons_include,omitempty" json:"addonsInclude,omitempty"`
	SystemImages  SystemImages `yaml:"system_images,omitempty" json:"systemImages"`
	// SSHKeyPath and SSHCertPath are those of nodes and bastion that have none of their own.
	SSHKeyPath  string `yaml:"ssh_key_path,omitempty" json:"sshKeyPath,omitempty"`
	SSHCertPath string `yaml:"ssh_cert_path,omitempty" json:"sshCertPath,omitempty"`
	// SSHAgentAuth uses the agent at SSH_AUTH_SOCK, for every node.
	SSHAgentAuth  bool          `yaml:"ssh_agent_auth,omitempty" json:"sshAgentAuth"`
	Authorization Authorization `yaml:"authorization,omitempty" json:"authorization"`
	// IgnoreDockerVersion takes hosts with any version of Docker; nil is false.
	IgnoreDockerVersion *bool `yaml:"ignore_docker_version,omitempty" json:"ignoreDockerVersion"`
	// EnableCRIDockerd runs cri-dockerd beside the kubelet. From Kubernetes 1.24 on there is no
	// other way to Docker.
	EnableCRIDockerd *bool `yaml:"enable_cri_dockerd,omitempty" json:"enableCriDockerd"`
	// KubernetesVersion is one of the version data, such as v1.30.5-rancher1-1.
	KubernetesVersion string            `yaml:"kubernetes_version,omitempty" json:"kubernetesVersion,omitempty"`
	PrivateRegistries []PrivateRegistry `yaml:"private_registries,omitempty" json:"privateRegistries,omitempty"`
	Ingress           Ingress           `yaml:"ingress,omitempty" json:"ingress"`
	// ClusterName is the name in kubeconfigs.
	ClusterName   string        `yaml:"cluster_name,omitempty" json:"clusterName,omitempty"`
	CloudProvider CloudProvider `yaml:"cloud_provider,omitempty" json:"cloudProvider"`
	// PrefixPath stands before the paths on hosts; "/" leaves it to the host's system.
	PrefixPath        string `yaml:"prefix_path,omitempty" json:"prefixPath,omitempty"`
	WindowsPrefixPath string `yaml:"win_prefix_path,omitempty" json:"winPrefixPath,omitempty"`
	// AddonJobTimeout is in seconds.
	AddonJobTimeout     int                 `yaml:"addon_job_timeout,omitempty" json:"addonJobTimeout,omitempty"`
	BastionHost         BastionHost         `yaml:"bastion_host,omitempty" json:"bastionHost"`
	Monitoring          Monitoring          `yaml:"monitoring,omitempty" json:"monitoring"`
	Restore             Restore             `yaml:"restore,omitempty" json:"restore"`
	RotateCertificates  *RotateCertificates `yaml:"rotate_certificates,omitempty" json:"rotateCertificates,omitempty"`
	RotateEncryptionKey bool                `yaml:"rotate_encryption_key,omitempty" json:"rotateEncryptionKey"`
	DNS                 *DNS                `yaml:"dns,omitempty" json:"dns,omitempty"`
	UpgradeStrategy     *UpgradeStrategy    `yaml:"upgrade_strategy,omitempty" json:"upgradeStrategy,omitempty"`
	// CRIDockerdStreamServerAddress and Port are where cri-dockerd serves exec, attach and
	// port-forward to the kubelet; the helper image has 127.0.0.1:10010.
	CRIDockerdStreamServerAddress string `yaml:"cri_dockerd_stream_server_address,omitempty" json:"criDockerdStreamServerAddress,omitempty"`
	CRIDockerdStreamServerPort    string `yaml:"cri_dockerd_stream_server_port,omitempty" json:"criDockerdStreamServerPort,omitempty"`
}

// Restore asks for a snapshot to be restored.
type Restore struct {
	Restore      bool   `yaml:"restore,omitempty" json:"restore,omitempty"`
	SnapshotName string `yaml:"snapshot_name,omitempty" json:"snapshotName,omitempty"`
}

// RotateCertificates asks for new certificates: of the named services, of all where none is
// named, or of the CA and all.
type RotateCertificates struct {
	CACertificates bool     `yaml:"cacertificates,omitempty" json:"caCertificates,omitempty"`
	Services       []string `yaml:"services,omitempty" json:"services,omitempty"`
}

// UpgradeStrategy says how many hosts may be away at a time. The two numbers are counts or
// percentages, such as "10%".
type UpgradeStrategy struct {
	MaxUnavailableWorker       string `yaml:"max_unavailable_worker,omitempty" json:"maxUnavailableWorker,omitempty"`
	MaxUnavailableControlplane string `yaml:"max_unavailable_controlplane,omitempty" json:"maxUnavailableControlplane,omitempty"`
	// Drain evicts the pods of a host before its containers change; nil is false.
	Drain      *bool       `yaml:"drain,omitempty" json:"drain,omitempty"`
	DrainInput *DrainInput `yaml:"node_drain_input,omitempty" json:"nodeDrainInput,omitempty"`
}

// DrainInput is what kubectl drain would be given.
type DrainInput struct {
	Force            bool  `yaml:"force,omitempty" json:"force,omitempty"`
	IgnoreDaemonSets *bool `yaml:"ignore_daemonsets,omitempty" json:"ignoreDaemonSets,omitempty"`
	// DeleteLocalData goes on where pods have an emptyDir.
	DeleteLocalData bool `yaml:"delete_local_data,omitempty" json:"deleteLocalData,omitempty"`
	// GracePeriod is in seconds; negative is each pod's own. Timeout of one try is in seconds.
	GracePeriod int `yaml:"grace_period" json:"gracePeriod,omitempty"`
	Timeout     int `yaml:"timeout" json:"timeout"`
}
