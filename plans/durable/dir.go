package durable

import (
	"fmt"
	"os"
)

// ClosedDir makes a directory that only its owner may look into. A directory that was there is
// closed to others, unless it holds more than the agent's own: a configuration may name
// /var/log. The files in it are the owner's alone in any case. The errors are those of the file system.
func ClosedDir(dir string, ours func(name string) bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !ours(entry.Name()) {
			return nil
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil { // #nosec G302 -- a directory
		return fmt.Errorf("close the directory to others: %w", err)
	}
	return nil
}
