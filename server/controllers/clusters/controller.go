// Package clusters has the controller of clusters and fleets: on the leader, it gathers what the store holds and what the server sees
// of a cluster, and commits what package decide makes of it. It keeps nothing that it could not read again after a restart. What
// people ask of clusters is written by server/clusters.
package clusters

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/objects"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// atOnce is how many clusters are worked on at once, and afterFault how soon a cluster is looked at again that could not be worked on.
const (
	atOnce     = 4
	afterFault = 5 * time.Second
)

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
	// RKE1Versions are the version data of RKE1 clusters.
	RKE1Versions *rke1versions.Data
	// InstallerImage gives the prefix of installer images.
	InstallerImage func() string
	// DefaultRegistry gives the server's default registry; nil for none.
	DefaultRegistry func() string
	Hosts           Hosts
	// API is what the server sees of a cluster's own API.
	API   func(records.ClusterKey) observed.API
	Nodes Nodes
	// Tracer follows decisions; nil follows none.
	Tracer trace.Tracer
	// Observe gets what happens; nil observes nothing.
	Observe Observer
	Logger  *slog.Logger
	Now     func() time.Time
}

// Hosts says which hosts are connected.
type Hosts interface {
	// Watching says whether a machine's agent holds its watch open, and since when; since when
	// it is gone when it does not.
	Watching(planSecretKey string) (since time.Time, connected bool)
	// Tunnel says whether a host or an imported cluster has a tunnel to any server, and since when; since when it
	// has none otherwise, zero when that is not known, and the reason if it is.
	Tunnel(records.Subject) observed.Tunnel
}

// Nodes performs orders on the nodes of clusters.
type Nodes interface {
	// Work is how far the orders of a cluster are, and Want replaces them.
	Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork
	Want(records.ClusterKey, []pass.NodeOrder)
}

// Observer gets what happens while this server leads, from several goroutines at once, and must not block.
type Observer interface {
	// Passed is one look at one cluster, with any result, and how long it took.
	Passed(took time.Duration)
	// Delivered is a plan that was written for a machine; retry says that it is one that failed before.
	Delivered(retry bool)
	// Failed is a plan that a host could not carry out.
	Failed()
	// Ended is an operation that has ended just now.
	Ended(operations.Operation)
}

// unobserved is an Observer that does nothing.
type unobserved struct{}

func (unobserved) Passed(time.Duration)       {}
func (unobserved) Delivered(bool)             {}
func (unobserved) Failed()                    {}
func (unobserved) Ended(operations.Operation) {}

// Controller drives all clusters.
type Controller struct {
	Options
	// outside has the keys of clusters of which something outside of the store has changed.
	outside reconcile.Signal
	leading atomic.Int64 // since when, in nanoseconds of Unix time

	mu    sync.Mutex
	memos map[records.ClusterKey]*pass.Memo // of clusters that were decided on; one is worked on once at a time
}

// New makes a controller; nothing happens before its worker runs.
func New(o Options) *Controller {
	if o.DefaultRegistry == nil {
		o.DefaultRegistry = func() string { return "" }
	}
	if o.Observe == nil {
		o.Observe = unobserved{}
	}
	return &Controller{
		Options: o, outside: reconcile.Signal{Of: "agents, tunnels, clusters' APIs and version data"}, memos: map[records.ClusterKey]*pass.Memo{},
	}
}

// Changed makes the controller look at a cluster for which something outside the store
// changed: a node became ready, an agent came or went.
func (c *Controller) Changed(key records.ClusterKey) { c.outside.Add(string(key)) }

// Worker decides on all clusters and fleets.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "clusters", Title: "decides for each cluster and fleet which plans its hosts get, and says how far they are",
		Watches: c.watches(), Keys: c.keys, Reconcile: c.reconcile, AtOnce: atOnce, RetryFirst: afterFault, RetryLast: afterFault,
		Start: func(context.Context) func() {
			c.leading.Store(c.Now().UnixNano())
			return func() {}
		},
	}
}

func (c *Controller) keys() []string {
	return slices.Concat(reconcile.Keys(c.State.Clusters)(), reconcile.Keys(c.State.Fleets)())
}

// watches are the documents of a cluster that change by another hand. What a person asked for is looked at without a rest.
func (c *Controller) watches() []reconcile.Watch {
	s := c.State
	return []reconcile.Watch{
		c.outside.Watch(),
		reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type != store.Put || e.Old == nil || !sameCluster(*e.Old, e.Value) {
				q.Hurry(e.Key)
			}
		}),
		reconcile.Documents(s.Fleets, func(e store.Event[records.Fleet], q reconcile.Queue) { q.Add(e.Key) }),
		reconcile.Documents(s.Machines, func(e store.Event[records.Machine], q reconcile.Queue) {
			switch {
			case e.Old != nil && !e.Old.Deleting.Equal(e.Value.Deleting):
				q.Hurry(string(e.Value.Cluster()))
			case e.Type != store.Put || e.Old == nil || !sameMachine(*e.Old, e.Value):
				q.Add(string(e.Value.Cluster()))
			}
		}),
		reconcile.Documents(s.PlanSecrets, func(e store.Event[records.PlanSecret], q reconcile.Queue) { q.Add(string(e.Value.Cluster())) }),
		reconcile.Documents(s.Operations, c.operationChanged),
		// An operation waits until the cluster has the token that it needs.
		reconcile.Documents(s.ClusterSecrets, func(e store.Event[records.ClusterSecrets], q reconcile.Queue) { q.Add(e.Key) }),
		reconcile.Documents(s.ClusterAgents, func(e store.Event[records.ClusterAgent], q reconcile.Queue) { q.Add(e.Key) }),
		reconcile.Documents(s.RKEStates, func(e store.Event[records.RKEState], q reconcile.Queue) { q.Add(e.Key) }),
		reconcile.Documents(s.Settings, func(e store.Event[records.Setting], q reconcile.Queue) {
			if e.Key == "system-default-registry" || e.Key == "system-agent-installer-image" {
				for _, d := range s.Clusters.List() {
					q.Add(d.Key)
				}
			}
		}),
		reconcile.Documents(s.Objects, c.objectChanged),
	}
}

func (c *Controller) operationChanged(e store.Event[operations.Operation], q reconcile.Queue) {
	if e.Type == store.Put && e.Old != nil && !e.Old.State.Ended() && e.Value.State.Ended() {
		c.Observe.Ended(e.Value)
	}
	switch {
	case e.Type == store.Put && (e.Old == nil || e.Old.Retry != e.Value.Retry || (e.Old.Hurry == nil) != (e.Value.Hurry == nil) || (e.Old.Abort == nil) != (e.Value.Abort == nil)):
		q.Hurry(e.Value.Subject)
	case e.Type != store.Put || e.Old.State != e.Value.State || c.engines(e.Value):
		q.Add(e.Value.Subject)
	}
}

// objectChanged queues the clusters that refer to a Secret or ConfigMap.
func (c *Controller) objectChanged(e store.Event[objects.Object], q reconcile.Queue) {
	for _, d := range c.State.Clusters.List() {
		if slices.Contains(d.Value.Spec.Objects(d.Value.Namespace), e.Key) {
			q.Hurry(d.Key)
		}
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

// reconcile looks at a cluster or a fleet once.
func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	started := time.Now()
	l, err := c.pass(ctx, records.ClusterKey(key))
	c.Observe.Passed(time.Since(started))
	return reconcile.Result{After: l.again, Rest: min(restFactor*l.decided, longestRest), Gone: l.gone}, err
}

// WatchChanged looks at a cluster again when the agent of a plan Secret came or went.
func (c *Controller) WatchChanged(secretKey string, _ bool) {
	if d, ok := c.State.PlanSecrets.Get(secretKey); ok {
		c.Changed(d.Value.Cluster())
	}
}

// VersionsChanged looks again at the clusters of whose version something else is known now.
func (c *Controller) VersionsChanged(before, after *versions.Data) {
	concerned := map[string]bool{}
	for _, d := range c.State.Clusters.List() {
		version := d.Value.Spec.KubernetesVersion
		if _, observation := concerned[version]; !observation {
			was, _ := before.Permissive(version)
			is, _ := after.Permissive(version)
			concerned[version] = !reflect.DeepEqual(was, is)
		}
		if concerned[version] {
			c.Changed(records.ClusterKey(d.Key))
		}
	}
}

// TunnelChanged looks at a cluster of Docker hosts again, or at one with an agent, when one of its tunnels came or went.
func (c *Controller) TunnelChanged(subject records.Subject, _ bool) {
	if id, ok := subject.ClusterID(); ok {
		if d, ok := c.State.ClustersByID.First(id); ok {
			c.Changed(records.ClusterKey(d.Key))
		}
		return
	}
	if d, ok := c.State.Machines.Get(string(subject.Machine())); ok && d.Value.Docker != nil {
		c.Changed(d.Value.Cluster())
	}
}

// memo is what is remembered of a cluster between decisions.
func (c *Controller) memo(key records.ClusterKey) *pass.Memo {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memos[key] == nil {
		c.memos[key] = pass.NewMemo()
	}
	return c.memos[key]
}

func (c *Controller) forget(key records.ClusterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memos, key)
}
