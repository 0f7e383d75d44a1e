// Package leave takes hosts out of the cluster, and the cluster off its hosts.
package leave

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/rke1/cleaner"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/run"
)

// Hosts takes hosts out of the cluster that are not in the config any more: out of etcd
// first, then their nodes, then what is on them. A host that does not answer leaves the cluster all
// the same; what stays on it is said. The error names a host that etcd or the API would not let go.
func Hosts(ctx context.Context, r *run.Run) error {
	for _, n := range r.Deployed() {
		if _, stays := run.Find(r.Work.Config.Nodes, n.Address); stays {
			continue
		}
		if err := r.SafePoint(); err != nil {
			return err
		}
		if err := removeHost(ctx, r, n); err != nil {
			return fmt.Errorf("remove host %s: %w", n.Address, err)
		}
		if err := api.Left(ctx, r, []string{n.Address}); err != nil {
			return err
		}
	}
	return loseRoles(ctx, r)
}

func removeHost(ctx context.Context, r *run.Run, n config.Node) error {
	if n.Has(config.RoleEtcd) && len(r.Work.Config.Services.Etcd.ExternalURLs) == 0 {
		if err := plane.RemoveMember(ctx, r, n); err != nil {
			return err
		}
	}
	r.Line("hosts", "Cordoning and removing host [%s] from the cluster", n.Address)
	if err := r.API.DeleteNode(ctx, run.NodeName(n)); err != nil {
		return err
	}
	h := r.Hosts[n.Address]
	if h == nil {
		delete(r.Down, n.Address) // it is not left out: it has left
		r.Report.Warn(fmt.Sprintf("host [%s] could not be reached: its containers, /etc/kubernetes and etcd's data are still on it; clean it before it is used again", n.Address))
		return nil
	}
	return Clean(ctx, r, h, n.Has(config.RoleEtcd))
}

// loseRoles takes etcd from hosts that stay with other roles.
func loseRoles(ctx context.Context, r *run.Run) error {
	for _, was := range r.Deployed() {
		n, stays := run.Find(r.Work.Config.Nodes, was.Address)
		if !stays || !was.Has(config.RoleEtcd) || n.Has(config.RoleEtcd) {
			continue
		}
		if err := plane.RemoveMember(ctx, r, was); err != nil {
			return err
		}
		h := r.Hosts[was.Address]
		if h == nil {
			continue
		}
		if err := h.Discard(ctx, desired.Etcd); err != nil {
			return err
		}
		if err := empty(ctx, r, h, []string{path.Join(h.Prefix, run.EtcdDir)}); err != nil {
			return err
		}
	}
	return nil
}

// Clean takes a host's containers, and everything that the cluster left there. Snapshots of etcd stay unless the work says
// otherwise. The error names the host, and is a *cleaner.LeftError where something stays mounted.
func Clean(ctx context.Context, r *run.Run, h *run.Host, member bool) error {
	r.Line("hosts", "Cleaning up host [%s]", h.Node.Address)
	with, err := cleanerOn(ctx, r, h)
	if err != nil {
		return err
	}
	if err := with.DiscardAll(ctx, desired.Leavings()); err != nil {
		return err
	}
	if with.Image == "" { // nothing of Kubernetes can have run; any image can remove files
		with.Image = r.Work.Config.SystemImages.Alpine
		with.Auth = r.Plan.Login(with.Image)
	}
	stays, err := with.Clean(ctx, leavings(r, h, member))
	for _, text := range stays {
		r.Report.Warn(text)
	}
	if err != nil {
		return err
	}
	r.Line("hosts", "Successfully cleaned up host [%s]", h.Node.Address)
	return nil
}

// cleanerOn is a host with an image of the cluster that is there.
func cleanerOn(ctx context.Context, r *run.Run, h *run.Host) (cleaner.Host, error) {
	images := r.Work.Config.SystemImages
	image, err := cleaner.ImageOf(ctx, h.Host, images.Kubernetes, images.Alpine)
	return cleaner.Host{Host: h.Host, Image: image}, err
}

func leavings(r *run.Run, h *run.Host, member bool) cleaner.Plan {
	return cleaner.Plan{Prefix: h.Prefix, Etcd: member, Snapshots: r.Work.RemoveSnapshots, Plugin: r.Work.Config.Network.Plugin}
}

// Goes says what clean would remove from a host that could be reached, a line each. The error says that the host could not be asked.
func Goes(ctx context.Context, r *run.Run, h *run.Host) ([]string, error) {
	if h == nil {
		return nil, nil
	}
	with, err := cleanerOn(ctx, r, h)
	if err != nil || with.Image == "" {
		return nil, err
	}
	found, err := with.Look(ctx, leavings(r, h, h.Node.Has(config.RoleEtcd)))
	return found.Lines(), err
}

// empty removes what is in directories of a host, through one container.
func empty(ctx context.Context, r *run.Run, h *run.Host, dirs []string) error {
	image := r.Work.Config.SystemImages.Alpine
	return cleaner.Host{Host: h.Host, Image: image, Auth: r.Plan.Login(image)}.Empty(ctx, dirs)
}

// CleanRole takes what a role has on its hosts; hosts with another role that is still to go keep the rest. The errors are those of Clean.
func CleanRole(ctx context.Context, r *run.Run, role string) error {
	return run.Each(ctx, r.With(role), run.Parallel, func(ctx context.Context, h *run.Host) error {
		later := map[string][]string{
			config.RoleWorker: {config.RoleControlPlane, config.RoleEtcd}, config.RoleControlPlane: {config.RoleEtcd},
		}[role]
		if slices.ContainsFunc(later, h.Node.Has) {
			return nil
		}
		return Clean(ctx, r, h, h.Node.Has(config.RoleEtcd))
	})
}

// Preview has what would be taken off hosts that leave. The errors are those of Goes.
func Preview(ctx context.Context, r *run.Run, c *run.Changes) error {
	for _, n := range r.Deployed() {
		if _, stays := run.Find(r.Work.Config.Nodes, n.Address); !stays {
			goes, err := Goes(ctx, r, r.Hosts[n.Address])
			if err != nil {
				return err
			}
			c.Hosts = append(c.Hosts, run.HostChanges{Address: n.Address, Leaves: true, Goes: goes})
		}
	}
	return nil
}
