// How operations are shown.

package views

import (
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/store"
)

// OperationSummary is an operation in a list: without tasks and log, which may be long.
type OperationSummary struct {
	Type     string           `json:"type"` // operation
	ID       string           `json:"id"`
	Kind     operations.Kind  `json:"kind"`
	Cluster  string           `json:"cluster"` // <namespace>/<name>
	Title    string           `json:"title"`
	By       string           `json:"by,omitempty"` // id of the user
	State    operations.State `json:"state"`
	Revision int64            `json:"revision"`
	// Done is how many of its tasks are done, of Total.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Wait is what it waits for, absent while it waits for nothing.
	Wait *operations.Wait `json:"wait,omitempty"`
	// Abort is who asked to stop it, absent when nobody did.
	Abort *operations.Request `json:"abort,omitempty"`
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
	Hurry *operations.Request `json:"hurry,omitempty"`
	Back  string              `json:"back,omitempty"`
}

// Operation is an operation with its tasks, and with its log, oldest line first.
type Operation struct {
	OperationSummary
	Tasks []operations.Task `json:"tasks"`
	Log   []operations.Line `json:"log"`
}

// SummaryOf shows an operation in a list.
func SummaryOf(d store.Document[operations.Operation]) OperationSummary {
	o := d.Value
	done, total := o.Progress()
	return OperationSummary{
		Type: "operation", ID: o.ID, Kind: o.Kind, Cluster: o.Subject, Title: o.Title, By: o.By, State: o.State, Revision: d.Revision,
		Done: done, Total: total, Wait: o.Wait, Abort: o.Abort, Retries: o.Retry, Once: o.Once, Generation: o.Generation,
		Created: o.Created, Started: o.Started, Ended: o.Ended, Reason: o.Reason, Hurry: o.Hurry, Back: o.Back,
	}
}

// OfOperation shows an operation.
func OfOperation(d store.Document[operations.Operation]) Operation {
	return Operation{OperationSummary: SummaryOf(d), Tasks: list(d.Value.Tasks), Log: list(d.Value.Log)}
}
