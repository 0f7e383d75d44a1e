// What is done: one pass over one cluster, and one run of the engine as an operation.

package rke1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/engine"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// pass does what is to be done on a cluster now. It returns when to look again though nothing changes; zero means not.
func (c *Controller) pass(ctx context.Context, key records.ClusterKey) (again time.Duration, err error) {
	s, ok := c.gather(key)
	if !ok {
		return 0, nil
	}
	d, err := desired.Decide(s)
	if err != nil {
		return 0, err
	}
	switch d.Do {
	case desired.Begin:
		return time.Millisecond, c.begin(ctx, s, d)
	case desired.End:
		return time.Millisecond, c.end(ctx, key, d)
	case desired.Run:
		return time.Millisecond, c.run(ctx, s, d)
	case desired.Hold:
		return time.Millisecond, c.hold(ctx, d)
	case desired.Leave:
		return 0, c.leaveAlone(ctx, s)
	case desired.Save:
		return time.Millisecond, c.scheduled(ctx, s, d)
	case desired.Forget:
		_, err := c.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
			rec.Carried = d.Done
			return rec, nil
		})
		return time.Millisecond, err
	}
	return d.Again, nil
}

// begin writes the record of an operation that begins.
func (c *Controller) begin(ctx context.Context, s desired.Snapshot, d desired.Decision) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	o, err := desired.Params{Request: d.Request}.With(operations.Operation{
		ID: operations.IDPrefix + randomid.ID(8), Kind: d.Kind, Subject: string(key), Title: d.Title, Generation: s.Cluster.Generation, By: s.Cluster.Leave.By, Created: c.Now().UTC(),
	})
	if err != nil {
		return err
	}
	if o, err = operations.Begin(o, s.Operations, false); err != nil {
		return nil // another one began in the same moment; its end has the cluster looked at again
	}
	cluster, ok := c.State.Clusters.Get(string(key))
	if !ok || cluster.Value.MayChange() != nil {
		return nil
	}
	// The cluster is written as it is: an export in the same moment conflicts with that, and sees the operation when it tries again.
	ops := []store.Op{c.State.Operations.Creating(o.Key(), o), c.State.Clusters.Updating(cluster)}
	for _, old := range operations.Prune(s.Operations, operations.Kept) {
		ops = append(ops, c.State.Operations.Deleting(old.Key(), 0))
	}
	if _, err := c.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("begin to %s: %w", d.Title, err)
	}
	c.Logger.Info("operation begins", "operation", o.ID, "kind", o.Kind, "cluster", key)
	return nil
}

// end writes the end of an operation that is not run any more.
func (c *Controller) end(ctx context.Context, key records.ClusterKey, d desired.Decision) error {
	ops := []store.Op{}
	if d.Halted || d.Request != nil && d.Request.Document && c.kept(key) {
		op, err := c.recording(key, func(rec records.RKEState) (records.RKEState, error) {
			if d.Halted {
				rec.Halted = d.Stamp
			}
			if d.Request != nil {
				rec.Carried = d.Request.With(rec.Carried)
			}
			return rec, nil
		})
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	return c.close(ctx, d.Operation, d.State, d.Reason, ops...)
}

// close ends an operation, with other writes in the same transaction.
func (c *Controller) close(ctx context.Context, o operations.Operation, to operations.State, reason string, ops ...store.Op) error {
	doc, ok := c.State.Operations.Get(o.Key())
	if !ok {
		return nil
	}
	if doc.Value.State.Ended() {
		return nil
	}
	next := doc.Value
	for _, t := range next.Tasks {
		if t.State.Ended() {
			continue
		}
		if to == operations.Failed && t.State == operations.TaskRunning {
			t.State, t.Message = operations.TaskFailed, reason
		} else {
			t.State = operations.TaskSkipped
		}
		t.Progress = ""
		next = next.WithTask(t, c.Now().UTC())
	}
	next, err := next.To(to, reason, c.Now().UTC())
	if err != nil {
		return fmt.Errorf("end operation %s: %w", o.ID, err)
	}
	doc.Value = next
	if _, err := c.State.Store.Commit(ctx, append(ops, c.State.Operations.Updating(doc))...); err != nil {
		return fmt.Errorf("end operation %s: %w", o.ID, err)
	}
	c.Logger.Info("operation ended", "operation", o.ID, "kind", o.Kind, "cluster", o.Subject, "state", to, "reason", reason)
	return nil
}

// kept says that the server remembers something of a cluster.
func (c *Controller) kept(key records.ClusterKey) bool {
	_, ok := c.State.RKEStates.Get(string(key))
	return ok
}

// recording is the write of what is kept of a cluster, on the condition that no other server has written it meanwhile.
func (c *Controller) recording(key records.ClusterKey, change func(records.RKEState) (records.RKEState, error)) (store.Op, error) {
	d, ok := c.State.RKEStates.Get(string(key))
	next, err := change(d.Value)
	if err != nil {
		return store.Op{}, err
	}
	if !ok {
		return c.State.RKEStates.Creating(string(key), next), nil
	}
	d.Value = next
	return c.State.RKEStates.Updating(d), nil
}

// run carries an operation out once, and writes how that went.
func (c *Controller) run(ctx context.Context, s desired.Snapshot, d desired.Decision) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	p := attempt(s, d, c.Now(), randomid.ID(5))
	removes := d.Operation.Kind == operations.KindUninstall
	report := newReport(reportOptions{
		Operations: c.State.Operations, Key: d.Operation.Key(), Steps: stepsOf(d), Words: wordsOf(key.Name()), Now: c.Now, Logger: c.Logger,
	})
	if err := report.Start(ctx, p, s.Cluster.Generation); err != nil {
		return err
	}
	agents := &selfRepair{Controller: c, cluster: s.Cluster, machines: s.Machines, report: report}
	o := c.Engine(s.Machines, report)
	o.Planned = agents.hold
	o.Stop = c.stop(ctx, key, d.Operation.Key(), removes)
	o.Save = func(ctx context.Context, next *rkestate.State) error { return c.save(ctx, key, next, rke.Record) }
	done, failed := c.carry(ctx, o, s, d, p.Guard)
	if failed == nil {
		report.Succeed()
	}
	report.Finish()
	if ctx.Err() != nil {
		return nil // the next leader goes on with the record as it is
	}
	switch {
	case failed == nil && removes:
		return c.removed(ctx, key, d)
	case failed == nil:
		return c.succeeded(ctx, s, d, agents, done)
	case errors.Is(failed, engine.ErrStopped):
		return nil // the next look ends the operation
	case done != nil && c.kept(key):
		if _, err := c.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) { return done(rec), nil }); err != nil {
			return fmt.Errorf("write that operation %s has failed: %w", d.Operation.ID, err)
		}
	}
	return c.failed(ctx, s.Cluster, d, p, failed)
}

// carry does once what an operation is about. What it returns changes what is remembered of the cluster; nil changes nothing.
func (c *Controller) carry(ctx context.Context, o engine.Options, s desired.Snapshot, d desired.Decision, guard string) (done func(records.RKEState) records.RKEState, err error) {
	work, before := workOf(d.Config, d.Before), desired.ReadParams(d.Operation)
	if d.Operation.Kind == operations.KindUninstall {
		if err := o.Planned(ctx, nil); err != nil {
			return nil, err
		}
		return nil, engine.Remove(ctx, o, work)
	}
	if d.Request != nil {
		key := records.ClusterKey(d.Operation.Subject)
		rec, _ := c.State.RKEStates.Get(string(key))
		return carry(ctx, carried{
			Options: o, Work: work, Request: *d.Request, By: d.Operation.By, Resumed: before.Stamp != "", Record: rec.Value,
			Replace: func(ctx context.Context, next *rkestate.State) error { return c.save(ctx, key, next, rke.Replaced) },
		})
	}
	if s.Guarded(d) && !s.Taken(guard) {
		if err := c.guard(ctx, o, d, guard, before.Guard != ""); err != nil || ctx.Err() != nil {
			return nil, err
		}
	}
	_, err = engine.Up(ctx, o, work)
	return nil, err
}

// stop says whether a run is to end at its next safe point: its operation is to stop, its cluster goes, or its maintenance window ends.
func (c *Controller) stop(ctx context.Context, key records.ClusterKey, operation string, removes bool) func() error {
	return func() error {
		o, known := c.State.Operations.Get(operation)
		s, ok := c.gather(key)
		switch {
		case !known || o.Value.State == operations.Stopping || o.Value.State.Ended(), !ok || !removes && !s.Cluster.Deleting.IsZero():
			return engine.ErrStopped
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.Outside(o.Value) != nil:
			return engine.ErrStopped
		}
		return nil
	}
}

// hold writes what an operation waits for. What was begun goes on afterwards.
func (c *Controller) hold(ctx context.Context, d desired.Decision) error {
	_, err := c.State.Operations.Modify(ctx, d.Operation.Key(), func(o operations.Operation) (operations.Operation, error) {
		if o.State.Ended() {
			return o, store.ErrUnchanged
		}
		now := c.Now().UTC()
		for _, t := range o.Tasks {
			if t.State == operations.TaskRunning {
				t.State, t.Progress = operations.TaskPending, ""
				o = o.WithTask(t, now)
			}
		}
		return o.WithLine(d.Wait.Cause, now).WithWait(d.Wait, now), nil
	})
	if err != nil {
		return fmt.Errorf("write what operation %s waits for: %w", d.Operation.ID, err)
	}
	return nil
}

// save keeps a cluster's state, in the form that kept gives it.
func (c *Controller) save(ctx context.Context, key records.ClusterKey, next *rkestate.State, kept func(records.RKEState, *rkestate.State) (records.RKEState, error)) error {
	if _, ok := c.State.Clusters.Get(string(key)); !ok {
		return fmt.Errorf("cluster %s does not exist any more: %w", key, engine.ErrStopped)
	}
	op, err := c.recording(key, func(rec records.RKEState) (records.RKEState, error) { return kept(rec, next) })
	if err != nil {
		return err
	}
	_, err = c.State.Store.Commit(ctx, op)
	return err
}

// succeeded writes that a cluster is what it should be, and what else there is to be remembered; done may be nil.
func (c *Controller) succeeded(ctx context.Context, s desired.Snapshot, d desired.Decision, agents *selfRepair, done func(records.RKEState) records.RKEState) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	if err := agents.release(ctx); err != nil {
		return err
	}
	op, err := c.recording(key, func(rec records.RKEState) (records.RKEState, error) {
		if d.Request != nil {
			rec.Carried = d.Request.With(rec.Carried)
		}
		if d.Request == nil || d.Request.Kind == operations.KindRestore {
			if rec.Since.IsZero() {
				rec.Since = c.Now().UTC()
				rec.Carried = desired.Fresh(desired.Input{Cluster: s.Cluster}, rec.Carried)
			}
			rec.Done, rec.Halted, rec.Failed, rec.Applied = d.Stamp, "", nil, s.Cluster.Spec.RKE1Text()
		}
		if done != nil {
			rec = done(rec)
		}
		return rec, nil
	})
	if err != nil {
		return err
	}
	return c.close(ctx, d.Operation, operations.Succeeded, "", op)
}

// removed forgets the state of a cluster that has left its hosts.
func (c *Controller) removed(ctx context.Context, key records.ClusterKey, d desired.Decision) error {
	ops := []store.Op{c.State.RKEStates.Deleting(string(key), 0)}
	for _, m := range c.State.MachinesByCluster.Find(key) {
		if _, ok := c.State.NodeConfigs.Get(m.Key); ok {
			ops = append(ops, c.State.NodeConfigs.Deleting(m.Key, 0))
		}
	}
	return c.close(ctx, d.Operation, operations.Succeeded, "", ops...)
}

// failed writes what went wrong and when the next try begins. A request of which nothing was begun is not tried again by itself.
func (c *Controller) failed(ctx context.Context, cluster records.Cluster, d desired.Decision, p desired.Params, failed error) error {
	o, key := d.Operation, records.ClusterKey(d.Operation.Subject)
	failed = advice.Error(failed, wordsOf(cluster.Name))
	rec, _ := c.State.RKEStates.Get(string(key))
	if p.Request != nil && !Begun(rec.Value, p.Request.Kind) {
		c.Logger.Warn("what was asked of an RKE1 cluster was not done", "operation", o.ID, "kind", o.Kind, "cluster", o.Subject, "error", failed)
		return c.end(ctx, key, desired.Decision{Operation: o, Request: p.Request, State: operations.Failed, Reason: failed.Error()})
	}
	if p.Request == nil && o.Kind == operations.KindProvision && c.kept(key) {
		_, err := c.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
			if bytes.Equal(rec.Failed, cluster.Spec.RKE1Text()) {
				return rec, store.ErrUnchanged
			}
			rec.Failed = cluster.Spec.RKE1Text()
			return rec, nil
		})
		if err != nil && !errors.Is(err, store.ErrUnchanged) {
			return fmt.Errorf("write that operation %s has failed: %w", o.ID, err)
		}
	}
	p.Tries++
	p.Next = c.Now().UTC().Add(desired.Delay(p.Tries))
	next := "the next try begins at " + p.Next.Format(time.RFC3339) + ", or at once with `drover operations retry " + o.ID + "`"
	if incomplete, ok := errors.AsType[*engine.IncompleteError](failed); ok && len(incomplete.Failed) == 0 {
		for address := range incomplete.Skipped {
			p.Away = append(p.Away, address)
		}
		slices.Sort(p.Away)
		next = "the next try begins when the node agent of " + strings.Join(p.Away, ", ") + " is connected"
	}
	if rec, ok := c.State.RKEStates.Get(string(key)); ok && (desired.Snapshot{Record: &rec.Value}).Taken(p.Guard) {
		next += "; the way back is `drover snapshots restore " + cluster.Name + " " + p.Guard + "`, with the version of before in the document"
	}
	c.Logger.Warn("a run of the RKE1 engine failed", "operation", o.ID, "cluster", o.Subject, "try", p.Tries, "error", failed)
	_, err := c.State.Operations.Modify(ctx, o.Key(), func(o operations.Operation) (operations.Operation, error) {
		now := c.Now().UTC()
		marked := false
		for _, t := range o.Tasks {
			if t.State == operations.TaskRunning {
				t.State, t.Progress, t.Message, marked = operations.TaskFailed, "", failed.Error(), true
				o = o.WithTask(t, now)
			}
		}
		if !marked {
			o = o.WithLine(failed.Error(), now)
		}
		o = o.WithWait(&operations.Wait{Object: "cluster " + records.ClusterKey(o.Subject).Name(), Cause: failed.Error(), NextStep: next}, now)
		return p.With(o)
	})
	if err != nil {
		return fmt.Errorf("write that operation %s has failed: %w", o.ID, err)
	}
	return nil
}
