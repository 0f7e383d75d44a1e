package durable

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func begin(fd uintptr) { _ = unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }

func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

func syncDir(d *os.File) error { return d.Sync() }

const nonBlock = unix.O_NONBLOCK

// isOwn says that a file has no other name, and is this user's.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 1 && int(stat.Uid) == os.Geteuid()
}
