// Operations: long work, and what is asked for.

package apitypes

import (
	"strings"
	"time"
)

// OperationSummary is an operation in a list: without tasks and log, which may be long.
type OperationSummary struct {
	Type     string         `json:"type"` // operation
	ID       string         `json:"id"`
	Kind     OperationKind  `json:"kind"`
	Cluster  string         `json:"cluster"` // <namespace>/<name>
	Title    string         `json:"title"`
	By       string         `json:"by,omitempty"` // id of the user
	State    OperationState `json:"state"`
	Revision int64          `json:"revision"`
	// Done is how many of its tasks are done, of Total.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Wait is what it waits for, absent while it waits for nothing.
	Wait *Wait `json:"wait,omitempty"`
	// Abort is the user who asked to stop it, absent when none did.
	Abort *RequestedBy `json:"abort,omitempty"`
	// Retries is how often a retry was asked for; Once says that none is taken after it has failed.
	Retries int  `json:"retries"`
	Once    bool `json:"once"`
	// Generation is the cluster's that is carried out.
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
	Started    time.Time `json:"started,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	Reason     string    `json:"reason,omitempty"` // why it failed or was aborted
	// Hurry is who asked that it does not wait for the maintenance window, and Back the command by which what it changes is
	// undone; absent while there is none.
	Hurry *RequestedBy `json:"hurry,omitempty"`
	Back  string       `json:"back,omitempty"`
}

// Operation is an operation with its tasks, and with its log, oldest line first.
type Operation struct {
	OperationSummary
	Tasks []Task    `json:"tasks"`
	Log   []LogLine `json:"log"`
}

// OperationKind is what an operation does; the word is on disk and in answers.
type OperationKind string

// The kinds of operations.
const (
	// KindUpgrade changes the Kubernetes version of a cluster whose machines get plans, KindChange something else that
	// restarts them; KindProvision brings an RKE1 cluster to what its document says.
	KindUpgrade   OperationKind = "upgrade"
	KindChange    OperationKind = "change"
	KindProvision OperationKind = "provision"
	// KindPlan gives machines of a fleet a plan.
	KindPlan OperationKind = "plan"
	// KindRemoval removes a machine, KindUninstall a whole cluster.
	KindRemoval   OperationKind = "removal"
	KindUninstall OperationKind = "uninstall"

	KindSnapshot           OperationKind = "snapshot"
	KindRemoveSnapshot     OperationKind = "remove-snapshot"
	KindRestore            OperationKind = "restore"
	KindRotateCertificates OperationKind = "rotate-certificates"
	KindRotateCA           OperationKind = "rotate-ca"
	KindRotateKeys         OperationKind = "rotate-encryption-keys"
	KindRotateToken        OperationKind = "rotate-server-token"
	// KindUpdateAgents replaces the agents on the hosts of a cluster by those of the server's release.
	KindUpdateAgents OperationKind = "update-agents"
	// KindRehearse tries the restore of a snapshot on a machine, beside its cluster.
	KindRehearse OperationKind = "rehearse"
)

// OperationState is where an operation is.
type OperationState string

// Ended says that the operation is not worked on any more and does not hold up others.
func (s OperationState) Ended() bool {
	return s == OperationSucceeded || s == OperationFailed || s == OperationAborted
}

// The states of operations.
const (
	// OperationQueued waits for those of its subject that are older.
	OperationQueued OperationState = "queued"
	// OperationRunning is worked on.
	OperationRunning OperationState = "running"
	// OperationStopping was asked to stop, and finishes what was begun.
	OperationStopping OperationState = "stopping"
	// OperationSucceeded did all that it was for.
	OperationSucceeded OperationState = "succeeded"
	// OperationFailed ended without that; a retry takes it up again.
	OperationFailed OperationState = "failed"
	// OperationAborted was stopped by a user, or a newer one took its place.
	OperationAborted OperationState = "aborted"
)

// Task is a part of an operation.
type Task struct {
	// ID is unique in its operation, such as the name of a machine; it is for people. What the task is, is Step on Machine.
	ID string `json:"id"`
	// Step is what is done, and Machine the name of the machine that it is done on; empty where the task is of another sort.
	Step    string    `json:"step,omitempty"`
	Machine string    `json:"machine,omitempty"`
	Title   string    `json:"title,omitempty"`
	State   TaskState `json:"state"`
	// Progress is free text for how far the task is in its state: "waiting for probes: etcd".
	Progress string `json:"progress,omitempty"`
	// Host is the name of the host that it is done on, when it is one.
	Host string `json:"host,omitempty"`
	// Since is when State and Progress became what they are.
	Since time.Time `json:"since,omitzero"`
	// Started is when it left TaskPending; zero before that.
	Started time.Time `json:"started,omitzero"`
	// Ended is when it ended; zero while it has not.
	Ended time.Time `json:"ended,omitzero"`
	// Attempts is how often it was begun.
	Attempts int `json:"attempts,omitempty"`
	// Message is why it is in its state, for people.
	Message string `json:"message,omitempty"`
}

// TaskState is where a task is.
type TaskState string

// Ended says that the task is not worked on any more.
func (s TaskState) Ended() bool { return s == TaskSucceeded || s == TaskFailed || s == TaskSkipped }

// The states of tasks. Any may follow any other: a task is what its host last reported.
const (
	TaskPending   TaskState = "pending"
	TaskRunning   TaskState = "running"
	TaskWaiting   TaskState = "waiting"
	TaskSucceeded TaskState = "succeeded"
	TaskFailed    TaskState = "failed"
	TaskSkipped   TaskState = "skipped"
)

// Wait is what an operation waits for.
type Wait struct {
	// Object is the thing whose coming or change ends the wait, such as a machine or a node.
	Object string `json:"object,omitempty"`
	Host   string `json:"host,omitempty"`
	// Cause is a sentence that says why there is a wait.
	Cause string `json:"cause,omitempty"`
	// NextStep is what a person can do, when there is something.
	NextStep string `json:"nextStep,omitempty"`
	// Until is when the wait ends by itself; zero where that is not known.
	Until time.Time `json:"until,omitzero"`
	// Since is when Object, Host and Cause became what they are.
	Since time.Time `json:"since,omitzero"`
}

// Where is what is waited for and on which host. A machine's host is described by the machine's name, which is then said once.
func (w Wait) Where() string {
	if name, machine := strings.CutPrefix(w.Object, "machine "); machine && (w.Host == name || strings.HasPrefix(w.Host, name+" (")) {
		return "machine " + w.Host
	}
	if w.Host == "" {
		return w.Object
	}
	return strings.TrimSpace(w.Object + " on " + w.Host)
}

// Why is Cause without the host that Where names.
func (w Wait) Why() string {
	if w.Host == "" {
		return w.Cause
	}
	return strings.ReplaceAll(w.Cause, " on "+w.Host, "")
}

// RequestedBy is which user asked for something, and when.
type RequestedBy struct {
	// By is the ID of the user.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// LogLine is one line of an operation's log.
type LogLine struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Asked is the body of POST /v1-drover/clusters/{namespace}/{name}/operations.
type Asked struct {
	// Kind is snapshot, restore, rehearse, rotate-certificates or rotate-encryption-keys; rotate-ca is rotate-certificates
	// with CA. Of k3s and RKE2 rotate-server-token and update-agents, too.
	Kind OperationKind `json:"kind"`
	// Snapshot is the name of the snapshot to take, which may be left out, or to restore.
	Snapshot string `json:"snapshot,omitempty"`
	// Machines are the names of those on whose hosts it is taken, all members of etcd without any, of the one on whose host
	// the snapshot to restore is, or of those whose agents are updated, all with an agent of another release without any; Mode is what becomes as it was with it: none, kubernetesVersion or all. For k3s and RKE2.
	Machines []string `json:"machines,omitempty"`
	Mode     string   `json:"mode,omitempty"`
	// Fleet is the name of that on one of whose machines a snapshot is rehearsed, where Machines names none.
	Fleet string `json:"fleet,omitempty"`
	// KeepState restores with the certificates and keys that the server has, and not with those in the snapshot.
	KeepState bool `json:"keepState,omitempty"`
	// CA rotates the cluster's CAs, too, and all certificates; Services are those whose certificates are rotated, none being all.
	CA       bool     `json:"ca,omitempty"`
	Services []string `json:"services,omitempty"`
}

// Begun is the answer to Asked.
type Begun struct {
	Type string `json:"type"` // begun
	// Operation carries it out; absent in a dry run.
	Operation *OperationSummary `json:"operation,omitempty"`
	// Lines say what would be done, in a dry run.
	Lines []string `json:"lines,omitempty"`
}
