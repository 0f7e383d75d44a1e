// What begins rehearsals when they are due, on the server that leads. When the last one was is derived from what is kept and from the
// operations, so that neither a restart nor another leader begins one twice, or leaves one out.

package rehearsals

import (
	"context"
	"errors"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rehearsals/schedule"
	"github.com/drover-project/drover/server/store"
)

// lookAgain is how often all clusters are looked at, should nothing have called for it.
const lookAgain = time.Minute

// Start begins rehearsals that are due, and keeps how rehearsals end, until ctx ends. wait returns when nothing is done any more.
func (a *Asker) Start(ctx context.Context) (wait func()) {
	hurry := make(chan struct{}, 1)
	call := func() {
		select {
		case hurry <- struct{}{}:
		default: // it was called already
		}
	}
	ended := a.State.Operations.Observe(func(e store.Event[operations.Operation]) {
		if e.Type == store.Put && e.Value.Kind == planner.KindRehearse && e.Value.State.Ended() {
			call()
		}
	})
	asked := a.State.Rehearsals.Observe(func(e store.Event[records.Rehearsals]) {
		if e.Type == store.Put && (e.Old == nil || e.Old.Every != e.Value.Every || e.Old.Fleet != e.Value.Fleet) {
			call()
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			a.look(ctx)
			select {
			case <-ctx.Done():
				return
			case <-hurry:
			case <-tick.C:
			}
		}
	}()
	return func() {
		ended()
		asked()
		<-done
	}
}

// look does what is to be done for all clusters.
func (a *Asker) look(ctx context.Context) {
	rehearsed := a.underFleets()
	for _, d := range a.State.Clusters.List() {
		if d.Value.Spec.Docker() || d.Value.Spec.Imported() || !d.Value.Deleting.IsZero() || ctx.Err() != nil {
			continue
		}
		if err := a.attend(ctx, d.Value, of(d.Value, rehearsed)); err != nil && ctx.Err() == nil {
			a.Logger.Warn("rehearsals of a cluster are looked at again later", "cluster", d.Key, "error", err)
		}
	}
}

// attend keeps how the rehearsals of a cluster have ended, and begins one that is due.
func (a *Asker) attend(ctx context.Context, c records.Cluster, all []operations.Operation) error {
	key := records.ClusterKey(c.Key())
	d, _ := a.State.Rehearsals.Get(c.Key())
	kept := d.Value
	for _, o := range all {
		if !o.State.Ended() {
			continue
		}
		var err error
		if kept, err = a.keep(ctx, key, func(kept records.Rehearsals) (records.Rehearsals, bool) { return schedule.Ended(kept, end(o), a.Now()) }); err != nil {
			return err
		}
	}
	decided := schedule.Decide(a.situation(c, kept, all))
	if decided.Snapshot == "" {
		if !decided.Held {
			return nil
		}
		return a.hold(ctx, key, decided.Why)
	}
	o, err := a.Begin(ctx, key, Ask{Snapshot: decided.Snapshot, Machine: decided.Machine, Fleet: kept.Fleet})
	if bad, refused := errors.AsType[*InvalidError](err); refused {
		return a.hold(ctx, key, bad.Reason)
	}
	if _, busy := errors.AsType[*operations.BusyError](err); busy {
		return nil // somebody was quicker
	}
	if err == nil {
		a.Logger.Info("a rehearsal is due", "cluster", key, "snapshot", decided.Snapshot, "operation", o.ID)
	}
	return err
}

// hold keeps why a rehearsal that is due has not begun.
func (a *Asker) hold(ctx context.Context, key records.ClusterKey, why string) error {
	_, err := a.keep(ctx, key, func(kept records.Rehearsals) (records.Rehearsals, bool) {
		return schedule.Held(kept, why, a.Now().UTC())
	})
	return err
}
