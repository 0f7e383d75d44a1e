//go:build unix

package spool

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Again opens a file of New a second time, for who closes what he is given. The error says that no further descriptor can be had.
func Again(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a temporary file again: %w", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
