// Package operations is long work as one record: what is done about a subject, who asked for
// it, how far it is, what it waits for and how it ended. It is data and rules, without clock,
// store or network, and knows nothing of what the work is: the code that does it reads the record,
// asks the rules here and writes what they give.
package operations

import (
	"encoding/json"
	"time"

	"github.com/drover-project/drover/apitypes"
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
	// By is the ID of the user who asked for it; empty when no user did.
	By    string `json:"by,omitempty"`
	State State  `json:"state"`
	// Tasks are its parts, in the order in which they were named first; the caller bounds them.
	Tasks []Task `json:"tasks,omitempty"`
	// Log is what happened, oldest first: at most MaxLines lines of at most MaxLine bytes.
	Log []Line `json:"log,omitempty"`
	// Wait is what it waits for now; nil when it waits for nothing, and once it has ended.
	Wait *Wait `json:"wait,omitempty"`
	// Abort is who asked to stop it; nil while no user did.
	Abort *Request `json:"abort,omitempty"`
	// Hurry is who asked that it does not wait for the maintenance window of its subject; nil while no user did.
	Hurry *Request `json:"hurry,omitempty"`
	// Back is the command by which what it changes is undone; empty while there is none.
	Back string `json:"back,omitempty"`
	// Retry is how often a retry was asked for: the code that does the work tries again when it has grown.
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
	// Trace is where the request that asked for it is in its trace, as traceparent of W3C Trace Context; empty when it is in none.
	Trace string `json:"trace,omitempty"`

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
type Task = apitypes.Task

// TaskState is where a task is.
type TaskState = apitypes.TaskState

// The states of tasks. Any may follow any other: a task is what its host last reported.
const (
	TaskPending   = apitypes.TaskPending
	TaskRunning   = apitypes.TaskRunning
	TaskWaiting   = apitypes.TaskWaiting
	TaskSucceeded = apitypes.TaskSucceeded
	TaskFailed    = apitypes.TaskFailed
	TaskSkipped   = apitypes.TaskSkipped
)

// Wait is what an operation waits for. Its texts are a line of at most MaxLine bytes each.
type Wait = apitypes.Wait

// Request is that a user asked for something.
type Request = apitypes.RequestedBy

// Line is one line of an operation's log.
type Line = apitypes.LogLine
