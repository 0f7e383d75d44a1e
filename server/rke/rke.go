// Package rke looks after the RKE1 clusters of the server: on the leader, for each of them it asks
// server/rke/want what is to be done, and does it with the engine of rke1/engine, through the tunnels of the hosts' node
// agents. What a run is at is an operation, and the cluster's state is kept each time when the engine says so, so that the next
// leader goes on where this one ended.
//
// Nothing is polled: a cluster is looked at when one of its records changes, when a tunnel opens, and when the next try is due.
package rke

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
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
	tunnels reconcile.Signal
}

// New makes a Runner. Nothing is done before its worker runs.
func New(o Options) *Runner { return &Runner{Options: o, tunnels: reconcile.Signal{Of: "tunnels"}} }

// TunnelChanged looks at a cluster again when one of its tunnels came or went.
func (r *Runner) TunnelChanged(subject records.Subject, _ bool) {
	if d, ok := r.State.Machines.Get(string(subject.Machine())); ok && d.Value.Docker != nil {
		r.tunnels.Add(string(d.Value.Cluster()))
	}
}

// afterFault is how soon a cluster is looked at again that could not be worked on.
const afterFault = 5 * time.Second

// Worker looks after the clusters, each by itself.
func (r *Runner) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "rke1", Title: "brings RKE1 clusters to what their documents say",
		Keys: r.keys, Reconcile: r.reconcile, RetryFirst: afterFault, RetryLast: afterFault,
		Watches: []reconcile.Watch{
			r.tunnels.Watch(),
			reconcile.Documents(r.State.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
				if e.Value.Spec.RKE1() || e.Old != nil && e.Old.Spec.RKE1() {
					q.Add(e.Key)
				}
			}),
			reconcile.Documents(r.State.Machines, func(e store.Event[records.Machine], q reconcile.Queue) {
				if e.Value.Docker != nil {
					q.Add(string(e.Value.Cluster()))
				}
			}),
			reconcile.Documents(r.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
				changed := e.Old == nil || e.Old.State != e.Value.State || e.Old.Retry != e.Value.Retry || (e.Old.Hurry == nil) != (e.Value.Hurry == nil)
				if changed && r.ours(records.ClusterKey(e.Value.Subject)) {
					q.Add(e.Value.Subject)
				}
			}),
		},
	}
}

func (r *Runner) keys() (all []string) {
	for _, d := range r.State.Clusters.List() {
		if d.Value.Spec.RKE1() {
			all = append(all, d.Key)
		}
	}
	return all
}

// ours says that there is an RKE1 cluster of a key.
func (r *Runner) ours(key records.ClusterKey) bool {
	d, ok := r.State.Clusters.Get(string(key))
	return ok && d.Value.Spec.RKE1()
}

// reconcile looks at a cluster once. What runs ends when the cluster is gone.
func (r *Runner) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	if !r.ours(key) {
		return reconcile.Result{Gone: true}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.State.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Key == name && (e.Type == store.Deleted || !e.Value.Spec.RKE1()) {
			cancel()
		}
	})()
	again, err := r.pass(ctx, key)
	if !r.ours(key) {
		return reconcile.Result{Gone: true}, nil
	}
	return reconcile.Result{After: again}, err
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
