// Package rke1 has the controller of RKE1 clusters: on the leader, for each of them it asks server/rke/desired what is to be done, and does
// it with the engine of rke1/engine. What a run is at is an operation, and the cluster's state is kept each time when the engine
// says so, so that the next leader goes on where this one ended.
//
// Nothing is polled: a cluster is looked at when one of its records changes, when a tunnel opens, and when the next try is due.
package rke1

import (
	"context"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// Controller brings all RKE1 clusters to what their documents say.
type Controller struct {
	*Clusters
	tunnels reconcile.Signal
}

// New makes a controller; nothing happens before its worker runs.
func New(all *Clusters) *Controller {
	return &Controller{Clusters: all, tunnels: reconcile.Signal{Of: "tunnels"}}
}

// TunnelChanged looks at a cluster again when one of its tunnels came or went.
func (c *Controller) TunnelChanged(subject records.Subject, _ bool) {
	if d, ok := c.State.Machines.Get(string(subject.Machine())); ok && d.Value.Docker != nil {
		c.tunnels.Add(string(d.Value.Cluster()))
	}
}

// afterFault is how soon a cluster is looked at again that could not be worked on.
const afterFault = 5 * time.Second

// Worker looks after the clusters, each by itself.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "rke1", Title: "brings RKE1 clusters to what their documents say",
		Keys: c.keys, Reconcile: c.reconcile, RetryFirst: afterFault, RetryLast: afterFault,
		Watches: []reconcile.Watch{
			c.tunnels.Watch(),
			reconcile.Documents(c.State.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
				if e.Value.Spec.RKE1() || e.Old != nil && e.Old.Spec.RKE1() {
					q.Add(e.Key)
				}
			}),
			reconcile.Documents(c.State.Machines, func(e store.Event[records.Machine], q reconcile.Queue) {
				if e.Value.Docker != nil {
					q.Add(string(e.Value.Cluster()))
				}
			}),
			reconcile.Documents(c.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
				changed := e.Old == nil || e.Old.State != e.Value.State || e.Old.Retry != e.Value.Retry || (e.Old.Hurry == nil) != (e.Value.Hurry == nil)
				if changed && c.ours(records.ClusterKey(e.Value.Subject)) {
					q.Add(e.Value.Subject)
				}
			}),
		},
	}
}

func (c *Controller) keys() (all []string) {
	for _, d := range c.State.Clusters.List() {
		if d.Value.Spec.RKE1() {
			all = append(all, d.Key)
		}
	}
	return all
}

// ours says that there is an RKE1 cluster of a key.
func (c *Controller) ours(key records.ClusterKey) bool {
	d, ok := c.State.Clusters.Get(string(key))
	return ok && d.Value.Spec.RKE1()
}

// reconcile looks at a cluster once. What runs ends when the cluster is gone.
func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	if !c.ours(key) {
		return reconcile.Result{Gone: true}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.State.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Key == name && (e.Type == store.Deleted || !e.Value.Spec.RKE1()) {
			cancel()
		}
	})()
	again, err := c.pass(ctx, key)
	if !c.ours(key) {
		return reconcile.Result{Gone: true}, nil
	}
	return reconcile.Result{After: again}, err
}

// gather is the snapshot of a cluster; not ok when it is gone.
func (c *Controller) gather(key records.ClusterKey) (desired.Snapshot, bool) {
	cluster, ok := c.State.Clusters.Get(string(key))
	if !ok {
		return desired.Snapshot{}, false
	}
	return c.Snapshot(cluster.Value), true
}
