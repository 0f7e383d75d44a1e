// Package snapshots keeps what is known of the snapshots of k3s and RKE2. A distribution lists its snapshots in the cluster's own API, where
// they are not found when the cluster is lost, and its bucket outlives it; both are looked at, and what they have is kept beside the
// cluster. It is also what brings a cluster the settings of its bucket.
package snapshots

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// every is how often each cluster is asked. Snapshots are taken twice a day, so that a watch would be open for nothing.
const every = 10 * time.Minute

// Controller keeps the records of snapshots. All fields are required.
type Controller struct {
	State *state.State
	// Client is the way to a cluster's API; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Way is the way to buckets, as bucket.Config has it.
	Way    func(*http.Transport)
	Logger *slog.Logger
	Now    func() time.Time

	mu sync.Mutex
	// faults are why buckets did not answer last, by their clusters.
	faults map[records.ClusterKey]string
}

// Worker looks at each cluster again and again, and at once when an operation on it begins or ends, and when its bucket may be another one.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "snapshots", Title: "keeps what clusters and their buckets list of snapshots", Resync: every, AtOnce: 1,
		Keys: reconcile.Keys(c.State.Clusters), Watches: c.watches(), Reconcile: c.reconcile,
	}
}

// watches are what may have changed the snapshots of a cluster, or its bucket.
func (c *Controller) watches() []reconcile.Watch {
	return []reconcile.Watch{
		reconcile.Documents(c.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
			if e.Type == store.Put && operations.Stepped(e.Value.Kind) && (e.Value.State.Ended() || len(e.Value.Tasks) == 0) {
				q.Add(e.Value.Subject)
			}
		}),
		reconcile.Documents(c.State.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			changed := e.Type != store.Put || e.Old == nil || e.Old.Generation != e.Value.Generation || e.Old.Status.Connected != e.Value.Status.Connected
			if changed && !e.Value.Spec.Docker() && !e.Value.Spec.Imported() {
				q.Add(e.Key)
			}
		}),
		reconcile.Documents(c.State.Objects, func(e store.Event[objects.Object], q reconcile.Queue) {
			for _, d := range c.State.Clusters.List() {
				if slices.Contains(d.Value.Spec.Objects(d.Value.Namespace), e.Key) {
					q.Add(d.Key)
				}
			}
		}),
	}
}

// reconcile brings to a cluster what it has to know of its bucket, and keeps what is there. What does not answer is asked again with all others.
func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	d, ok := c.State.Clusters.Get(name)
	if !ok {
		return reconcile.Result{Gone: true}, nil
	}
	if err := errors.Join(c.deliver(ctx, key, d.Value), c.Refresh(ctx, key)); err != nil {
		return reconcile.Result{After: every, Wait: &reconcile.Wait{Object: "snapshots of cluster " + name, Cause: err.Error()}}, nil
	}
	return reconcile.Result{}, nil
}

// Refresh brings the records of a cluster's snapshots to what the cluster lists, and its bucket. The error says who could not be asked.
func (c *Controller) Refresh(ctx context.Context, key records.ClusterKey) error {
	d, ok := c.State.Clusters.Get(string(key))
	if !ok || d.Value.Spec.Docker() || d.Value.Spec.Imported() {
		return nil
	}
	f := c.found(key, d.Value)
	var silent, closed error
	f.items, silent = c.ask(ctx, key)
	f.answered = silent == nil
	f.objects, f.opened, closed = c.inBucket(ctx, f)
	c.fault(key, closed)
	changes, full := desired(f, c.Now().UTC())
	return errors.Join(silent, closed, c.apply(ctx, changes), full)
}

// fault remembers why a cluster's bucket did not answer; nil forgets it.
func (c *Controller) fault(key records.ClusterKey, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = map[records.ClusterKey]string{}
	}
	delete(c.faults, key)
	if err != nil {
		c.faults[key] = err.Error()
	}
}

// Fault is why the bucket of a cluster did not answer when it was last asked by this server; empty when it did.
func (c *Controller) Fault(key records.ClusterKey) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults[key]
}
