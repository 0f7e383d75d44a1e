// A backup becomes a data directory: whole or not at all, and never over what is there.

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Restore says what is restored from where.
type Restore struct {
	// From is a file, or with Offsite the name of a backup there, or Newest.
	From    string
	Offsite *Offsite
	DataDir string
	Opening Opening
	// Keys are those for a backup without; the zero value has none.
	Keys Keys
	// Replace allows a data directory that holds something: it is moved aside and stays.
	Replace bool
	Now     func() time.Time
	Logger  *slog.Logger
}

// Restored is what was done.
type Restored struct {
	Manifest Manifest `json:"manifest"`
	DataDir  string   `json:"dataDir"`
	// Aside is where the data directory is that was there before; empty: there was none.
	Aside string `json:"aside,omitempty"`
	// Clusters and Machines are how many the restored server has.
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
}

// Run restores. The data directory is made beside its place and opened once as a server does, to
// see that it can be, before it gets its name: a failure leaves everything as it was.
func (r Restore) Run(ctx context.Context) (done Restored, err error) {
	if r.DataDir, err = filepath.Abs(r.DataDir); err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	used, err := r.checkTarget()
	if err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", r.DataDir, err)
	}
	from, clean, err := r.source(ctx)
	if err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", r.DataDir, err)
	}
	defer func() { err = errors.Join(err, clean()) }()
	f, err := os.Open(from)
	if err != nil {
		return Restored{}, fmt.Errorf("open the backup: %w", err)
	}
	defer f.Close()
	beside, err := os.MkdirTemp(filepath.Dir(r.DataDir), "."+filepath.Base(r.DataDir)+".restoring-") // with mode 0700
	if err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", r.DataDir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(beside))
		}
	}()
	manifest, err := r.unpack(f, beside)
	if err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", r.From, err)
	}
	done = Restored{Manifest: manifest, DataDir: r.DataDir}
	if err := r.build(ctx, beside, &done); err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", r.From, err)
	}
	if used {
		done.Aside = r.DataDir + ".before-" + r.Now().UTC().Format(stamp)
	}
	if err := r.place(beside, done.Aside); err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", r.DataDir, err)
	}
	return done, nil
}

// source is the file to restore, which is fetched beside the data directory where it is in a bucket; clean removes it again.
func (r Restore) source(ctx context.Context) (path string, clean func() error, err error) {
	if r.Offsite == nil {
		return r.From, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(r.DataDir), "."+filepath.Base(r.DataDir)+".fetching-") // with mode 0700
	if err != nil {
		return "", nil, err
	}
	clean = func() error { return os.RemoveAll(dir) }
	if path, err = r.Offsite.fetch(ctx, r.From, dir); err != nil {
		return "", nil, errors.Join(err, clean())
	}
	return path, clean, nil
}

// checkTarget refuses a data directory that holds something, unless it may be moved aside, and
// one that a server uses in any case.
func (r Restore) checkTarget() (used bool, err error) {
	entries, err := os.ReadDir(r.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, os.MkdirAll(filepath.Dir(r.DataDir), 0o755)
	}
	if err != nil {
		return false, err
	}
	if len(entries) == 0 {
		return false, nil
	}
	if !r.Replace {
		return false, errors.New("the directory holds something, and nothing is restored over it: name a new directory, or give --replace to have it moved aside, where it stays")
	}
	lock, err := os.Open(filepath.Join(r.DataDir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return false, errors.New("a server uses the directory: stop it first")
	}
	return true, nil
}

// unpack writes the parts of a backup below a directory, after they were held to its sums.
func (r Restore) unpack(f io.Reader, dir string) (Manifest, error) {
	opened, err := r.Opening.Open(f)
	if err != nil {
		return Manifest{}, err
	}
	b, err := NewReader(opened)
	if err != nil {
		return Manifest{}, err
	}
	m := b.Manifest
	if m.Schema > store.Schema() {
		return m, fmt.Errorf("it was made by drover %.40s, which is newer than this one (%s): restore it with that version or a newer one", m.Version, drover.Version)
	}
	var keys []File
	for {
		name, _, content, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, err
		}
		if name == snapshotName {
			err = writeSnapshot(filepath.Join(dir, snapshotName), content)
		} else {
			var text []byte
			if text, err = io.ReadAll(content); err == nil {
				keys = append(keys, File{name, text})
			}
		}
		if err != nil {
			return m, err
		}
	}
	switch {
	case len(keys) > 0:
		err = checkAuthority(m, keys)
	case r.Keys == Keys{}:
		err = fmt.Errorf("it was made without keys, and nothing is of use without them (key %s, authority %s): give --keys DIR, "+
			"a directory with the encryption.key, tls/ca.crt and tls/ca.key that were the server's", m.DataKey, m.Authority)
	default:
		if keys, err = r.Keys.read(m); err != nil {
			err = fmt.Errorf("it was made without keys: %w; look for a copy of the server's data directory, or for a backup with keys", err)
		}
	}
	if err == nil {
		err = lay(dir, keys)
	}
	return m, err
}

func writeSnapshot(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// build makes the store of the snapshot, opens it, and marks it as restored.
func (r Restore) build(ctx context.Context, dir string, done *Restored) error {
	snapshot := filepath.Join(dir, snapshotName)
	if err := store.Rebuild(snapshot, dir, r.Logger); err != nil {
		return err
	}
	if err := os.Remove(snapshot); err != nil {
		return err
	}
	opened, err := state.Open(ctx, store.Options{DataDir: dir, Logger: r.Logger})
	if err != nil {
		return err
	}
	done.Clusters, done.Machines = len(opened.Clusters.List()), len(opened.Machines.List())
	return errors.Join(opened.Store.MarkRestored(ctx, r.Now(), done.Manifest.Made), opened.Close())
}

// place gives the new data directory its name, and what had it another one.
func (r Restore) place(beside, aside string) error {
	if aside != "" {
		if err := os.Rename(r.DataDir, aside); err != nil {
			return fmt.Errorf("move the old directory aside: %w; where it is a mount point, move what it holds to another place first", err)
		}
	} else if err := os.Remove(r.DataDir); err != nil && !errors.Is(err, fs.ErrNotExist) { // the empty one
		return fmt.Errorf("replace the empty directory: %w; where it is a mount point, restore to a new directory and move what that holds", err)
	}
	if err := os.Rename(beside, r.DataDir); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, r.DataDir))
		}
		return err
	}
	return durable.SyncDir(filepath.Dir(r.DataDir))
}
