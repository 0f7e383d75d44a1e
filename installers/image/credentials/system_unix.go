//go:build unix

package credentials

import (
	"os"
	"os/exec"
	"syscall"
)

// endWhole has the programs that a program has started end with it, when its time is over.
func endWhole(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// ownerOf is the uid of a file.
func ownerOf(info os.FileInfo) (int, bool) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(owner.Uid), true
}
