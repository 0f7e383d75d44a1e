//go:build !linux

package durable

import (
	"io/fs"
	"os"
	"runtime"
)

// The server and the agents run on Linux alone. The command line on other systems writes few files, and those without Linux' quicker ways.

func begin(uintptr) {}

func syncData(f *os.File) error { return f.Sync() }

// syncDir does nothing on Windows, where a directory cannot be synced.
func syncDir(d *os.File) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return d.Sync()
}

const nonBlock = 0

// isOwn has every file made anew.
func isOwn(fs.FileInfo) bool { return false }
