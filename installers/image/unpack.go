// Unpacking layers. Everything goes through an os.Root, so whatever an image says,
// nothing outside the directory is written; what would lead outside is refused.

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	whiteout       = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
	fileMode       = 0o755 // of which the image's own mode is a part
)

// unpackError is a fault of the image's content or of this host, which another registry would not mend.
type unpackError struct{ cause error }

func (e *unpackError) Error() string { return e.cause.Error() }
func (e *unpackError) Unwrap() error { return e.cause }

func refused(format string, args ...any) error { return &unpackError{fmt.Errorf(format, args...)} }

// unpack flattens the image into dir. abort ends ctx, below which the image is read.
func (s *Stager) unpack(ctx context.Context, image v1.Image, dir string, abort context.CancelCauseFunc) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &unpackError{err}
	}
	defer root.Close()
	u := &unpacker{root: root, bytes: orDefault(s.MaxBytes, defaultMaxBytes), entries: orDefault(s.MaxEntries, defaultMaxEntries)}
	u.maxBytes, u.maxEntries = u.bytes, u.entries
	for _, layer := range layers {
		if err := s.layer(ctx, u, layer, abort); err != nil {
			return err
		}
	}
	return nil
}

// layer unpacks one layer, and reads it to its end: only there its digest is known.
func (s *Stager) layer(ctx context.Context, u *unpacker, layer v1.Layer, abort context.CancelCauseFunc) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	watched := u.watch(ctx, content, orDefault(s.Stall, defaultStall), abort)
	defer watched.timer.Stop()
	u.made = map[string]bool{}
	if err := u.tar(tar.NewReader(watched)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, watched)
	return err
}

func orDefault[N int | int64 | time.Duration](n, absent N) N {
	if n <= 0 {
		return absent
	}
	return n
}

// unpacker unpacks tar entries below root.
type unpacker struct {
	root       *os.Root
	bytes      int64 // still allowed
	entries    int   // still allowed
	maxBytes   int64
	maxEntries int
	made       map[string]bool // paths of the layer at hand
}

func (u *unpacker) tar(r *tar.Reader) error {
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if u.entries--; u.entries < 0 {
			return refused("the image has more than %d entries", u.maxEntries)
		}
		if err := u.entry(header, r); err != nil {
			return err
		}
	}
}

// entry unpacks one.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return u.whiteout(path.Dir(name), base)
	}
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
	default:
		return nil // devices and the like are for containers
	}
	if name == "." {
		return nil
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return u.fault(h.Name, err)
	}
	if h.Typeflag != tar.TypeDir {
		if err := u.root.RemoveAll(name); err != nil {
			return u.fault(h.Name, err)
		}
	}
	u.made[name] = true
	switch h.Typeflag {
	case tar.TypeDir:
		return u.directory(name)
	case tar.TypeSymlink:
		return u.symlink(name, h.Linkname)
	case tar.TypeLink:
		return u.link(name, h.Linkname)
	}
	return u.file(name, h.FileInfo().Mode(), content)
}

// inside is the path of an entry below the root.
func inside(name string) (string, error) {
	if bytes.IndexByte([]byte(name), 0) >= 0 {
		return "", refused("image entry %q has a NUL byte", name)
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", refused("image entry %q leads out of the image", name)
	}
	return clean, nil
}

func (u *unpacker) directory(name string) error {
	info, err := u.root.Lstat(name)
	if err == nil && !info.IsDir() {
		// A later layer may replace a file or a link, also one to a directory.
		if err := u.root.Remove(name); err != nil {
			return u.fault(name, err)
		}
	}
	if err := u.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return u.fault(name, err)
	}
	return u.root.Chmod(name, 0o755)
}

func (u *unpacker) file(name string, mode fs.FileMode, content io.Reader) error {
	mode &= fileMode
	if mode == 0 {
		mode = fileMode
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return u.fault(name, err)
	}
	if _, err := io.Copy(onlyWriter{f}, content); err != nil {
		return errors.Join(u.copyFault(name, err), f.Close())
	}
	if err := errors.Join(f.Chmod(mode), f.Close()); err != nil {
		return u.fault(name, err)
	}
	return nil
}

// onlyWriter marks errors of the disk, to tell them from those of the registry.
type onlyWriter struct{ f *os.File }

func (w onlyWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = &unpackError{err}
	}
	return n, err
}

func (u *unpacker) copyFault(name string, err error) error {
	var fault *unpackError
	if errors.As(err, &fault) {
		return &unpackError{fmt.Errorf("image entry %s: %w", name, fault.cause)}
	}
	return fmt.Errorf("image entry %s: %w", name, err)
}

// symlink makes a link. An absolute target means the image's root and not the host's, so it
// becomes a relative one.
func (u *unpacker) symlink(name, target string) error {
	if path.IsAbs(target) {
		relative, err := filepath.Rel(path.Dir("/"+name), path.Clean(target))
		if err != nil {
			return refused("image entry %s: link to %q: %v", name, target, err)
		}
		target = relative
	}
	if _, err := inside(path.Join(path.Dir(name), target)); err != nil || target == "" {
		return refused("image entry %s: its link %q leads out of the image", name, target)
	}
	if err := u.root.Symlink(target, name); err != nil {
		return u.fault(name, err)
	}
	// Links before this one may have moved its place; what counts is where it really leads.
	_, err := u.root.Stat(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return errors.Join(refused("image entry %s: its link %q leads out of the image", name, target), u.root.Remove(name))
}

func (u *unpacker) link(name, target string) error {
	from, err := inside(target)
	if err != nil {
		return refused("image entry %s: its hard link %q leads out of the image", name, target)
	}
	if err := u.root.Link(from, name); err != nil {
		return u.fault(name, err)
	}
	return nil
}

// whiteout removes what a later layer took away.
func (u *unpacker) whiteout(dir, base string) error {
	if base != whiteoutOpaque {
		name := strings.TrimPrefix(base, whiteout)
		if name == "" || name == "." || name == ".." {
			return refused("image entry %s/%s removes no name", dir, base)
		}
		if err := u.root.RemoveAll(path.Join(dir, name)); err != nil && !errors.Is(err, syscall.ENOTDIR) {
			return u.fault(path.Join(dir, base), err)
		}
		return nil
	}
	d, err := u.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return u.fault(dir, err)
	}
	entries, err := d.ReadDir(-1)
	err = errors.Join(err, d.Close())
	for _, entry := range entries {
		if name := path.Join(dir, entry.Name()); !u.made[name] {
			err = errors.Join(err, u.root.RemoveAll(name))
		}
	}
	if err != nil {
		return u.fault(dir, err)
	}
	return nil
}

func (u *unpacker) fault(name string, err error) error {
	return &unpackError{fmt.Errorf("image entry %s: %w", name, err)}
}
