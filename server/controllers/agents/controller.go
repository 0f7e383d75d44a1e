// Package agents keeps the agents on the hosts of fleets and of clusters of k3s and RKE2 of the server's release, where the setting agent-updates says so: one
// of them after the other, and no further one once an update has failed.
package agents

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// lookAgain is how often each cluster is looked at, since that an agent has come back with another release is not in the store, and how long after the
// begin of the worker for the first time, when tunnels have come back.
const lookAgain = time.Minute

// Controller begins updates. All fields are required.
type Controller struct {
	Asker *etcdops.Service
	// Automatic says that agents are updated by themselves, and Servers are the releases of all servers that run.
	Automatic func() bool
	Servers   func() []string
	Logger    *slog.Logger
	Now       func() time.Time
}

// Worker looks at each cluster again and again, and when an update has ended.
func (c *Controller) Worker() reconcile.Worker {
	s := c.Asker.State
	return reconcile.Worker{
		Name: "agents", Title: "updates agents to the server's release, one cluster or fleet after the other", First: lookAgain, Resync: lookAgain, AtOnce: 1,
		Keys: func() []string { return slices.Concat(reconcile.Keys(s.Clusters)(), reconcile.Keys(s.Fleets)()) }, Reconcile: c.reconcile,
		Watches: []reconcile.Watch{reconcile.Documents(s.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
			if e.Type == store.Put && e.Value.Kind == operations.KindUpdateAgents && e.Value.State.Ended() {
				q.AddAll()
			}
		}), reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Put && e.Old == nil {
				q.Add(e.Key)
			}
		}), reconcile.Documents(s.Fleets, func(e store.Event[records.Fleet], q reconcile.Queue) { q.Add(e.Key) })},
	}
}

// reconcile begins the update of one cluster when it is its turn.
func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	d, ok := c.Asker.State.Clusters.Get(name)
	fleet, isFleet := c.Asker.State.Fleets.Get(name)
	if isFleet {
		d.Value = fleet.Value.AsCluster()
	} else if !ok || d.Value.Spec.Docker() || d.Value.Spec.Imported() {
		return reconcile.Result{Gone: true}, nil
	}
	if !c.Automatic() {
		return reconcile.Result{}, nil
	}
	seen, err := c.look(d.Value)
	if err != nil {
		return reconcile.Result{}, err
	}
	why, now := decide(seen)
	if now {
		why, err = c.begin(ctx, records.ClusterKey(name))
	}
	result := reconcile.Result{After: lookAgain}
	if why != "" {
		result.Wait = &reconcile.Wait{Object: "the update of the agents of " + records.ClusterKey(name).Home(), Cause: why}
	}
	return result, err
}
