//go:build unix

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow is the flag of os.OpenFile that refuses a symbolic link, where the system has it.
const NoFollow = unix.O_NOFOLLOW

// TryLock locks an open file until it is closed, also by the end of the program. The error is ErrLocked where another program has it.
func TryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for errors.Is(err, unix.EINTR) { // a signal says nothing of the lock
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
