// The restore of a snapshot: looked at whole before anything is changed, then made beside the
// data that are there, which are kept until the cluster works on the new ones. The wish is in the
// state; a run that was interrupted begins with the same snapshot again, and stops what it had started.

package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

// RestoreWish is what to restore.
type RestoreWish struct {
	Name string
	// LocalState keeps the state that is here; else the one in the archive takes its place, with its certificates and keys.
	LocalState bool
	// S3 is the bucket that it comes from; nil is none.
	S3 *config.S3Backup
}

// source is where a snapshot comes from.
type source struct {
	*snapshots.Snapshot
	from *host
	// state is the one in the archive; nil when it is not used.
	state *state.State
}

// Restore brings a cluster back to a snapshot, on the hosts of cluster.yml, and goes on with a restore that was interrupted. It needs
// every host of etcd and of the control plane. The state that Options.Save gets may have another CA than the one before: that
// of a snapshot from before a rotation. The state that it returns is the last that was saved.
func Restore(ctx context.Context, o Options, w Work, wish RestoreWish) (*state.State, error) {
	r, err := restoreRun(o, w, wish)
	if err != nil {
		return w.Before, err
	}
	defer r.close()
	var from *source
	err = r.perform(ctx, []phase{
		{"hosts", "Reach the hosts", func(r *run, ctx context.Context) error { return r.reachForRestore(ctx, wish) }},
		{"snapshot", "Look at the snapshot", func(r *run, ctx context.Context) (err error) {
			from, err = r.findSnapshot(ctx, wish)
			return err
		}},
		{"wish", "Keep the state", func(r *run, ctx context.Context) error { return r.beginRestore(ctx, w, from, wish) }},
		{"compare", "Compare with what runs", (*run).compare},
		{"copy", "Copy the snapshot", func(r *run, ctx context.Context) error { return r.copySnapshot(ctx, from, wish.Name) }},
		{"stop", "Stop etcd and the control plane", (*run).stopForRestore},
		{"restore", "Restore etcd", func(r *run, ctx context.Context) error { return r.restoreData(ctx, wish.Name) }},
		{"again", "Compare with what runs", (*run).compare},
		{"images", "Pull images", (*run).pullImages},
		{"certificates", "Deploy certificates and files", (*run).deployFiles},
		{"etcd", "etcd", (*run).etcdPlane},
		{"control-plane", "Control plane", (*run).controlPlane},
		{"secrets", "Encryption of Secrets", (*run).encryptSecrets},
		{"state", "Keep the state", (*run).keepState},
		{"workers", "Worker plane", (*run).workerPlane},
		{"kubelets", "Restart kubelets", (*run).restartKubelets},
		{"nodes", "Labels and taints", (*run).syncNodes},
		{"old-nodes", "Remove old nodes", (*run).removeOldNodes},
		{"pods", "Restart pods", (*run).restartPods},
		{"addons", "Add-ons", (*run).deployAddons},
		{"done", "Remove the data of before", func(r *run, ctx context.Context) error { return r.endRestore(ctx, wish.Name) }},
		{"end", "End", (*run).end},
	})
	return r.lastSaved(), err
}

// restoreRun prepares a run like that for a new cluster.
func restoreRun(o Options, w Work, wish RestoreWish) (*run, error) {
	if err := snapshots.CheckName(wish.Name); err != nil {
		return nil, err
	}
	if len(w.Config.Services.Etcd.ExternalURLs) > 0 {
		return nil, errors.New("the etcd of this cluster is somebody else's: snapshots are restored there")
	}
	if wish.LocalState && w.Before == nil {
		return nil, advice.With(errors.New("there is no state here to use"), advice.Step{Kind: advice.SnapshotsState})
	}
	r := newRun(o, w)
	r.before, r.state = state.State{}, w.Before
	if r.state == nil {
		r.state = &state.State{Desired: state.Part{Config: w.Config}}
	}
	return r, nil
}

// reachForRestore reaches all hosts whose data or API servers would go on with the old cluster.
func (r *run) reachForRestore(ctx context.Context, wish RestoreWish) error {
	if err := r.reachAll(ctx, config.RoleEtcd, config.RoleControlPlane); err != nil {
		return err
	}
	r.work.Config = withBucket(r.work.Config, wish.S3)
	return r.makePlan()
}

// findSnapshot looks at the snapshot on every host of etcd and reads the state in it. It changes nothing, but gets the archive from
// the bucket, if there is one.
func (r *run) findSnapshot(ctx context.Context, wish RestoreWish) (*source, error) {
	hosts, only := r.with(config.RoleEtcd), ""
	if wish.S3 != nil {
		var err error
		if only, err = r.download(ctx, hosts, wish); err != nil {
			only = ""
			r.Report.Warn(fmt.Sprintf("the bucket does not give snapshot %s, and those of the hosts are looked at: %v", wish.Name, err))
		}
	}
	found, others := make([]*snapshots.Snapshot, len(hosts)), map[string]struct{}{}
	err := each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
		s, more, err := r.inspect(ctx, h, wish.Name)
		r.mu.Lock()
		defer r.mu.Unlock()
		if only == "" || s != nil && s.Sum == only {
			found[slices.Index(hosts, h)] = s
		}
		for _, name := range more {
			others[name] = struct{}{}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	chosen, err := snapshots.Choose(wish.Name, found, sortedKeys(others))
	if err != nil {
		return nil, err
	}
	from := &source{Snapshot: chosen, from: r.hosts[chosen.Host]}
	r.line("etcd", "Snapshot [%s] of host [%s] has %d bytes and can be read", wish.Name, chosen.Host, chosen.Size)
	return from, r.stateIn(ctx, from, wish)
}

// stateIn reads and checks the state in the archive.
func (r *run) stateIn(ctx context.Context, from *source, wish RestoreWish) error {
	r.line("etcd", "Checking if state file is included in snapshot file for [%s]", wish.Name)
	if !from.State {
		if wish.LocalState {
			return nil
		}
		return advice.With(fmt.Errorf("snapshot %s has no state in it", wish.Name), advice.Step{Kind: advice.KeepState})
	}
	once, err := r.plan.Once(from.Host)
	if err != nil {
		return err
	}
	text, err := from.from.Fetch(ctx, onhost.Once{Process: once.SnapshotState(wish.Name)}, "/tmp/cluster.rkestate", state.MaxSize)
	if err != nil {
		return err
	}
	s, err := state.Decode(text)
	if err != nil {
		return fmt.Errorf("the state in snapshot %s: %w", wish.Name, err)
	}
	// Its hosts may all be lost: cluster.yml need not have any of them.
	if err := s.Check(state.Against{OwnCertificates: r.work.Certificates != nil}); err != nil {
		return fmt.Errorf("the state in snapshot %s: %w", wish.Name, err)
	}
	if wish.LocalState {
		if local := change.Deployed(r.work.Before); local.Encryption != change.Deployed(s).Encryption {
			r.Report.Warn("the state here has other encryption keys than the one in the snapshot, and Secrets may not be readable afterwards", advice.Step{Kind: advice.SnapshotsState})
		}
		return nil
	}
	from.state = s
	return nil
}

// beginRestore writes down that the restore has begun.
func (r *run) beginRestore(ctx context.Context, w Work, from *source, wish RestoreWish) error {
	next, stale, err := change.Restored(w.cluster(), from.state, wish.Name, r.Source(), rand.Reader)
	if err != nil {
		return err
	}
	if was := from.state; was != nil && change.Deployed(was).Config.KubernetesVersion != r.work.Config.KubernetesVersion {
		r.Report.Warn(fmt.Sprintf("the snapshot is of Kubernetes %s, and the config has %s: a version before it may not understand what is in it",
			change.Deployed(was).Config.KubernetesVersion, r.work.Config.KubernetesVersion))
	}
	r.work.Config, r.stale = next.Desired.Config, stale
	return r.save(ctx, next)
}

// copySnapshot unpacks the snapshot and brings the data to every host of etcd, so that all restore the same. Archives that
// others have stay as they are.
func (r *run) copySnapshot(ctx context.Context, from *source, name string) error {
	if err := from.Unpack(ctx, from.from.Host, r.tools(from.from), name); err != nil {
		return err
	}
	d := r.snapshotsOf(from.from).Directory
	for _, h := range r.with(config.RoleEtcd) {
		if h == from.from {
			continue
		}
		r.line("etcd", "Copying snapshot [%s] from host [%s] to host [%s]", name, from.Host, h.node.Address)
		if err := from.from.Carry(ctx, h.Host, d, name); err != nil {
			return err
		}
		if err := from.Verify(ctx, h.Host, r.tools(h), name); err != nil {
			return err
		}
	}
	r.line("etcd", "All etcd hosts have the same snapshot [%s]", name)
	return nil
}

// stopForRestore ends everything that writes to etcd, or knows what was in it.
func (r *run) stopForRestore(ctx context.Context) error {
	r.line("hosts", "Cleaning old kubernetes cluster")
	return each(ctx, r.with(""), parallel, func(ctx context.Context, h *host) error {
		for _, name := range []string{desired.Scheduler, desired.ControllerManager, desired.KubeAPIServer, desired.RollingSnapshots, desired.Etcd} {
			for _, prefix := range []string{"", nodeconfig.OldPrefix, nodeconfig.NewPrefix} {
				if err := h.Discard(ctx, prefix+name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// restoreData makes each member's data of the snapshot.
func (r *run) restoreData(ctx context.Context, name string) error {
	return each(ctx, r.with(config.RoleEtcd), parallel, func(ctx context.Context, h *host) error {
		r.line("etcd", "Restoring [%s] snapshot on etcd host [%s]", name, h.node.Address)
		once, err := r.plan.Once(h.node.Address)
		if err != nil {
			return err
		}
		if _, err := h.Run(ctx, onhost.Once{Process: once.SnapshotRestore(name), Limit: snapshots.Limit}); err != nil {
			return fmt.Errorf("restore etcd on host %s (the data of before are there, as they were or in %s): %w",
				h.node.Address, path.Join(h.prefix, etcdDir, desired.EtcdAside), err)
		}
		return nil
	})
}

// restartKubelets restarts kubelets and proxies, which know a cluster that is no more.
func (r *run) restartKubelets(ctx context.Context) error {
	return each(ctx, r.with(""), parallel, func(ctx context.Context, h *host) error {
		if err := r.look(ctx, h); err != nil {
			return err
		}
		for _, c := range h.desired.Containers {
			is := r.found(h, c.Name)
			if is == nil || c.Name != desired.Kubelet && c.Name != desired.KubeProxy {
				continue
			}
			if err := r.performOne(ctx, h, diff.Difference{Host: h.node.Address, Container: c.Name, Kind: nodeconfig.Restart, Found: is.ID}); err != nil {
				return err
			}
			if err := r.awaitHealth(ctx, h, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeOldNodes removes the nodes of hosts that were in the cluster at the snapshot's time and are not any more.
func (r *run) removeOldNodes(ctx context.Context) error {
	nodes, err := r.api.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range r.work.Config.Nodes {
		delete(nodes, nodeName(n))
	}
	for _, name := range sortedKeys(nodes) {
		r.line("hosts", "Removing node [%s], which is not in the config", name)
		if err := r.api.DeleteNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// endRestore lets the data of before go, now that the cluster works on the others, and notes the end.
func (r *run) endRestore(ctx context.Context, name string) error {
	if err := r.allHealthy(ctx, r.with(config.RoleEtcd)); err != nil {
		return err
	}
	err := each(ctx, r.with(""), parallel, func(ctx context.Context, h *host) error {
		if r.hosts[h.node.Address] == nil {
			return nil
		}
		return r.awaitReady(ctx, h)
	})
	if err != nil {
		return fmt.Errorf("the cluster does not work yet, so that the data of before are kept: %w", err)
	}
	err = each(ctx, r.with(config.RoleEtcd), parallel, func(ctx context.Context, h *host) error {
		dir := path.Join(h.prefix, etcdDir)
		_, err := h.Run(ctx, r.shell(desired.Cleaner, h, []string{dir + ":" + dir}, `rm -rf "$1/$2"`, "clean", dir, desired.EtcdAside))
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the data of before: %w", err)
	}
	next := &state.State{Desired: r.state.Desired, Current: r.state.Current}
	for _, part := range []*state.Part{&next.Desired, &next.Current} {
		c := *part.Config
		c.Restore = config.Restore{}
		part.Config = &c
	}
	if err := r.keep(ctx, next); err != nil {
		return err
	}
	r.line("etcd", "Finished restoring snapshot [%s] on all etcd hosts", name)
	return nil
}

// PreviewRestore looks at everything and says what Restore would do, a line each. It does nothing, but gets the archive from the
// bucket, if there is one.
func PreviewRestore(ctx context.Context, o Options, w Work, wish RestoreWish) ([]string, error) {
	r, err := restoreRun(o, w, wish)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.reachForRestore(ctx, wish); err != nil {
		return nil, err
	}
	from, err := r.findSnapshot(ctx, wish)
	if err != nil {
		return nil, err
	}
	if _, _, err := change.Restored(w.cluster(), from.state, wish.Name, o.Source(), rand.Reader); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("snapshot %s of host %s can be read, sha256 %s", wish.Name, from.Host, from.Sum)}
	if from.state != nil {
		lines = append(lines, "the state in the snapshot takes the place of the one here")
	}
	for _, h := range r.with(config.RoleEtcd) {
		lines = append(lines, fmt.Sprintf("%s etcd: the data become those of the snapshot; those of now are in %s until the cluster works",
			h.node.Address, path.Join(h.prefix, etcdDir, desired.EtcdAside)))
	}
	for _, h := range r.with("") {
		lines = append(lines, restartLine(h, restartsOfRestore(h)))
	}
	return lines, nil
}

// restartsOfRestore are the containers of a host that start again.
func restartsOfRestore(h *host) []string {
	var names []string
	for _, c := range h.desired.Containers {
		if c.Name != desired.NginxProxy && c.Name != desired.Sidekick {
			names = append(names, c.Name)
		}
	}
	return names
}
