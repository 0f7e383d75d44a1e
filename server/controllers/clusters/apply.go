// What is done: one pass over one cluster or fleet, whose decision is committed.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/plans"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/traces"
)

// observation is what came of looking at a cluster once.
type observation struct {
	again   time.Duration // when to look again though nothing changed; zero means not
	decided time.Duration // how long the decision took, without the writing
	gone    bool          // neither a cluster nor a fleet is there
}

// partlySeen is when to look again at a cluster that was written with other documents which are not in view yet.
const partlySeen = 5 * time.Millisecond

// pass looks at one cluster once.
func (c *Controller) pass(ctx context.Context, key records.ClusterKey) (l observation, err error) {
	if fleet, ok := c.State.Fleets.Get(string(key)); ok {
		return c.passFleet(ctx, fleet)
	}
	cluster, ok := c.State.Clusters.Get(string(key))
	if !ok {
		c.Nodes.Want(key, nil)
		c.forget(key)
		return observation{gone: true}, nil
	}
	if cluster.Revision > c.State.Store.Revision() {
		// What was written with it is not all in view: a change without its operation would begin without what the
		// operation begins with, and without its record.
		return observation{again: partlySeen}, nil
	}
	next, writes, err := asked.Turn(c.State, cluster, c.Now().UTC())
	if err != nil {
		return observation{}, err
	}
	if begun, err := c.begin(ctx, key, next, writes); begun || err != nil {
		return observation{}, err // its writes have the cluster looked at again
	}
	began := time.Now()
	snapshot, g := c.gather(cluster)
	if now, ok := c.State.Clusters.Get(string(key)); !ok || now.Revision != cluster.Revision {
		// An operation that came with the newer document would be judged by the older one, and end before it has begun.
		return observation{again: partlySeen}, nil
	}
	snapshot.Memo = c.memo(key)
	decision := decide.Decide(snapshot)
	l = observation{again: decision.Again, decided: time.Since(began)}
	decision.Steps = nil // of previews: they hold the plans of each machine before and after
	ctx, end := traced(ctx, c, key, decision, began)
	defer end()
	if err := c.commit(ctx, g, decision); err != nil {
		return l, err
	}
	c.Nodes.Want(key, decision.Orders)
	return l, nil
}

// passFleet looks at one fleet once, as pass does at a cluster.
func (c *Controller) passFleet(ctx context.Context, d store.Document[records.Fleet]) (l observation, err error) {
	key := records.ClusterKey(d.Key)
	if first, ok := operations.Next(d.Key, c.State.OperationsOf(key)); ok {
		next, err := first.To(operations.Running, "", c.Now().UTC())
		if err == nil {
			_, err = c.begin(ctx, key, []operations.Operation{next}, nil)
		}
		return observation{}, err // its write has the fleet looked at again
	}
	began := time.Now()
	snapshot, g := c.gatherFleet(d)
	snapshot.Memo = c.memo(key)
	decision := decide.DecideFleet(snapshot)
	l = observation{again: decision.Again, decided: time.Since(began)}
	ctx, end := traced(ctx, c, key, decision, began)
	defer end()
	return l, c.commit(ctx, g, decision)
}

// begin gives the queued operation its turn that is next, and ends those that cannot have one. It says whether something was written.
func (c *Controller) begin(ctx context.Context, key records.ClusterKey, next []operations.Operation, writes []store.Op) (bool, error) {
	for _, o := range next {
		d, _ := c.State.Operations.Get(o.Key())
		d.Value = o
		writes = append(writes, c.State.Operations.Updating(d))
	}
	if len(writes) == 0 {
		return false, nil
	}
	if _, err := c.State.Store.Commit(ctx, writes...); err != nil {
		return false, fmt.Errorf("give the next operation on %s its turn: %w", key.Home(), err)
	}
	for _, o := range next {
		c.Logger.Info("operation has its turn", "operation", o.ID, "kind", o.Kind, "cluster", o.Subject, "state", o.State)
	}
	return true, nil
}

// commit writes a decision. The writes of one machine are in one transaction, several
// machines share one where they are small, and a cluster is removed in a single one.
func (c *Controller) commit(ctx context.Context, g readSet, d decide.Decision) error {
	if d.Cluster.Remove {
		return c.remove(ctx, g, d)
	}
	var batch batch
	if d.Operation != nil {
		// With the first plans: a reader of the record finds the plans that it speaks of.
		w := c.operation(g.operation, *d.Operation)
		if d.Rehearsed != nil {
			w.ops = append(w.ops, rehearsed(c.State, *d.Rehearsed)...) // which is known once: with the task that it ends
		}
		batch = append(batch, w)
	}
	if d.Cluster.Secrets != nil && g.secrets.Revision != 0 {
		g.secrets.Value = *d.Cluster.Secrets
		batch = append(batch, write{what: "the tokens of cluster " + g.cluster.Key, ops: []store.Op{c.State.ClusterSecrets.Updating(g.secrets)}, size: statusSize})
	}
	for _, s := range d.Snapshots {
		batch = append(batch, c.snapshot(s))
	}
	for i, m := range d.Machines {
		o := g.find(m.Key)
		w := c.machine(ctx, *o, m)
		// What is written of thousands of machines takes seconds to write, and all that was before would be held until the end.
		d.Machines[i], o.secret = decide.MachineDecision{}, store.Document[records.PlanSecret]{}
		if m.Keep && d.Operation != nil {
			// Its removal has ended if and only if the machine stays.
			batch[0].ops = append(batch[0].ops, w.ops...)
			continue
		}
		if !batch.fits(w) {
			if err := c.write(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
		batch = append(batch, w)
	}
	if spec := d.Cluster.Spec; spec != nil {
		g.cluster.Value.Spec = *spec
		g.cluster.Value.Generation++
	}
	if d.Cluster.Status != nil || d.Cluster.Spec != nil {
		if d.Cluster.Status != nil {
			g.cluster.Value.Status = *d.Cluster.Status
		}
		w := write{what: "the status of cluster " + g.cluster.Key, ops: []store.Op{c.State.Clusters.Updating(g.cluster)}, size: statusSize}
		if !batch.fits(w) {
			if err := c.write(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
		batch = append(batch, w)
	}
	return c.write(ctx, batch)
}

// operation is the write of the operation's next record.
func (c *Controller) operation(d store.Document[operations.Operation], next operations.Operation) write {
	before := d.Value.State
	d.Value = next
	writes := []store.Op{c.State.Operations.Updating(d)}
	if _, kept := c.State.GivenPlans.Get(next.Key()); kept && next.Kind == operations.KindRehearse && next.State.Ended() {
		writes = append(writes, c.State.GivenPlans.Deleting(next.Key(), 0)) // it has the cluster's token
	}
	return write{
		what: "the record of operation " + next.ID, ops: writes, size: statusSize + 512*len(next.Tasks) + 256*len(next.Log),
		done: func() {
			if before != next.State {
				c.Logger.Info("operation", "operation", next.ID, "kind", next.Kind, "cluster", next.Subject, "state", next.State, "reason", next.Reason)
			}
		},
	}
}

// rehearsed puts the result of a rehearsal to the record of its snapshot, which may be gone by now.
func rehearsed(s *state.State, is pass.Rehearsed) []store.Op {
	d, ok := s.Snapshots.Get(is.Snapshot)
	if !ok {
		return nil
	}
	switch {
	case is.Result.Cause == "":
		is.Result.Good = is.Result.At
	case d.Value.Rehearsal != nil:
		is.Result.Good = d.Value.Rehearsal.Good
	}
	d.Value.Rehearsal = &is.Result
	return []store.Op{s.Snapshots.Updating(d)}
}

// snapshot is the write of a snapshot that was taken; the cluster itself may have been quicker to list it.
func (c *Controller) snapshot(s records.Snapshot) write {
	w := write{what: "the record of snapshot " + s.Key(), size: statusSize}
	if known, ok := c.State.Snapshots.Get(s.Key()); ok {
		known.Value = s
		w.ops = append(w.ops, c.State.Snapshots.Updating(known))
	} else {
		w.ops = append(w.ops, c.State.Snapshots.Creating(s.Key(), s))
	}
	return w
}

// machine is the write of what was decided of one machine.
func (c *Controller) machine(ctx context.Context, o documents, d decide.MachineDecision) write {
	m := *o.machine
	if d.Remove {
		return write{
			what: "the removal of machine " + m.Key, ops: c.removal(o), size: statusSize,
			done: func() { c.Logger.Info("machine removed", "machine", m.Key, "cluster", m.Value.ClusterName) },
		}
	}
	w := write{what: "plan and state of machine " + m.Key, size: statusSize}
	if d.Secret != nil {
		next := o.secret
		if next.Value = *d.Secret; d.Deliver && c.Tracer != nil {
			next.Value = traces.Mark(ctx, next.Value, c.Now())
		}
		w.ops = append(w.ops, c.State.PlanSecrets.Updating(next))
		w.size += secretSize(d.Secret)
	}
	before := m.Value.Status
	if d.Keep {
		m.Value.Deleting, m.Value.Leave = time.Time{}, records.Leave{}
	}
	if d.Status != nil {
		m.Value.Status = *d.Status
	}
	if d.Keep || d.Status != nil {
		w.ops = append(w.ops, c.State.Machines.Updating(m))
		if f := m.Value.Status.LastFailure; f != nil {
			w.size += len(f.Output)
		}
	}
	w.done = func() {
		if d.Status != nil && failedAgain(before.LastFailure, d.Status.LastFailure) {
			c.Observe.Failed()
		}
		if d.Deliver {
			c.Observe.Delivered(d.Retry > 0)
			c.Logger.Info("plan delivered", "machine", m.Value.Name, "cluster", m.Value.ClusterName,
				"plan", plans.Short(plans.Checksum(d.Secret.Data[plans.KeyPlan])), "retry", d.Retry)
		}
		if m.Value.Docker != nil && d.Status != nil && before.State != d.Status.State {
			c.Logger.Info("Docker host", "machine", m.Key, "host", m.Value.NodeName, "state", d.Status.State, "cause", d.Status.Cause)
		}
	}
	return w
}

// failedAgain says that a failure is another one than before.
func failedAgain(before, after *records.PlanFailure) bool {
	return after != nil && (before == nil || before.Checksum != after.Checksum || !before.At.Equal(after.At))
}

// remove takes a cluster or a fleet out of the store with everything that belongs to it, in one
// transaction. The hosts keep what runs on them; their agents see their Secret go.
func (c *Controller) remove(ctx context.Context, g readSet, d decide.Decision) error {
	key, id, ops := d.Cluster.Key, g.cluster.Value.ID, []store.Op(nil)
	if g.fleet != nil {
		id, ops = g.fleet.Value.ID, append(ops, c.State.Fleets.Deleting(g.fleet.Key, g.fleet.Revision))
	} else {
		ops = append(ops, c.State.Clusters.Deleting(g.cluster.Key, g.cluster.Revision))
	}
	if secrets, ok := c.State.ClusterSecrets.Get(string(key)); ok {
		ops = append(ops, c.State.ClusterSecrets.Deleting(secrets.Key, secrets.Revision))
	}
	for _, given := range c.State.GivenPlans.ListIn(string(key) + "/") {
		ops = append(ops, c.State.GivenPlans.Deleting(given.Key, 0))
	}
	for _, token := range c.State.RegistrationTokens.ListIn(id + "/") {
		ops = append(ops, c.State.RegistrationTokens.Deleting(token.Key, token.Revision))
	}
	ops = append(ops, c.State.RemovingPeople(id)...)
	if d, ok := c.State.ClusterAgents.Get(string(key)); ok {
		ops = append(ops, c.State.ClusterAgents.Deleting(d.Key, 0))
	}
	if d, ok := c.State.RKEStates.Get(string(key)); ok {
		ops = append(ops, c.State.RKEStates.Deleting(d.Key, d.Revision))
	}
	if d, ok := c.State.Rehearsals.Get(string(key)); ok {
		ops = append(ops, c.State.Rehearsals.Deleting(d.Key, d.Revision))
	}
	for _, s := range c.State.Snapshots.ListIn(string(key) + "/") {
		ops = append(ops, c.State.Snapshots.Deleting(s.Key, 0))
	}
	for _, m := range d.Machines {
		ops = append(ops, c.removal(*g.find(m.Key))...)
	}
	for _, o := range c.State.OperationsOf(key) {
		ops = append(ops, c.State.Operations.Deleting(o.Key(), 0))
	}
	if _, err := c.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("remove %s from the store: %w", key.Home(), err)
	}
	c.Logger.Info("removed with all that belongs to it", "what", key.Home(), "machines", len(d.Machines))
	return nil
}

// removal takes a machine out of the store with everything that belongs to it.
func (c *Controller) removal(o documents) []store.Op {
	ops := []store.Op{c.State.Machines.Deleting(o.machine.Key, o.machine.Revision)}
	if o.secret.Revision != 0 {
		ops = append(ops, c.State.PlanSecrets.Deleting(o.secret.Key, o.secret.Revision))
	}
	if d, ok := c.State.NodeConfigs.Get(o.machine.Key); ok {
		ops = append(ops, c.State.NodeConfigs.Deleting(d.Key, 0))
	}
	return ops
}

// write is what belongs together: it is written whole or not at all.
type write struct {
	what string
	ops  []store.Op
	size int    // bytes, estimated
	done func() // once it is written; nil for nothing
}

// batch are writes that share a transaction.
type batch []write

// Bounds of a transaction, below those of an etcd that is not tuned: 128 operations, one of
// which is the fence, and 1.5 MiB.
const (
	maxBatchOps  = 100
	maxBatchSize = 512 << 10
	statusSize   = 4 << 10 // of a document with a status and without a failure's output, amply
)

func (b batch) fits(w write) bool {
	ops, size := len(w.ops), w.size
	for _, other := range b {
		ops, size = ops+len(other.ops), size+other.size
	}
	return len(b) == 0 || ops <= maxBatchOps && size <= maxBatchSize
}

// secretSize is about what a plan Secret takes in the store, where its data are in base64.
func secretSize(s *records.PlanSecret) int {
	size := statusSize
	for key, value := range s.Data {
		size += len(key) + 2*len(value)
	}
	return size
}

// write commits a batch. When another write has changed or removed one of its documents, the
// others are written one by one, and the first error is returned.
func (c *Controller) write(ctx context.Context, b batch) error {
	if len(b) == 0 {
		return nil
	}
	var ops []store.Op
	for _, w := range b {
		ops = append(ops, w.ops...)
	}
	_, err := c.State.Store.Commit(ctx, ops...)
	if err == nil {
		for _, w := range b {
			if w.done != nil {
				w.done()
			}
		}
		return nil
	}
	_, conflict := errors.AsType[*store.ConflictError](err)
	_, gone := errors.AsType[*store.NotFoundError](err)
	if len(b) == 1 || !conflict && !gone {
		return fmt.Errorf("write %s: %w", b[0].what, err)
	}
	var first error
	for i := range b {
		if err := c.write(ctx, b[i:i+1]); err != nil && first == nil {
			first = err
		}
	}
	return first
}
