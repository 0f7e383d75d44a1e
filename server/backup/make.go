// Making backups of a store that serves.

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/server/store"
)

// Store is what is backed up; *store.Store is one.
type Store interface {
	WriteSnapshot(ctx context.Context, begin func(size, revision int64) (io.Writer, error)) error
	DataKey() string
}

// Server is what a backup is made of.
type Server struct {
	Store Store
	// Installation, ServerURL and Authority are as in Manifest.
	Installation, ServerURL, Authority func() string
	Now                                func() time.Time
}

// Write writes a backup without keys. size is called once, before anything is written, with the
// bytes of the store. Its errors are the store's and the writer's.
func (s Server) Write(ctx context.Context, w io.Writer, size func(int64)) error {
	var b *Writer
	err := s.Store.WriteSnapshot(ctx, func(n, revision int64) (io.Writer, error) {
		size(n)
		var err error
		b, err = NewWriter(w, Manifest{
			Schema: store.Schema(), Version: drover.Version, Made: s.Now().UTC(), Installation: s.Installation(), ServerURL: s.ServerURL(),
			Revision: revision, DataKey: s.Store.DataKey(), Authority: s.Authority(),
		})
		if err != nil {
			return nil, err
		}
		return b.Snapshot(n)
	})
	if err != nil {
		return err
	}
	return b.Close()
}

// WriteWith writes a backup, with keys where they are given. Its errors are the store's and the writer's.
func (s Server) WriteWith(ctx context.Context, w io.Writer, keys *Keys) error {
	if keys == nil {
		return s.Write(ctx, w, func(int64) {})
	}
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := s.Write(ctx, to, func(int64) {})
		written <- errors.Join(err, to.CloseWithError(err))
	}()
	_, err := Copy(w, from, keys)
	// A goroutine that still writes ends with that; one that has ended has said the same.
	return errors.Join(err, from.CloseWithError(err), <-written)
}

// stamp is the time in the names of files.
const stamp = "20060102T150405Z"

// Copy writes a backup that is read from r, which is not encrypted and has no keys, again: with
// keys, where they are given. A backup that is cut or changed is an error.
func Copy(w io.Writer, r io.Reader, keys *Keys) (Manifest, error) {
	from, err := NewReader(r)
	if err != nil {
		return Manifest{}, err
	}
	m := from.Manifest
	var files []File
	if keys != nil {
		if files, err = keys.read(m); err != nil {
			return m, err
		}
		m.Keys = true
	}
	to, err := NewWriter(w, m)
	if err != nil {
		return m, err
	}
	for {
		name, size, content, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && name == snapshotName {
			var w io.Writer
			if w, err = to.Snapshot(size); err == nil {
				_, err = io.Copy(w, content)
			}
		}
		if err != nil {
			return m, err
		}
	}
	for _, f := range files {
		if err := to.Add(f); err != nil {
			return m, err
		}
	}
	return m, to.Close()
}

// Save writes a file by write and through seal, durably: it is there whole or not at all, mode
// 0600. A file that is there already is not replaced. Its errors are those of write, seal and the disk.
func Save(path string, seal Sealing, write func(io.Writer) error) (size int64, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return 0, errors.Join(fmt.Errorf("write %s: there is something of that name, and backups replace nothing: choose another name", path), err)
	}
	f, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close(), os.Remove(f.Name()))
		}
	}()
	sealed, err := seal.Seal(f)
	if err != nil {
		return 0, err
	}
	if err := write(sealed); err != nil {
		return 0, err
	}
	if err := errors.Join(sealed.Close(), f.Sync()); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename this replaces nothing
		return 0, err
	}
	_ = f.Close() // it is durable already
	return info.Size(), errors.Join(os.Remove(path+".partial"), durable.SyncDir(filepath.Dir(path)))
}
