// What documents ask for once: a value of etcdSnapshotCreate and its like that was not there before begins the operation that people
// begin by the command line, and what became of it is in the cluster's status.

package daytwo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
)

// Phases of what a document asked for, in Rancher's words. Source: rancher/rancher pkg/apis/rke.cattle.io/v1, ETCDSnapshotPhase and
// RotateEncryptionKeysPhase.
const (
	PhaseStarted  = "Started"
	PhaseFinished = "Finished"
	PhaseFailed   = "Failed"
)

// lookAgain is how often all clusters are looked at, should nothing have called for it.
const lookAgain = time.Minute

// Requests begins what documents ask for.
type Requests struct {
	Asker  *Asker
	Logger *slog.Logger
}

// Worker looks at each cluster when its document asks for something, when an operation has ended, and again and again.
func (r *Requests) Worker() reconcile.Worker {
	s := r.Asker.State
	return reconcile.Worker{
		Name: "requests", Title: "begins what documents ask for once, such as a snapshot", Resync: lookAgain, AtOnce: 1,
		Keys: reconcile.Keys(s.Clusters), Reconcile: r.reconcile,
		Watches: []reconcile.Watch{
			reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
				if e.Type != store.Put || e.Old == nil || len(due(e.Value)) > 0 {
					q.Add(e.Key)
				}
			}),
			reconcile.Documents(s.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
				if e.Type == store.Put && e.Value.State.Ended() {
					q.Add(e.Value.Subject)
				}
			}),
		},
	}
}

// reconcile does what is to be done for one cluster.
func (r *Requests) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	d, ok := r.Asker.State.Clusters.Get(name)
	if !ok || d.Value.Spec.Docker() || d.Value.Spec.Imported() {
		return reconcile.Result{Gone: true}, nil
	}
	failed := r.follow(ctx, d)
	if !ready(d.Value) {
		return reconcile.Result{}, failed
	}
	var wait *reconcile.Wait
	for _, ask := range due(d.Value) {
		if d.Value.Status.Restoring != "" && ask.Kind != ops.KindRestore {
			continue
		}
		o, err := r.Asker.Begin(ctx, key, ask)
		if err == nil {
			r.Logger.Info("a document asks for an operation", "cluster", key, "kind", ask.Kind, "operation", o.ID)
			continue
		}
		bad, refused := errors.AsType[*InvalidError](err)
		if refused {
			failed = errors.Join(failed, r.note(ctx, key, ask.Kind, func(was records.Requested, ok bool) (records.Requested, bool) {
				if was.Value == ask.Requested {
					return was, ok // it was begun by another server, a moment ago
				}
				return records.Requested{Value: ask.Requested, Phase: PhaseFailed, Message: bad.Reason}, true
			}))
			continue
		}
		wait = &reconcile.Wait{Object: "the " + ask.Kind + " that the document of cluster " + name + " asks for", Cause: err.Error()}
	}
	return reconcile.Result{After: lookAgain, Wait: wait}, failed
}

// ready says whether anything can be begun on a cluster now.
func ready(c records.Cluster) bool {
	return c.Status.Initialized && c.Deleting.IsZero() && c.MayChange() == nil
}

// follow notes which of a cluster's requests have come to their end, and forgets those that its document has not any more.
func (r *Requests) follow(ctx context.Context, d store.Document[records.Cluster]) error {
	key := records.ClusterKey(d.Key)
	asked := requests(d.Value)
	for kind, is := range d.Value.Requests {
		// A generation of certificates counts on: the next one has to be another.
		if asked[kind].Requested == "" && kind != ops.KindCertificates {
			if err := r.note(ctx, key, kind, func(records.Requested, bool) (records.Requested, bool) { return records.Requested{}, false }); err != nil {
				return err
			}
			continue
		}
		if is.Phase != PhaseStarted {
			continue
		}
		next := is
		o, known := r.Asker.State.Operations.Get(string(key) + "/" + is.Operation)
		switch {
		case !known:
			next.Phase, next.Message = PhaseFailed, "its operation is not known any more"
		case o.Value.State == operations.Succeeded:
			next.Phase = PhaseFinished
		case o.Value.State.Ended():
			next.Phase, next.Message = PhaseFailed, o.Value.Reason
		default:
			continue
		}
		if err := r.note(ctx, key, kind, func(now records.Requested, ok bool) (records.Requested, bool) {
			if !ok || now != is {
				return now, ok
			}
			return next, true
		}); err != nil {
			return err
		}
	}
	return nil
}

// note changes what is known of a request; false forgets it.
func (r *Requests) note(ctx context.Context, key records.ClusterKey, kind string, change func(records.Requested, bool) (records.Requested, bool)) error {
	_, err := r.Asker.State.Clusters.Modify(ctx, string(key), func(c records.Cluster) (records.Cluster, error) {
		was, ok := c.Requests[kind]
		next, keep := change(was, ok)
		c.Requests = maps.Clone(c.Requests)
		delete(c.Requests, kind)
		if keep {
			if c.Requests == nil {
				c.Requests = map[string]records.Requested{}
			}
			c.Requests[kind] = next
		}
		return c, nil
	})
	if _, gone := errors.AsType[*store.NotFoundError](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("note what became of %s: %w", kind, err)
	}
	return nil
}

// due is what a cluster's document asks for that was not begun yet.
func due(c records.Cluster) []Ask {
	var all []Ask
	asked := requests(c)
	for _, kind := range []string{ops.KindSnapshot, ops.KindRestore, ops.KindCertificates, ops.KindKeys} {
		if ask, ok := asked[kind]; ok && c.Requests[kind].Value != ask.Requested {
			all = append(all, ask)
		}
	}
	return all
}

// requests are what a cluster's document asks for, by kinds. A value without generation and name is what clients send of what they do
// not mean. Of certificates the generation alone makes another request, of all others every field.
func requests(c records.Cluster) map[string]Ask {
	if c.Spec.RKEConfig == nil {
		return nil
	}
	all, r := map[string]Ask{}, c.Spec.RKEConfig.Requests
	add := func(kind string, value any, mode string, request ops.Request) {
		text, err := json.Marshal(value)
		if err == nil { // plain values can be written
			all[kind] = Ask{Kind: kind, Mode: mode, Request: request, Requested: string(text), Turn: turns.Queue}
		}
	}
	if one := r.ETCDSnapshotCreate; one != nil && one.Generation != 0 {
		add(ops.KindSnapshot, one, "", ops.Request{})
	}
	if one := r.ETCDSnapshotRestore; one != nil && *one != (etcdspec.ETCDSnapshotRestore{}) {
		add(ops.KindRestore, one, one.RestoreRKEConfig, ops.Request{Snapshot: one.Name})
	}
	if one := r.RotateCertificates; one != nil && one.Generation != 0 {
		add(ops.KindCertificates, etcdspec.RotateCertificates{Generation: one.Generation}, "", ops.Request{Services: one.Services})
	}
	if one := r.RotateEncryptionKeys; one != nil && one.Generation != 0 {
		add(ops.KindKeys, one, "", ops.Request{})
	}
	return all
}
