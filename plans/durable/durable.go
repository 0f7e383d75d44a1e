// Package durable replaces files so that a crash at any instant leaves the old content
// or the new one, whole, and so that what was reported as written is still there after
// the power failed.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File is the new content of a file. It first stands beside it as "<Path>.tmp" (left over by
// a crash, it is overwritten the next time), so one path must not be written by two callers
// at once. The mode is set exactly, with any umask.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
}

// WriteFile replaces the file at path. Errors of the system are wrapped.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return WriteFiles(File{Path: path, Data: data, Mode: mode})
}

// WriteFiles replaces files in their order: a reader that finds a later one, after any crash,
// finds the ones before it. Their contents are made durable together, which costs hardly more
// than for one. After an error the first few may be new, the others are as they were.
func WriteFiles(files ...File) (err error) {
	var open []*os.File
	defer func() {
		for i, f := range open {
			err = errors.Join(err, f.Close())
			if err != nil {
				err = errors.Join(err, removeIfThere(files[i].temp()))
			}
		}
	}()
	for _, file := range files {
		f, err := file.write()
		if f != nil {
			open = append(open, f)
		}
		if err != nil {
			return err
		}
		Begin(f)
	}
	for _, f := range open {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := os.Rename(file.temp(), file.Path); err != nil {
			return err
		}
		if err := SyncDir(filepath.Dir(file.Path)); err != nil {
			return err
		}
	}
	return nil
}

// ErrLocked says that another program has locked a file.
var ErrLocked = errors.New("it is locked by another program")

// Begin has the kernel begin to write a file out, so that the syncs of several files that
// follow share one commit of the file system. It promises nothing.
func Begin(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(begin)
	}
}

func (f File) temp() string { return f.Path + ".tmp" }

// write puts the content beside the file. The opened file is returned also with an error of writing it.
func (f File) write() (*os.File, error) {
	// A temporary file of another mode or owner must not lend them to the new content.
	if err := removeIfThere(f.temp()); err != nil {
		return nil, err
	}
	opened, err := os.OpenFile(f.temp(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode.Perm())
	if err != nil {
		return nil, err
	}
	if _, err := opened.Write(f.Data); err != nil {
		return opened, err
	}
	return opened, opened.Chmod(f.Mode)
}

// WriteJSON is WriteFile of the JSON of v and a final newline. Its errors are those of WriteFile.
func WriteJSON(path string, v any, mode fs.FileMode) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return WriteFile(path, append(b, '\n'), mode)
}

// ReadFile reads a file of at most limit bytes; a larger one is an error.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, path, limit)
}

// ReadAll reads what is called name to its end, of at most limit bytes; more is an error.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", name, limit)
	}
	return b, nil
}

// SyncDir makes the names in a directory durable. Its errors are the operating system's.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
