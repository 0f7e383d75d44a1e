// Snapshots of etcd: taken on every host that has a member, and believed only after the archive
// was opened there.

package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/rke1/state"
)

// SnapshotWish is a snapshot to take.
type SnapshotWish struct {
	Name string
	// S3 is the bucket that it goes to besides; nil is none.
	S3 *config.S3Backup
	// Resumed says that it was begun before: an archive of the name that can be read is this one.
	Resumed bool
}

// withBucket is a config whose snapshots go to a bucket, or come from there; nil is none. It is for a run alone and
// never saved: the keys of a bucket need not be the cluster's.
func withBucket(c *config.Cluster, s3 *config.S3Backup) *config.Cluster {
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

// tools makes containers for looking at snapshots.
func (r *run) tools(h *host) snapshots.Tools {
	return func(name string, binds []string, script string, args ...string) nodeconfig.Process {
		return r.shell(name, h, binds, script, args...).Process
	}
}

// inspect looks for a snapshot on a host.
func (r *run) inspect(ctx context.Context, h *host, name string) (*snapshots.Snapshot, []string, error) {
	return snapshots.Inspect(ctx, h.Host, r.tools(h), name)
}

// SaveSnapshot takes a snapshot of etcd on every host that has a member, with the state of the cluster in it, and into a
// bucket if there is one. One host with a good archive is success; what went wrong on others is warned of.
// It returns what each host has, also with the error that the bucket has nothing.
func SaveSnapshot(ctx context.Context, o Options, w Work, wish SnapshotWish) ([]snapshots.Snapshot, error) {
	r, err := snapshotRun(o, &w, wish)
	if err != nil {
		return nil, err
	}
	defer r.close()
	var all []snapshots.Snapshot
	err = r.perform(ctx, []phase{
		{"hosts", "Reach the hosts", (*run).reach},
		{"compare", "Compare with what runs", (*run).compare},
		{"snapshot", "Take the snapshot", func(r *run, ctx context.Context) (err error) {
			all, err = r.saveSnapshot(ctx, wish)
			return err
		}},
		{"bucket", "Put the snapshot into the bucket", func(r *run, ctx context.Context) error { return r.putIntoBucket(ctx, wish, all) }},
	})
	return all, err
}

// PreviewSnapshot says what SaveSnapshot would do, a line each, and does nothing.
func PreviewSnapshot(ctx context.Context, o Options, w Work, wish SnapshotWish) ([]string, error) {
	r, err := snapshotRun(o, &w, wish)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	if wish.S3.HasKeys() {
		b, err := inbucket.Open(wish.S3, o.Buckets)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		if err := b.Free(ctx, wish.Name); err != nil {
			return nil, err
		}
	}
	var lines []string
	for _, h := range r.with(config.RoleEtcd) {
		line := h.node.Address + " snapshot: " + path.Join(snapshots.Dir, wish.Name) + ".zip"
		if wish.S3 != nil {
			line += ", and in bucket " + wish.S3.BucketName
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// snapshotRun prepares a run on what is deployed, with the bucket of the config of now.
func snapshotRun(o Options, w *Work, wish SnapshotWish) (*run, error) {
	if err := snapshots.CheckName(wish.Name); err != nil {
		return nil, err
	}
	cfg, err := change.AsDeployed(w.cluster())
	if err != nil {
		return nil, err
	}
	if err := change.Unfinished(w.Before); err != nil && w.Before.Desired.Config.Restore.Restore {
		return nil, err
	}
	if len(cfg.Services.Etcd.ExternalURLs) > 0 {
		return nil, errors.New("the etcd of this cluster is somebody else's: snapshots are taken there")
	}
	cfg.Services.Etcd.BackupConfig = w.Config.Services.Etcd.BackupConfig
	w.Config = withBucket(cfg, wish.S3)
	r := newRun(o, *w)
	r.state, r.encryption = w.Before, &w.Before.Current.Encryption
	r.certificates = w.Before.Current.Certificates
	return r, nil
}

// saveSnapshot takes it on all members at the same time.
func (r *run) saveSnapshot(ctx context.Context, wish SnapshotWish) ([]snapshots.Snapshot, error) {
	name := wish.Name
	text, err := state.Compact(r.work.Before)
	if err != nil {
		return nil, err
	}
	hosts := r.with(config.RoleEtcd)
	found := make(map[string]*snapshots.Snapshot, len(hosts))
	failed := each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
		s, err := r.saveOn(ctx, h, wish, text)
		if err != nil {
			err = fmt.Errorf("snapshot %s on host %s: %w", name, h.node.Address, err)
			r.warn(err)
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		found[h.node.Address] = s
		return nil
	})
	if len(found) == 0 {
		return nil, failed
	}
	var all []snapshots.Snapshot
	for _, h := range hosts {
		if s := found[h.node.Address]; s != nil {
			all = append(all, *s)
		}
	}
	r.line("etcd", "Finished saving snapshot [%s] on %d of %d etcd hosts", name, len(all), len(hosts))
	return all, nil
}

// saveOn takes it on one host: with the state beside it, which goes into the archive and not anywhere else.
func (r *run) saveOn(ctx context.Context, h *host, wish SnapshotWish, text []byte) (*snapshots.Snapshot, error) {
	name := wish.Name
	was, _, err := r.inspect(ctx, h, name)
	if err != nil {
		return nil, err
	}
	switch {
	case was == nil:
	case wish.Resumed && !was.Broken && was.State && wish.S3 == nil:
		return was, nil
	case !wish.Resumed:
		return nil, advice.With(errors.New("there is one of this name already"), advice.Step{Kind: advice.OtherName})
	}
	beside := path.Join(h.prefix, kubernetesDir, name+".rkestate")
	if _, _, err := h.Put(ctx, r.directory(h), []onhost.File{{Path: beside, Contents: text, Mode: 0o400}}); err != nil {
		return nil, err
	}
	once, err := r.plan.Once(h.node.Address)
	if err != nil {
		return nil, err
	}
	r.line("etcd", "Running snapshot save once on host [%s]", h.node.Address)
	_, err = h.Run(ctx, onhost.Once{Process: once.SnapshotOnce(name), Limit: r.backupLimit()})
	if gone := r.removeFiles(context.WithoutCancel(ctx), h, []string{beside}); err == nil {
		err = gone
	}
	if err != nil {
		return nil, err
	}
	s, _, err := r.inspect(ctx, h, name)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, errors.New("the command ended well, but there is no archive")
	case s.Broken:
		return nil, errors.New("the archive that was written cannot be opened: see whether the disk is full")
	case !s.State:
		r.Report.Warn(fmt.Sprintf("host [%s]: snapshot %s is without the cluster's state; keep %s beside it", h.node.Address, name, "cluster.rkestate"))
	}
	r.line("etcd", "Snapshot [%s] on host [%s] has %d bytes and can be read", name, h.node.Address, s.Size)
	return s, nil
}

// backupLimit is how long one snapshot may take.
func (r *run) backupLimit() time.Duration {
	if b := r.work.Config.Services.Etcd.BackupConfig; b != nil && b.Timeout > 0 {
		return time.Duration(b.Timeout) * time.Second
	}
	return snapshots.Limit
}

// firstSnapshots takes a snapshot where the container that takes them again and again was just made: it waits a whole period before its
// first one, and begins anew when it is made anew. The name is one of its own, so that it removes it when its time has come.
func (r *run) firstSnapshots(ctx context.Context) {
	hosts := slices.DeleteFunc(r.with(config.RoleEtcd), func(h *host) bool { return !h.schedules })
	if len(hosts) == 0 {
		return
	}
	name := snapshots.Rolling(r.Now(), r.work.Config.Services.Etcd.BackupConfig)
	text, err := state.Compact(r.state)
	if err == nil {
		err = each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
			h.schedules = false
			if _, err := r.saveOn(ctx, h, SnapshotWish{Name: name}, text); err != nil {
				return fmt.Errorf("host [%s]: %w", h.node.Address, err)
			}
			return nil
		})
	}
	if err != nil {
		r.Report.Warn("there is no snapshot of etcd yet, and the next try is a whole period away: "+err.Error(), advice.Step{Kind: advice.TakeSnapshot})
	}
}

// RemoveSnapshot removes a snapshot from every host of etcd that can be reached, and from the bucket if there is one. The archive of
// a host that is away stays there.
func RemoveSnapshot(ctx context.Context, o Options, w Work, wish SnapshotWish) error {
	r, err := snapshotRun(o, &w, wish)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.reach(ctx); err != nil {
		return err
	}
	if err := r.makePlan(); err != nil {
		return err
	}
	if wish.S3.HasKeys() {
		b, err := inbucket.Open(wish.S3, o.Buckets)
		if err != nil {
			return err
		}
		defer b.Close()
		if err := b.Remove(ctx, snapshots.File(wish.Name)); err != nil {
			return err
		}
	}
	return each(ctx, r.with(config.RoleEtcd), parallel, func(ctx context.Context, h *host) error {
		once, err := r.plan.Once(h.node.Address)
		if err != nil {
			return err
		}
		if _, err := h.Run(ctx, onhost.Once{Process: once.SnapshotRemove(wish.Name, false), Limit: r.backupLimit()}); err != nil {
			return fmt.Errorf("remove snapshot %s from host %s: %w", wish.Name, h.node.Address, err)
		}
		return nil
	})
}
