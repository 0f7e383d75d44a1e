// Package admission makes an operation of what people ask for: one at a time for each cluster or fleet, and what becomes
// of a second one is the asker's choice.
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/traces"
)

// Turn says what becomes of a request while another operation on its subject is under way.
type Turn int

const (
	// Refuse refuses it with the name of the other one: *operations.BusyError.
	Refuse Turn = iota
	// Queue has it wait until the others have ended.
	Queue
	// Replace ends a change that is under way in its favour; what was begun on a machine is not undone. Operations of
	// other kinds are not replaced.
	Replace
)

// InvalidError is that something cannot be asked of a cluster; nothing was begun.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return e.Reason }

// Invalid is an *InvalidError of a sentence.
func Invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// Request is what an operation is made of; its fields are those of operations.Operation.
type Request struct {
	Subject    records.ClusterKey
	Kind       operations.Kind
	Title, By  string
	Generation int64
	Tasks      []operations.Task
	// Final is why it cannot be stopped; see operations.Operation.
	Final string
	// Once says that it is not retried; see operations.Operation.
	Once bool
	// Params are kept as JSON.
	Params any
	Turn   Turn
	// Failing says that what is under way does not come to its end, beyond what its tasks say: the request may take its
	// place as one that corrects it.
	Failing bool
	// Hurry has it not wait for the maintenance window.
	Hurry bool
	// Dismiss ends what is queued on the subject, for this reason: nothing comes after the request. Empty leaves it.
	Dismiss string
}

// Begin is the record of a request and the writes that belong to it: the record, those that it replaces, and old
// ones that are dropped, whose records are gone. The record is running, or queued. On a cluster that the server does not touch
// nothing begins: *records.ExportedError.
func Begin(ctx context.Context, s *state.State, r Request, clock func() time.Time) (o operations.Operation, ops []store.Op, gone []operations.Operation, err error) {
	if d, ok := s.Clusters.Get(string(r.Subject)); ok {
		if err := d.Value.MayChange(); err != nil {
			return o, nil, nil, err
		}
	}
	all := s.OperationsOf(r.Subject)
	now := clock().UTC()
	text, err := json.Marshal(r.Params)
	if err != nil {
		return o, nil, nil, fmt.Errorf("keep what is asked for on %s: %w", r.Subject.Home(), err)
	}
	o = operations.Operation{
		ID: operations.IDPrefix + randomid.ID(8), Kind: r.Kind, Subject: string(r.Subject), Title: r.Title, By: r.By, Generation: r.Generation, Final: r.Final, Once: r.Once, Params: text, Created: now, Trace: traces.Of(ctx),
	}
	if r.Hurry {
		if o, err = o.HurryBy(r.By, now); err != nil {
			return o, nil, nil, err
		}
	}
	end := func(one operations.Operation, why string) error {
		ended, err := one.To(operations.Aborted, why, now)
		if err != nil {
			return err
		}
		d, _ := s.Operations.Get(ended.Key())
		d.Value = ended
		ops = append(ops, s.Operations.Updating(d))
		i := slices.IndexFunc(all, func(o operations.Operation) bool { return o.ID == ended.ID })
		all[i] = ended
		return nil
	}
	for _, one := range all {
		if r.Dismiss != "" && one.State == operations.Queued {
			if err := end(one, r.Dismiss); err != nil {
				return o, nil, nil, err
			}
		}
	}
	if first, busy := operations.Active(o.Subject, all); busy && (r.Turn == Replace || r.Failing || failing(first)) && first.Replaceable() {
		if err := end(first, "replaced by "+o.ID); err != nil {
			return o, nil, nil, err
		}
	}
	if o, err = operations.Begin(o, all, r.Turn == Queue); err != nil {
		return o, nil, nil, err
	}
	for _, t := range r.Tasks {
		o = o.WithTask(t, now)
	}
	gone = operations.Prune(all, operations.Kept)
	for _, old := range gone {
		ops = append(ops, s.Operations.Deleting(old.Key(), 0))
	}
	return o, append(ops, s.Operations.Creating(o.Key(), o)), gone, nil
}

// failing says that a machine could not be changed: a new request takes the place of the operation then, since it may be the correction.
func failing(o operations.Operation) bool {
	return slices.ContainsFunc(o.Tasks, func(t operations.Task) bool { return t.State == operations.TaskFailed })
}
