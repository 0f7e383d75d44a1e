// Package snapshot takes snapshots of etcd on every host that has a member, believed only after the archive
// was opened there, and brings them into a bucket and out of it.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

// RestoreRequest is what to restore.
type RestoreRequest struct {
	Name string
	// LocalState keeps the state that is here; else the one in the archive takes its place, with its certificates and keys.
	LocalState bool
	// S3 is the bucket that it comes from; nil is none.
	S3 *config.S3Backup
}

// SnapshotRequest is a snapshot to take.
type SnapshotRequest struct {
	Name string
	// S3 is the bucket that it goes to besides; nil is none.
	S3 *config.S3Backup
	// Resumed says that it was begun before: an archive of the name that can be read is this one.
	Resumed bool
}

// WithBucket is a config whose snapshots go to a bucket, or come from there; nil is none. It is for a run alone and
// never saved: the keys of a bucket need not be the cluster's.
func WithBucket(c *config.Cluster, s3 *config.S3Backup) *config.Cluster {
	with, backup := *c, config.BackupConfig{}
	switch {
	case c.Services.Etcd.BackupConfig != nil:
		backup = *c.Services.Etcd.BackupConfig
	case s3 == nil:
		return &with
	default:
		backup = config.BackupConfig{IntervalHours: 12, Retention: 6, Timeout: 300}
	}
	backup.S3 = s3
	with.Services.Etcd.BackupConfig = &backup
	return &with
}

// Tools makes containers for looking at snapshots.
func Tools(r *run.Run, h *run.Host) snapshots.Tools {
	return func(name string, binds []string, script string, args ...string) nodeconfig.Process {
		return r.Shell(name, h, binds, script, args...).Process
	}
}

// Inspect looks for a snapshot on a host. The errors are those of snapshots.Inspect.
func Inspect(ctx context.Context, r *run.Run, h *run.Host, name string) (*snapshots.Snapshot, []string, error) {
	return snapshots.Inspect(ctx, h.Host, Tools(r, h), name)
}

// Save takes it on all members at the same time. It returns an error where no host has it: that of each.
func Save(ctx context.Context, r *run.Run, request SnapshotRequest) ([]snapshots.Snapshot, error) {
	name := request.Name
	text, err := state.Compact(r.Work.Before)
	if err != nil {
		return nil, err
	}
	hosts := r.With(config.RoleEtcd)
	found := make(map[string]*snapshots.Snapshot, len(hosts))
	failed := run.Each(ctx, hosts, run.Parallel, func(ctx context.Context, h *run.Host) error {
		s, err := saveOn(ctx, r, h, request, text)
		if err != nil {
			err = fmt.Errorf("snapshot %s on host %s: %w", name, h.Node.Address, err)
			r.Warn(err)
			return err
		}
		r.Mu.Lock()
		defer r.Mu.Unlock()
		found[h.Node.Address] = s
		return nil
	})
	if len(found) == 0 {
		return nil, failed
	}
	var all []snapshots.Snapshot
	for _, h := range hosts {
		if s := found[h.Node.Address]; s != nil {
			all = append(all, *s)
		}
	}
	r.Line("etcd", "Finished saving snapshot [%s] on %d of %d etcd hosts", name, len(all), len(hosts))
	return all, nil
}

// saveOn takes it on one host: with the state beside it, which goes into the archive and not anywhere else.
func saveOn(ctx context.Context, r *run.Run, h *run.Host, request SnapshotRequest, text []byte) (*snapshots.Snapshot, error) {
	name := request.Name
	was, _, err := Inspect(ctx, r, h, name)
	if err != nil {
		return nil, err
	}
	switch {
	case was == nil:
	case request.Resumed && !was.Broken && was.State && request.S3 == nil:
		return was, nil
	case !request.Resumed:
		return nil, advice.With(errors.New("there is one of this name already"), advice.Step{Kind: advice.OtherName})
	}
	beside := path.Join(h.Prefix, run.KubernetesDir, name+".rkestate")
	if _, _, err := h.Put(ctx, run.Directory(r, h), []onhost.File{{Path: beside, Contents: text, Mode: 0o400}}); err != nil {
		return nil, err
	}
	once, err := r.Plan.Once(h.Node.Address)
	if err != nil {
		return nil, err
	}
	r.Line("etcd", "Running snapshot save once on host [%s]", h.Node.Address)
	_, err = h.Run(ctx, onhost.Once{Process: once.SnapshotOnce(name), Limit: BackupLimit(r)})
	if gone := run.RemoveFiles(context.WithoutCancel(ctx), r, h, []string{beside}); err == nil {
		err = gone
	}
	if err != nil {
		return nil, err
	}
	s, _, err := Inspect(ctx, r, h, name)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, errors.New("the command ended well, but there is no archive")
	case s.Broken:
		return nil, errors.New("the archive that was written cannot be opened: see whether the disk is full")
	case !s.State:
		r.Report.Warn(fmt.Sprintf("host [%s]: snapshot %s is without the cluster's state; keep %s beside it", h.Node.Address, name, "cluster.rkestate"))
	}
	r.Line("etcd", "Snapshot [%s] on host [%s] has %d bytes and can be read", name, h.Node.Address, s.Size)
	return s, nil
}

// BackupLimit is how long one snapshot may take.
func BackupLimit(r *run.Run) time.Duration {
	if b := r.Work.Config.Services.Etcd.BackupConfig; b != nil && b.Timeout > 0 {
		return time.Duration(b.Timeout) * time.Second
	}
	return snapshots.Limit
}

// FirstSnapshots takes a snapshot where the container that takes them again and again was just made: it waits a whole period before its
// first one, and begins anew when it is made anew. The name is one of its own, so that it removes it when its time has come.
func FirstSnapshots(ctx context.Context, r *run.Run) {
	hosts := slices.DeleteFunc(r.With(config.RoleEtcd), func(h *run.Host) bool { return !h.Schedules })
	if len(hosts) == 0 {
		return
	}
	name := snapshots.Rolling(r.Now(), r.Work.Config.Services.Etcd.BackupConfig)
	text, err := state.Compact(r.State)
	if err == nil {
		err = run.Each(ctx, hosts, run.Parallel, func(ctx context.Context, h *run.Host) error {
			h.Schedules = false
			if _, err := saveOn(ctx, r, h, SnapshotRequest{Name: name}, text); err != nil {
				return fmt.Errorf("host [%s]: %w", h.Node.Address, err)
			}
			return nil
		})
	}
	if err != nil {
		r.Report.Warn("there is no snapshot of etcd yet, and the next try is a whole period away: "+err.Error(), advice.Step{Kind: advice.TakeSnapshot})
	}
}
