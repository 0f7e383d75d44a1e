// Package lockfile lets several test processes share one thing on a machine: a Docker engine, a cached image.
//
// The locks are flock(2) locks: the kernel drops them when their process ends, however it ends.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Mode is how a lock is held.
type Mode int

const (
	// Shared locks are held by many at once.
	Shared Mode = syscall.LOCK_SH
	// Exclusive locks are held by one, and only while no process holds a shared one.
	Exclusive Mode = syscall.LOCK_EX
)

// retry is how often a taken lock is tried again; flock has no wait that a context could end.
const retry = 50 * time.Millisecond

// Lock is a lock that is held until Unlock, or until the process ends.
type Lock struct{ file *os.File }

// Take waits until it holds the lock at path, or until ctx ends. The file is made when it is missing and never removed.
func Take(ctx context.Context, path string, mode Mode) (*Lock, error) {
	for {
		lock, err := Try(path, mode)
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", path, ctx.Err())
		case <-time.After(retry):
		}
	}
}

// Try takes the lock at path if it is free, and returns nil if it is not.
func Try(path string, mode Mode) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = flock(file, int(mode)|syscall.LOCK_NB)
	if err == nil {
		return &Lock{file}, nil
	}
	closeErr := file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, closeErr
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Share turns an exclusive lock into a shared one. The kernel drops the one before it takes the other, so for an
// instant another process may get in between.
func (l *Lock) Share() error {
	if err := flock(l.file, syscall.LOCK_SH); err != nil {
		return fmt.Errorf("share the lock %s: %w", l.file.Name(), err)
	}
	return nil
}

// Unlock gives the lock back. To close the file would not do: a process that another goroutine starts at this moment
// has a copy of it until it runs its program, and with the copy the lock.
func (l *Lock) Unlock() error {
	return errors.Join(flock(l.file, syscall.LOCK_UN), l.file.Close())
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
