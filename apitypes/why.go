// Why something is not well.

package apitypes

import (
	"time"
)

// Why is a tree of causes: a cluster, what is under way on it, and what is not well.
type Why struct {
	Type    string `json:"type"`    // why
	Cluster string `json:"cluster"` // <namespace>/<name>
	// Machine is the key of the machine that was asked about, <namespace>/<name>; absent for a whole cluster.
	Machine string `json:"machine,omitempty"`
	// Well says that nothing is wrong with what was asked about, and that nothing is to be done on it.
	Well    bool      `json:"well"`
	State   string    `json:"state"` // of the cluster, as Message and Since are
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Operation is what is under way on the cluster.
	Operation *OperationSummary `json:"operation,omitempty"`
	// Causes begin with what others are there because of.
	Causes []Cause `json:"causes"`
	// More is how many further causes there are.
	More int `json:"more,omitempty"`
}

// Cause is one thing that is not well.
type Cause struct {
	// Machine is "<namespace>/<name>", absent for a cause of the cluster itself, and Node the name of its node or host.
	Machine string `json:"machine,omitempty"`
	Node    string `json:"node,omitempty"`
	State   string `json:"state"`
	// Code is the row of the catalogue, whose title is Title; Docs is its place in the documentation.
	Code  string `json:"code,omitempty"`
	Title string `json:"title,omitempty"`
	Docs  string `json:"docs,omitempty"`
	// Cause is a sentence that names object, host and reason.
	Cause      string    `json:"cause,omitempty"`
	WaitingFor string    `json:"waitingFor,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	// Fix is what a person does about it.
	Fix string `json:"fix,omitempty"`
	// Instruction is the name of the instruction that failed last, and Output the last lines that it printed.
	Instruction string   `json:"instruction,omitempty"`
	Output      []string `json:"output,omitempty"`
	// Log is what the distribution says on the host; absent where that does not matter.
	Log *HostLog `json:"log,omitempty"`
}

// HostLog is the end of the log of a systemd unit on a host.
type HostLog struct {
	Unit  string   `json:"unit"`
	Lines []string `json:"lines"`
	// Fault is why there are no lines.
	Fault string `json:"fault,omitempty"`
}
