package config

// services.go is about the containers that are Kubernetes: their settings one by one.

import (
	"slices"
	"strings"
)

// Services are the six components.
type Services struct {
	Etcd           Etcd           `yaml:"etcd,omitempty" json:"etcd"`
	KubeAPI        KubeAPI        `yaml:"kube-api,omitempty" json:"kubeApi"`
	KubeController KubeController `yaml:"kube-controller,omitempty" json:"kubeController"`
	Scheduler      Scheduler      `yaml:"scheduler,omitempty" json:"scheduler"`
	Kubelet        Kubelet        `yaml:"kubelet,omitempty" json:"kubelet"`
	KubeProxy      KubeProxy      `yaml:"kubeproxy,omitempty" json:"kubeproxy"`
}

// Service is what every component has. Image is filled from the system images, over what is
// written. The Windows fields take the place of the others on hosts with Windows.
type Service struct {
	Image          string              `yaml:"image,omitempty" json:"image,omitempty"`
	ExtraArgs      map[string]string   `yaml:"extra_args,omitempty" json:"extraArgs,omitempty"`            // flags without "--"
	ExtraArgsArray map[string][]string `yaml:"extra_args_array,omitempty" json:"extraArgsArray,omitempty"` // flags that repeat
	ExtraBinds     []string            `yaml:"extra_binds,omitempty" json:"extraBinds,omitempty"`
	ExtraEnv       []string            `yaml:"extra_env,omitempty" json:"extraEnv,omitempty"`

	WindowsExtraArgs      map[string]string   `yaml:"win_extra_args,omitempty" json:"winExtraArgs,omitempty"`
	WindowsExtraArgsArray map[string][]string `yaml:"win_extra_args_array,omitempty" json:"winExtraArgsArray,omitempty"`
	WindowsExtraBinds     []string            `yaml:"win_extra_binds,omitempty" json:"winExtraBinds,omitempty"`
	WindowsExtraEnv       []string            `yaml:"win_extra_env,omitempty" json:"winExtraEnv,omitempty"`
}

// Etcd is the store. With ExternalURLs it is run by others, and no node has its role.
type Etcd struct {
	Service      `yaml:",inline"`
	ExternalURLs []string `yaml:"external_urls,omitempty" json:"externalUrls,omitempty"`
	CACert       string   `yaml:"ca_cert,omitempty" json:"caCert,omitempty"` // PEM, as Cert and Key
	Cert         string   `yaml:"cert,omitempty" json:"cert,omitempty"`
	Key          string   `yaml:"key,omitempty" json:"key,omitempty"`
	Path         string   `yaml:"path,omitempty" json:"path,omitempty"` // prefix of all keys
	UID          int      `yaml:"uid,omitempty" json:"uid,omitempty"`   // of the container's user; 0 is root
	GID          int      `yaml:"gid,omitempty" json:"gid,omitempty"`
	// Snapshot takes one regularly; nil is true. Retention and Creation are durations such as
	// 72h and count only where there is no BackupConfig.
	Snapshot     *bool         `yaml:"snapshot,omitempty" json:"snapshot,omitempty"`
	Retention    string        `yaml:"retention,omitempty" json:"retention,omitempty"`
	Creation     string        `yaml:"creation,omitempty" json:"creation,omitempty"`
	BackupConfig *BackupConfig `yaml:"backup_config,omitempty" json:"backupConfig,omitempty"`
}

// BackupConfig says when snapshots are taken and where they are kept.
type BackupConfig struct {
	Enabled       *bool     `yaml:"enabled,omitempty" json:"enabled,omitempty"` // nil is true
	IntervalHours int       `yaml:"interval_hours,omitempty" json:"intervalHours,omitempty"`
	Retention     int       `yaml:"retention,omitempty" json:"retention,omitempty"` // how many are kept
	S3            *S3Backup `yaml:"s3backupconfig,omitempty" json:"s3BackupConfig"` // null is written
	// SafeTimestamp writes names of snapshots without ":".
	SafeTimestamp bool `yaml:"safe_timestamp,omitempty" json:"safeTimestamp,omitempty"`
	Timeout       int  `yaml:"timeout,omitempty" json:"timeout,omitempty"` // seconds
}

// S3Backup is a bucket. Without keys the host's own role is used.
type S3Backup struct {
	AccessKey  string `yaml:"access_key,omitempty" json:"accessKey,omitempty"`
	SecretKey  string `yaml:"secret_key,omitempty" json:"secretKey,omitempty"`
	BucketName string `yaml:"bucket_name,omitempty" json:"bucketName,omitempty"`
	Region     string `yaml:"region,omitempty" json:"region,omitempty"`
	Endpoint   string `yaml:"endpoint,omitempty" json:"endpoint"`
	CustomCA   string `yaml:"custom_ca,omitempty" json:"customCa,omitempty"` // PEM
	Folder     string `yaml:"folder,omitempty" json:"folder,omitempty"`
}

// HasKeys says that there is a bucket that keys open, and not a role of the machine that asks.
func (b *S3Backup) HasKeys() bool { return b != nil && (b.AccessKey != "" || b.SecretKey != "") }

// KubeAPI is the API server.
type KubeAPI struct {
	Service `yaml:",inline"`
	// ServiceClusterIPRange may be two ranges with a comma between them.
	ServiceClusterIPRange string `yaml:"service_cluster_ip_range,omitempty" json:"serviceClusterIpRange,omitempty"`
	ServiceNodePortRange  string `yaml:"service_node_port_range,omitempty" json:"serviceNodePortRange,omitempty"`
	// PodSecurityConfiguration is privileged or restricted.
	PodSecurityConfiguration string `yaml:"pod_security_configuration,omitempty" json:"podSecurityConfiguration,omitempty"`
	// PodSecurityPolicy is the admission plugin of that name, which Kubernetes has up to 1.24.
	PodSecurityPolicy       bool                    `yaml:"pod_security_policy,omitempty" json:"podSecurityPolicy,omitempty"`
	AlwaysPullImages        bool                    `yaml:"always_pull_images,omitempty" json:"alwaysPullImages,omitempty"`
	SecretsEncryptionConfig *SecretsEncryption      `yaml:"secrets_encryption_config,omitempty" json:"secretsEncryptionConfig,omitempty"`
	AuditLog                *AuditLog               `yaml:"audit_log,omitempty" json:"auditLog,omitempty"`
	AdmissionConfiguration  *AdmissionConfiguration `yaml:"admission_configuration,omitempty" json:"admissionConfiguration,omitempty"`
	EventRateLimit          *EventRateLimit         `yaml:"event_rate_limit,omitempty" json:"eventRateLimit,omitempty"`
}

// SecretsEncryption encrypts Secrets in etcd, by a key of its own or as CustomConfig says.
type SecretsEncryption struct {
	Enabled      bool                     `yaml:"enabled,omitempty" json:"enabled,omitempty"`
	CustomConfig *EncryptionConfiguration `yaml:"custom_config,omitempty" json:"customConfig,omitempty"`
}

// AuditLog is the API server's log of requests.
type AuditLog struct {
	Enabled       bool            `yaml:"enabled,omitempty" json:"enabled,omitempty"`
	Configuration *AuditLogConfig `yaml:"configuration,omitempty" json:"configuration,omitempty"`
}

// AuditLogConfig says where the log is and how much of it is kept.
type AuditLogConfig struct {
	MaxAge    int          `yaml:"max_age,omitempty" json:"maxAge,omitempty"`       // days
	MaxBackup int          `yaml:"max_backup,omitempty" json:"maxBackup,omitempty"` // files
	MaxSize   int          `yaml:"max_size,omitempty" json:"maxSize,omitempty"`     // MB
	Path      string       `yaml:"path,omitempty" json:"path,omitempty"`
	Format    string       `yaml:"format,omitempty" json:"format,omitempty"` // json or legacy
	Policy    *AuditPolicy `yaml:"policy,omitempty" json:"policy,omitempty"`
}

// EventRateLimit bounds how many events are written in a second.
type EventRateLimit struct {
	Enabled       bool             `yaml:"enabled,omitempty" json:"enabled,omitempty"`
	Configuration *EventRateLimits `yaml:"configuration,omitempty" json:"configuration,omitempty"`
}

// KubeController is the controller manager.
type KubeController struct {
	Service               `yaml:",inline"`
	ClusterCIDR           string `yaml:"cluster_cidr,omitempty" json:"clusterCidr,omitempty"` // of pods; may be two ranges
	ServiceClusterIPRange string `yaml:"service_cluster_ip_range,omitempty" json:"serviceClusterIpRange,omitempty"`
}

// Scheduler is the scheduler.
type Scheduler struct {
	Service `yaml:",inline"`
}

// Kubelet is the kubelet.
type Kubelet struct {
	Service             `yaml:",inline"`
	ClusterDomain       string `yaml:"cluster_domain,omitempty" json:"clusterDomain,omitempty"`
	InfraContainerImage string `yaml:"infra_container_image,omitempty" json:"infraContainerImage,omitempty"`
	ClusterDNSServer    string `yaml:"cluster_dns_server,omitempty" json:"clusterDnsServer,omitempty"`
	FailSwapOn          bool   `yaml:"fail_swap_on,omitempty" json:"failSwapOn,omitempty"`
	// GenerateServingCertificate gives each kubelet a certificate of the cluster's CA.
	GenerateServingCertificate bool `yaml:"generate_serving_certificate,omitempty" json:"generateServingCertificate,omitempty"`
}

// KubeProxy is kube-proxy.
type KubeProxy struct {
	Service `yaml:",inline"`
}

// WithoutChecksums is the config without RKE_CLOUD_CONFIG_CHECKSUM and its like in the environment of containers. A run of the rke
// CLI adds them to the config that it keeps as currentState, once for each host of the control plane; nothing asks for them.
func (c Cluster) WithoutChecksums() Cluster {
	s := &c.Services
	for _, service := range []*Service{
		&s.Etcd.Service, &s.KubeAPI.Service, &s.KubeController.Service, &s.Scheduler.Service, &s.Kubelet.Service, &s.KubeProxy.Service,
	} {
		service.ExtraEnv = slices.DeleteFunc(slices.Clone(service.ExtraEnv), func(e string) bool {
			name, _, _ := strings.Cut(e, "=")
			return strings.HasPrefix(name, "RKE_") && strings.HasSuffix(name, "_CHECKSUM")
		})
	}
	return c
}
