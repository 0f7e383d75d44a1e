// Package nodework performs what the planner orders on the nodes of clusters, through each
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
package nodework

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
)

// atOnce is how many orders ask an API at the same time, over all clusters. An order that
// waits (for a hook, for pods to end) is not counted, so that none of those holds others.
const atOnce = 32

// Options of a doer.
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

// Doer performs orders. Its methods may be called by many goroutines.
type Doer struct {
	Options
	observers []func(records.ClusterKey)
	// turns bounds how many ask an API at the same time.
	turns chan struct{}

	mu sync.Mutex
	// leading is the context of the present period of work; nil when there is none.
	leading context.Context
	jobs    map[records.ClusterKey]map[records.MachineKey]*job
	// ending is closed when the last goroutine of a machine that was started has ended.
	ending  map[records.MachineKey]chan struct{}
	running sync.WaitGroup
}

// New makes a doer; nothing happens before Start.
func New(o Options) *Doer {
	return &Doer{
		Options: o, turns: make(chan struct{}, atOnce),
		jobs:   map[records.ClusterKey]map[records.MachineKey]*job{},
		ending: map[records.MachineKey]chan struct{}{},
	}
}

// OnChange calls f whenever what Work says of a cluster changed. f must not block, and may be
// called by many goroutines. Call OnChange before Start.
func (d *Doer) OnChange(f func(records.ClusterKey)) { d.observers = append(d.observers, f) }

// Start takes orders from now on, until ctx ends: for as long as this server leads. All orders
// are dropped then, half done as they may be; the next leader is handed them again. The
// caller has to call wait before it calls Start again: it returns once ctx has ended and
// nothing runs any more.
func (d *Doer) Start(ctx context.Context) (wait func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leading = ctx
	return func() {
		<-ctx.Done()
		d.mu.Lock()
		d.leading = nil
		clear(d.jobs)
		d.mu.Unlock()
		d.running.Wait()
	}
}

// Want replaces the orders on the nodes of a cluster, one for a machine at most. An order that is
// not wanted any more is cancelled, one that is the same as before goes on or stays done, and a
// changed one begins anew once the one before has ended. Want does nothing while the doer is not started.
func (d *Doer) Want(cluster records.ClusterKey, orders []planner.NodeOrder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leading == nil || d.leading.Err() != nil {
		return
	}
	before, next := d.jobs[cluster], make(map[records.MachineKey]*job, len(orders))
	for _, order := range orders {
		if j := before[order.Machine]; j != nil && reflect.DeepEqual(j.order, order) {
			next[order.Machine] = j
		}
	}
	for machine, j := range before {
		if next[machine] == nil {
			d.Logger.Debug("order on a node dropped", "cluster", cluster, "node", j.order.Node, "order", j.order.ID)
			j.cancel()
		}
	}
	for _, order := range orders {
		if next[order.Machine] == nil {
			next[order.Machine] = d.begin(cluster, order)
		}
	}
	if d.jobs[cluster] = next; len(next) == 0 {
		delete(d.jobs, cluster)
	}
}

// begin starts on an order; d.mu is held.
func (d *Doer) begin(cluster records.ClusterKey, order planner.NodeOrder) *job {
	ctx, cancel := context.WithCancel(d.leading)
	j := &job{
		doer: d, cluster: cluster, order: order, cancel: cancel, wake: make(chan struct{}, 1),
		work: observed.NodeWork{
			Order: order.ID, Since: d.Now(),
			Cause: "it waits for its turn",
		},
	}
	previous, done := d.ending[order.Machine], make(chan struct{})
	d.ending[order.Machine] = done
	d.running.Go(func() {
		defer d.ended(order.Machine, done)
		defer cancel()
		if previous != nil {
			<-previous
		}
		j.run(ctx)
	})
	return j
}

// ended forgets the goroutine of a machine, unless another one waits for it.
func (d *Doer) ended(machine records.MachineKey, done chan struct{}) {
	close(done)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending[machine] == done {
		delete(d.ending, machine)
	}
}

// Work is how far the orders on the nodes of a cluster are. The caller may keep the map.
func (d *Doer) Work(cluster records.ClusterKey) map[records.MachineKey]observed.NodeWork {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[records.MachineKey]observed.NodeWork, len(d.jobs[cluster]))
	for machine, j := range d.jobs[cluster] {
		all[machine] = j.work
	}
	return all
}

// SecretChanged looks again whether the drain hooks of a machine have written their annotations.
func (d *Doer) SecretChanged(machine records.MachineKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, jobs := range d.jobs {
		if j := jobs[machine]; j != nil {
			select {
			case j.wake <- struct{}{}:
			default:
			}
		}
	}
}

// publish shows how far a job is, unless it is not wanted any more.
func (d *Doer) publish(j *job, next observed.NodeWork) {
	d.mu.Lock()
	next.Order, next.Since = j.order.ID, j.work.Since
	if next.Phase != j.work.Phase || next.Done != j.work.Done {
		next.Since = d.Now()
	}
	changed := d.jobs[j.cluster][j.order.Machine] == j && !reflect.DeepEqual(j.work, next)
	j.work = next
	d.mu.Unlock()
	if !changed {
		return
	}
	for _, f := range d.observers {
		f(j.cluster)
	}
}
