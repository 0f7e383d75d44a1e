// Hosts that leave the cluster, and what is taken from them.

package engine

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/wanted"
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
		if err := h.Discard(ctx, wanted.Etcd); err != nil {
			return err
		}
		if err := r.empty(ctx, h, []string{path.Join(h.prefix, etcdDir)}); err != nil {
			return err
		}
	}
	return nil
}

// clean takes a host's containers and directories. Snapshots of etcd stay.
func (r *run) clean(ctx context.Context, h *host, etcd bool) error {
	r.line("hosts", "Cleaning up host [%s]", h.node.Address)
	for _, name := range slices.Backward(wanted.Names()) {
		if err := h.Discard(ctx, name); err != nil {
			return err
		}
	}
	if err := r.empty(ctx, h, Directories(h.prefix, etcd)); err != nil {
		return err
	}
	r.line("hosts", "Successfully cleaned up host [%s]", h.node.Address)
	return nil
}

// Directories are what a host that leaves is emptied of. /opt/rke is not among them: it has the
// snapshots.
func Directories(prefix string, etcd bool) []string {
	dirs := []string{path.Join(prefix, kubernetesDir), "/etc/cni", "/opt/cni", "/var/run/calico", path.Join(prefix, "/var/lib/cni")}
	if etcd {
		dirs = append(dirs, path.Join(prefix, etcdDir))
	}
	return dirs
}

// empty removes what is in directories of a host, through one container.
func (r *run) empty(ctx context.Context, h *host, dirs []string) error {
	binds := make([]string, len(dirs))
	for i, dir := range dirs {
		binds[i] = dir + ":" + dir
	}
	// The image's find need not know -delete.
	_, err := h.Run(ctx, r.shell(wanted.Cleaner, h, binds, `for d; do rm -rf -- "$d"/* "$d"/.[!.]* "$d"/..?*; done`, append([]string{"clean"}, dirs...)...))
	if err != nil {
		return fmt.Errorf("empty %s on host %s: %w", strings.Join(dirs, ", "), h.node.Address, err)
	}
	return nil
}
