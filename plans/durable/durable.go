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

// WriteFile replaces the file at path. The new content first stands beside it as
// "<path>.tmp" (left over by a crash, it is overwritten the next time), so one path must
// not be written by two callers at once. The mode is set exactly, whatever the umask.
// Errors of the system are wrapped.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	temp := path + ".tmp"
	if err := writeSynced(temp, data, mode); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	return SyncDir(filepath.Dir(path))
}

// WriteJSON is WriteFile of the JSON of v and a final newline.
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
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", path, limit)
	}
	return b, nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeSynced(path string, data []byte, mode fs.FileMode) error {
	// A temporary file of another mode or owner must not lend them to the new content.
	if err := removeIfThere(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
