// Package rke looks after the RKE1 clusters of the server: on the leader, one goroutine for each of them asks
// server/rke/want what is to be done, and does it with the engine of rke1/engine, through the tunnels of the hosts' node
// agents. What a run is at is an operation, and the cluster's state is kept each time when the engine says so, so that the next
// leader goes on where this one ended.
//
// Nothing is polled: a cluster is looked at when one of its records changes, when a tunnel opens, and when the next try is due.
package rke

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

// Options are what a Runner stands on. All but the ways and Pause are required.
type Options struct {
	State *state.State
	// Dial opens a connection on a host through its tunnel.
	Dial func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	// Tunnel is what is known of a host's tunnel.
	Tunnel   func(records.Subject) observed.Tunnel
	Versions *versions.Data
	// Addons and Buckets are those of engine.Options: the ways to what the configs of clusters name.
	Addons  addons.Sources
	Buckets inbucket.Options
	Now     func() time.Time
	Logger  *slog.Logger
	// Pause is between two tries of one thing in a run; 0 is the engine's own.
	Pause time.Duration
}

// Runner looks after all RKE1 clusters.
type Runner struct {
	Options

	mu   sync.Mutex
	jobs map[records.ClusterKey]*job
}

// job is the work on one cluster.
type job struct {
	wake   chan struct{}
	cancel context.CancelFunc
}

func (j *job) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// New makes a Runner. Nothing is done before Start.
func New(o Options) *Runner { return &Runner{Options: o, jobs: map[records.ClusterKey]*job{}} }

// TunnelChanged looks at a cluster again when one of its tunnels came or went.
func (r *Runner) TunnelChanged(subject records.Subject, _ bool) {
	if d, ok := r.State.Machines.Get(string(subject.Machine())); ok && d.Value.Docker != nil {
		r.poke(d.Value.Cluster())
	}
}

func (r *Runner) poke(key records.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[key]; j != nil {
		j.poke()
	}
}

// Start looks after the clusters until ctx ends, which is for as long as this server leads; wait returns when nothing runs any
// more. ctx is fenced: nothing is written for it once another server leads.
func (r *Runner) Start(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	stops := []func(){
		r.State.Clusters.Observe(func(e store.Event[records.Cluster]) { r.poke(records.ClusterKey(e.Key)); signal() }),
		r.State.Machines.Observe(func(e store.Event[records.Machine]) {
			if e.Value.Docker != nil {
				r.poke(e.Value.Cluster())
			}
		}),
		r.State.Operations.Observe(func(e store.Event[operations.Operation]) {
			if e.Old == nil || e.Old.State != e.Value.State || e.Old.Retry != e.Value.Retry || (e.Old.Hurry == nil) != (e.Value.Hurry == nil) {
				r.poke(records.ClusterKey(e.Value.Subject))
			}
		}),
	}
	running.Go(func() {
		var jobs sync.WaitGroup
		defer func() {
			for _, stop := range stops {
				stop()
			}
			jobs.Wait()
			r.mu.Lock()
			clear(r.jobs)
			r.mu.Unlock()
		}()
		for {
			r.match(ctx, &jobs)
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	return running.Wait
}

// match has one goroutine for each RKE1 cluster, and none for others.
func (r *Runner) match(ctx context.Context, jobs *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[records.ClusterKey]bool{}
	for _, d := range r.State.Clusters.List() {
		key := records.ClusterKey(d.Key)
		if there[key] = d.Value.Spec.RKE1(); !there[key] || r.jobs[key] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		j := &job{wake: make(chan struct{}, 1), cancel: cancel}
		r.jobs[key] = j
		jobs.Go(func() { r.look(ctx, key, j) })
	}
	for key, j := range r.jobs {
		if !there[key] {
			j.cancel()
			delete(r.jobs, key)
		}
	}
}

// look looks at a cluster whenever something concerns it, until ctx ends.
func (r *Runner) look(ctx context.Context, key records.ClusterKey, j *job) {
	defer j.cancel()
	const afterFault = 5 * time.Second
	for {
		again, err := r.pass(ctx, key)
		if ctx.Err() != nil {
			return
		}
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
			continue // somebody else's write came between; it is looked at with it
		}
		if err != nil {
			r.Logger.Error("RKE1 cluster could not be worked on", "cluster", key, "error", err)
			again = afterFault
		}
		var due <-chan time.Time
		timer := time.NewTimer(max(again, time.Millisecond))
		if again > 0 {
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-j.wake:
		case <-due:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// gather is the snapshot of a cluster; not ok when it is gone.
func (r *Runner) gather(key records.ClusterKey) (want.Snapshot, bool) {
	cluster, ok := r.State.Clusters.Get(string(key))
	if !ok {
		return want.Snapshot{}, false
	}
	return r.snapshot(cluster.Value), true
}

func (r *Runner) snapshot(cluster records.Cluster) want.Snapshot {
	key := records.NewClusterKey(cluster.Namespace, cluster.Name)
	s := want.Snapshot{
		Now: r.Now().UTC(), Cluster: cluster, Connected: func(m records.Machine) bool { return r.Tunnel(m.Subject()).Connected },
		Operations: r.State.OperationsOf(key), Versions: r.Versions,
	}
	for _, d := range r.State.MachinesByCluster.Find(key) {
		s.Machines = append(s.Machines, d.Value)
	}
	if d, ok := r.State.RKEStates.Get(string(key)); ok {
		s.Record = &d.Value
	}
	return s
}

// pass does what is to be done on a cluster now. It returns when to look again though nothing changes; zero means not.
func (r *Runner) pass(ctx context.Context, key records.ClusterKey) (again time.Duration, err error) {
	s, ok := r.gather(key)
	if !ok {
		return 0, nil
	}
	d, err := want.Decide(s)
	if err != nil {
		return 0, err
	}
	switch d.Do {
	case want.Begin:
		return time.Millisecond, r.begin(ctx, s, d)
	case want.End:
		return time.Millisecond, r.end(ctx, key, d)
	case want.Run:
		return time.Millisecond, r.run(ctx, s, d)
	case want.Hold:
		return time.Millisecond, r.hold(ctx, d)
	case want.Leave:
		return 0, r.leaveAlone(ctx, s)
	case want.Save:
		return time.Millisecond, r.scheduled(ctx, s, d)
	case want.Forget:
		_, err := r.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
			rec.Heeded = d.Heeded
			return rec, nil
		})
		return time.Millisecond, err
	}
	return d.Again, nil
}

// Check says what is wrong with the config of a cluster, whatever hosts it has, and what is taken and likely a mistake. The error
// is a strictyaml.Errors.
func (r *Runner) Check(cluster records.Cluster) (warnings []string, err error) {
	in := want.Input{Cluster: cluster, Versions: r.Versions}
	if d, ok := r.State.RKEStates.Get(cluster.Key()); ok {
		if in.Before, err = want.State(&d.Value); err != nil {
			return nil, err
		}
	}
	return want.Check(in)
}
