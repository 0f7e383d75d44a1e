// Rehearsals that begin by themselves: what is kept of a cluster's schedule, and the situation of which the next step is decided.

package rehearsals

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Plan is how often snapshots of a cluster are rehearsed, and on which fleet. The zero value is never.
type Plan struct {
	Every time.Duration
	Fleet string
	// By is the ID of the user who asks for it.
	By string
}

// SetPlan has snapshots of a cluster rehearsed from now on as a plan says. What does not fit is an *admission.InvalidError, and a cluster that is
// not there a *store.NotFoundError. What is known of those that have ended stays.
func (a *Service) SetPlan(ctx context.Context, key records.ClusterKey, plan Plan) error {
	d, ok := a.State.Clusters.Get(string(key))
	if !ok {
		return fmt.Errorf("schedule rehearsals: %w", &store.NotFoundError{Collection: "clusters", Key: string(key)})
	}
	if plan.Every != 0 {
		if err := cmp.Or(a.able(d.Value), a.known(plan.Fleet)); err != nil {
			return err
		}
		if err := checkEvery(plan.Every); err != nil {
			return &admission.InvalidError{Reason: err.Error()}
		}
	}
	_, err := a.keep(ctx, key, func(kept records.Rehearsals) (records.Rehearsals, bool) {
		if kept.Every == plan.Every && kept.Fleet == plan.Fleet {
			return kept, false
		}
		kept.Every, kept.Fleet, kept.By, kept.Since, kept.Held = plan.Every, plan.Fleet, plan.By, a.Now().UTC(), nil
		if plan.Every == 0 {
			kept.Fleet, kept.By, kept.Since = "", "", time.Time{}
		}
		return kept, true
	})
	return err
}

// keep changes what is kept of a cluster's rehearsals, and returns that; false of change leaves it as it is.
func (a *Service) keep(ctx context.Context, key records.ClusterKey, change func(records.Rehearsals) (records.Rehearsals, bool)) (records.Rehearsals, error) {
	var next records.Rehearsals
	err := store.RetryNew(func() (err error) {
		d, there := a.State.Rehearsals.Get(string(key))
		var changed bool
		if next, changed = change(d.Value); !changed {
			next = d.Value
			return nil
		}
		if d.Value = next; there {
			_, err = a.State.Rehearsals.Update(ctx, d)
		} else {
			_, err = a.State.Rehearsals.Create(ctx, string(key), next)
		}
		return err
	})
	if err != nil {
		return next, fmt.Errorf("keep what is known of the rehearsals of cluster %s: %w", key, err)
	}
	return next, nil
}

// Standing is how the rehearsals of a cluster stand now.
func (a *Service) Standing(c records.Cluster) apitypes.Rehearsals {
	kept, _ := a.State.Rehearsals.Get(c.Key())
	s := a.situation(c, kept.Value, ofCluster(c, a.underFleets()))
	d := decide(s)
	return Shown(kept.Value, d.Due, d.Why, s.Running)
}

// Shown is what is kept of a cluster's rehearsals as clients see it, with when the next one is due, zero for none, why one that is due does not
// begin, and the ID of the operation that runs, empty for none.
func Shown(kept records.Rehearsals, next time.Time, waits, running string) apitypes.Rehearsals {
	shown := apitypes.Rehearsals{
		Type: "rehearsals", Fleet: kept.Fleet, By: kept.By, Since: kept.Since, Next: next, Waits: waits, Operation: running, Last: kept.Last, Good: kept.Good,
	}
	if kept.Every > 0 {
		shown.Every = kept.Every.String()
	}
	return shown
}

// situation is all of which the next rehearsal of a cluster is decided; all are its rehearsals. Without a schedule that is nearly nothing.
func (a *Service) situation(c records.Cluster, kept records.Rehearsals, all []operations.Operation) situation {
	key := records.ClusterKey(c.Key())
	s := situation{Now: a.Now(), Kept: kept, Cluster: c.Name}
	for _, one := range all {
		if !one.State.Ended() {
			s.Running = one.ID
		}
	}
	if kept.Every == 0 {
		return s
	}
	fleet := records.FleetKey(kept.Fleet)
	for _, subject := range []records.ClusterKey{key, fleet} {
		if o, busy := operations.Active(string(subject), a.State.OperationsOf(subject)); busy && s.Busy == "" {
			s.Busy = fmt.Sprintf("operation %s (%s) of %s is under way", o.ID, o.Kind, subject.Home())
		}
	}
	if err := cmp.Or(a.able(c), a.known(kept.Fleet)); err != nil {
		s.Fault = err.Error()
	}
	s.Snapshots = a.candidates(c)
	for _, d := range a.State.MachinesByCluster.Find(fleet) {
		one := candidate{Name: d.Value.Name}
		if err := a.suits(d.Value, kept.Fleet); err != nil {
			one.Why = err.Error()
		} else if state := d.Value.Status.State; state != records.Active && state != records.WaitingForPlan {
			one.Why = fmt.Sprintf("machine %s is not idle: it is %s", d.Value.Name, state)
		}
		s.Machines = append(s.Machines, one)
	}
	return s
}

// candidates are the snapshots of a cluster by their names, of which a copy that can be had suffices.
func (a *Service) candidates(c records.Cluster) []candidate {
	var all []candidate
	for _, d := range etcdops.Known(a.State, c, false) {
		s := d.Value
		if s.Fault != "" {
			continue
		}
		one := candidate{Name: s.Name(), Taken: s.Created}
		if ok, why := a.Snapshots.Restorable(s); !ok {
			one.Why = why
		} else if s.Machine == records.SnapshotInS3 {
			_, one.Why = a.bucket(chosen{cluster: c, snapshot: s})
		} else if a.Files != nil {
			one.Why = a.Files.Away(s)
		}
		if i := slices.IndexFunc(all, func(o candidate) bool { return o.Name == one.Name }); i < 0 {
			all = append(all, one)
		} else if one.Why == "" {
			all[i] = one
		}
	}
	return all
}

// underFleets are the rehearsals of listed snapshots by the clusters of these.
func (a *Service) underFleets() map[records.ClusterKey][]operations.Operation {
	all := map[records.ClusterKey][]operations.Operation{}
	for _, fleet := range a.State.Fleets.List() {
		for _, o := range a.State.OperationsOf(records.ClusterKey(fleet.Key)) {
			if o.Kind != operations.KindRehearse {
				continue
			}
			if asked, err := steps.ReadRehearsal(o); err == nil && asked.Snapshot != "" {
				all[asked.Cluster] = append(all[asked.Cluster], o)
			}
		}
	}
	return all
}

// ofCluster are the rehearsals of a cluster, and not of one of its name that was there before, in the order of their ends.
func ofCluster(c records.Cluster, all map[records.ClusterKey][]operations.Operation) []operations.Operation {
	own := slices.DeleteFunc(slices.Clone(all[records.ClusterKey(c.Key())]), func(o operations.Operation) bool { return o.Created.Before(c.Created) })
	slices.SortFunc(own, func(x, y operations.Operation) int { return x.Ended.Compare(y.Ended) })
	return own
}

// end is how a rehearsal that has ended did so.
func end(o operations.Operation) records.RehearsalEnd {
	asked, _ := steps.ReadRehearsal(o) // which underFleets has read
	is := records.RehearsalEnd{Operation: o.ID, State: string(o.State), At: o.Ended, Snapshot: path.Base(asked.Snapshot), Machine: asked.Machine}
	if work, _ := o.Task(steps.TaskRehearse); work.State == operations.TaskSucceeded {
		is.Counted = work.Message
	}
	if o.State != operations.Succeeded {
		is.Cause = cmp.Or(o.Reason, "it was stopped")
	}
	return is
}
