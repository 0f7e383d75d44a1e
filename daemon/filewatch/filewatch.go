// Package filewatch notices that a file's content has changed, however that was done: in
// place, by a rename, or by a symbolic link on the way to it that leads elsewhere now, as
// Kubernetes replaces the files of ConfigMaps and Secrets.
package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long changes may go on before the file is looked at.
	settle = 100 * time.Millisecond
	// sweep is the distance between two looks in case a notification was lost, and what is left
	// on a file system that gives none.
	sweep = time.Minute
	// most is how much of a file is looked at, in bytes.
	most = 16 << 20
	// maxLinks is how many symbolic links one path may go through.
	maxLinks = 40
)

// Sum identifies a content; zero when there is no file to be read.
type Sum [sha256.Size]byte

// Of is the sum of a file's content now.
func Of(path string) Sum {
	f, err := os.Open(path)
	if err != nil {
		return Sum{}
	}
	defer f.Close()
	h := sha256.New()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Sum{}
	}
	if _, err := io.Copy(h, io.LimitReader(f, most)); err != nil {
		return Sum{}
	}
	return Sum(h.Sum(nil))
}

// Wait returns the sum of the file's content once it is another than known, or the error of
// the context.
func Wait(ctx context.Context, path string, known Sum) (now Sum, err error) {
	var events <-chan fsnotify.Event
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		events = watcher.Events
		defer func() { err = errors.Join(err, watcher.Close()) }()
	}
	for {
		if watcher != nil {
			for _, dir := range directories(path) {
				_ = watcher.Add(dir) // one that cannot be watched is looked at with the sweep
			}
		}
		if now := Of(path); now != known {
			return now, nil
		}
		timer := time.NewTimer(sweep)
		select {
		case <-events:
			timer.Reset(settle)
			for waiting := true; waiting; {
				select {
				case <-events:
				case <-timer.C:
					waiting = false
				case <-ctx.Done():
					waiting = false
				}
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return known, ctx.Err()
		}
	}
}

// directories are those in which a change may give the path another content: the one of the
// file, and that of each symbolic link on the way to it.
func directories(path string) []string {
	dirs := []string{filepath.Dir(path)}
	for range maxLinks {
		link, rest, ok := firstLink(path)
		if !ok {
			return append(dirs, filepath.Dir(path))
		}
		dirs = append(dirs, filepath.Dir(link))
		target, err := os.Readlink(link)
		if err != nil {
			return dirs
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
	return dirs
}

// firstLink is the first symbolic link on a path, and what of the path comes after it.
func firstLink(path string) (link, rest string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(filepath.Clean(path), "/"), "/")
	at := "/"
	for i, part := range parts {
		at = filepath.Join(at, part)
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return at, filepath.Join(parts[i+1:]...), true
		}
	}
	return "", "", false
}
