// Package operations is long work as one record: what is done about a subject, who asked for
// it, how far it is, what it waits for and how it ended. It is data and rules, without clock,
// store or network, and knows nothing of what the work is: whoever does it reads the record,
// asks the rules here and writes what they give.
package operations

import (
	"encoding/json"
	"time"
)

// IDPrefix begins the ID of each operation; eight random characters of random.ID follow.
const IDPrefix = "op-"

// Operation is one piece of long work. It is sensitive by its Params alone: nothing else in it may be a secret.
// Key: Key. It is a value: the methods that change something return a changed copy, and what
// they return shares only what is never changed with the value before.
type Operation struct {
	// ID is "op-" and eight random lower-case characters.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Subject is what it is about: the key of a cluster, "<namespace>/<name>".
	Subject string `json:"subject"`
	// Title is one sentence for people.
	Title string `json:"title,omitempty"`
	// By is the ID of the user who asked for it; empty when nobody did.
	By    string `json:"by,omitempty"`
	State State  `json:"state"`
	// Tasks are its parts, in the order in which they were named first; whoever names them bounds them.
	Tasks []Task `json:"tasks,omitempty"`
	// Log is what happened, oldest first: at most MaxLines lines of at most MaxLine bytes.
	Log []Line `json:"log,omitempty"`
	// Wait is what it waits for now; nil when it waits for nothing, and once it has ended.
	Wait *Wait `json:"wait,omitempty"`
	// Abort is who asked to stop it; nil while nobody did.
	Abort *Request `json:"abort,omitempty"`
	// Hurry is who asked that it does not wait for the maintenance window of its subject; nil while nobody did.
	Hurry *Request `json:"hurry,omitempty"`
	// Back is the command by which what it changes is undone; empty while there is none.
	Back string `json:"back,omitempty"`
	// Retry is how often a retry was asked for: whoever does the work tries again when it has grown.
	Retry int `json:"retry,omitempty"`
	// Once says that it must not be carried out again after it has failed.
	Once bool `json:"once,omitempty"`
	// Final is why it cannot be stopped once it runs, as the rest of a sentence that begins with the operation; empty when
	// it can.
	Final string `json:"final,omitempty"`
	// Generation says which generation of the subject is carried out; this package does not look at it.
	Generation int64 `json:"generation,omitempty"`
	// Params are of the kind; this package does not look at them. They are not shown to people.
	Params json.RawMessage `json:"params,omitempty"`

	// Created orders the operations of a subject.
	Created time.Time `json:"created"`
	// Started is when it ran for the first time; zero before that.
	Started time.Time `json:"started,omitzero"`
	// Ended is when it ended last; zero while it has not.
	Ended time.Time `json:"ended,omitzero"`
	// Reason is why it failed or was aborted; empty in all other states.
	Reason string `json:"reason,omitempty"`
}

// Key is "<subject>/<id>".
func (o Operation) Key() string { return o.Subject + "/" + o.ID }

// Task is a part of an operation. Progress and Message are a line of at most MaxLine bytes each.
type Task struct {
	// ID is unique in its operation, such as the name of a machine; it is for people. What the task is, is Step on Machine.
	ID string `json:"id"`
	// Step is what is done, and Machine the name of the one that it is done on; empty where the task is of another sort.
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

// The states of tasks. Any may follow any other: a task is what its host last reported.
const (
	TaskPending   TaskState = "pending"
	TaskRunning   TaskState = "running"
	TaskWaiting   TaskState = "waiting"
	TaskSucceeded TaskState = "succeeded"
	TaskFailed    TaskState = "failed"
	TaskSkipped   TaskState = "skipped"
)

// Ended says that the task is not worked on any more.
func (s TaskState) Ended() bool { return s == TaskSucceeded || s == TaskFailed || s == TaskSkipped }

// Wait is what an operation waits for. Its texts are a line of at most MaxLine bytes each.
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

// Request is that somebody asked for something.
type Request struct {
	// By is the ID of the user.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// Line is one line of an operation's log.
type Line struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}
