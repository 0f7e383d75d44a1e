// Package inbucket carries snapshots between hosts and a bucket of S3, and looks at them on the way. Keys of a bucket come to no
// host: what is in a container's environment, everybody reads who may use Docker.
package inbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/installers/snapshots/etcddata"
	"github.com/drover-project/drover/installers/snapshots/spool"
	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/snapshots"
)

// maxNamed bounds how many names a sentence has.
const maxNamed = 20

// Bucket is a bucket for snapshots of a cluster.
type Bucket struct {
	*bucket.Bucket
	Options
}

// Options are what a bucket needs of the machine that asks it.
type Options struct {
	// TempDir is where a snapshot is kept on its way, with room for it, packed and not; "" is the system's.
	TempDir string
	// Way is that of bucket.Config.
	Way func(*http.Transport)
}

// Open opens the bucket of a config that has keys, without a request yet. Close it. The errors are those of bucket.Open.
func Open(s3 *config.S3Backup, o Options) (*Bucket, error) {
	b, err := bucket.Open(bucket.Config{
		Endpoint: s3.Endpoint, Bucket: s3.BucketName, Region: s3.Region, Folder: s3.Folder, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, CA: s3.CustomCA,
		Way: o.Way,
	})
	if err != nil {
		return nil, err
	}
	return &Bucket{b, o}, nil
}

// Host is a host with its snapshots.
type Host struct {
	*onhost.Host
	Directory onhost.Directory
	Tools     snapshots.Tools
}

// Free is an error when there is something of a snapshot's name, or when the bucket does not answer.
func (b *Bucket) Free(ctx context.Context, name string) error {
	is, err := b.Find(ctx, snapshots.File(name))
	if err == nil && is != nil {
		err = advice.With(fmt.Errorf("%s has a snapshot of this name already", b), advice.Step{Kind: advice.OtherName})
	}
	return err
}

// Save puts a host's snapshot, as it was found there, into the bucket. It returns an error where what came is no snapshot or another than the host
// has, and those of the storage.
func (b *Bucket) Save(ctx context.Context, h Host, name string, s snapshots.Snapshot) error {
	file, err := spool.New(b.TempDir)
	if err != nil {
		return err
	}
	defer file.Close()
	var size int64
	var sum string
	err = h.CopyOut(ctx, h.Directory, snapshots.File(name), func(archive io.Reader, _ int64) (err error) {
		size, sum, err = spool.Fill(ctx, file, archive, etcddata.MaxSize)
		return err
	})
	if err != nil {
		return err
	}
	is, err := snapshots.Examine(ctx, file, size, name, b.TempDir)
	if err != nil {
		return fmt.Errorf("host %s: %w", s.Host, err)
	}
	if is.Sum != s.Sum {
		return fmt.Errorf("host %s: snapshot %s came here with other data than it has there (sha256 %s, and there %s)", s.Host, name, is.Sum, s.Sum)
	}
	return b.Put(ctx, snapshots.File(name), file, size, sum)
}

// Archives are the snapshots that are there, unopened. The error is a *bucket.Error with what the storage answered.
func (b *Bucket) Archives(ctx context.Context) ([]snapshots.Archive, error) {
	objects, err := b.List(ctx)
	var all []snapshots.Archive
	for _, o := range objects {
		if name, archive := strings.CutSuffix(o.Name, ".zip"); archive {
			all = append(all, snapshots.Archive{Name: name, Size: o.Size, Changed: o.Changed})
		}
	}
	return all, err
}

// Expire removes what there is more than keep of, of the recurring snapshots that a name is one of, and returns the names of what it removed. The
// error joins what the storage answered for each that stays.
func (b *Bucket) Expire(ctx context.Context, name string, keep int) (removed []string, err error) {
	series := snapshots.Series(name)
	if series == nil || keep <= 0 {
		return nil, nil
	}
	all, err := b.List(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, o := range bucket.Expired(all, series, keep) {
		if o.Name == snapshots.File(name) { // the newest by name, since the endpoint's clock may be wrong
			continue
		}
		if err := b.Remove(ctx, o.Name); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		removed = append(removed, strings.TrimSuffix(o.Name, ".zip"))
	}
	return removed, failed
}

// Fetched is a snapshot that came out of a bucket and can be restored. Close it.
type Fetched struct {
	snapshots.Snapshot
	name string
	file *os.File
}

// Close lets it go. The error is that of closing its temporary file.
func (f *Fetched) Close() error { return f.file.Close() }

// Fetch gets a snapshot and opens it. It returns an error where there is none, with the names that there are, where it is no snapshot, and those of
// the storage.
func (b *Bucket) Fetch(ctx context.Context, name string) (*Fetched, error) {
	there, err := b.Find(ctx, snapshots.File(name))
	switch {
	case err != nil:
		return nil, err
	case there == nil:
		return nil, b.missing(ctx, name)
	case there.Size > etcddata.MaxSize:
		return nil, fmt.Errorf("%s has %d bytes under the name of snapshot %s, and more than %d are not one", b, there.Size, name, int64(etcddata.MaxSize))
	}
	file, err := spool.New(b.TempDir)
	if err != nil {
		return nil, err
	}
	o, err := b.Get(ctx, snapshots.File(name), &atMost{spool.To(file), there.Size})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	is, err := snapshots.Examine(ctx, file, o.Size, name, b.TempDir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", b, err), file.Close())
	}
	return &Fetched{Snapshot: is, name: name, file: file}, nil
}

// atMost fails after so many bytes.
type atMost struct {
	to   io.Writer
	left int64
}

func (a *atMost) Write(b []byte) (int, error) {
	if a.left -= int64(len(b)); a.left < 0 {
		return 0, errors.New("the bucket gives more bytes than it said that there are")
	}
	return a.to.Write(b)
}

// missing says what else there is.
func (b *Bucket) missing(ctx context.Context, name string) error {
	all, err := b.List(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s has no snapshot %s", b, name)
	if len(all) > 0 {
		var names []string
		for _, o := range all[max(0, len(all)-maxNamed):] {
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

// Bring puts it on a host under its name, when all of it is there. Another archive of that name stays, with .before after it. The error names
// snapshot and host.
func (f *Fetched) Bring(ctx context.Context, h Host) error {
	part := "." + f.name + ".part"
	binds := []string{h.Directory.OnHost + ":" + h.Directory.Path}
	run := func(ctx context.Context, script string, args ...string) error {
		_, err := h.Run(ctx, onhost.Once{Process: h.Tools("etcd-download-backup", binds, script, args...)})
		return err
	}
	err := h.CopyIn(ctx, h.Directory, part, io.NewSectionReader(f.file, 0, f.Size), f.Size)
	if err == nil {
		err = run(ctx, place, "place", f.name, h.Directory.Path, part)
	}
	if err == nil {
		return nil
	}
	gone := run(context.WithoutCancel(ctx), `rm -f "$1"`, "remove", path.Join(h.Directory.Path, part))
	return errors.Join(fmt.Errorf("snapshot %s on host %s, see whether the disk is full: %w", f.name, h.Address, err), gone)
}
