// Package restore is the restore of a snapshot: looked at whole before anything is changed, then made beside the
// data that are there, which are kept until the cluster works on the new ones. The request is in the
// state; a run that was interrupted begins with the same snapshot again, and stops what it had started.
package restore

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

// Source is where a snapshot comes from.
type Source struct {
	*snapshots.Snapshot
	Holder *run.Host
	// state is the one in the archive; nil when it is not used.
	Kept *state.State
}

// Reach reaches all hosts whose data or API servers would go on with the old cluster. The errors are those of reach.Every and reach.MakePlan.
func Reach(ctx context.Context, r *run.Run, request snapshot.RestoreRequest) error {
	if err := reach.Every(ctx, r, config.RoleEtcd, config.RoleControlPlane); err != nil {
		return err
	}
	r.Work.Config = snapshot.WithBucket(r.Work.Config, request.S3)
	return reach.MakePlan(r)
}

// Find looks at the snapshot on every host of etcd and reads the state in it. It changes nothing, but gets the archive from
// the bucket, if there is one. It returns an error where no host has a snapshot of the name that can be read, with the names that there are, and
// those of reading the state in it.
func Find(ctx context.Context, r *run.Run, request snapshot.RestoreRequest) (*Source, error) {
	hosts, only := r.With(config.RoleEtcd), ""
	if request.S3 != nil {
		var err error
		if only, err = snapshot.Download(ctx, r, hosts, request); err != nil {
			only = ""
			r.Report.Warn(fmt.Sprintf("the bucket does not give snapshot %s, and those of the hosts are looked at: %v", request.Name, err))
		}
	}
	found, others := make([]*snapshots.Snapshot, len(hosts)), map[string]struct{}{}
	err := run.Each(ctx, hosts, run.Parallel, func(ctx context.Context, h *run.Host) error {
		s, more, err := snapshot.Inspect(ctx, r, h, request.Name)
		r.Mu.Lock()
		defer r.Mu.Unlock()
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
	chosen, err := snapshots.Choose(request.Name, found, run.SortedKeys(others))
	if err != nil {
		return nil, err
	}
	from := &Source{Snapshot: chosen, Holder: r.Hosts[chosen.Host]}
	r.Line("etcd", "Snapshot [%s] of host [%s] has %d bytes and can be read", request.Name, chosen.Host, chosen.Size)
	return from, stateIn(ctx, r, from, request)
}

// stateIn reads and checks the state in the archive.
func stateIn(ctx context.Context, r *run.Run, from *Source, request snapshot.RestoreRequest) error {
	r.Line("etcd", "Checking if state file is included in snapshot file for [%s]", request.Name)
	if !from.State {
		if request.LocalState {
			return nil
		}
		return advice.With(fmt.Errorf("snapshot %s has no state in it", request.Name), advice.Step{Kind: advice.KeepState})
	}
	once, err := r.Plan.Once(from.Host)
	if err != nil {
		return err
	}
	text, err := from.Holder.Fetch(ctx, onhost.Once{Process: once.SnapshotState(request.Name)}, "/tmp/cluster.rkestate", state.MaxSize)
	if err != nil {
		return err
	}
	s, err := state.Decode(text)
	if err != nil {
		return fmt.Errorf("the state in snapshot %s: %w", request.Name, err)
	}
	// Its hosts may all be lost: cluster.yml need not have any of them.
	if err := s.Check(state.Against{OwnCertificates: r.Work.Certificates != nil}); err != nil {
		return fmt.Errorf("the state in snapshot %s: %w", request.Name, err)
	}
	if request.LocalState {
		if local := r.Work.Before.LastDeployed(); local.Encryption != s.LastDeployed().Encryption {
			r.Report.Warn("the state here has other encryption keys than the one in the snapshot, and Secrets may not be readable afterwards", advice.Step{Kind: advice.SnapshotsState})
		}
		return nil
	}
	from.Kept = s
	return nil
}

// Begin writes down that the restore has begun. The errors are those of change.Restored and of saving the state.
func Begin(ctx context.Context, r *run.Run, w run.Work, from *Source, request snapshot.RestoreRequest) error {
	next, stale, err := change.Restored(w.Cluster(), from.Kept, request.Name, r.Source(), rand.Reader)
	if err != nil {
		return err
	}
	if was := from.Kept; was != nil && was.LastDeployed().Config.KubernetesVersion != r.Work.Config.KubernetesVersion {
		r.Report.Warn(fmt.Sprintf("the snapshot is of Kubernetes %s, and the config has %s: a version before it may not understand what is in it",
			was.LastDeployed().Config.KubernetesVersion, r.Work.Config.KubernetesVersion))
	}
	r.Work.Config, r.Stale = next.Desired.Config, stale
	return r.SaveState(ctx, next)
}

// Copy unpacks the snapshot and brings the data to every host of etcd, so that all restore the same. Archives that
// others have stay as they are. The error names the host, or says that what arrived is damaged.
func Copy(ctx context.Context, r *run.Run, from *Source, name string) error {
	if err := from.Unpack(ctx, from.Holder.Host, snapshot.Tools(r, from.Holder), name); err != nil {
		return err
	}
	d := snapshot.SnapshotsOf(r, from.Holder).Directory
	for _, h := range r.With(config.RoleEtcd) {
		if h == from.Holder {
			continue
		}
		r.Line("etcd", "Copying snapshot [%s] from host [%s] to host [%s]", name, from.Host, h.Node.Address)
		if err := from.Holder.Carry(ctx, h.Host, d, name); err != nil {
			return err
		}
		if err := from.Verify(ctx, h.Host, snapshot.Tools(r, h), name); err != nil {
			return err
		}
	}
	r.Line("etcd", "All etcd hosts have the same snapshot [%s]", name)
	return nil
}

// Stop ends everything that writes to etcd, or knows what was in it. The errors are those of the hosts.
func Stop(ctx context.Context, r *run.Run) error {
	r.Line("hosts", "Cleaning old kubernetes cluster")
	return run.Each(ctx, r.With(""), run.Parallel, func(ctx context.Context, h *run.Host) error {
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

// Data makes each member's data of the snapshot. The error names the host, and says where the data of before are.
func Data(ctx context.Context, r *run.Run, name string) error {
	return run.Each(ctx, r.With(config.RoleEtcd), run.Parallel, func(ctx context.Context, h *run.Host) error {
		r.Line("etcd", "Restoring [%s] snapshot on etcd host [%s]", name, h.Node.Address)
		once, err := r.Plan.Once(h.Node.Address)
		if err != nil {
			return err
		}
		if _, err := h.Run(ctx, onhost.Once{Process: once.SnapshotRestore(name), Limit: snapshots.Limit}); err != nil {
			return fmt.Errorf("restore etcd on host %s (the data of before are there, as they were or in %s): %w",
				h.Node.Address, Aside(h), err)
		}
		return nil
	})
}

// RestartKubelets restarts kubelets and kube-proxies: they know objects that the restored etcd does not have. The errors are those of the hosts, and
// of kubelets that do not work.
func RestartKubelets(ctx context.Context, r *run.Run) error {
	return run.Each(ctx, r.With(""), run.Parallel, func(ctx context.Context, h *run.Host) error {
		if err := reach.Look(ctx, r, h); err != nil {
			return err
		}
		for _, c := range h.Desired.Containers {
			is := plane.Found(h, c.Name)
			if is == nil || c.Name != desired.Kubelet && c.Name != desired.KubeProxy {
				continue
			}
			if err := plane.PerformOne(ctx, r, h, diff.Difference{Host: h.Node.Address, Container: c.Name, Kind: nodeconfig.Restart, Found: is.ID}); err != nil {
				return err
			}
			if err := plane.AwaitHealth(ctx, r, h, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveOldNodes removes the nodes of hosts that were in the cluster at the snapshot's time and are not any more. The error is that of the API.
func RemoveOldNodes(ctx context.Context, r *run.Run) error {
	nodes, err := r.API.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range r.Work.Config.Nodes {
		delete(nodes, run.NodeName(n))
	}
	for _, name := range run.SortedKeys(nodes) {
		r.Line("hosts", "Removing node [%s], which is not in the config", name)
		if err := r.API.DeleteNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// End lets the data of before go, now that the cluster works on the others, and notes the end. The error says that the cluster does not work yet, or
// that what is left could not be removed or written down.
func End(ctx context.Context, r *run.Run, name string) error {
	if err := plane.AllHealthy(ctx, r, r.With(config.RoleEtcd)); err != nil {
		return err
	}
	err := run.Each(ctx, r.With(""), run.Parallel, func(ctx context.Context, h *run.Host) error {
		if r.Hosts[h.Node.Address] == nil {
			return nil
		}
		return api.AwaitReady(ctx, r, h)
	})
	if err != nil {
		return fmt.Errorf("the cluster does not work yet, so that the data of before are kept: %w", err)
	}
	err = run.Each(ctx, r.With(config.RoleEtcd), run.Parallel, func(ctx context.Context, h *run.Host) error {
		dir := path.Join(h.Prefix, run.EtcdDir)
		_, err := h.Run(ctx, r.Shell(desired.Cleaner, h, []string{dir + ":" + dir}, `rm -rf "$1/$2"`, "clean", dir, desired.EtcdAside))
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the data of before: %w", err)
	}
	next := &state.State{Desired: r.State.Desired, Current: r.State.Current}
	for _, part := range []*state.Part{&next.Desired, &next.Current} {
		c := *part.Config
		c.Restore = config.Restore{}
		part.Config = &c
	}
	if err := api.Keep(ctx, r, next); err != nil {
		return err
	}
	r.Line("etcd", "Finished restoring snapshot [%s] on all etcd hosts", name)
	return nil
}

// Restarts are the containers of a host that start again.
func Restarts(h *run.Host) []string {
	var names []string
	for _, c := range h.Desired.Containers {
		if c.Name != desired.NginxProxy && c.Name != desired.Sidekick {
			names = append(names, c.Name)
		}
	}
	return names
}

// Aside is where a restore keeps the data of etcd that a host had before.
func Aside(h *run.Host) string { return path.Join(h.Prefix, run.EtcdDir, desired.EtcdAside) }
