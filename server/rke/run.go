// One run of the engine as an operation, and how operations begin and end.

package rke

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
	"github.com/drover-project/drover/rke1/pki"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/progress"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/server/store"
)

// kubeconfigPath is where a command line would have the administrator's kubeconfig; the state names it.
const kubeconfigPath = "kube_config_cluster.yml"

// begin writes the record of an operation that begins.
func (r *Runner) begin(ctx context.Context, s want.Snapshot, d want.Decision) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	o, err := want.Params{Wish: d.Wish}.With(operations.Operation{
		ID: operations.IDPrefix + random.ID(8), Kind: d.Kind, Subject: string(key), Title: d.Title, Generation: s.Cluster.Generation, By: s.Cluster.Leave.By, Created: r.Now().UTC(),
	})
	if err != nil {
		return err
	}
	if o, err = operations.Begin(o, s.Operations, false); err != nil {
		return nil // another one began in the same moment; its end has the cluster looked at again
	}
	cluster, ok := r.State.Clusters.Get(string(key))
	if !ok || cluster.Value.MayChange() != nil {
		return nil
	}
	// The cluster is written as it is: an export in the same moment conflicts with that, and sees the operation when it tries again.
	ops := []store.Op{r.State.Operations.Creating(o.Key(), o), r.State.Clusters.Updating(cluster)}
	for _, old := range operations.Prune(s.Operations, operations.Kept) {
		ops = append(ops, r.State.Operations.Deleting(old.Key(), 0))
	}
	if _, err := r.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("begin to %s: %w", d.Title, err)
	}
	r.Logger.Info("operation begins", "operation", o.ID, "kind", o.Kind, "cluster", key)
	return nil
}

// end writes the end of an operation that is not run any more.
func (r *Runner) end(ctx context.Context, key records.ClusterKey, d want.Decision) error {
	ops := []store.Op{}
	if d.Halted || d.Wish != nil && d.Wish.Document && r.kept(key) {
		op, err := r.recording(key, func(rec records.RKEState) (records.RKEState, error) {
			if d.Halted {
				rec.Halted = d.Stamp
			}
			if d.Wish != nil {
				rec.Heeded = d.Wish.With(rec.Heeded)
			}
			return rec, nil
		})
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	return r.close(ctx, d.Operation, d.State, d.Reason, ops...)
}

// close ends an operation, with other writes in the same transaction.
func (r *Runner) close(ctx context.Context, o operations.Operation, to operations.State, reason string, ops ...store.Op) error {
	doc, ok := r.State.Operations.Get(o.Key())
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
		next = next.WithTask(t, r.Now().UTC())
	}
	next, err := next.To(to, reason, r.Now().UTC())
	if err != nil {
		return fmt.Errorf("end operation %s: %w", o.ID, err)
	}
	doc.Value = next
	if _, err := r.State.Store.Commit(ctx, append(ops, r.State.Operations.Updating(doc))...); err != nil {
		return fmt.Errorf("end operation %s: %w", o.ID, err)
	}
	r.Logger.Info("operation ended", "operation", o.ID, "kind", o.Kind, "cluster", o.Subject, "state", to, "reason", reason)
	return nil
}

// kept says that the server remembers something of a cluster.
func (r *Runner) kept(key records.ClusterKey) bool {
	_, ok := r.State.RKEStates.Get(string(key))
	return ok
}

// recording is the write of what is kept of a cluster, on the condition that nobody else has written it.
func (r *Runner) recording(key records.ClusterKey, change func(records.RKEState) (records.RKEState, error)) (store.Op, error) {
	d, ok := r.State.RKEStates.Get(string(key))
	next, err := change(d.Value)
	if err != nil {
		return store.Op{}, err
	}
	if !ok {
		return r.State.RKEStates.Creating(string(key), next), nil
	}
	d.Value = next
	return r.State.RKEStates.Updating(d), nil
}

// run carries an operation out once, and writes how that went.
func (r *Runner) run(ctx context.Context, s want.Snapshot, d want.Decision) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	p := want.ReadParams(d.Operation)
	resumed := p.Stamp != ""
	if p.Stamp != d.Stamp && p.Wish == nil {
		p.Tries = 0
	}
	p.Stamp, p.Retry, p.Next, p.Away = d.Stamp, d.Operation.Retry, time.Time{}, nil
	guardBegun := p.Guard != ""
	if !guardBegun && s.Guarded(d) {
		in := want.Input{Cluster: s.Cluster, Machines: s.Machines, Before: d.Before, Versions: s.Versions}
		_, p.Guard = want.NameSnapshot(in, false, r.Now(), random.ID(5))
	}
	removes := d.Operation.Kind == operations.KindUninstall
	report := progress.New(progress.Options{
		Operations: r.State.Operations, Key: d.Operation.Key(), Steps: stepsOf(d), Words: words(key.Name()), Now: r.Now, Logger: r.Logger,
	})
	if err := report.Start(ctx, p, s.Cluster.Generation); err != nil {
		return err
	}
	agents := &selfRepair{Runner: r, cluster: s.Cluster, machines: s.Machines, report: report}
	o := r.options(s.Machines, report)
	o.Planned = agents.hold
	o.Stop = r.stop(ctx, key, d.Operation.Key(), removes)
	o.Stop = r.within(key, d.Operation.Key(), o.Stop)
	o.Save = func(ctx context.Context, next *rkestate.State) error { return r.save(ctx, key, next, want.Record) }
	work := engine.Work{Config: d.Config, Before: d.Before, Kubeconfig: kubeconfigPath}
	var failed error
	var done func(records.RKEState) records.RKEState
	switch {
	case removes:
		if failed = agents.hold(ctx, nil); failed == nil {
			failed = engine.Remove(ctx, o, work)
		}
	case d.Wish != nil:
		done, failed = r.fulfil(ctx, o, work, wished{Wish: *d.Wish, key: key, by: d.Operation.By, resumed: resumed})
	default:
		if s.Guarded(d) && !s.Taken(p.Guard) {
			failed = r.guard(ctx, o, d, p.Guard, guardBegun)
		}
		if failed == nil && ctx.Err() == nil {
			_, failed = engine.Up(ctx, o, work)
		}
	}
	if failed == nil {
		report.Succeed()
	}
	report.Finish()
	if ctx.Err() != nil {
		return nil // the next leader goes on with the record as it is
	}
	switch {
	case failed == nil && removes:
		return r.removed(ctx, key, d)
	case failed == nil:
		return r.succeeded(ctx, s, d, agents, done)
	case errors.Is(failed, engine.ErrStopped):
		return nil // the next look ends the operation
	case done != nil && r.kept(key):
		if _, err := r.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) { return done(rec), nil }); err != nil {
			return fmt.Errorf("write that operation %s has failed: %w", d.Operation.ID, err)
		}
	}
	return r.failed(ctx, s.Cluster, d, p, failed)
}

// stepsOf are the parts of what is carried out, as far as they are known before.
func stepsOf(d want.Decision) []engine.Step {
	switch d.Operation.Kind {
	case operations.KindProvision:
		return engine.UpSteps()
	case operations.KindUninstall:
		return engine.RemoveSteps()
	}
	return nil // they come as they are done
}

// stop says whether a run is to end at its next safe point.
func (r *Runner) stop(ctx context.Context, key records.ClusterKey, operation string, removes bool) func() error {
	return func() error {
		if o, ok := r.State.Operations.Get(operation); !ok || o.Value.State == operations.Stopping || o.Value.State.Ended() {
			return engine.ErrStopped
		}
		if c, ok := r.State.Clusters.Get(string(key)); !ok || !removes && !c.Value.Deleting.IsZero() {
			return engine.ErrStopped
		}
		return context.Cause(ctx)
	}
}

// within is stop, which says so at the end of the maintenance window, too.
func (r *Runner) within(key records.ClusterKey, operation string, stop func() error) func() error {
	return func() error {
		if err := stop(); err != nil {
			return err
		}
		s, ok := r.gather(key)
		o, known := r.State.Operations.Get(operation)
		if ok && known && s.Outside(o.Value) != nil {
			return engine.ErrStopped
		}
		return nil
	}
}

// hold writes what an operation waits for. What was begun goes on afterwards.
func (r *Runner) hold(ctx context.Context, d want.Decision) error {
	_, err := r.State.Operations.Modify(ctx, d.Operation.Key(), func(o operations.Operation) (operations.Operation, error) {
		if o.State.Ended() {
			return o, store.ErrUnchanged
		}
		now := r.Now().UTC()
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

// options are what a run needs of its surroundings.
func (r *Runner) options(machines []records.Machine, report engine.Report) engine.Options {
	return engine.Options{
		Dial: r.dialer(machines), Versions: r.Versions, Report: report, Logger: r.Logger, Now: r.Now, Pause: r.Pause,
		Source: func() pki.Source { return pki.NewSource(r.Now()) }, Addons: r.Addons, Buckets: r.Buckets,
	}
}

// save keeps a cluster's state, in the form that kept gives it.
func (r *Runner) save(ctx context.Context, key records.ClusterKey, next *rkestate.State, kept func(records.RKEState, *rkestate.State) (records.RKEState, error)) error {
	if _, ok := r.State.Clusters.Get(string(key)); !ok {
		return fmt.Errorf("cluster %s does not exist any more: %w", key, engine.ErrStopped)
	}
	op, err := r.recording(key, func(rec records.RKEState) (records.RKEState, error) { return kept(rec, next) })
	if err != nil {
		return err
	}
	_, err = r.State.Store.Commit(ctx, op)
	return err
}

// succeeded writes that a cluster is what it should be, and what else there is to be remembered; done may be nil.
func (r *Runner) succeeded(ctx context.Context, s want.Snapshot, d want.Decision, agents *selfRepair, done func(records.RKEState) records.RKEState) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	if err := agents.release(ctx); err != nil {
		return err
	}
	op, err := r.recording(key, func(rec records.RKEState) (records.RKEState, error) {
		if d.Wish != nil {
			rec.Heeded = d.Wish.With(rec.Heeded)
		}
		if d.Wish == nil || d.Wish.Kind == operations.KindRestore {
			if rec.Since.IsZero() {
				rec.Since = r.Now().UTC()
				rec.Heeded = want.Fresh(want.Input{Cluster: s.Cluster}, rec.Heeded)
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
	return r.close(ctx, d.Operation, operations.Succeeded, "", op)
}

// removed forgets the state of a cluster that has left its hosts.
func (r *Runner) removed(ctx context.Context, key records.ClusterKey, d want.Decision) error {
	ops := []store.Op{r.State.RKEStates.Deleting(string(key), 0)}
	for _, m := range r.State.MachinesByCluster.Find(key) {
		if _, ok := r.State.NodeConfigs.Get(m.Key); ok {
			ops = append(ops, r.State.NodeConfigs.Deleting(m.Key, 0))
		}
	}
	return r.close(ctx, d.Operation, operations.Succeeded, "", ops...)
}

// failed writes what went wrong and when the next try begins. A wish of which nothing was begun is not tried again by itself.
func (r *Runner) failed(ctx context.Context, cluster records.Cluster, d want.Decision, p want.Params, failed error) error {
	o, key := d.Operation, records.ClusterKey(d.Operation.Subject)
	failed = advice.Error(failed, words(cluster.Name))
	if p.Wish != nil && !r.begun(key, p.Wish.Kind) {
		r.Logger.Warn("what was asked of an RKE1 cluster was not done", "operation", o.ID, "kind", o.Kind, "cluster", o.Subject, "error", failed)
		return r.end(ctx, key, want.Decision{Operation: o, Wish: p.Wish, State: operations.Failed, Reason: failed.Error()})
	}
	if p.Wish == nil && o.Kind == operations.KindProvision && r.kept(key) {
		_, err := r.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
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
	p.Next = r.Now().UTC().Add(want.Delay(p.Tries))
	next := "the next try begins at " + p.Next.Format(time.RFC3339) + ", or at once with `drover operations retry " + o.ID + "`"
	if incomplete, ok := errors.AsType[*engine.IncompleteError](failed); ok && len(incomplete.Failed) == 0 {
		for address := range incomplete.Skipped {
			p.Away = append(p.Away, address)
		}
		slices.Sort(p.Away)
		next = "the next try begins when the node agent of " + strings.Join(p.Away, ", ") + " is connected"
	}
	if rec, ok := r.State.RKEStates.Get(string(key)); ok && (want.Snapshot{Record: &rec.Value}).Taken(p.Guard) {
		next += "; the way back is `drover snapshots restore " + cluster.Name + " " + p.Guard + "`, with the version of before in the document"
	}
	r.Logger.Warn("a run of the RKE1 engine failed", "operation", o.ID, "cluster", o.Subject, "try", p.Tries, "error", failed)
	_, err := r.State.Operations.Modify(ctx, o.Key(), func(o operations.Operation) (operations.Operation, error) {
		now := r.Now().UTC()
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

// Preview is what a run would do, in lines. It asks the hosts and does nothing.
func (r *Runner) Preview(ctx context.Context, cluster records.Cluster) ([]string, error) {
	lines, _, err := r.Compare(ctx, cluster)
	return lines, err
}

// Compare is Preview, and says beside that whether it is known that a run would change nothing on any host.
func (r *Runner) Compare(ctx context.Context, cluster records.Cluster) (lines []string, same bool, err error) {
	s := r.snapshot(cluster)
	before, err := want.State(s.Record)
	if err != nil {
		return nil, false, err
	}
	if needs := want.Needs(cluster.Name, s.Machines, s.Connected); len(needs) > 0 {
		return []string{"nothing is done before this: " + want.Sentence(needs)}, false, nil
	}
	c, _, err := want.Config(want.Input{Cluster: cluster, Machines: s.Machines, Before: before, Versions: s.Versions})
	if err != nil {
		return nil, false, err
	}
	changes, err := engine.Preview(ctx, r.options(s.Machines, silent{}), engine.Work{Config: c, Before: before, Kubeconfig: kubeconfigPath})
	if err != nil {
		return nil, false, fmt.Errorf("look at the hosts of cluster %s: %w", cluster.Name, err)
	}
	return append(changes.Lines(), changes.Summary()), changes.Empty() && len(changes.Unknown) == 0, nil
}

// silent is the report of what does nothing.
type silent struct{}

func (silent) Phase(string, string)        {}
func (silent) Line(string)                 {}
func (silent) Warn(string, ...advice.Step) {}
