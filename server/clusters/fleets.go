// Fleets, as the controller works on them: the same snapshot, decision and commit as for clusters, and none of a
// cluster's documents.

package clusters

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// passFleet looks at one fleet once, as pass does at a cluster.
func (c *Controller) passFleet(ctx context.Context, d store.Document[records.Fleet]) (l looked, err error) {
	key := records.ClusterKey(d.Key)
	if begun, err := c.promoteFleet(ctx, key); begun || err != nil {
		return looked{}, err // its write has the fleet looked at again
	}
	began := time.Now()
	snapshot, g := c.gatherFleet(d)
	snapshot.Memo = c.memo(key)
	decision := decide.DecideFleet(snapshot)
	return looked{again: decision.Again, decided: time.Since(began)}, c.commit(ctx, g, decision)
}

// PreviewFleet is what would be decided on a fleet if an operation gave a plan to machines of it now. Every server can
// say it.
func (c *Controller) PreviewFleet(d store.Document[records.Fleet], o operations.Operation, plan records.GivenPlan) decide.Preview {
	snapshot, _ := c.gatherFleet(d)
	snapshot.Operation, snapshot.Given = &o, &plan
	return decide.PreviewFleet(snapshot)
}

// gatherFleet takes the snapshot of a fleet. It reads memory only.
func (c *Controller) gatherFleet(d store.Document[records.Fleet]) (decide.FleetSnapshot, gathered) {
	key := records.ClusterKey(d.Key)
	s := decide.FleetSnapshot{Now: c.Now().UTC(), Leading: time.Unix(0, c.leading.Load()), Fleet: d.Value}
	g := gathered{fleet: &d}
	if under, ok := operations.Active(d.Key, c.State.OperationsOf(key)); ok {
		if g.operation, ok = c.State.Operations.Get(under.Key()); ok {
			s.Operation = &g.operation.Value
		}
		if given, ok := c.State.GivenPlans.Get(under.Key()); ok {
			s.Given = &given.Value
		}
	}
	g.machines, s.Machines = c.members(key, false, nil)
	return s, g
}

// promoteFleet gives the oldest queued operation of a fleet its turn. It says whether something was written.
func (c *Controller) promoteFleet(ctx context.Context, key records.ClusterKey) (bool, error) {
	all := c.State.OperationsOf(key)
	first, found := operations.Active(string(key), all)
	if !found || first.State != operations.Queued || !operations.Ready(first, all) {
		return false, nil
	}
	next, err := first.To(operations.Running, "", c.Now().UTC())
	if err != nil {
		return false, err
	}
	d, _ := c.State.Operations.Get(first.Key())
	d.Value = next
	if _, err := c.State.Operations.Update(ctx, d); err != nil {
		return false, fmt.Errorf("begin operation %s: %w", first.ID, err)
	}
	c.Logger.Info("operation begins", "operation", next.ID, "kind", next.Kind, "fleet", key.Name())
	return true, nil
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
