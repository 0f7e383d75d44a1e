// Package hostfs brings files of a host to a wanted state: atomically, with mode and
// owner set before the new content can be seen, and without being led out of the host's
// root by symbolic links.
package hostfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// FS is the file system of a host below Root; an empty Root is the root of this process.
// Paths of its methods are absolute on that host. Symbolic links on the way to a path are
// followed as a process whose root is Root would; a link at the path itself never is,
// except to a directory where a directory is wanted.
type FS struct {
	Root string
}

// Owner is who owns an entry; -1 leaves that id as it is.
type Owner struct {
	UID, GID int
}

// WriteFile brings the regular file at name to content, mode and owner, and makes missing
// parents. A file whose content is equal is not rewritten. A symbolic link at name is
// replaced. It reports whether anything was changed; on an error the old file stands.
func (h FS) WriteFile(name string, content []byte, mode fs.FileMode, owner Owner) (changed bool, err error) {
	dir, base, info, err := h.place(name)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if info != nil && info.Mode().IsRegular() {
		same, changed, err := reassert(dir, base, info, content, mode, owner)
		if same || err != nil {
			return changed, err
		}
	}
	return true, replace(dir, base, content, mode, owner.or(info))
}

// Mkdir makes the directory at name and its missing parents, and sets mode and owner of
// name itself. It reports whether anything was changed.
func (h FS) Mkdir(name string, mode fs.FileMode, owner Owner) (changed bool, err error) {
	dir, base, err := h.parent(name, true)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if err := dir.Mkdir(base, 0o700); err == nil {
		changed = true
	} else if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	// The directory itself, which may be behind a link.
	self, err := h.open(name, false)
	if err != nil {
		return changed, err
	}
	defer self.Close()
	f, err := self.Open(".")
	if err != nil {
		return changed, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return changed, err
	}
	set, err := setOwnerAndMode(f, info, mode, owner)
	if err != nil {
		return changed, err
	}
	if changed {
		return true, syncDir(dir)
	}
	return set, nil
}

// Remove removes the entry at name, with tree everything below it too. Nothing there is
// no error. It reports whether anything was removed.
func (h FS) Remove(name string, tree bool) (changed bool, err error) {
	dir, base, err := h.parent(name, false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if _, err := dir.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	remove := dir.Remove
	if tree {
		remove = dir.RemoveAll
	}
	if err := remove(base); err != nil {
		return false, err
	}
	return true, syncDir(dir)
}

// Link makes name a symbolic link with the text target and makes missing parents. What was
// at name is replaced, unless it is a directory.
func (h FS) Link(name, target string) (changed bool, err error) {
	dir, base, info, err := h.place(name)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if info != nil && info.Mode()&fs.ModeSymlink != 0 {
		if text, err := dir.Readlink(base); err == nil && text == target {
			return false, nil
		}
	}
	temp := temporary(base)
	if err := removeIfThere(dir, temp); err != nil {
		return false, err
	}
	if err := dir.Symlink(target, temp); err != nil {
		return false, err
	}
	if err := dir.Rename(temp, base); err != nil {
		return false, errors.Join(err, removeIfThere(dir, temp))
	}
	return true, syncDir(dir)
}

// SameEntry says whether two paths are one entry of one directory, reached by different
// ways. Paths whose directories do not exist are not.
func (h FS) SameEntry(a, b string) bool {
	dirA, baseA, errA := h.parent(a, false)
	if errA != nil {
		return false
	}
	defer dirA.Close()
	dirB, baseB, errB := h.parent(b, false)
	if errB != nil {
		return false
	}
	defer dirB.Close()
	infoA, errA := dirA.Stat(".")
	infoB, errB := dirB.Stat(".")
	return errA == nil && errB == nil && baseA == baseB && os.SameFile(infoA, infoB)
}

// ReadFile reads the regular file at name, of at most limit bytes. A link at name is followed.
func (h FS) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := h.openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", name, limit)
	}
	return b, nil
}

// replace puts a new file in the place of base: complete and durable before it has the name.
func replace(dir *os.Root, base string, content []byte, mode fs.FileMode, owner Owner) error {
	temp := temporary(base)
	if err := removeIfThere(dir, temp); err != nil {
		return err
	}
	if err := fill(dir, temp, content, mode, owner); err != nil {
		return errors.Join(err, removeIfThere(dir, temp))
	}
	if err := dir.Rename(temp, base); err != nil {
		return errors.Join(err, removeIfThere(dir, temp))
	}
	return syncDir(dir)
}

func fill(dir *os.Root, temp string, content []byte, mode fs.FileMode, owner Owner) error {
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		_, err = setOwnerAndMode(f, info, mode, owner)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// reassert sets mode and owner of a file whose content is as wanted already.
func reassert(dir *os.Root, base string, info fs.FileInfo, content []byte, mode fs.FileMode, owner Owner) (same, changed bool, err error) {
	if info.Size() != int64(len(content)) {
		return false, false, nil
	}
	f, err := dir.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	// Between Lstat and here the name may have become something else.
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		return false, false, err
	}
	current, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	if err != nil || !bytes.Equal(current, content) {
		return false, false, err
	}
	changed, err = setOwnerAndMode(f, opened, mode, owner)
	return true, changed, err
}

// setOwnerAndMode changes only what differs. The owner comes first: changing it clears setuid and setgid.
func setOwnerAndMode(f *os.File, info fs.FileInfo, mode fs.FileMode, owner Owner) (changed bool, err error) {
	have := ownerOf(info)
	if owner.UID == -1 {
		owner.UID = have.UID
	}
	if owner.GID == -1 {
		owner.GID = have.GID
	}
	if owner != have {
		if err := f.Chown(owner.UID, owner.GID); err != nil {
			return false, err
		}
		changed = true
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if changed || info.Mode()&bits != mode&bits {
		if err := f.Chmod(mode & bits); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// or fills ids that are to be left as they are from the entry that is replaced, if there is one.
func (o Owner) or(info fs.FileInfo) Owner {
	if info == nil {
		return o
	}
	have := ownerOf(info)
	if o.UID == -1 {
		o.UID = have.UID
	}
	if o.GID == -1 {
		o.GID = have.GID
	}
	return o
}

func ownerOf(info fs.FileInfo) Owner {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{UID: -1, GID: -1}
	}
	return Owner{UID: int(st.Uid), GID: int(st.Gid)}
}

// temporary is the name of base's next content: hidden, of bounded length, and the same
// each time, so that what a crash leaves is found and removed.
func temporary(base string) string {
	sum := sha256.Sum256([]byte(base))
	return ".drover-" + hex.EncodeToString(sum[:8])
}

func removeIfThere(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// place opens the directory that is to hold name, made when it is missing, and says what
// is there: nil for nothing. A directory there is an error, as it will not be replaced.
func (h FS) place(name string) (dir *os.Root, base string, info fs.FileInfo, err error) {
	dir, base, err = h.parent(name, true)
	if err != nil {
		return nil, "", nil, err
	}
	info, err = dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, base, nil, nil
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a directory: %w", name, syscall.EISDIR)
	}
	if err != nil {
		return nil, "", nil, errors.Join(err, dir.Close())
	}
	return dir, base, info, nil
}

// parent opens the directory that holds name.
func (h FS) parent(name string, create bool) (*os.Root, string, error) {
	if !path.IsAbs(name) || path.Clean(name) == "/" {
		return nil, "", fmt.Errorf("%q is no absolute path below the root", name)
	}
	clean := path.Clean(name)
	dir, err := h.open(path.Dir(clean), create)
	return dir, path.Base(clean), err
}
