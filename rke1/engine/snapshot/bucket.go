// Snapshots in a bucket of S3. Where the config has its keys, the engine itself asks the bucket. Where it has none, the hosts' own
// role opens the bucket, and the helper image does it on the hosts, as the peer lets it do always.

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
)

// SnapshotsOf is a host with its snapshots.
func SnapshotsOf(r *run.Run, h *run.Host) inbucket.Host {
	d := run.Directory(r, h)
	d.OnHost, d.Path = snapshots.Dir, snapshots.Dir
	return inbucket.Host{Host: h.Host, Directory: d, Tools: Tools(r, h)}
}

// PutIntoBucket puts the snapshot of one host into the bucket, and removes those there that have had their time. The error says on how many hosts the
// snapshot is, and what the storage answered.
func PutIntoBucket(ctx context.Context, r *run.Run, request SnapshotRequest, all []snapshots.Snapshot) error {
	if request.S3 == nil {
		return nil
	}
	if !request.S3.HasKeys() {
		r.Report.Warn(fmt.Sprintf("each host puts snapshot %s into bucket %s by its own role, and what arrives there is not looked at: drover does that where the config has keys",
			request.Name, request.S3.BucketName))
		return nil
	}
	b, err := inbucket.Open(request.S3, inbucket.Options(r.Buckets))
	if err != nil {
		return err
	}
	defer b.Close()
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b snapshots.Snapshot) int { return snapshots.Better(&a, &b) })
	var failed error
	for _, s := range all {
		if failed = b.Save(ctx, SnapshotsOf(r, r.Hosts[s.Host]), request.Name, s); failed == nil {
			r.Line("etcd", "Snapshot [%s] of host [%s] is in %s and can be read", request.Name, s.Host, b)
			break
		}
		if refused := new(bucket.Error); ctx.Err() != nil || errors.As(failed, &refused) {
			break // another host's is refused as well
		}
		r.Report.Warn(failed.Error())
	}
	if failed != nil {
		return fmt.Errorf("snapshot %s is on %d hosts, but not in the bucket: %w", request.Name, len(all), failed)
	}
	if backup := r.Work.Config.Services.Etcd.BackupConfig; backup != nil {
		removed, err := b.Expire(ctx, request.Name, backup.Retention)
		if err != nil { // the new one is safe
			r.Report.Warn(fmt.Sprintf("old snapshots are not removed: %v", err))
		}
		if len(removed) > 0 {
			r.Line("etcd", "Removed [%s] from %s: %d are kept", strings.Join(removed, ", "), b, backup.Retention)
		}
	}
	return nil
}

// Download gets a snapshot out of the bucket and puts it on a host, unless one has it. It returns the sum of its data, by which hosts that have
// it are known; "" is any, where the hosts got it by their own role. The errors are those of the storage and of the hosts.
func Download(ctx context.Context, r *run.Run, hosts []*run.Host, request RestoreRequest) (sum string, err error) {
	if !request.S3.HasKeys() {
		return "", run.Each(ctx, hosts, run.Parallel, func(ctx context.Context, h *run.Host) error {
			once, err := r.Plan.Once(h.Node.Address)
			if err == nil {
				_, err = h.Run(ctx, onhost.Once{Process: once.SnapshotDownload(request.Name, ""), Limit: snapshots.Limit})
			}
			return err
		})
	}
	b, err := inbucket.Open(request.S3, inbucket.Options(r.Buckets))
	if err != nil {
		return "", err
	}
	defer b.Close()
	is, err := b.Fetch(ctx, request.Name)
	if err != nil {
		return "", err
	}
	defer is.Close()
	r.Line("etcd", "Snapshot [%s] of %s has %d bytes and can be read", request.Name, b, is.Size)
	to := hosts[0]
	for _, h := range slices.Backward(hosts) {
		s, _, err := Inspect(ctx, r, h, request.Name)
		switch {
		case err != nil:
			return "", err
		case s != nil && s.Archive && s.Sum == is.Sum:
			return is.Sum, nil
		case s == nil:
			to = h
		}
	}
	r.Line("etcd", "Copying snapshot [%s] to host [%s]", request.Name, to.Node.Address)
	return is.Sum, is.Bring(ctx, SnapshotsOf(r, to))
}

// Listed is a snapshot and where it is: the address of a host, or "bucket B at ENDPOINT".
type Listed struct {
	snapshots.Archive
	Place string
}

// Free says whether a snapshot of the name can go into the bucket; nil where there is none, or where the hosts open it by their own role. The error
// says that the name is taken, or what the storage answered.
func Free(ctx context.Context, request SnapshotRequest, o run.Buckets) error {
	if !request.S3.HasKeys() {
		return nil
	}
	b, err := inbucket.Open(request.S3, inbucket.Options(o))
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Free(ctx, request.Name)
}

// Remove removes a snapshot from the bucket, if there is one, and from the hosts of etcd that answered. The errors are those of the storage and of
// the hosts.
func Remove(ctx context.Context, r *run.Run, request SnapshotRequest) error {
	if request.S3.HasKeys() {
		b, err := inbucket.Open(request.S3, inbucket.Options(r.Buckets))
		if err != nil {
			return err
		}
		defer b.Close()
		if err := b.Remove(ctx, snapshots.File(request.Name)); err != nil {
			return err
		}
	}
	return run.Each(ctx, r.With(config.RoleEtcd), run.Parallel, func(ctx context.Context, h *run.Host) error {
		once, err := r.Plan.Once(h.Node.Address)
		if err != nil {
			return err
		}
		if _, err := h.Run(ctx, onhost.Once{Process: once.SnapshotRemove(request.Name, false), Limit: BackupLimit(r)}); err != nil {
			return fmt.Errorf("remove snapshot %s from host %s: %w", request.Name, h.Node.Address, err)
		}
		return nil
	})
}

// InBucket are the archives in a bucket; none without one. With an error there may be a part of them.
func InBucket(ctx context.Context, s3 *config.S3Backup, o run.Options) ([]Listed, error) {
	if !s3.HasKeys() {
		if s3 != nil {
			o.Report.Warn(fmt.Sprintf("bucket %s is opened by the hosts' own role: what is in it is not listed", s3.BucketName))
		}
		return nil, nil
	}
	b, err := inbucket.Open(s3, inbucket.Options(o.Buckets))
	if err != nil {
		return nil, err
	}
	defer b.Close()
	there, err := b.Archives(ctx)
	var all []Listed
	for _, s := range there {
		all = append(all, Listed{Archive: s, Place: b.String()})
	}
	return all, err
}

// OnHosts are the archives on the hosts of etcd that answered. With an error there may be a part of them.
func OnHosts(ctx context.Context, r *run.Run) (all []Listed, failed error) {
	for _, h := range r.With(config.RoleEtcd) {
		found, err := snapshots.List(ctx, h.Host, Tools(r, h))
		failed = errors.Join(failed, err)
		for _, s := range found {
			all = append(all, Listed{Archive: s, Place: h.Node.Address})
		}
	}
	return all, failed
}
