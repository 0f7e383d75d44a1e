// Snapshots of etcd: taken on every host that has a member, and believed only after the archive
// was opened there.

package engine

import (
	"context"
	"errors"
	"path"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

// ListSnapshots lists the archives in a bucket, nil is none, and on the hosts of etcd. It changes nothing and opens none. With an error there
// may be a part of the list.
func ListSnapshots(ctx context.Context, o run.Options, w run.Work, s3 *config.S3Backup) ([]snapshot.Listed, error) {
	all, failed := snapshot.InBucket(ctx, s3, o)
	r := run.New(o, w)
	defer r.Close()
	r.Before, r.State = state.State{}, &state.State{Desired: state.Part{Config: w.Config}}
	err := reach.All(ctx, r)
	if err == nil {
		err = reach.MakePlan(r)
	}
	if err != nil {
		return all, errors.Join(failed, err)
	}
	more, err := snapshot.OnHosts(ctx, r)
	return append(all, more...), errors.Join(failed, err)
}

// SaveSnapshot takes a snapshot of etcd on every host that has a member, with the state of the cluster in it, and into a
// bucket if there is one. One host with a good archive is success; what went wrong on others is warned of.
// It returns what each host has, also with the error that the bucket has nothing.
func SaveSnapshot(ctx context.Context, o run.Options, w run.Work, request snapshot.SnapshotRequest) ([]snapshots.Snapshot, error) {
	r, err := snapshotRun(o, &w, request)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []snapshots.Snapshot
	err = r.Perform(ctx, []run.Phase{
		{ID: "hosts", Title: "Reach the hosts", Run: reach.All},
		comparePhase,
		{ID: "snapshot", Title: "Take the snapshot", Run: func(ctx context.Context, r *run.Run) (err error) {
			all, err = snapshot.Save(ctx, r, request)
			return err
		}},
		{ID: "bucket", Title: "Put the snapshot into the bucket", Run: func(ctx context.Context, r *run.Run) error { return snapshot.PutIntoBucket(ctx, r, request, all) }},
	})
	return all, err
}

// PreviewSnapshot says what SaveSnapshot would do, a line each, and does nothing. The errors are those that SaveSnapshot would begin with.
func PreviewSnapshot(ctx context.Context, o run.Options, w run.Work, request snapshot.SnapshotRequest) ([]string, error) {
	r, err := snapshotRun(o, &w, request)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := reach.All(ctx, r); err != nil {
		return nil, err
	}
	if err := snapshot.Free(ctx, request, o.Buckets); err != nil {
		return nil, err
	}
	var lines []string
	for _, h := range r.With(config.RoleEtcd) {
		line := h.Node.Address + " snapshot: " + path.Join(snapshots.Dir, request.Name) + ".zip"
		if request.S3 != nil {
			line += ", and in bucket " + request.S3.BucketName
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// snapshotRun prepares a run on what is deployed, with the bucket of the config of now.
func snapshotRun(o run.Options, w *run.Work, request snapshot.SnapshotRequest) (*run.Run, error) {
	if err := snapshots.CheckName(request.Name); err != nil {
		return nil, err
	}
	cfg, err := change.AsDeployed(w.Cluster())
	if err != nil {
		return nil, err
	}
	if err := change.Unfinished(w.Before); err != nil && w.Before.Desired.Config.Restore.Restore {
		return nil, err
	}
	if len(cfg.Services.Etcd.ExternalURLs) > 0 {
		return nil, errors.New("the etcd of this cluster is external: snapshots are taken there")
	}
	cfg.Services.Etcd.BackupConfig = w.Config.Services.Etcd.BackupConfig
	w.Config = snapshot.WithBucket(cfg, request.S3)
	r := run.New(o, *w)
	r.State, r.Encryption = w.Before, &w.Before.Current.Encryption
	r.Certificates = w.Before.Current.Certificates
	return r, nil
}

// RemoveSnapshot removes a snapshot from every host of etcd that can be reached, and from the bucket if there is one. The archive of
// a host that is away stays there. The errors are those of reaching the hosts, of the storage and of the hosts.
func RemoveSnapshot(ctx context.Context, o run.Options, w run.Work, request snapshot.SnapshotRequest) error {
	r, err := snapshotRun(o, &w, request)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := reach.All(ctx, r); err != nil {
		return err
	}
	if err := reach.MakePlan(r); err != nil {
		return err
	}
	return snapshot.Remove(ctx, r, request)
}
