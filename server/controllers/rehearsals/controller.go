// What begins rehearsals when they are due, on the server that leads. When the last one was is derived from what is kept and from the
// operations, so that neither a restart nor another leader begins one twice, or leaves one out.

package rehearsals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// lookAgain is how often all clusters are looked at, should nothing have called for it.
const lookAgain = time.Minute

// Worker begins rehearsals that are due, and keeps how rehearsals end. It looks at all clusters at once, as the rehearsals of all are
// found under the fleets whose hosts carry them out.
func (a *Service) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "rehearsals", Title: "begins rehearsals of restores that are due", Resync: lookAgain,
		Watches: []reconcile.Watch{
			reconcile.Documents(a.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
				if e.Type == store.Put && e.Value.Kind == operations.KindRehearse && e.Value.State.Ended() {
					q.AddAll()
				}
			}),
			reconcile.Documents(a.State.Rehearsals, func(e store.Event[records.Rehearsals], q reconcile.Queue) {
				if e.Type == store.Put && (e.Old == nil || e.Old.Every != e.Value.Every || e.Old.Fleet != e.Value.Fleet) {
					q.AddAll()
				}
			}),
		},
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			return reconcile.Result{After: lookAgain}, a.look(ctx)
		},
	}
}

// look does what is to be done for all clusters.
func (a *Service) look(ctx context.Context) (failed error) {
	rehearsed := a.underFleets()
	for _, d := range a.State.Clusters.List() {
		if d.Value.Spec.Docker() || d.Value.Spec.Imported() || !d.Value.Deleting.IsZero() || ctx.Err() != nil {
			continue
		}
		if err := a.attend(ctx, d.Value, ofCluster(d.Value, rehearsed)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("look at the rehearsals of cluster %s: %w", d.Key, err))
		}
	}
	return failed
}

// attend keeps how the rehearsals of a cluster have ended, and begins one that is due.
func (a *Service) attend(ctx context.Context, c records.Cluster, all []operations.Operation) error {
	key := records.ClusterKey(c.Key())
	d, _ := a.State.Rehearsals.Get(c.Key())
	kept := d.Value
	for _, o := range all {
		if !o.State.Ended() {
			continue
		}
		var err error
		if kept, err = a.keep(ctx, key, func(kept records.Rehearsals) (records.Rehearsals, bool) { return ended(kept, end(o), a.Now()) }); err != nil {
			return err
		}
	}
	decided := decide(a.situation(c, kept, all))
	if decided.Snapshot == "" {
		if !decided.Held {
			return nil
		}
		return a.hold(ctx, key, decided.Why)
	}
	o, err := a.Begin(ctx, key, Request{Snapshot: decided.Snapshot, Machine: decided.Machine, Fleet: kept.Fleet})
	if bad, refused := errors.AsType[*admission.InvalidError](err); refused {
		return a.hold(ctx, key, bad.Reason)
	}
	if _, busy := errors.AsType[*operations.BusyError](err); busy {
		return nil // another server was quicker
	}
	if err == nil {
		a.Logger.Info("a rehearsal is due", "cluster", key, "snapshot", decided.Snapshot, "operation", o.ID)
	}
	return err
}

// hold keeps why a rehearsal that is due has not begun.
func (a *Service) hold(ctx context.Context, key records.ClusterKey, why string) error {
	_, err := a.keep(ctx, key, func(kept records.Rehearsals) (records.Rehearsals, bool) {
		return held(kept, why, a.Now().UTC())
	})
	return err
}
