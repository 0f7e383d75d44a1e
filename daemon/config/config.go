// Package config reads the settings of the agent on its own host: its configuration, and
// how to reach its server. Both are files that decide what runs as root, so they are
// read only when no other user than the agent's can have written them.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Where an agent lives unless it is configured otherwise.
const (
	// originalConfig is the place of an installation that drover's agent may have replaced.
	originalConfig = "/etc/rancher/agent/config.yaml"
	defaultDir     = "/var/lib/rancher/system-agent/etc"
	defaultVar     = "/var/lib/rancher/agent"

	defaultCredentialProvider = "/var/lib/rancher/credentialprovider"
)

// Agent is the agent's configuration. Unknown keys of the file are ignored, so that a
// configuration of the original agent, of any release, is one of ours.
type Agent struct {
	// WorkDirectory holds the working directories of instructions; default VAR/work.
	WorkDirectory         string `json:"workDirectory"`
	PreserveWorkDirectory bool   `json:"preserveWorkDirectory"`
	// AppliedPlanDirectory is for the history of applied plans; empty means none.
	AppliedPlanDirectory string `json:"appliedPlanDirectory"`
	// LocalEnabled takes plans from LocalPlanDirectory.
	LocalEnabled       bool   `json:"localEnabled"`
	LocalPlanDirectory string `json:"localPlanDirectory"`
	// RemoteEnabled takes plans from the server that ConnectionInfoFile names.
	RemoteEnabled      bool   `json:"remoteEnabled"`
	ConnectionInfoFile string `json:"connectionInfoFile"`
	// InterlockDirectory is shared with the installer; empty means no interlocks.
	InterlockDirectory string `json:"interlockDirectory"`
	// ImagesDirectory holds archives of images; default /var/lib/rancher/agent/images.
	ImagesDirectory string `json:"imagesDirectory"`
	// AgentRegistriesFile configures registries for images of instructions; default /etc/rancher/agent/registries.yaml,
	// wherever the configuration is: that is where plans of Rancher and of drover write it.
	AgentRegistriesFile string `json:"agentRegistriesFile"`
	// ImageCredentialProviderConfig is a CredentialProviderConfig as the kubelet has it, and
	// ImageCredentialProviderBinDirectory has the programs that it names. They are used when
	// the file is there; default /var/lib/rancher/credentialprovider/config.yaml and …/bin.
	ImageCredentialProviderConfig       string `json:"imageCredentialProviderConfig"`
	ImageCredentialProviderBinDirectory string `json:"imageCredentialProviderBinDirectory"`
	// ImageCacheLimit is how much of the layers of pulled images is kept, in bytes or as 2GiB
	// or 500MiB; drover's own key. Default 2GiB, 0 keeps nothing.
	ImageCacheLimit Size `json:"imageCacheLimit"`
	// InstructionTimeout ends an instruction that runs longer, for example 45m; drover's own
	// key. Empty means never.
	InstructionTimeout string `json:"instructionTimeout"`

	// Dir is the directory of the configuration, not a key of it.
	Dir string `json:"-"`
}

// Find says which file the configuration is in: the one that CATTLE_AGENT_CONFIG names,
// config.yaml of the directory RANCHER_SYSTEM_AGENT_CONFIG_DIR, that of an original
// installation where there is one, or the default. env is os.Getenv.
func Find(env func(string) string) string {
	if path := env("CATTLE_AGENT_CONFIG"); path != "" {
		return path
	}
	if dir := env("RANCHER_SYSTEM_AGENT_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	if _, err := os.Lstat(originalConfig); err == nil {
		return originalConfig
	}
	return filepath.Join(defaultDir, "config.yaml")
}

// LoadAgent reads, completes and checks a configuration. Its errors name the file and the key.
func LoadAgent(path string) (*Agent, error) {
	a := &Agent{}
	if err := load("agent configuration", path, a); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; install the agent with install.sh, or name the file in CATTLE_AGENT_CONFIG", err)
		}
		return nil, err
	}
	a.Dir = filepath.Dir(path)
	a.complete()
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("agent configuration %s: %w", path, err)
	}
	return a, nil
}

// Usual is the configuration of an agent without a configuration, as it would be at path.
func Usual(path string) *Agent {
	a := &Agent{Dir: filepath.Dir(path)}
	a.complete()
	return a
}

func (a *Agent) complete() {
	for key, absent := range map[*string]string{
		&a.WorkDirectory:                       filepath.Join(defaultVar, "work"),
		&a.ImagesDirectory:                     filepath.Join(defaultVar, "images"),
		&a.AgentRegistriesFile:                 "/etc/rancher/agent/registries.yaml",
		&a.ImageCredentialProviderConfig:       filepath.Join(defaultCredentialProvider, "config.yaml"),
		&a.ImageCredentialProviderBinDirectory: filepath.Join(defaultCredentialProvider, "bin"),
	} {
		if *key == "" {
			*key = absent
		}
	}
}

func (a *Agent) check() error {
	switch {
	case !a.LocalEnabled && !a.RemoteEnabled:
		return errors.New("neither remoteEnabled nor localEnabled is true, so there is nowhere to take plans from")
	case a.RemoteEnabled && a.ConnectionInfoFile == "":
		return errors.New("remoteEnabled is true, but connectionInfoFile is empty")
	case a.LocalEnabled && a.LocalPlanDirectory == "":
		return errors.New("localEnabled is true, but localPlanDirectory is empty")
	}
	for _, one := range []struct{ key, path string }{
		{"workDirectory", a.WorkDirectory},
		{"appliedPlanDirectory", a.AppliedPlanDirectory},
		{"localPlanDirectory", a.LocalPlanDirectory},
		{"interlockDirectory", a.InterlockDirectory},
		{"imagesDirectory", a.ImagesDirectory},
		{"connectionInfoFile", a.ConnectionInfoFile},
		{"agentRegistriesFile", a.AgentRegistriesFile},
		{"imageCredentialProviderConfig", a.ImageCredentialProviderConfig},
		{"imageCredentialProviderBinDirectory", a.ImageCredentialProviderBinDirectory},
	} {
		if one.path == "" {
			continue
		}
		if !filepath.IsAbs(one.path) {
			return fmt.Errorf("%s %q is not an absolute path", one.key, one.path)
		}
		if filepath.Clean(one.path) == "/" {
			return fmt.Errorf("%s is the root directory", one.key)
		}
	}
	if _, err := a.CacheLimit(); err != nil {
		return err
	}
	if _, err := a.Timeout(); err != nil {
		return err
	}
	return nil
}

// Timeout is InstructionTimeout as a duration; 0 means never. A text that is not a duration is an error.
func (a *Agent) Timeout() (time.Duration, error) {
	if a.InstructionTimeout == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(a.InstructionTimeout)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("instructionTimeout %q is not a duration such as 45m", a.InstructionTimeout)
	}
	return d, nil
}

// CacheLimit is ImageCacheLimit in bytes. A text that is not a size is an error.
func (a *Agent) CacheLimit() (int64, error) {
	if a.ImageCacheLimit == "" {
		return defaultCacheLimit, nil
	}
	n, err := a.ImageCacheLimit.Bytes()
	if err != nil {
		return 0, fmt.Errorf("imageCacheLimit %w", err)
	}
	return n, nil
}

// CacheDirectory is where layers of pulled images are kept.
func (a *Agent) CacheDirectory() string {
	return filepath.Join(filepath.Dir(filepath.Clean(a.WorkDirectory)), "image-cache")
}

// LedgerDirectory is where the agent writes down what it is about to do.
func (a *Agent) LedgerDirectory() string {
	return filepath.Join(filepath.Dir(filepath.Clean(a.WorkDirectory)), "ledger")
}

// Connection is how the agent reaches its server.
type Connection struct {
	// KubeConfig is a whole kubeconfig as text.
	KubeConfig string `json:"kubeConfig"`
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	// TunnelURL is where to open the tunnel, wss://. Only drover servers write it, and the
	// original agent ignores it; empty means no tunnel.
	TunnelURL string `json:"tunnelURL"`
}

// LoadConnection reads and checks connection information, except for what the
// kubeconfig says. Its errors name the file and the key, and no secret.
func LoadConnection(path string) (*Connection, error) {
	c := &Connection{}
	if err := load("connection information", path, c); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; register this host again", err)
		}
		return nil, err
	}
	for _, one := range []struct{ key, value string }{
		{"kubeConfig", c.KubeConfig}, {"namespace", c.Namespace}, {"secretName", c.SecretName},
	} {
		if one.value == "" {
			return nil, fmt.Errorf("connection information %s: %s is missing; register this host again", path, one.key)
		}
	}
	return c, nil
}
