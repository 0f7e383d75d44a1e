// Unpacking layers. Everything goes through an os.Root, so in spite of what an image says,
// nothing outside the directory is written; what would lead outside is refused.

package image

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-project/drover/plans"
)

const (
	whiteout       = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
	fileMode       = 0o755 // of which the image's own mode is a part
	maxPath        = 4095  // bytes, as Linux has it
	maxName        = 255
	// maxNames bounds the names of an image together, in bytes: those of a layer are in memory while it is unpacked.
	// Real images stay below a tenth of it.
	maxNames = 64 << 20
)

// unpackError is a fault of the image's content or of this host, which another registry would not mend.
type unpackError struct{ cause error }

// Error is that of the cause as one line: names of entries and of links are the image's.
func (e *unpackError) Error() string { return plans.SafeLine(e.cause.Error()) }

// Unwrap is the cause.
func (e *unpackError) Unwrap() error { return e.cause }

func refused(format string, args ...any) error { return &unpackError{fmt.Errorf(format, args...)} }

// unpacker unpacks tar entries below root.
type unpacker struct {
	root       *os.Root
	bytes      int64 // of tar, still allowed
	content    int64 // of files, still allowed: sparse ones have more of it than of tar
	entries    int   // still allowed, the directories above entries included
	names      int   // bytes of names, still allowed
	maxBytes   int64
	maxEntries int
	// made are the paths of the layer at hand, true where it says what is there and false
	// for the directories above.
	made         map[string]bool
	skipped      int // entries of kinds that are not unpacked
	firstSkipped string
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
		if err := u.count(); err != nil {
			return err
		}
		if u.names -= len(header.Name); u.names < 0 {
			return refused("the names of the image's entries have more than %d bytes", maxNames)
		}
		if err := u.entry(header, r); err != nil {
			return err
		}
	}
}

// count takes one more entry into account.
func (u *unpacker) count() error {
	if u.entries--; u.entries < 0 {
		return refused("the image has more than %d entries", u.maxEntries)
	}
	return nil
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
	case tar.TypeDir, tar.TypeReg, tar.TypeGNUSparse, tar.TypeSymlink, tar.TypeLink:
	default:
		u.skip(h, name)
		return nil
	}
	if name == "." {
		return nil
	}
	if u.content -= max(h.Size, 0); u.content < 0 {
		return refused("the files of the image have more than %d bytes", u.maxBytes)
	}
	return u.make(name, h, content)
}

// make puts the entry in its place. A name that the layer has already is replaced, as tar does.
func (u *unpacker) make(name string, h *tar.Header, content io.Reader) error {
	// A layer need not list the directories above an entry; a name may have two thousand of them.
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if _, ok := u.made[above]; ok {
			break
		}
		if err := u.count(); err != nil {
			return err
		}
		u.made[above] = false
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return u.fault(name, err)
	}
	if h.Typeflag != tar.TypeDir {
		if err := u.root.RemoveAll(name); err != nil {
			return u.fault(name, err)
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

// skip notes a device or the like: those are for containers.
func (u *unpacker) skip(h *tar.Header, name string) {
	if u.skipped == 0 {
		u.firstSkipped = short(name) + ", " + kindOf(h.Typeflag)
	}
	u.skipped++
}

func kindOf(typeflag byte) string {
	switch typeflag {
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	}
	return fmt.Sprintf("of the tar type %q", typeflag)
}

// inside is the path of an entry below the root.
func inside(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", refused("image entry %q has a NUL byte", short(name))
	}
	if len(name) > maxPath {
		return "", refused("image entry %q has a name of %d bytes, more than %d", short(name), len(name), maxPath)
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", refused("image entry %q leads out of the image", short(name))
	}
	for part := range strings.SplitSeq(clean, "/") {
		if len(part) > maxName {
			return "", refused("image entry %q has a part of %d bytes in its name, more than %d", short(name), len(part), maxName)
		}
	}
	return clean, nil
}

// short is a name as it is written into an error.
func short(name string) string {
	if len(name) <= 200 {
		return plans.SafeLine(name)
	}
	return plans.SafeLine(name[:200]) + "…"
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
	mode = cmp.Or(mode, fileMode)
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

// onlyWriter marks errors of the disk, to distinguish them from those of the registry.
type onlyWriter struct{ f *os.File }

// Write is of io.Writer.
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
		return &unpackError{fmt.Errorf("image entry %s: %w", short(name), fault.cause)}
	}
	return fmt.Errorf("image entry %s: %w", short(name), err)
}

// symlink makes a link. An absolute target means the image's root and not the host's, so it
// becomes a relative one.
func (u *unpacker) symlink(name, target string) error {
	if path.IsAbs(target) {
		relative, err := filepath.Rel(path.Dir("/"+name), path.Clean(target))
		if err != nil {
			return refused("image entry %s: link to %q: %v", short(name), short(target), err)
		}
		target = relative
	}
	if _, err := inside(path.Join(path.Dir(name), target)); err != nil || target == "" {
		return refused("image entry %s: its link %q leads out of the image", short(name), short(target))
	}
	if err := u.root.Symlink(target, name); err != nil {
		return u.fault(name, err)
	}
	// Links before this one may have moved its place; what counts is where it really leads.
	_, err := u.root.Stat(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return errors.Join(refused("image entry %s: its link %q leads out of the image", short(name), short(target)), u.root.Remove(name))
}

func (u *unpacker) link(name, target string) error {
	from, err := inside(target)
	if err != nil {
		return refused("image entry %s: its hard link %q leads out of the image", short(name), short(target))
	}
	if err := u.root.Link(from, name); err != nil {
		return u.fault(name, err)
	}
	return nil
}

// whiteout removes what layers below have: one name, or all of a directory. What the layer
// at hand has itself stays, in any order. (OCI image specification, "Whiteouts".)
func (u *unpacker) whiteout(dir, base string) error {
	if base != whiteoutOpaque {
		name := strings.TrimPrefix(base, whiteout)
		if name == "" || name == "." || name == ".." {
			return refused("image entry %s/%s removes no name", dir, base)
		}
		return u.removeLower(path.Join(dir, name))
	}
	return u.removeChildren(dir)
}

// removeLower removes a path but for what the layer at hand made of it.
func (u *unpacker) removeLower(name string) error {
	if _, ok := u.made[name]; ok {
		info, err := u.root.Lstat(name)
		if err == nil && info.IsDir() {
			return u.removeChildren(name)
		}
		return nil
	}
	if err := u.root.RemoveAll(name); err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return u.fault(name, err)
	}
	return nil
}

func (u *unpacker) removeChildren(dir string) error {
	d, err := u.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return u.fault(dir, err)
	}
	entries, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return u.fault(dir, err)
	}
	for _, entry := range entries {
		if err := u.removeLower(path.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) fault(name string, err error) error {
	return &unpackError{fmt.Errorf("image entry %s: %w", short(name), err)}
}
