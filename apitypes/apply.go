// What applying documents does.

package apitypes

// Applied is the answer to POST /v1-drover/apply.
type Applied struct {
	Results []ApplyResult `json:"results"`
	DryRun  bool          `json:"dryRun"`
}

// ApplyResult is what became of one document.
type ApplyResult struct {
	// Kind is Secret or ConfigMap; empty for a cluster.
	Kind      string      `json:"kind,omitempty"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	ID        string      `json:"id,omitempty"` // of a cluster
	Action    ApplyAction `json:"action"`
	// Warnings are sentences about what is taken, and is likely not what its owner means.
	Warnings []string `json:"warnings,omitempty"`
	// Operation is the ID of the operation that carries the change out; empty when none is needed, as nothing restarts.
	Operation string `json:"operation,omitempty"`
	// Hosts is a line for each change on the hosts of an RKE1 cluster, in a dry run.
	Hosts []string `json:"hosts,omitempty"`
	// Preview is what the server would do, in a dry run of a document that changes something.
	Preview *Preview `json:"preview,omitempty"`
}

// Preview is what a decision changes of a cluster.
type Preview struct {
	// State and Message are the cluster's next ones.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Machines are the machines that something is to be done on, in the order in which that will happen.
	Machines []MachinePreview `json:"machines"`
	// Alone is how many machines are left alone.
	Alone int `json:"alone"`
	// Restarts and Drains count the machines that are restarted and drained.
	Restarts int `json:"restarts"`
	Drains   int `json:"drains"`
}

// MachinePreview is what a decision changes on one host.
type MachinePreview struct {
	// ID is "<namespace>/<name>", NodeName the host's name in the cluster.
	ID       string `json:"id"`
	NodeName string `json:"nodeName,omitempty"`
	Tier     string `json:"tier,omitempty"`
	Remove   bool   `json:"remove,omitempty"`
	// Plan is the beginning of the new plan's checksum; empty when the machine joins later, by what others then have.
	Plan string `json:"plan,omitempty"`
	// Changes are as decide.Changes names them.
	Changes []string `json:"changes"`
	// Files are what changes in files, without secrets.
	Files []FileChange `json:"files,omitempty"`
	// Restart is the unit that starts or restarts; empty when none does.
	Restart string `json:"restart,omitempty"`
	// Drain says that pods leave the node first.
	Drain bool `json:"drain,omitempty"`
	// Again says that the machine has the plan, failed with it, and is to try it again.
	Again bool `json:"again,omitempty"`
	// Now says that it begins at once; others wait for their turn.
	Now bool `json:"now,omitempty"`
}

// FileChange is what changes in one file.
type FileChange struct {
	Path string `json:"path"`
	// Diff is in the unified form of diff -u, without the lines that name the files. Secrets are masked.
	Diff string `json:"diff"`
}

// ApplyAction is what applying a document does, or would do.
type ApplyAction string

// The actions of an apply.
const (
	ApplyCreated    ApplyAction = "created"
	ApplyConfigured ApplyAction = "configured"
	ApplyUnchanged  ApplyAction = "unchanged"
	// ApplyQueued is a document that is taken in when the operations before it have ended.
	ApplyQueued ApplyAction = "queued"
)
