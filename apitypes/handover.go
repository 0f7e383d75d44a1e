// RKE1 clusters that are handed over to the rke command line, or taken from it.

package apitypes

// ExportRequest is how a cluster is exported. Its answer is a tar, or one that age has sealed.
type ExportRequest struct {
	// SSHUser, SSHKeyPath and Bastion are how hosts are reached from where rke will run; what is left out is to be filled in.
	SSHUser    string   `json:"sshUser,omitempty"`
	SSHKeyPath string   `json:"sshKeyPath,omitempty"`
	Bastion    *Bastion `json:"bastion,omitempty"`
	// EncryptTo are public keys: age1…, ssh-ed25519 … or ssh-rsa ….
	EncryptTo []string `json:"encryptTo,omitempty"`
	// Keep leaves the cluster in the server's hands.
	Keep bool `json:"keep,omitempty"`
	// Unfinished exports a cluster whose last run was interrupted, Faulty one with which rke could not go on as it is.
	Unfinished bool `json:"unfinished,omitempty"`
	Faulty     bool `json:"faulty,omitempty"`
}

// Bastion is a host through which others are reached by SSH.
type Bastion struct {
	Address string `json:"address"`
	Port    string `json:"port,omitempty"`
	User    string `json:"user,omitempty"`
}

// Resumed is a cluster that goes on.
type Resumed struct {
	Cluster
	// Changes are what will be done on the hosts of a cluster that was in other hands, a line each; Same says that it is nothing.
	Changes []string `json:"changes"`
	Same    bool     `json:"same"`
	Notes   []string `json:"notes"`
	DryRun  bool     `json:"dryRun,omitempty"`
}

// ImportRequest is a cluster that the rke command line made. All of it is secret.
type ImportRequest struct {
	// Config is the text of cluster.yml; left out, it is that of the state. State is the text of cluster.rkestate.
	Config string `json:"config,omitempty"`
	State  string `json:"state,omitempty"`
	// FromHosts reads the state from the hosts instead, of a cluster that was exported or imported before.
	FromHosts bool `json:"fromHosts,omitempty"`
	// Force takes a state that has no CA in common with the state that the server has.
	Force bool `json:"force,omitempty"`
}

// Imported is a cluster that was taken in.
type Imported struct {
	Cluster
	Notes  []string       `json:"notes"`
	Hosts  []ImportedHost `json:"hosts"`
	DryRun bool           `json:"dryRun,omitempty"`
}

// ImportedHost is a host of an imported cluster as its node agent has to describe it.
type ImportedHost struct {
	Address         string            `json:"address"`
	InternalAddress string            `json:"internalAddress,omitempty"`
	NodeName        string            `json:"nodeName"`
	Roles           Roles             `json:"roles"`
	Labels          map[string]string `json:"labels"`
	Taints          []Taint           `json:"taints"`
	// Joined says that its agent has registered.
	Joined bool `json:"joined"`
}
