// The end of a cluster: its containers and data are taken off every host.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
)

var removePhases = []phase{
	{"hosts", "Reach the hosts", (*run).reachAny},
	{"workers", "Remove the worker plane", func(r *run, ctx context.Context) error { return r.cleanRole(ctx, config.RoleWorker) }},
	{"control-plane", "Remove the control plane", func(r *run, ctx context.Context) error { return r.cleanRole(ctx, config.RoleControlPlane) }},
	{"etcd", "Remove etcd", func(r *run, ctx context.Context) error { return r.cleanRole(ctx, config.RoleEtcd) }},
	{"end", "End", (*run).endRemoval},
}

// PreviewRemove says what Remove would do.
func PreviewRemove(ctx context.Context, o Options, w Work) (*Changes, error) {
	r := newRun(o, w)
	defer r.close()
	if err := r.reachAny(ctx); err != nil {
		return nil, err
	}
	c := &Changes{Unknown: r.down}
	for _, n := range w.Config.Nodes {
		if h := r.hosts[n.Address]; h != nil {
			goes, err := r.goes(ctx, h)
			if err != nil {
				return nil, err
			}
			c.Hosts = append(c.Hosts, HostChanges{Address: n.Address, Leaves: true, Goes: goes})
		}
	}
	return c, nil
}

// Remove takes the cluster off its hosts. Snapshots of etcd stay on them. The error is
// *IncompleteError when some hosts could not be reached; the next run goes on with those.
func Remove(ctx context.Context, o Options, w Work) error {
	r := newRun(o, w)
	defer r.close()
	r.state = w.Before
	return r.perform(ctx, removePhases)
}

// reachAny opens the hosts of a cluster that is to go; no role has to be among those that answer.
func (r *run) reachAny(ctx context.Context) error {
	r.line("", "Tearing down Kubernetes cluster")
	r.work.IgnoreDockerVersion = true
	var all []*host
	for _, n := range r.work.Config.Nodes {
		all = append(all, &host{node: n})
	}
	if err := each(ctx, all, parallel, r.open); err != nil {
		return err
	}
	if len(r.hosts) == 0 {
		return fmt.Errorf("no host can be reached, so that nothing was removed: %w", errors.Join(values(r.down)...))
	}
	r.warnDown()
	facts := map[string]desired.Facts{}
	for address, h := range r.hosts {
		facts[address] = h.facts
	}
	var err error
	r.plan, err = desired.New(desired.Input{Config: r.work.Config, Versions: r.Versions, Hosts: facts, Encryption: r.before.Desired.Encryption})
	return err
}

// cleanRole takes what a role has on its hosts; hosts with another role that is still to go keep the rest.
func (r *run) cleanRole(ctx context.Context, role string) error {
	return each(ctx, r.with(role), parallel, func(ctx context.Context, h *host) error {
		later := map[string][]string{
			config.RoleWorker: {config.RoleControlPlane, config.RoleEtcd}, config.RoleControlPlane: {config.RoleEtcd},
		}[role]
		if slices.ContainsFunc(later, h.node.Has) {
			return nil
		}
		return r.clean(ctx, h, h.node.Has(config.RoleEtcd))
	})
}

func (r *run) endRemoval(context.Context) error {
	if len(r.down) > 0 {
		return &IncompleteError{Skipped: r.down}
	}
	r.line("", "Cluster removed successfully")
	return nil
}
