// Walking to a directory one component at a time. The kernel would follow a symbolic
// link out of Root, and os.Root refuses every absolute one, which hosts are full of
// (/var/run); so links are resolved here and each step is taken from an open directory.

package hostfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links one path may go through, as in the kernel.
const maxLinks = 40

// walk is the state of one resolution: the open directories from the root to where it stands.
type walk struct {
	open     []*os.Root
	links    int
	create   bool   // make missing directories
	wantFile bool   // the last component may be a regular file
	file     string // that file's name in the last open directory
	fs       FS
}

// open returns the directory at name. With create, missing ones are made 0755.
func (h FS) open(name string, create bool) (*os.Root, error) {
	w, err := h.walk(name, walk{create: create})
	if err != nil {
		return nil, err
	}
	last := len(w.open) - 1
	dir := w.open[last]
	w.open = w.open[:last]
	return dir, w.close(0)
}

// walk resolves name; on an error nothing stays open.
func (h FS) walk(name string, w walk) (*walk, error) {
	root := cmp.Or(h.Root, "/")
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	w.open, w.fs = []*os.Root{top}, h
	if err := w.to(name); err != nil {
		return nil, errors.Join(fmt.Errorf("on the way to %s: %w", name, err), w.close(0))
	}
	return &w, nil
}

// to walks the whole path, links included.
func (w *walk) to(name string) error {
	left := strings.Split(name, "/")
	for len(left) > 0 {
		next := left[0]
		left = left[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			// The root is its own parent.
			if err := w.close(max(len(w.open)-1, 1)); err != nil {
				return err
			}
			continue
		}
		target, err := w.step(next, len(left) == 0)
		if err != nil {
			return err
		}
		if target == "" {
			continue
		}
		if w.links++; w.links > maxLinks {
			return syscall.ELOOP
		}
		if path.IsAbs(target) {
			if err := w.close(1); err != nil {
				return err
			}
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return nil
}

// close closes all but the first n directories.
func (w *walk) close(n int) error {
	var err error
	for len(w.open) > n {
		last := len(w.open) - 1
		err = errors.Join(err, w.open[last].Close())
		w.open = w.open[:last]
	}
	return err
}

// step enters the directory next, or returns the text of the link that it is.
func (w *walk) step(next string, last bool) (link string, err error) {
	here := w.open[len(w.open)-1]
	info, err := here.Lstat(next)
	if errors.Is(err, fs.ErrNotExist) && w.create {
		if err := w.fs.make755(here, next); err != nil {
			return "", err
		}
		info, err = here.Lstat(next)
	}
	if err != nil {
		return "", err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return here.Readlink(next)
	}
	if last && w.wantFile && info.Mode().IsRegular() {
		w.file = next
		return "", nil
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s: %w", next, syscall.ENOTDIR)
	}
	dir, err := here.OpenRoot(next)
	if err != nil {
		return "", err
	}
	w.open = append(w.open, dir)
	return "", nil
}

func (h FS) make755(here *os.Root, name string) error {
	if err := here.Mkdir(name, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if err := here.Chmod(name, 0o755); err != nil {
		return err
	}
	return h.syncDir(here)
}

// openFile opens the regular file at name for reading, following links within the root.
func (h FS) openFile(name string) (*os.File, error) {
	w, err := h.walk(name, walk{wantFile: true})
	if err != nil {
		return nil, err
	}
	defer w.close(0)
	if w.file == "" {
		return nil, fmt.Errorf("%s is a directory: %w", name, syscall.EISDIR)
	}
	return w.open[len(w.open)-1].OpenFile(w.file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
