package durable

import (
	"errors"
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

// exchange has two files change places, or the first take the other's where that is not
// there, or where the file system cannot exchange.
func exchange(temp, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return os.Rename(temp, path)
	}
	return &os.LinkError{Op: "exchange", Old: temp, New: path, Err: err}
}
