// Package nodeconfig is the node config of RKE1: what a server wants of one host that a
// node agent looks after. It has the wire format of GET /v3/connect/config, the pure
// decision which containers have to change, and the doing with a Docker engine.
//
// Wire source: rancher/rancher v2.8.5 pkg/api/steve/... /v3/connect/config and
// pkg/rkenodeconfigserver, rancher/rke types (Process, File, CertificatePKI).
package nodeconfig

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/plans/jsonfault"
)

// MaxSize bounds a node config, in bytes: a worker's certificates and some thirty
// containers are well below a tenth of it.
const MaxSize = 4 << 20

// NodeConfig is what a server wants of a host.
type NodeConfig struct {
	ClusterName string `json:"clusterName,omitempty"`
	// Certs is JSON text: name to Certificate. Empty for hosts with etcd or control plane.
	Certs string `json:"certs,omitempty"`
	// Processes are the containers by name.
	Processes map[string]Process `json:"processes,omitempty"`
	Files     []File             `json:"files,omitempty"`
	// NodeVersion is reported back to the server once all of this is applied, unless it is 0.
	NodeVersion int `json:"nodeVersion,omitempty"`
	// AgentCheckInterval is when to ask again, in seconds.
	AgentCheckInterval int `json:"agentCheckInterval,omitempty"`
}

// Process is one container that should run.
type Process struct {
	Name string `json:"name,omitempty"`
	// Command is Docker's Entrypoint; its order means nothing. Args is Docker's Cmd, in order.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Env     []string `json:"env,omitempty"`
	Image   string   `json:"image,omitempty"`
	// ImageRegistryAuthConfig is Docker's X-Registry-Auth for pulling Image: base64 of JSON, a secret.
	ImageRegistryAuthConfig string            `json:"imageRegistryAuthConfig,omitempty"`
	VolumesFrom             []string          `json:"volumesFrom,omitempty"`
	Binds                   []string          `json:"binds,omitempty"`
	NetworkMode             string            `json:"networkMode,omitempty"`
	RestartPolicy           string            `json:"restartPolicy,omitempty"`
	PidMode                 string            `json:"pidMode,omitempty"`
	Privileged              bool              `json:"privileged,omitempty"`
	HealthCheck             HealthCheck       `json:"healthCheck,omitzero"`
	Labels                  map[string]string `json:"labels,omitempty"`
	Publish                 []string          `json:"publish,omitempty"`
	User                    string            `json:"user,omitempty"`
	// SecurityOpt are SELinux's labels. The wire has none: node agents make containers without.
	SecurityOpt []string `json:"-"`
}

// HealthCheck is where a process answers when it works. The server asks, not the agent.
type HealthCheck struct {
	URL string `json:"url,omitempty"`
}

// File is a file of the host.
type File struct {
	Name string `json:"name,omitempty"`
	// Contents is base64.
	Contents string `json:"contents,omitempty"`
}

// Certificate is one entry of Certs, with the field names of cluster.rkestate.
type Certificate struct {
	CertificatePEM string `json:"certificatePEM"`
	KeyPEM         string `json:"keyPEM"`
	Config         string `json:"config"`
	Name           string `json:"name"`
	CommonName     string `json:"commonName"`
	OUName         string `json:"ouName"`
	EnvName        string `json:"envName"`
	Path           string `json:"path"`
	KeyEnvName     string `json:"keyEnvName"`
	KeyPath        string `json:"keyPath"`
	ConfigEnvName  string `json:"configEnvName"`
	ConfigPath     string `json:"configPath"`
}

// Decode reads a node config. Unknown fields are ignored, because servers of other
// releases send some. Its error names the field and quotes nothing that may be secret.
func Decode(b []byte) (*NodeConfig, error) {
	if len(b) > MaxSize {
		return nil, fmt.Errorf("node config: %d bytes long, at most %d are read", len(b), MaxSize)
	}
	var c NodeConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("node config: %w", jsonfault.Plain(err))
	}
	for name, p := range c.Processes {
		if p.Name == "" { // share-mnt of some servers has its name in the key alone
			p.Name = name
			c.Processes[name] = p
		}
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("node config: %w", err)
	}
	return &c, nil
}

// Certificates reads Certs. The error says where the text is not the JSON of certificates.
func (c *NodeConfig) Certificates() (map[string]Certificate, error) {
	if c.Certs == "" {
		return nil, nil
	}
	var all map[string]Certificate
	if err := json.Unmarshal([]byte(c.Certs), &all); err != nil {
		return nil, fmt.Errorf("certs: %w", jsonfault.Plain(err))
	}
	return all, nil
}

// Content is a file of the host, decoded, and whether it is part of the certificates.
type Content struct {
	Path        string
	Bytes       []byte
	Certificate bool
}

// Contents are the files to write, certificates first, in a stable order. The error names the entry that is not of its form.
func (c *NodeConfig) Contents() ([]Content, error) {
	certs, err := c.Certificates()
	if err != nil {
		return nil, err
	}
	var all []Content
	for _, name := range slices.Sorted(maps.Keys(certs)) {
		cert := certs[name]
		for _, part := range []struct{ path, text string }{
			{cert.Path, cert.CertificatePEM}, {cert.KeyPath, cert.KeyPEM}, {cert.ConfigPath, cert.Config},
		} {
			if part.text != "" {
				all = append(all, Content{Path: part.path, Bytes: []byte(part.text), Certificate: true})
			}
		}
	}
	for i, f := range c.Files {
		b, err := base64.StdEncoding.DecodeString(f.Contents)
		if err != nil {
			return nil, fmt.Errorf("files[%d] %s: contents is not standard base64", i, f.Name)
		}
		all = append(all, Content{Path: f.Name, Bytes: b})
	}
	return all, nil
}
