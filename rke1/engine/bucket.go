// Snapshots in a bucket of S3. Where the config has its keys, the engine itself asks the bucket. Where it has none, the hosts' own
// role opens the bucket, and the helper image does it on the hosts, as the peer lets it do always.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/rke1/state"
)

// snapshotsOf is a host with its snapshots.
func (r *run) snapshotsOf(h *host) inbucket.Host {
	d := r.directory(h)
	d.OnHost, d.Path = snapshots.Dir, snapshots.Dir
	return inbucket.Host{Host: h.Host, Directory: d, Tools: r.tools(h)}
}

// putIntoBucket puts the snapshot of one host into the bucket, and removes those there that have had their time.
func (r *run) putIntoBucket(ctx context.Context, wish SnapshotWish, all []snapshots.Snapshot) error {
	if wish.S3 == nil {
		return nil
	}
	if !wish.S3.HasKeys() {
		r.Report.Warn(fmt.Sprintf("each host puts snapshot %s into bucket %s by its own role, and what arrives there is not looked at: drover does that where the config has keys",
			wish.Name, wish.S3.BucketName))
		return nil
	}
	b, err := inbucket.Open(wish.S3, r.Buckets)
	if err != nil {
		return err
	}
	defer b.Close()
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b snapshots.Snapshot) int { return snapshots.Better(&a, &b) })
	var failed error
	for _, s := range all {
		if failed = b.Save(ctx, r.snapshotsOf(r.hosts[s.Host]), wish.Name, s); failed == nil {
			r.line("etcd", "Snapshot [%s] of host [%s] is in %s and can be read", wish.Name, s.Host, b)
			break
		}
		if refused := new(bucket.Error); ctx.Err() != nil || errors.As(failed, &refused) {
			break // another host's is refused as well
		}
		r.Report.Warn(failed.Error())
	}
	if failed != nil {
		return fmt.Errorf("snapshot %s is on %d hosts, but not in the bucket: %w", wish.Name, len(all), failed)
	}
	if backup := r.work.Config.Services.Etcd.BackupConfig; backup != nil {
		removed, err := b.Expire(ctx, wish.Name, backup.Retention)
		if err != nil { // the new one is safe
			r.Report.Warn(fmt.Sprintf("old snapshots are not removed: %v", err))
		}
		if len(removed) > 0 {
			r.line("etcd", "Removed [%s] from %s: %d are kept", strings.Join(removed, ", "), b, backup.Retention)
		}
	}
	return nil
}

// download gets a snapshot out of the bucket and puts it on a host, unless one has it. It returns the sum of its data, by which hosts that have
// it are known; "" is any, where the hosts got it by their own role.
func (r *run) download(ctx context.Context, hosts []*host, wish RestoreWish) (sum string, err error) {
	if !wish.S3.HasKeys() {
		return "", each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
			once, err := r.plan.Once(h.node.Address)
			if err == nil {
				_, err = h.Run(ctx, onhost.Once{Process: once.SnapshotDownload(wish.Name, ""), Limit: snapshots.Limit})
			}
			return err
		})
	}
	b, err := inbucket.Open(wish.S3, r.Buckets)
	if err != nil {
		return "", err
	}
	defer b.Close()
	is, err := b.Fetch(ctx, wish.Name)
	if err != nil {
		return "", err
	}
	defer is.Close()
	r.line("etcd", "Snapshot [%s] of %s has %d bytes and can be read", wish.Name, b, is.Size)
	to := hosts[0]
	for _, h := range slices.Backward(hosts) {
		s, _, err := r.inspect(ctx, h, wish.Name)
		switch {
		case err != nil:
			return "", err
		case s != nil && s.Archive && s.Sum == is.Sum:
			return is.Sum, nil
		case s == nil:
			to = h
		}
	}
	r.line("etcd", "Copying snapshot [%s] to host [%s]", wish.Name, to.node.Address)
	return is.Sum, is.Bring(ctx, r.snapshotsOf(to))
}

// Listed is a snapshot and where it is: the address of a host, or "bucket B at ENDPOINT".
type Listed struct {
	snapshots.Archive
	Place string
}

// ListSnapshots lists the archives in a bucket, nil is none, and on the hosts of etcd. It changes nothing and opens none. With an error there
// may be a part of the list.
func ListSnapshots(ctx context.Context, o Options, w Work, s3 *config.S3Backup) (all []Listed, err error) {
	var failed error
	if s3.HasKeys() {
		b, err := inbucket.Open(s3, o.Buckets)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		var there []snapshots.Archive
		there, failed = b.Archives(ctx)
		for _, s := range there {
			all = append(all, Listed{s, b.String()})
		}
	} else if s3 != nil {
		o.Report.Warn(fmt.Sprintf("bucket %s is opened by the hosts' own role: what is in it is not listed", s3.BucketName))
	}
	r := newRun(o, w)
	defer r.close()
	r.before, r.state = state.State{}, &state.State{Desired: state.Part{Config: w.Config}}
	if err = r.reach(ctx); err == nil {
		err = r.makePlan()
	}
	if err != nil {
		return all, errors.Join(failed, err)
	}
	for _, h := range r.with(config.RoleEtcd) {
		found, err := snapshots.List(ctx, h.Host, r.tools(h))
		failed = errors.Join(failed, err)
		for _, s := range found {
			all = append(all, Listed{s, h.node.Address})
		}
	}
	return all, failed
}
