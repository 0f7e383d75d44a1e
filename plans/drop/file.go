// Reading a plan's file: whole or not at all, and only when its owner alone can write it.

package drop

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plans"
)

const (
	// lookAgain is the pause before another look at a file that is being written; it doubles
	// up to lookAgainMost.
	lookAgain     = 2 * time.Millisecond
	lookAgainMost = time.Second
	// still is how long a file must not have changed to count as written whole although
	// another process keeps it open for writing.
	still = 2 * time.Second
	// stillWithoutLease is the same where the file system cannot say who has it open.
	stillWithoutLease = 50 * time.Millisecond
)

// errBusy is a file that is still being written.
var errBusy = errors.New("it is being written")

// stamp says whether a file was changed since it was read.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func stampOf(info os.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{size: info.Size()}
	}
	return stamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// refusedError is a file that is refused until it changes.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// readPlan reads a plan's file. It returns nil bytes when the file is the one of the stamp
// already known; errBusy while it is being written; a *refusedError for one that is not to be trusted.
func readPlan(path string, known stamp, now time.Time) ([]byte, stamp, error) {
	// Before the file is opened: what cannot be replaced from here on is what will be opened.
	if err := checkLink(path); err != nil {
		return nil, stamp{}, err
	}
	// Without O_NONBLOCK a fifo of that name would hold everything up.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	is := stampOf(info)
	if is == known {
		return nil, is, nil
	}
	switch reason := writableByOthers("it", info); {
	case !info.Mode().IsRegular():
		return nil, is, &refusedError{"it is not a regular file"}
	case reason != "":
		return nil, is, &refusedError{reason}
	case info.Size() > plans.MaxSize:
		return nil, is, &refusedError{fmt.Sprintf("its %d bytes are more than the %d allowed", info.Size(), plans.MaxSize)}
	}
	if !whole(f, info, now) {
		return nil, stamp{}, errBusy
	}
	b, err := readUnchanged(f, f, is)
	if err != nil {
		return nil, stamp{}, err
	}
	return b, is, nil
}

// readUnchanged reads what content has of a file; errBusy when the file was changed since it
// was as the stamp says.
func readUnchanged(f *os.File, content io.Reader, is stamp) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(content, plans.MaxSize+1))
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if stampOf(after) != is {
		return nil, errBusy
	}
	return b, nil
}

// whole says whether no process is writing the file any more. The kernel grants a read lease
// only on a file that no process has open for writing; notifications report each write, but
// not that it was the last.
func whole(f *os.File, info os.FileInfo, now time.Time) bool {
	unchanged := now.Sub(info.ModTime())
	if unchanged < 0 {
		unchanged = still // a time of the future is of another clock, or of ours before it was set back
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return unchanged >= stillWithoutLease
	}
	var lease error
	err = conn.Control(func(fd uintptr) {
		if _, lease = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); lease == nil {
			_, lease = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	switch {
	case err == nil && lease == nil:
		return true
	case errors.Is(lease, unix.EAGAIN):
		return unchanged >= still
	}
	return unchanged >= stillWithoutLease
}
