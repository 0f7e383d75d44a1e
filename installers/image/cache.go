// Layers that were pulled once, kept by digest. The names say what the content has to be,
// and it is checked whenever it is read, so nothing here has to survive a crash: half a
// file, or a changed file, is found out and pulled again.

package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/installers/image/bounded"
	"github.com/drover-project/drover/installers/image/manifest"
	"github.com/drover-project/drover/plans/durable"
)

var (
	keptName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha(256-[0-9a-f]{64}|512-[0-9a-f]{128})$`) })
	arrivingFor = "arriving-" // how names of files begin that are being written
)

// cacheable says whether a layer is kept.
func (s *Stager) cacheable(l manifest.Layer) bool {
	return s.CacheDir != "" && l.Size >= 0 && l.Size <= s.CacheLimit && keptName().MatchString(keptAs(l))
}

func keptAs(l manifest.Layer) string { return l.Digest.Algorithm + "-" + l.Digest.Hex }

// cached is the layer's stored bytes, kept from an earlier staging or by this call. A nil
// file without an error says that nothing can be kept, which is logged here. Errors are the
// registry's.
func (s *Stager) cached(ctx context.Context, l manifest.Layer, at *layerAt) (*os.File, error) {
	if err := s.readyCache(); err != nil {
		s.cacheFault(err, at)
		return nil, nil
	}
	f, err := s.kept(l)
	if err == nil {
		at.say("layer %d of %d is kept here since it was last pulled", at.number, at.of)
		return f, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		s.log().Warn("kept layer is not usable and is pulled again", "layer", l.Digest.String(), "error", err)
		if err := os.Remove(filepath.Join(s.CacheDir, keptAs(l))); err != nil {
			s.cacheFault(err, at)
			return nil, nil
		}
	}
	if _, err := s.prune(s.CacheLimit - l.Size); err != nil {
		s.cacheFault(err, at)
		return nil, nil
	}
	f, err = s.keep(ctx, l, at)
	var local *unpackError
	if errors.As(err, &local) {
		s.cacheFault(local.cause, at)
		return nil, nil
	}
	return f, err
}

func (s *Stager) cacheFault(err error, at *layerAt) {
	s.log().Warn("layers cannot be kept, the image is unpacked without", "directory", s.CacheDir, "error", err)
	at.say("layers cannot be kept in %s (%v), going on without", s.CacheDir, err)
}

// kept opens what is there and is what its name says.
func (s *Stager) kept(l manifest.Layer) (*os.File, error) {
	path := filepath.Join(s.CacheDir, keptAs(l))
	f, err := os.OpenFile(path, os.O_RDONLY|durable.NoFollow|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	checked := bounded.NewChecked(f, l.Digest, l.Size)
	_, err = io.Copy(io.Discard, checked)
	if err == nil {
		err = checked.Finish()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	now := s.now()
	if err := os.Chtimes(path, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log().Warn("kept layer cannot be marked as used", "layer", l.Digest.String(), "error", err)
	}
	return f, nil
}

// keep pulls a layer into the cache and returns it at its beginning. Faults of this host are
// unpackErrors.
func (s *Stager) keep(ctx context.Context, l manifest.Layer, at *layerAt) (*os.File, error) {
	content, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	f, err := arriving(s.CacheDir)
	if err != nil {
		return nil, &unpackError{err}
	}
	stored := &bounded.Counter{Reader: content, Stopped: func() error { return context.Cause(ctx) }}
	checked := bounded.NewChecked(io.TeeReader(stored, at), l.Digest, l.Size)
	_, err = io.Copy(onlyWriter{f}, checked)
	if err == nil {
		err = checked.Finish()
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
	}
	now := s.now()
	err = errors.Join(os.Chtimes(f.Name(), now, now), os.Rename(f.Name(), filepath.Join(s.CacheDir, keptAs(l))))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it may have its name already, which is as good
		return nil, errors.Join(&unpackError{err}, f.Close())
	}
	at.ended("pulled")
	return f, nil
}

// arriving makes a file to write a layer into. As long as it is written it is locked, so
// that it is not taken for a file that a crash left.
func arriving(dir string) (*os.File, error) {
	for range 100 {
		f, err := os.CreateTemp(dir, arrivingFor)
		if err != nil {
			return nil, err
		}
		err = durable.TryLock(f)
		if err == nil {
			if _, err = os.Lstat(f.Name()); err == nil {
				return f, nil
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no file can be made in %s: another process removes it at once", dir)
}

// readyCache makes the directory.
func (s *Stager) readyCache() error {
	if err := os.MkdirAll(s.CacheDir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(s.CacheDir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", s.CacheDir)
	}
	if info.Mode().Perm() != 0o700 {
		return os.Chmod(s.CacheDir, 0o700) // #nosec G302 -- a directory
	}
	return nil
}

// dropCache removes everything that is kept, and says whether that was anything.
func (s *Stager) dropCache() bool {
	if s.CacheDir == "" {
		return false
	}
	removed, err := s.prune(0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log().Warn("kept layers cannot be removed", "directory", s.CacheDir, "error", err)
	}
	return removed > 0
}

// keptFile is one file of the cache.
type keptFile struct {
	path string
	size int64
	used time.Time
}

// prune removes what was used least recently until at most limit bytes are kept, and what
// a crash left. It returns the bytes removed.
func (s *Stager) prune(limit int64) (removed int64, err error) {
	files, err := s.keptFiles()
	if err != nil {
		return 0, err
	}
	var all int64
	for _, f := range files {
		all += f.size
	}
	for _, f := range files {
		if all <= limit {
			break
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		all -= f.size
		removed += f.size
	}
	return removed, nil
}

// keptFiles are the files of the cache, the one that was not used for longest first. Files
// that are none of the cache's are left alone.
func (s *Stager) keptFiles() ([]keptFile, error) {
	entries, err := os.ReadDir(s.CacheDir)
	if err != nil {
		return nil, err
	}
	var files []keptFile
	for _, entry := range entries {
		path := filepath.Join(s.CacheDir, entry.Name())
		if entry.Type().IsRegular() && len(entry.Name()) > len(arrivingFor) && entry.Name()[:len(arrivingFor)] == arrivingFor {
			if err := removeAbandoned(path); err != nil {
				return nil, err
			}
			continue
		}
		info, err := entry.Info()
		if err != nil || !keptName().MatchString(entry.Name()) || !info.Mode().IsRegular() {
			continue // another staging may have removed it
		}
		files = append(files, keptFile{path, info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b keptFile) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path))
	})
	return files, nil
}

// removeAbandoned removes what is not written any more.
func removeAbandoned(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if durable.TryLock(f) != nil {
		return nil // another process writes it
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
