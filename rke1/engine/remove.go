// The end of a cluster: its containers and data are taken off every host.

package engine

import (
	"context"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/leave"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
)

var removePhases = []run.Phase{
	{ID: "hosts", Title: "Reach the hosts", Run: reach.Any},
	{ID: "workers", Title: "Remove the worker plane", Run: func(ctx context.Context, r *run.Run) error { return leave.CleanRole(ctx, r, config.RoleWorker) }},
	{ID: "control-plane", Title: "Remove the control plane", Run: func(ctx context.Context, r *run.Run) error { return leave.CleanRole(ctx, r, config.RoleControlPlane) }},
	{ID: "etcd", Title: "Remove etcd", Run: func(ctx context.Context, r *run.Run) error { return leave.CleanRole(ctx, r, config.RoleEtcd) }},
	{ID: "end", Title: "End", Run: endRemoval},
}

// PreviewRemove says what Remove would do. The errors are those of reaching and asking the hosts.
func PreviewRemove(ctx context.Context, o run.Options, w run.Work) (*run.Changes, error) {
	r := run.New(o, w)
	defer r.Close()
	if err := reach.Any(ctx, r); err != nil {
		return nil, err
	}
	c := &run.Changes{Unknown: r.Down}
	for _, n := range w.Config.Nodes {
		if h := r.Hosts[n.Address]; h != nil {
			goes, err := leave.Goes(ctx, r, h)
			if err != nil {
				return nil, err
			}
			c.Hosts = append(c.Hosts, run.HostChanges{Address: n.Address, Leaves: true, Goes: goes})
		}
	}
	return c, nil
}

// Remove takes the cluster off its hosts. Snapshots of etcd stay on them. The error is
// *IncompleteError when some hosts could not be reached; the next run goes on with those.
func Remove(ctx context.Context, o run.Options, w run.Work) error {
	r := run.New(o, w)
	defer r.Close()
	r.State = w.Before
	return r.Perform(ctx, removePhases)
}

func endRemoval(_ context.Context, r *run.Run) error {
	if len(r.Down) > 0 {
		return &run.IncompleteError{Skipped: r.Down}
	}
	r.Line("", "Cluster removed successfully")
	return nil
}
