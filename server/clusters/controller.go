// The controller: on the leader, it gathers what the store holds and what the server
// sees of a cluster, and commits what the planner decides. It keeps nothing that
// it could not read again after a restart.

package clusters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
	"github.com/drover-project/drover/server/workqueue"
)

// workers is how many clusters are worked on at once.
const workers = 4

// A cluster rests for some times as long as its last decision took before the next one, so that deciding on
// one cluster takes a twentieth of a core at most however much its machines report. Writing is not counted: it waits for
// a disk, and the last report before a step is what the next host waits for.
const (
	restFactor  = 19
	longestRest = 5 * time.Second
)

// Options of a controller.
type Options struct {
	State *state.State
	// Versions is the current version data.
	Versions func() *versions.Data
	// Identity names this server among those that campaign for leadership.
	Identity string
	// RKE1Versions are the version data of RKE1 clusters.
	RKE1Versions *rke1versions.Data
	// InstallerImage gives the prefix of installer images.
	InstallerImage func() string
	// DefaultRegistry gives the server's default registry; nil for none.
	DefaultRegistry func() string
	// Watching says whether a machine's agent holds its watch open, and since when; since when
	// it is gone when it does not.
	Watching func(planSecretKey string) (since time.Time, connected bool)
	// Tunnel says whether a Docker host has a tunnel to any server, and since when; since when it
	// has none otherwise, zero when that is not known, and the reason if it is.
	Tunnel func(records.Subject) observed.Tunnel
	// API is what the server sees of a cluster's own API.
	API func(records.ClusterKey) observed.API
	// Work, Order and Perform are those of whoever performs orders on nodes; without one, all are nil.
	// Work is how far the orders on the nodes of a cluster are.
	Work func(records.ClusterKey) map[records.MachineKey]observed.NodeWork
	// Order replaces the orders on the nodes of a cluster.
	Order func(records.ClusterKey, []planner.NodeOrder)
	// Perform has orders taken and performed until ctx ends, which is for as long as this server
	// leads; wait returns when nothing is performed any more.
	Perform func(ctx context.Context) (wait func())
	// Record, as Perform, has events written down; nil writes none.
	Record func(ctx context.Context) (wait func())
	// Observe gets what happens; the zero value gets nothing.
	Observe Observer
	Logger  *slog.Logger
	Now     func() time.Time
}

// Controller drives all clusters.
type Controller struct {
	Options
	queue   *workqueue.Queue[records.ClusterKey]
	leading atomic.Int64 // since when, in nanoseconds of Unix time

	mu    sync.Mutex
	memos map[records.ClusterKey]*planner.Memo // of clusters that were decided on; one is worked on once at a time
}

// New makes a controller; nothing happens before Run.
func New(o Options) *Controller {
	if o.DefaultRegistry == nil {
		o.DefaultRegistry = func() string { return "" }
	}
	if o.Perform == nil {
		o.Work = func(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }
		o.Order = func(records.ClusterKey, []planner.NodeOrder) {}
		o.Perform = func(context.Context) (wait func()) { return func() {} }
	}
	if o.Record == nil {
		o.Record = func(context.Context) (wait func()) { return func() {} }
	}
	return &Controller{Options: o, queue: workqueue.New[records.ClusterKey](), memos: map[records.ClusterKey]*planner.Memo{}}
}

// Changed makes the controller look at a cluster for which something outside the store
// changed: a node became ready, an agent came or went.
func (c *Controller) Changed(key records.ClusterKey) { c.queue.Add(key) }

// Leadership is what the one server of a store leads that decides.
const Leadership = "clusters"

// Run campaigns for leadership and drives the clusters while it lasts, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for {
		leadership, err := c.State.Store.Campaign(ctx, Leadership, c.Identity)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("campaign for the leadership of the cluster controller: %w", err)
		}
		c.Logger.Info("leading the clusters", "identity", c.Identity)
		c.lead(ctx, leadership)
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("leadership of the clusters lost", "identity", c.Identity)
	}
}

// lead works until ctx ends or leadership is lost, and returns when nothing runs any more.
func (c *Controller) lead(parent context.Context, leadership *store.Leadership) {
	ctx, cancel := context.WithCancel(store.Fenced(parent, leadership))
	defer cancel()
	c.leading.Store(c.Now().UnixNano())
	defer c.observe()()
	// Before the first decision, and until the last one is through.
	performed, recorded := c.Perform(ctx), c.Record(ctx)
	for _, d := range c.State.Clusters.List() {
		c.queue.Add(records.ClusterKey(d.Key))
	}
	for _, d := range c.State.Fleets.List() {
		c.queue.Add(records.ClusterKey(d.Key))
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { c.work(ctx) })
	}
	select {
	case <-ctx.Done():
	case <-leadership.Lost():
	}
	cancel()
	group.Wait()
	performed()
	recorded()
	// Without this a successor would wait until the lease runs out.
	release, done := context.WithTimeout(context.WithoutCancel(parent), 2*time.Second)
	defer done()
	if err := leadership.Resign(release); err != nil {
		c.Logger.Debug("resigning failed", "error", err)
	}
}

// observe queues a cluster whenever one of its documents changes by somebody else's hand.
// What a person asked for is looked at without a rest.
func (c *Controller) observe() (stop func()) {
	stopClusters := c.State.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Type != store.Put || e.Old == nil || !sameCluster(*e.Old, e.Value) {
			c.queue.Hurry(records.ClusterKey(e.Key))
		}
	})
	stopFleets := c.State.Fleets.Observe(func(e store.Event[records.Fleet]) { c.queue.Add(records.ClusterKey(e.Key)) })
	stopMachines := c.State.Machines.Observe(func(e store.Event[records.Machine]) {
		switch {
		case e.Old != nil && !e.Old.Deleting.Equal(e.Value.Deleting):
			c.queue.Hurry(e.Value.Cluster())
		case e.Type != store.Put || e.Old == nil || !sameMachine(*e.Old, e.Value):
			c.queue.Add(e.Value.Cluster())
		}
	})
	stopPlans := c.State.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) {
		c.queue.Add(e.Value.Cluster())
	})
	stopOperations := c.State.Operations.Observe(func(e store.Event[operations.Operation]) {
		if e.Type == store.Put {
			c.Observe.changed(e.Old, e.Value)
		}
		switch {
		case e.Type == store.Put && (e.Old == nil || e.Old.Retry != e.Value.Retry || (e.Old.Hurry == nil) != (e.Value.Hurry == nil) || (e.Old.Abort == nil) != (e.Value.Abort == nil)):
			c.queue.Hurry(records.ClusterKey(e.Value.Subject))
		case e.Type != store.Put || e.Old.State != e.Value.State || c.engines(e.Value):
			c.queue.Add(records.ClusterKey(e.Value.Subject))
		}
	})
	// An operation waits until the cluster has the token that it needs.
	stopTokens := c.State.ClusterSecrets.Observe(func(e store.Event[records.ClusterSecrets]) { c.queue.Add(records.ClusterKey(e.Key)) })
	stopAgents := c.State.ClusterAgents.Observe(func(e store.Event[records.ClusterAgent]) { c.queue.Add(records.ClusterKey(e.Key)) })
	stopRKE := c.State.RKEStates.Observe(func(e store.Event[records.RKEState]) { c.queue.Add(records.ClusterKey(e.Key)) })
	stopSettings := c.State.Settings.Observe(func(e store.Event[records.Setting]) {
		if e.Key == "system-default-registry" || e.Key == "system-agent-installer-image" {
			for _, d := range c.State.Clusters.List() {
				c.queue.Add(records.ClusterKey(d.Key))
			}
		}
	})
	stopObjects := c.observeObjects()
	return func() {
		stopRKE()
		stopAgents()
		stopTokens()
		stopSettings()
		stopObjects()
		stopClusters()
		stopFleets()
		stopMachines()
		stopPlans()
		stopOperations()
	}
}

// engines says that an operation is written by the engine of RKE1 and not here: what it is at is shown of its cluster.
func (c *Controller) engines(o operations.Operation) bool {
	d, ok := c.State.Clusters.Get(o.Subject)
	return ok && d.Value.Spec.RKE1()
}

// sameCluster says that nothing but the status differs, which is this controller's own to
// write; a new generation comes with every other change that a decision depends on.
func sameCluster(before, after records.Cluster) bool {
	return before.UID == after.UID && before.Generation == after.Generation && before.Deleting.Equal(after.Deleting) && before.Leave == after.Leave &&
		(before.Paused == nil) == (after.Paused == nil) && (before.Exported == nil) == (after.Exported == nil) && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations)
}

// sameMachine says that nothing but the status differs, which is this controller's own to write.
func sameMachine(before, after records.Machine) bool {
	before.Status, after.Status = records.MachineStatus{}, records.MachineStatus{}
	return reflect.DeepEqual(before, after)
}

func (c *Controller) work(ctx context.Context) {
	for {
		key, ok := c.queue.Take(ctx)
		if !ok {
			return
		}
		started := time.Now()
		l, err := c.pass(ctx, key)
		c.Observe.passed(time.Since(started))
		var conflict *store.ConflictError
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &conflict):
			l.again = 10 * time.Millisecond
		case err != nil:
			c.Logger.Error("cluster could not be worked on", "cluster", key, "error", err)
			l.again = 5 * time.Second
		}
		c.queue.Done(key, min(restFactor*l.decided, longestRest), l.again)
	}
}
