package service

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plans/durable"
)

const (
	versionFile = "version"        // of the release that was started last, in the data directory
	beforeDir   = "before-upgrade" // with the store as a release before has left it, by the name of that
	keptBefore  = 2                // how many of those stay
)

// keepBefore copies the store of the data directory before the first start of another release, so that there is a way back also where that
// one changes the data. It is done once for each change of the release: a start that fails has copied already.
func keepBefore(dir, version string, logger *slog.Logger) error {
	if ours, err := isServers(dir); err != nil || !ours {
		return err // the store refuses a directory of others, in which nothing may have been written before
	}
	text, err := durable.ReadFile(filepath.Join(dir, versionFile), 1<<10)
	was := strings.TrimSpace(string(text))
	if was == version {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look which release was started before: %w", err)
	}
	if filepath.Base(was) != was && was != "" {
		return fmt.Errorf("%s has %.60q, which is not the name of a release", filepath.Join(dir, versionFile), was)
	}
	store := filepath.Join(dir, "etcd")
	if _, err := os.Stat(store); err == nil {
		if was == "" {
			was = "unknown" // a release before there were copies
		}
		if idle, err := whileIdle(dir, func() error { return copyStore(dir, store, was, logger) }); err != nil || !idle {
			return err // a server that runs is found by what follows
		}
	}
	if err := durable.WriteFile(filepath.Join(dir, versionFile), []byte(version+"\n"), 0o600); err != nil {
		return fmt.Errorf("write down which release is started: %w", err)
	}
	return nil
}

// isServers says whether a directory is the server's: new, which makes it, or empty, or one in which a server has made its lock.
func isServers(dir string) (bool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("make the data directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("look into the data directory: %w", err)
	}
	return len(entries) == 0 || len(entries) == 1 && entries[0].Name() == versionFile || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "lock" }), nil
}

// whileIdle does something while no server uses the data directory, and says whether it has.
func whileIdle(dir string, do func() error) (bool, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("lock the data directory: %w", err)
	}
	defer lock.Close()
	if err := durable.TryLock(lock); err != nil {
		if errors.Is(err, durable.ErrLocked) {
			return false, nil
		}
		return false, fmt.Errorf("lock the data directory: %w", err)
	}
	return true, errors.Join(do(), syscall.Flock(int(lock.Fd()), syscall.LOCK_UN))
}

func copyStore(dir, store, was string, logger *slog.Logger) error {
	begin := time.Now()
	size, err := sizeOf(store)
	if err != nil {
		return fmt.Errorf("copy the store before the upgrade: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err == nil && int64(disk.Bavail)*disk.Bsize < size+64<<20 { // #nosec G115 -- bytes of a disk
		return fmt.Errorf("the store as %s has left it is copied before the first start of another release, and %s has no room for %d MiB: make room (older copies are in %s), or start %s again",
			was, dir, size>>20, filepath.Join(dir, beforeDir), was)
	}
	to := filepath.Join(dir, beforeDir, was)
	part := filepath.Join(dir, beforeDir, ".part")
	err = os.RemoveAll(part)
	if err == nil {
		err = os.MkdirAll(part, 0o700)
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(part, "etcd"), os.DirFS(store))
	}
	if err == nil {
		err = os.RemoveAll(to)
	}
	if err == nil {
		err = errors.Join(syncTree(part), os.Rename(part, to), durable.SyncDir(filepath.Dir(to)))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy the store to %s before the first start of another release: %w", to, err), os.RemoveAll(part))
	}
	logger.Info("copied the store before the first start of another release", "of", was, "to", to, "bytes", size, "took", time.Since(begin).Round(time.Millisecond))
	return dropOlder(filepath.Dir(to))
}

// sizeOf is how large the files below a directory are, in bytes.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// syncTree makes files and names below a directory durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.SyncDir(path) // of a file its content
	})
}

// dropOlder removes all copies but the newest.
func dropOlder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove older copies of the store: %w", err)
	}
	for len(entries) > keptBefore {
		oldest := 0
		var at time.Time
		for i, e := range entries {
			info, err := e.Info()
			if err != nil {
				return fmt.Errorf("remove older copies of the store: %w", err)
			}
			if i == 0 || info.ModTime().Before(at) {
				oldest, at = i, info.ModTime()
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, entries[oldest].Name())); err != nil {
			return fmt.Errorf("remove older copies of the store: %w", err)
		}
		entries = append(entries[:oldest], entries[oldest+1:]...)
	}
	return nil
}
