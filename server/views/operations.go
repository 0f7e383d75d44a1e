// How operations are shown.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// SummaryOf shows an operation in a list.
func SummaryOf(d store.Document[operations.Operation]) apitypes.OperationSummary {
	o := d.Value
	done, total := o.Progress()
	return apitypes.OperationSummary{
		Type: "operation", ID: o.ID, Kind: o.Kind, Cluster: o.Subject, Title: o.Title, By: o.By, State: o.State, Revision: d.Revision,
		Done: done, Total: total, Wait: o.Wait, Abort: o.Abort, Retries: o.Retry, Once: o.Once, Generation: o.Generation,
		Created: o.Created, Started: o.Started, Ended: o.Ended, Reason: o.Reason, Hurry: o.Hurry, Back: o.Back,
	}
}

// OfOperation shows an operation.
func OfOperation(d store.Document[operations.Operation]) apitypes.Operation {
	return apitypes.Operation{OperationSummary: SummaryOf(d), Tasks: List(d.Value.Tasks), Log: List(d.Value.Log)}
}

// OfEvent shows an event of the cluster with a name.
func OfEvent(e records.Event, cluster string) apitypes.Event {
	return apitypes.Event{
		Type: "event", ID: e.ID(), Revision: e.Revision, At: e.At, Cluster: cluster, ClusterID: e.ClusterID,
		Kind: e.Kind, Key: e.Key, Name: e.Name, From: e.From, To: e.To, Code: e.Code, Cause: e.Cause,
	}
}
