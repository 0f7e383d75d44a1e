package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is the flag of os.OpenFile that refuses a symbolic link, where the system has it.
const NoFollow = 0

// TryLock locks an open file until it is closed, also by the end of the program. The error is ErrLocked where another program has it.
func TryLock(f *os.File) error {
	// Windows keeps all others from reading what is locked. A byte far behind the end locks no content.
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
