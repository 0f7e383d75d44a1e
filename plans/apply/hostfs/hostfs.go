// Package hostfs brings files of a host to a wanted state: atomically, with mode and
// owner set before the new content can be seen, and without being led out of the host's
// root by symbolic links.
package hostfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"syscall"

	"github.com/drover-project/drover/plans/durable"
)

// FS is the file system of a host below Root; an empty Root is the root of this process.
// Paths of its methods are absolute on that host. Symbolic links on the way to a path are
// followed as a process whose root is Root would; a link at the path itself never is,
// except to a directory where a directory is wanted.
type FS struct {
	Root string

	dirty *dirtyDirs // of a Batch; nil: directories are made durable at once
}

// Owner is who owns an entry; -1 leaves that id as it is.
type Owner struct {
	UID, GID int
}

// mkdir makes a directory that was not there and sets its mode and owner.
func (h FS) mkdir(dir *os.Root, base string, c Change) error {
	if err := dir.Mkdir(base, 0o700); errors.Is(err, fs.ErrExist) {
		return errChanged
	} else if err != nil {
		return err
	}
	self, err := dir.OpenRoot(base)
	if err != nil {
		return err
	}
	defer self.Close()
	return errors.Join(setSelf(self, c), h.syncDir(dir))
}

// setDir sets mode and owner of a directory, which may be behind a link.
func (h FS) setDir(c Change) error {
	self, err := h.open(c.Want.Name, false)
	if err != nil {
		return err
	}
	defer self.Close()
	return setSelf(self, c)
}

func setSelf(self *os.Root, c Change) error {
	f, err := self.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(setOpened(f, c), f.Close())
}

// setFile sets mode and owner of a regular file.
func setFile(dir *os.Root, base string, c Change) error {
	f, err := dir.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	if err != nil {
		return err
	}
	return errors.Join(setOpened(f, c), f.Close())
}

// setOpened sets mode and owner of what was looked at, and of nothing that has taken its name.
func setOpened(f *os.File, c Change) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if c.Have.info != nil && !os.SameFile(info, c.Have.info) {
		return errChanged
	}
	return setOwnerAndMode(f, info, c.Want.Mode, c.Want.Owner)
}

// ErrMounted is what is in the way of an entry that is the place of a mount.
var ErrMounted = errors.New("something is mounted there, which has to be unmounted first")

// remove removes an entry. An entry that is gone already is not an error. Of a tree whose directory is
// the place of a mount everything but that directory is removed.
func (h FS) remove(dir *os.Root, base string, tree bool) error {
	do := dir.Remove
	if tree {
		do = dir.RemoveAll
	}
	err := do(base)
	if errors.Is(err, syscall.EBUSY) {
		left, lookErr := full(dir, base)
		if !tree || lookErr != nil || left {
			return ErrMounted
		}
		err = nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.syncDir(dir)
}

// inPlace writes the content of a regular file that cannot be replaced over the old one.
func inPlace(dir *os.Root, base string, want Entry) error {
	f, err := dir.OpenFile(base, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errSpecial
	}
	if err == nil {
		_, err = f.Write(want.Content)
	}
	if err == nil {
		err = f.Truncate(int64(len(want.Content)))
	}
	if err == nil {
		err = setOwnerAndMode(f, info, want.Mode, want.Owner)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// link puts a symbolic link in the place of base.
func (h FS) link(dir *os.Root, base, target string) error {
	temp := temporary(base)
	if err := removeIfThere(dir, temp); err != nil {
		return err
	}
	if err := dir.Symlink(target, temp); err != nil {
		return err
	}
	if err := dir.Rename(temp, base); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			err = ErrMounted
		}
		return errors.Join(err, removeIfThere(dir, temp))
	}
	return h.syncDir(dir)
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

// OneOf is the path among those known that is the same entry as name, reached by another way; name itself when none is.
func (h FS) OneOf(known iter.Seq[string], name string) string {
	for other := range known {
		if other != name && path.Base(other) == path.Base(name) && h.SameEntry(other, name) {
			return other
		}
	}
	return name
}

// ReadFile reads the regular file at name, of at most limit bytes. A link at name is followed. The errors are those of the file system, and durable's
// for a file that is larger or not regular.
func (h FS) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := h.openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return durable.ReadAll(f, name, limit)
}

// fill writes content, mode and owner into a new file that has a name of its own.
func fill(dir *os.Root, temp string, want Entry) (*os.File, error) {
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(want.Content)
	}
	if err == nil {
		err = setOwnerAndMode(f, info, want.Mode, want.Owner)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// setOwnerAndMode changes only what differs. The owner comes first: changing it clears setuid and setgid.
func setOwnerAndMode(f *os.File, info fs.FileInfo, mode fs.FileMode, owner Owner) error {
	have := stateOf(info)
	owner = owner.or(have)
	if owner != have.Owner {
		if err := f.Chown(owner.UID, owner.GID); err != nil {
			return err
		}
	}
	if owner == have.Owner && have.Mode == mode&modeBits {
		return nil
	}
	return f.Chmod(mode & modeBits)
}

// or fills ids that are to be left as they are from the entry that is there, if one is.
func (o Owner) or(have State) Owner {
	if have.Kind == Nothing {
		return o
	}
	if o.UID == -1 {
		o.UID = have.Owner.UID
	}
	if o.GID == -1 {
		o.GID = have.Owner.GID
	}
	return o
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

// syncDir makes the names in a directory durable, now or with the batch.
func (h FS) syncDir(dir *os.Root) error {
	if h.dirty != nil {
		h.dirty.add(dir)
		return nil
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// parent opens the directory that holds name.
func (h FS) parent(name string, create bool) (*os.Root, string, error) {
	if !path.IsAbs(name) || path.Clean(name) == "/" {
		return nil, "", fmt.Errorf("%q is not an absolute path below the root", name)
	}
	clean := path.Clean(name)
	dir, err := h.open(path.Dir(clean), create)
	return dir, path.Base(clean), err
}
