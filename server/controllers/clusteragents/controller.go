// Package clusteragents is what the leader does in clusters for their agents: the agent that is there is kept as the server wants it, one is
// deployed where the server provisions and the setting says so, and what was put into an imported cluster that leaves is taken out.
package clusteragents

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/clusteragents"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Setting says which clusters have an agent: those that were imported, or All.
const (
	Setting  = "cluster-agent"
	Imported = "imported"
	All      = "all"
)

const (
	// lookEvery is when all clusters are looked at though nothing has changed, lookLimit bounds what is done in one.
	lookEvery = time.Minute
	lookLimit = time.Minute
)

// Controller keeps the agents in the clusters. All exported fields are required.
type Controller struct {
	Agents *clusteragents.Agents
	// Client is the way to a cluster with the rights of its administrator; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Authority is that of the API of a cluster that the server provisions, in PEM, by its state or its hosts; empty while it is not
	// known.
	Authority func(records.ClusterKey) []byte
	// Clear removes from a cluster what lets people in.
	Clear func(ctx context.Context, key records.ClusterKey, client kubernetes.Interface) error

	mu   sync.Mutex
	done map[records.ClusterKey]kept
}

// watches are what the agents in clusters depend on: keys are those of clusters.
func (c *Controller) watches() []reconcile.Watch {
	s := c.Agents.State
	return []reconcile.Watch{
		reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Deleted || e.Old == nil || e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() || e.Old.Status.Initialized != e.Value.Status.Initialized {
				q.Add(e.Key)
			}
		}),
		reconcile.Documents(s.Settings, func(_ store.Event[records.Setting], q reconcile.Queue) { q.AddAll() }),
		reconcile.Documents(s.RegistrationTokens, func(e store.Event[records.RegistrationToken], q reconcile.Queue) {
			q.Add(string(records.NewClusterKey(e.Value.ClusterNamespace, e.Value.ClusterName)))
		}),
	}
}

// Worker keeps the agent of each cluster. A cluster that hangs holds no other one.
func (c *Controller) Worker(watches ...reconcile.Watch) reconcile.Worker {
	return reconcile.Worker{
		Name: "cluster-agents", Title: "keeps the agents in clusters as the server wants them", Resync: lookEvery, Limit: lookLimit,
		Watches: append(c.watches(), watches...), Reconcile: c.reconcile,
		Keys: reconcile.Keys(c.Agents.State.Clusters),
	}
}

func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	d, ok := c.Agents.State.Clusters.Get(name)
	if !ok {
		return reconcile.Result{Gone: true}, nil
	}
	work := c.due(d.Value)
	if work == nil {
		return reconcile.Result{}, nil
	}
	client, err := c.Client(records.ClusterKey(name))
	if err != nil {
		return reconcile.Result{After: lookEvery, Wait: &reconcile.Wait{Object: "the agent in cluster " + name, Cause: err.Error()}}, nil
	}
	return reconcile.Result{}, work(ctx, d.Value, client)
}
