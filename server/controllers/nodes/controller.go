// Package nodes performs what the planner orders on the nodes of clusters, through each
// cluster's own Kubernetes API: labels and taints, cordon, drain with hooks, uncordon, the
// safe removal of an etcd member, and the deletion of a node.
//
// It keeps nothing: what is wanted is handed in again after a restart, and each step looks at
// what is there before it does anything. It decides nothing either. When a cordon is lifted,
// how many nodes are drained at once and how long is too long are for the planner, which sees
// how far each order is.
//
// The words and the order of the steps follow Rancher's drain and etcd removal
// (rancher/rancher pkg/controllers/capr/drain and pkg/controllers/capr/bootstrap).
package nodes

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
)

// atOnce is how many orders ask an API at the same time, over all clusters. An order that
// waits (for a hook, for pods to end) is not counted, so that it holds no others.
const atOnce = 32

// Options of a controller.
type Options struct {
	// Client is the way to a cluster's API; the error says why there is none now.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Secret are the annotations of a machine's plan Secret; nil when it has none.
	Secret func(records.MachineKey) (annotations map[string]string)
	// Runtime is the distribution of a cluster, k3s or rke2, as its annotations are named.
	Runtime func(records.ClusterKey) string
	Now     func() time.Time
	Logger  *slog.Logger
}

// Controller performs orders. Its methods may be called by many goroutines.
type Controller struct {
	Options
	observers []func(records.ClusterKey)
	// orders has the keys of machines of which there is another order, or for which a hook has written.
	orders reconcile.Signal

	mu sync.Mutex
	// leading says that orders are taken.
	leading bool
	jobs    map[records.ClusterKey]map[records.MachineKey]*job
}

// New makes a controller; nothing happens before its worker runs.
func New(o Options) *Controller {
	return &Controller{Options: o, orders: reconcile.Signal{Of: "orders and drain hooks"}, jobs: map[records.ClusterKey]map[records.MachineKey]*job{}}
}

// OnChange calls f whenever what Work says of a cluster changed. f must not block, and may be
// called by many goroutines. Call OnChange before the worker runs.
func (c *Controller) OnChange(f func(records.ClusterKey)) { c.observers = append(c.observers, f) }

// Worker performs orders while this server leads. All orders are dropped when that ends, half done as they may be; the next leader is
// handed them again. A key is a cluster and a machine: orders on one node follow each other.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "nodes", Title: "works on nodes of clusters: labels, cordons, drains, removes members", AtOnce: atOnce,
		Watches: []reconcile.Watch{c.orders.Watch()}, Keys: func() []string { return nil }, Start: c.start, Reconcile: c.reconcile,
	}
}

func (c *Controller) start(context.Context) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leading = false
		clear(c.jobs)
	}
}

// keyOf names the orders on a node; neither part has a blank.
func keyOf(cluster records.ClusterKey, machine records.MachineKey) string {
	return string(cluster) + " " + string(machine)
}

// reconcile does what can be done now of the order on a node.
func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	cluster, machine, _ := strings.Cut(key, " ")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	j := c.jobs[records.ClusterKey(cluster)][records.MachineKey(machine)]
	if j != nil {
		j.cancel = cancel
	}
	c.mu.Unlock()
	if j == nil {
		return reconcile.Result{Gone: true}, nil
	}
	return j.proceed(ctx), nil
}

// Want replaces the orders on the nodes of a cluster, one for a machine at most. An order that is
// not wanted any more is cancelled, one that is the same as before goes on or stays done, and a
// changed one begins anew once the one before has ended. Want does nothing while the worker does not run.
func (c *Controller) Want(cluster records.ClusterKey, orders []pass.NodeOrder) {
	changed := c.replace(cluster, orders)
	for _, machine := range changed {
		c.orders.Add(keyOf(cluster, machine))
	}
}

// replace is what Want does, and returns the machines whose order is another one or gone.
func (c *Controller) replace(cluster records.ClusterKey, orders []pass.NodeOrder) (changed []records.MachineKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leading {
		return nil
	}
	before, next := c.jobs[cluster], make(map[records.MachineKey]*job, len(orders))
	for _, order := range orders {
		if j := before[order.Machine]; j != nil && reflect.DeepEqual(j.order, order) {
			next[order.Machine] = j
		}
	}
	for machine, j := range before {
		if next[machine] == nil {
			c.Logger.Debug("order on a node dropped", "cluster", cluster, "node", j.order.Node, "order", j.order.ID)
			j.cancel()
			changed = append(changed, machine)
		}
	}
	for _, order := range orders {
		if next[order.Machine] == nil {
			next[order.Machine] = newJob(c, cluster, order)
			changed = append(changed, order.Machine)
		}
	}
	if c.jobs[cluster] = next; len(next) == 0 {
		delete(c.jobs, cluster)
	}
	return changed
}

// Work is how far the orders on the nodes of a cluster are. The caller may keep the map.
func (c *Controller) Work(cluster records.ClusterKey) map[records.MachineKey]observed.NodeWork {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[records.MachineKey]observed.NodeWork, len(c.jobs[cluster]))
	for machine, j := range c.jobs[cluster] {
		all[machine] = j.work
	}
	return all
}

// SecretChanged looks again whether the drain hooks of a machine have written their annotations.
func (c *Controller) SecretChanged(machine records.MachineKey) {
	for _, cluster := range c.ordered(machine) {
		c.orders.Add(keyOf(cluster, machine))
	}
}

// ordered are the clusters with an order on a machine.
func (c *Controller) ordered(machine records.MachineKey) (all []records.ClusterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cluster, jobs := range c.jobs {
		if jobs[machine] != nil {
			all = append(all, cluster)
		}
	}
	return all
}

// publish shows how far a job is, unless it is not wanted any more.
func (c *Controller) publish(j *job, next observed.NodeWork) {
	c.mu.Lock()
	next.Order, next.Since = j.order.ID, j.work.Since
	if next.Phase != j.work.Phase || next.Done != j.work.Done {
		next.Since = c.Now()
	}
	changed := c.jobs[j.cluster][j.order.Machine] == j && !reflect.DeepEqual(j.work, next)
	j.work = next
	c.mu.Unlock()
	if !changed {
		return
	}
	for _, f := range c.observers {
		f(j.cluster)
	}
}
