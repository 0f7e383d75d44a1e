package store

// This file holds the checks of the data directory before anything is written to it.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	lockName = "lock"
	etcdName = "etcd"
)

// ours are the names that a drover server makes in its data directory, some of them
// before it opens the store.
func ours() []string {
	return []string{lockName, etcdName, "encryption.key", "tls", "admin-token", "local-url", "assets", "version", "before-upgrade", "lost+found"}
}

// takeDataDir makes the data directory when it is missing, and locks it until Close.
func (s *Store) takeDataDir(context.Context) error {
	dir := s.options.DataDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := checkOurs(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	// The file stays when the lock is given back: to remove it would let two servers
	// lock two files of one name.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("the data directory %s is in use by another drover server%s: stop that one, or name another directory",
				dir, holder(lock))
		}
		return fmt.Errorf("lock %s: %w", path, err)
	}
	s.undo = append(s.undo, func() error {
		// A process that is just being started holds a copy of the file until it executes its
		// program, and with it the lock, unless the lock itself is given back.
		return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
	})
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// holder is " (process N)" when the lock file says who holds it.
func holder(lock io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(lock, 32))
	pid, parseErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || parseErr != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// checkOurs refuses a directory that holds what is not drover's.
func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the data directory: %w", err)
	}
	var foreign []string
	for _, e := range entries {
		if e.Name() == lockName || e.Name() == "encryption.key" {
			return nil // a server has been here before
		}
		if !slices.Contains(ours(), e.Name()) {
			foreign = append(foreign, strconv.Quote(e.Name()))
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	if more := len(foreign) - 3; more > 0 {
		foreign = append(foreign[:3], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("the directory %s is not empty and was not made by drover (it holds %s): name an empty or a new directory as data directory",
		dir, strings.Join(foreign, ", "))
}
