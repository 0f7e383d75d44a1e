// Hosts that leave the cluster, and what is taken from them.

package engine

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/rke1/cleaner"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

// removeHosts takes hosts out of the cluster that are not in the config any more: out of etcd
// first, then their nodes, then what is on them. A host that does not answer leaves the cluster all
// the same; what stays on it is said.
func (r *run) removeHosts(ctx context.Context) error {
	if r.work.UpdateOnly {
		return nil
	}
	for _, n := range r.deployed() {
		if _, stays := find(r.work.Config.Nodes, n.Address); stays {
			continue
		}
		if err := r.safePoint(); err != nil {
			return err
		}
		if err := r.removeHost(ctx, n); err != nil {
			return fmt.Errorf("remove host %s: %w", n.Address, err)
		}
		if err := r.left(ctx, []string{n.Address}); err != nil {
			return err
		}
	}
	return r.loseRoles(ctx)
}

func (r *run) removeHost(ctx context.Context, n config.Node) error {
	if n.Has(config.RoleEtcd) && len(r.work.Config.Services.Etcd.ExternalURLs) == 0 {
		if err := r.removeMember(ctx, n); err != nil {
			return err
		}
	}
	r.line("hosts", "Cordoning and removing host [%s] from the cluster", n.Address)
	if err := r.api.DeleteNode(ctx, nodeName(n)); err != nil {
		return err
	}
	h := r.hosts[n.Address]
	if h == nil {
		delete(r.down, n.Address) // it is not left out: it has left
		r.Report.Warn(fmt.Sprintf("host [%s] could not be reached: its containers, /etc/kubernetes and etcd's data are still on it; clean it before it is used again", n.Address))
		return nil
	}
	return r.clean(ctx, h, n.Has(config.RoleEtcd))
}

// loseRoles takes etcd from hosts that stay with other roles.
func (r *run) loseRoles(ctx context.Context) error {
	for _, was := range r.deployed() {
		n, stays := find(r.work.Config.Nodes, was.Address)
		if !stays || !was.Has(config.RoleEtcd) || n.Has(config.RoleEtcd) {
			continue
		}
		if err := r.removeMember(ctx, was); err != nil {
			return err
		}
		h := r.hosts[was.Address]
		if h == nil {
			continue
		}
		if err := h.Discard(ctx, desired.Etcd); err != nil {
			return err
		}
		if err := r.empty(ctx, h, []string{path.Join(h.prefix, etcdDir)}); err != nil {
			return err
		}
	}
	return nil
}

// clean takes a host's containers, and everything that the cluster left there. Snapshots of etcd stay unless the work says
// otherwise.
func (r *run) clean(ctx context.Context, h *host, etcd bool) error {
	r.line("hosts", "Cleaning up host [%s]", h.node.Address)
	for _, name := range slices.Backward(desired.Names()) {
		for _, prefix := range []string{"", nodeconfig.OldPrefix, nodeconfig.NewPrefix} {
			if err := h.Discard(ctx, prefix+name); err != nil {
				return err
			}
		}
	}
	with, err := r.cleaner(ctx, h)
	if err != nil {
		return err
	}
	if with.Image == "" { // nothing of Kubernetes can have run; any image can remove files
		with.Image = r.work.Config.SystemImages.Alpine
		with.Auth = r.plan.Login(with.Image)
	}
	stays, err := with.Clean(ctx, r.leavings(h, etcd))
	for _, text := range stays {
		r.Report.Warn(text)
	}
	if err != nil {
		return err
	}
	r.line("hosts", "Successfully cleaned up host [%s]", h.node.Address)
	return nil
}

// cleaner is a host with an image of the cluster that is there.
func (r *run) cleaner(ctx context.Context, h *host) (cleaner.Host, error) {
	images := r.work.Config.SystemImages
	image, err := cleaner.ImageOf(ctx, h.Host, images.Kubernetes, images.Alpine)
	return cleaner.Host{Host: h.Host, Image: image}, err
}

func (r *run) leavings(h *host, etcd bool) cleaner.Plan {
	return cleaner.Plan{Prefix: h.prefix, Etcd: etcd, Snapshots: r.work.RemoveSnapshots, Plugin: r.work.Config.Network.Plugin}
}

// goes says what clean would remove from a host that could be reached, a line each.
func (r *run) goes(ctx context.Context, h *host) ([]string, error) {
	if h == nil {
		return nil, nil
	}
	with, err := r.cleaner(ctx, h)
	if err != nil || with.Image == "" {
		return nil, err
	}
	found, err := with.Look(ctx, r.leavings(h, h.node.Has(config.RoleEtcd)))
	return found.Lines(), err
}

// empty removes what is in directories of a host, through one container.
func (r *run) empty(ctx context.Context, h *host, dirs []string) error {
	image := r.work.Config.SystemImages.Alpine
	return cleaner.Host{Host: h.Host, Image: image, Auth: r.plan.Login(image)}.Empty(ctx, dirs)
}
