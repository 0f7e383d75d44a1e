package config

// nodes.go is about hosts, the ways to them and what they are in: nodes, bastion, registries, cloud.

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/rke1/config/clouds"
)

// The roles of a node.
const (
	RoleEtcd         = "etcd"
	RoleControlPlane = "controlplane"
	RoleWorker       = "worker"
)

// Node is one host. The order of nodes matters: it is that of names in certificates and of
// members in flags, which are compared as text.
type Node struct {
	// NodeName is c-xxxxx:m-xxxxx where a management server wrote the config; nothing reads it.
	NodeName string `yaml:"nodeName,omitempty" json:"nodeName,omitempty"`
	// Address is where SSH reaches the host, and the identity of the host from run to run.
	Address string `yaml:"address,omitempty" json:"address,omitempty"`
	Port    string `yaml:"port,omitempty" json:"port,omitempty"`
	// InternalAddress is where the other hosts reach it.
	InternalAddress string   `yaml:"internal_address,omitempty" json:"internalAddress,omitempty"`
	Role            []string `yaml:"role,omitempty" json:"role,omitempty"`
	// HostnameOverride is the name of the Kubernetes node, in lower case.
	HostnameOverride string            `yaml:"hostname_override,omitempty" json:"hostnameOverride,omitempty"`
	User             string            `yaml:"user,omitempty" json:"user,omitempty"`
	DockerSocket     string            `yaml:"docker_socket,omitempty" json:"dockerSocket,omitempty"`
	SSHAgentAuth     bool              `yaml:"ssh_agent_auth,omitempty" json:"sshAgentAuth,omitempty"`
	SSHKey           string            `yaml:"ssh_key,omitempty" json:"sshKey,omitempty"` // PEM; wins over the path
	SSHKeyPath       string            `yaml:"ssh_key_path,omitempty" json:"sshKeyPath,omitempty"`
	SSHCert          string            `yaml:"ssh_cert,omitempty" json:"sshCert,omitempty"`
	SSHCertPath      string            `yaml:"ssh_cert_path,omitempty" json:"sshCertPath,omitempty"`
	Labels           map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Taints           []Taint           `yaml:"taints,omitempty" json:"taints,omitempty"`
}

// Has says whether the node has a role.
func (n *Node) Has(role string) bool {
	return slices.Contains(n.Role, role)
}

// Socket is the path of the host's Docker socket. The default is not filled in, because states
// do not have it.
func (n *Node) Socket() string {
	return cmp.Or(n.DockerSocket, "/var/run/docker.sock")
}

// Taint is a taint of the Kubernetes node.
type Taint struct {
	Key       string  `yaml:"key,omitempty" json:"key,omitempty"`
	Value     string  `yaml:"value,omitempty" json:"value,omitempty"`
	Effect    string  `yaml:"effect,omitempty" json:"effect,omitempty"`
	TimeAdded *string `yaml:"timeAdded,omitempty" json:"timeAdded,omitempty"` // RFC 3339
}

// BastionHost is the host through which nodes are reached; without an address there is none.
type BastionHost struct {
	Address      string `yaml:"address,omitempty" json:"address,omitempty"`
	Port         string `yaml:"port,omitempty" json:"port,omitempty"`
	User         string `yaml:"user,omitempty" json:"user,omitempty"`
	SSHAgentAuth bool   `yaml:"ssh_agent_auth,omitempty" json:"sshAgentAuth,omitempty"`
	SSHKey       string `yaml:"ssh_key,omitempty" json:"sshKey,omitempty"` // PEM
	SSHKeyPath   string `yaml:"ssh_key_path,omitempty" json:"sshKeyPath,omitempty"`
	SSHCert      string `yaml:"ssh_cert,omitempty" json:"sshCert,omitempty"`
	SSHCertPath  string `yaml:"ssh_cert_path,omitempty" json:"sshCertPath,omitempty"`
	// IgnoreProxyEnvVars dials without HTTP_PROXY and its like.
	IgnoreProxyEnvVars bool `yaml:"ignore_proxy_env_vars,omitempty" json:"ignoreProxyEnvVars,omitempty"`
}

// PrivateRegistry has the credentials of a registry. The first one with IsDefault stands
// before every system image.
type PrivateRegistry struct {
	URL                 string               `yaml:"url,omitempty" json:"url,omitempty"` // host, or host/path, without a scheme
	User                string               `yaml:"user,omitempty" json:"user,omitempty"`
	Password            string               `yaml:"password,omitempty" json:"password,omitempty"`
	IsDefault           bool                 `yaml:"is_default,omitempty" json:"isDefault,omitempty"`
	ECRCredentialPlugin *ECRCredentialPlugin `yaml:"ecr_credential_plugin,omitempty" json:"ecrCredentialPlugin,omitempty"`
}

// Host is the registry that the credentials are for. The default is not filled in, because states
// do not have it.
func (r *PrivateRegistry) Host() string {
	return cmp.Or(r.URL, "docker.io")
}

// ECRCredentialPlugin gets the password of a registry of AWS.
type ECRCredentialPlugin struct {
	AccessKeyID     string `yaml:"aws_access_key_id,omitempty" json:"awsAccessKeyId,omitempty"`
	SecretAccessKey string `yaml:"aws_secret_access_key,omitempty" json:"awsSecretAccessKey,omitempty"`
	SessionToken    string `yaml:"aws_session_token,omitempty" json:"awsAccessToken,omitempty"`
}

// CloudProvider is the cloud that the hosts are in. Name goes into the flag --cloud-provider.
type CloudProvider struct {
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// UseInstanceMetadataHostname names nodes of AWS as the instance's metadata does.
	UseInstanceMetadataHostname *bool             `yaml:"useInstanceMetadataHostname,omitempty" json:"useInstanceMetadataHostname,omitempty"`
	AWS                         *clouds.AWS       `yaml:"awsCloudProvider,omitempty" json:"awsCloudProvider,omitempty"`
	Azure                       *clouds.Azure     `yaml:"azureCloudProvider,omitempty" json:"azureCloudProvider,omitempty"`
	OpenStack                   *clouds.OpenStack `yaml:"openstackCloudProvider,omitempty" json:"openstackCloudProvider,omitempty"`
	VSphere                     *clouds.VSphere   `yaml:"vsphereCloudProvider,omitempty" json:"vsphereCloudProvider,omitempty"`
	Harvester                   *clouds.Harvester `yaml:"harvesterCloudProvider,omitempty" json:"harvesterCloudProvider,omitempty"`
	Custom                      string            `yaml:"customCloudProvider,omitempty" json:"customCloudProvider,omitempty"` // the file's text
}
