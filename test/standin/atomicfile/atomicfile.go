// Package atomicfile writes files that are either as before or complete, whenever the process is killed.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write puts content at path with the given mode. A file that holds these bytes already keeps its inode and time.
func Write(path string, content []byte, mode os.FileMode) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, content) {
		return os.Chmod(path, mode)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already when the rename worked
	_, err = tmp.Write(content)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}
