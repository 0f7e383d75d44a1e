// Package requests begins what documents ask for once: a value of etcdSnapshotCreate and its like that was not there before begins the
// operation that people begin by the command line, and what became of it is in the cluster's status.
package requests

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// lookAgain is how often all clusters are looked at, should nothing have called for it.
const lookAgain = time.Minute

// Controller begins what documents ask for. All fields are required.
type Controller struct {
	Asker  *etcdops.Service
	Logger *slog.Logger
}

// Worker looks at each cluster when its document asks for something, when an operation has ended, and again and again.
func (c *Controller) Worker() reconcile.Worker {
	s := c.Asker.State
	return reconcile.Worker{
		Name: "requests", Title: "begins what documents ask for once, such as a snapshot", Resync: lookAgain, AtOnce: 1,
		Keys: reconcile.Keys(s.Clusters), Reconcile: c.reconcile,
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
func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	d, ok := c.Asker.State.Clusters.Get(name)
	if !ok || d.Value.Spec.Docker() || d.Value.Spec.Imported() {
		return reconcile.Result{Gone: true}, nil
	}
	failed := c.follow(ctx, key, d.Value)
	if !ready(d.Value) {
		return reconcile.Result{}, failed
	}
	var wait *reconcile.Wait
	for _, ask := range due(d.Value) {
		waits, err := c.begin(ctx, key, ask)
		failed = errors.Join(failed, err)
		if waits != "" {
			wait = &reconcile.Wait{Object: "the " + string(ask.Kind) + " that the document of cluster " + name + " asks for", Cause: waits}
		}
	}
	return reconcile.Result{After: lookAgain, Wait: wait}, failed
}

// begin begins an operation, or notes why it never will be; waits is why it cannot begin yet.
func (c *Controller) begin(ctx context.Context, key records.ClusterKey, ask etcdops.Request) (waits string, err error) {
	o, err := c.Asker.Begin(ctx, key, ask)
	if err == nil {
		c.Logger.Info("a document asks for an operation", "cluster", key, "kind", ask.Kind, "operation", o.ID)
		return "", nil
	}
	bad, refused := errors.AsType[*admission.InvalidError](err)
	if !refused {
		return err.Error(), nil
	}
	return "", c.note(ctx, key, ask.Kind, func(was records.Requested, known bool) (records.Requested, bool) {
		if was.Value == ask.Requested {
			return was, known // it was begun by another server, a moment ago
		}
		return records.Requested{Value: ask.Requested, Phase: records.RequestFailed, Message: bad.Reason}, true
	})
}

// follow notes which of a cluster's requests have come to their end, and forgets those that its document has not any more.
func (c *Controller) follow(ctx context.Context, key records.ClusterKey, cluster records.Cluster) error {
	operation := func(id string) (operations.Operation, bool) {
		d, known := c.Asker.State.Operations.Get(string(key) + "/" + id)
		return d.Value, known
	}
	for kind, was := range cluster.Requests {
		next, keep := became(cluster, kind, operation)
		if keep && next == was {
			continue
		}
		if err := c.note(ctx, key, kind, func(now records.Requested, known bool) (records.Requested, bool) {
			if keep && now != was {
				return now, known // the next request has begun meanwhile
			}
			return next, keep
		}); err != nil {
			return err
		}
	}
	return nil
}
