// Snapshots in a bucket of S3. The engine carries them between a host and the bucket and looks at them on the way, so that keys
// come to no host: what is in a container's environment, everybody reads who may use Docker. Where the config has no keys, the
// host's own role opens the bucket, and the helper image does it on the host, as the peer lets it do always.

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/installers/snapshots/etcddata"
	"github.com/drover-project/drover/installers/snapshots/spool"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

// openBucket opens a bucket of a config.
func openBucket(s3 *config.S3Backup) (*bucket.Bucket, error) {
	return bucket.Open(bucket.Config{
		Endpoint: s3.Endpoint, Bucket: s3.BucketName, Region: s3.Region, Folder: s3.Folder, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, CA: s3.CustomCA,
	})
}

// snapshotsOf is where a host keeps snapshots.
func (r *run) snapshotsOf(h *host) onhost.Directory {
	d := r.directory(h)
	d.OnHost, d.Path = snapshots.Dir, snapshots.Dir
	return d
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
	b, err := openBucket(wish.S3)
	if err != nil {
		return err
	}
	defer b.Close()
	var failed error
	for _, s := range byRank(all) {
		if failed = r.putOne(ctx, b, wish.Name, s); failed == nil {
			return r.expire(ctx, b, wish.Name)
		}
		if refused := new(bucket.Error); ctx.Err() != nil || errors.As(failed, &refused) {
			break // another host's is refused as well
		}
		r.Report.Warn(failed.Error())
	}
	return fmt.Errorf("snapshot %s is on %d hosts, but not in the bucket: %w", wish.Name, len(all), failed)
}

// byRank are snapshots, those first that are best to restore.
func byRank(all []snapshots.Snapshot) []snapshots.Snapshot {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b snapshots.Snapshot) int { return snapshots.Better(&a, &b) })
	return all
}

func (r *run) putOne(ctx context.Context, b *bucket.Bucket, name string, s snapshots.Snapshot) error {
	file, err := spool.New(r.TempDir)
	if err != nil {
		return err
	}
	defer file.Close()
	var size int64
	var sum string
	h := r.hosts[s.Host]
	err = h.CopyOut(ctx, r.snapshotsOf(h), snapshots.File(name), func(archive io.Reader, _ int64) (err error) {
		size, sum, err = spool.Fill(ctx, file, archive, etcddata.MaxSize)
		return err
	})
	if err != nil {
		return err
	}
	is, err := snapshots.Examine(ctx, file, size, name, r.TempDir)
	if err != nil {
		return fmt.Errorf("host %s: %w", s.Host, err)
	}
	if is.Sum != s.Sum {
		return fmt.Errorf("host %s: snapshot %s came here with other data than it has there (sha256 %s, and there %s)", s.Host, name, is.Sum, s.Sum)
	}
	if err := b.Put(ctx, snapshots.File(name), io.NewSectionReader(file, 0, size), size, sum); err != nil {
		return err
	}
	r.line("etcd", "Snapshot [%s] of host [%s] is in %s, has %d bytes there and can be read", name, s.Host, b, size)
	return nil
}

// expire removes what there are more than retention of, of snapshots that are taken again and again. The new one is safe: what
// fails here is a warning.
func (r *run) expire(ctx context.Context, b *bucket.Bucket, name string) error {
	series := snapshots.Series(name)
	backup := r.work.Config.Services.Etcd.BackupConfig
	if series == nil || backup == nil {
		return nil
	}
	all, err := b.List(ctx)
	if err != nil {
		r.Report.Warn(fmt.Sprintf("old snapshots are not removed: %v", err))
		return nil
	}
	for _, o := range bucket.Expired(all, series, backup.Retention) {
		if err := b.Remove(ctx, o.Name); err != nil {
			r.Report.Warn(err.Error())
			continue
		}
		r.line("etcd", "Removed snapshot [%s] of %s from %s: %d are kept", strings.TrimSuffix(o.Name, ".zip"), o.Changed.UTC().Format(time.RFC3339), b, backup.Retention)
	}
	return nil
}

// download gets a snapshot out of the bucket and puts it on a host. It returns the sum of its data, by which hosts
// that have it are known; "" is any, where the hosts got it by their own role.
func (r *run) download(ctx context.Context, hosts []*host, wish RestoreWish) (sum string, err error) {
	if !wish.S3.HasKeys() {
		return "", r.downloadByRole(ctx, hosts, wish.Name)
	}
	b, err := openBucket(wish.S3)
	if err != nil {
		return "", err
	}
	defer b.Close()
	file, err := spool.New(r.TempDir)
	if err != nil {
		return "", err
	}
	defer file.Close()
	there, err := b.Find(ctx, snapshots.File(wish.Name))
	switch {
	case err != nil:
		return "", err
	case there == nil:
		return "", missing(ctx, b, wish.Name)
	case there.Size > etcddata.MaxSize:
		return "", fmt.Errorf("%s has %d bytes under the name of snapshot %s, and more than %d are not one", b, there.Size, wish.Name, etcddata.MaxSize)
	}
	o, err := b.Get(ctx, snapshots.File(wish.Name), spool.To(file))
	if err != nil {
		return "", err
	}
	is, err := snapshots.Examine(ctx, file, o.Size, wish.Name, r.TempDir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", b, err)
	}
	r.line("etcd", "Snapshot [%s] of %s has %d bytes and can be read", wish.Name, b, o.Size)
	return is.Sum, r.bringArchive(ctx, hosts, wish.Name, is, file)
}

// missing says what else a bucket has.
func missing(ctx context.Context, b *bucket.Bucket, name string) error {
	all, err := b.List(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s has no snapshot %s", b, name)
	if len(all) > 0 {
		var names []string
		for _, o := range all[max(0, len(all)-20):] {
			names = append(names, strings.TrimSuffix(o.Name, ".zip"))
		}
		text += "; there are " + strings.Join(names, ", ")
	}
	return errors.New(text)
}

// place gives an archive that was looked at its name; another one that has it stays beside it.
const place = `set -e
cd "$2"
if [ -e "$1.zip" ]; then mv -f "$1.zip" "$1.zip.before"; fi
mv "$3" "$1.zip"`

// bringArchive brings an archive to a host, unless one has it.
func (r *run) bringArchive(ctx context.Context, hosts []*host, name string, is snapshots.Snapshot, archive io.ReaderAt) error {
	to := hosts[0]
	for _, h := range slices.Backward(hosts) {
		s, _, err := r.inspect(ctx, h, name)
		switch {
		case err != nil:
			return err
		case s != nil && s.Archive && s.Sum == is.Sum:
			return nil
		case s == nil:
			to = h
		}
	}
	r.line("etcd", "Copying snapshot [%s] to host [%s]", name, to.node.Address)
	part := "." + name + ".part"
	d := r.snapshotsOf(to)
	err := to.CopyIn(ctx, d, part, io.NewSectionReader(archive, 0, is.Size), is.Size)
	if err == nil {
		_, err = to.Run(ctx, r.shell("etcd-download-backup", to, []string{d.OnHost + ":" + d.Path}, place, "place", name, d.Path, part))
	}
	if err != nil {
		_, gone := to.Run(context.WithoutCancel(ctx), r.shell("etcd-download-backup", to, []string{d.OnHost + ":" + d.Path}, `rm -f "$1"`, "remove", path.Join(d.Path, part)))
		return errors.Join(fmt.Errorf("snapshot %s on host %s, see whether the disk is full: %w", name, to.node.Address, err), gone)
	}
	return nil
}

func (r *run) downloadByRole(ctx context.Context, hosts []*host, name string) error {
	return each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
		once, err := r.plan.Once(h.node.Address)
		if err != nil {
			return err
		}
		_, err = h.Run(ctx, onhost.Once{Process: once.SnapshotDownload(name, ""), Limit: snapshots.Limit})
		return err
	})
}

// Listed is a snapshot and where it is.
type Listed struct {
	Name string
	// Place is the address of a host, or "bucket B at ENDPOINT".
	Place string
	Size  int64 // bytes, of the archive
	// Changed is when it was written, by the clock of the place.
	Changed time.Time
}

// ListSnapshots lists the archives in a bucket, nil is none, and on the hosts of etcd. It changes nothing and opens none. With an error there
// may be a part of the list.
func ListSnapshots(ctx context.Context, o Options, w Work, s3 *config.S3Backup) ([]Listed, error) {
	all, failed := listBucket(ctx, s3)
	r := newRun(o, w)
	defer r.close()
	r.before, r.state = state.State{}, &state.State{Desired: state.Part{Config: w.Config}}
	if s3 != nil && !s3.HasKeys() {
		r.Report.Warn(fmt.Sprintf("bucket %s is opened by the hosts' own role: what is in it is not listed", s3.BucketName))
	}
	err := r.reach(ctx)
	if err == nil {
		err = r.makePlan()
	}
	if err != nil {
		return all, errors.Join(failed, err)
	}
	hosts := r.with(config.RoleEtcd)
	on := make([][]Listed, len(hosts))
	err = each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
		found, err := snapshots.List(ctx, h.Host, r.tools(h))
		for _, s := range found {
			on[slices.Index(hosts, h)] = append(on[slices.Index(hosts, h)], Listed{Name: s.Name, Place: h.node.Address, Size: s.Size, Changed: s.Changed})
		}
		return err
	})
	return slices.Concat(all, slices.Concat(on...)), errors.Join(failed, err)
}

func listBucket(ctx context.Context, s3 *config.S3Backup) ([]Listed, error) {
	if !s3.HasKeys() {
		return nil, nil
	}
	b, err := openBucket(s3)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	objects, err := b.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, o := range objects {
		if name, archive := strings.CutSuffix(o.Name, ".zip"); archive {
			all = append(all, Listed{Name: name, Place: b.String(), Size: o.Size, Changed: o.Changed})
		}
	}
	return all, nil
}
