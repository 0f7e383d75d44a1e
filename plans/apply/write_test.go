//go:build linux && amd64

package apply_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/test/skips"
)

// picked is how many system calls a short run picks; a whole one takes them all.
const picked = 12

// TestKilledAtEveryWrite kills the agent when it is about to change a file, wherever that
// is in its code, and lets another finish: the host is the same in the end, and each
// instruction ran once.
func TestKilledAtEveryWrite(t *testing.T) {
	whole := newHost(t)
	t.Cleanup(whole.settle)
	whole.oldFiles()
	p := crashPlan(whole, "exit 0")
	writes := tracedLife(t, whole.agentCommand(p, 0), 0)
	want, wantTree := whole.live(p), whole.tree()
	if writes < 40 || !want.Result.Succeeded || len(want.Probes) != 1 {
		t.Fatalf("%d writes, %+v", writes, want)
	}
	step := 1
	if testing.Short() {
		step = max(writes/picked, 1)
	}
	for at := 1; at <= writes; at += step {
		t.Run(fmt.Sprintf("killed at write %d of %d", at, writes), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			t.Cleanup(h.settle)
			h.oldFiles()
			p := crashPlan(h, "exit 0")
			tracedLife(t, h.agentCommand(p, 0), at)
			h.wantOldOrNew("/etc/one", "1")
			h.wantOldOrNew("/etc/three", "3")
			got := h.live(p)
			if diff := cmp.Diff(want.Result, got.Result); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want.Probes, got.Probes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(wantTree, h.tree()); diff != "" {
				t.Error(diff)
			}
			for _, name := range []string{"a", "b", "c"} {
				if h.runs(name) != "1" {
					t.Errorf("%s ran as attempts %q", name, h.runs(name))
				}
			}
			if names := h.applied(); len(names) != 1 {
				t.Errorf("the history has %q", names)
			}
		})
	}
}

// oldFiles are there before the plan.
func (h *host) oldFiles() {
	h.t.Helper()
	for _, name := range []string{"/etc/one", "/etc/three"} {
		if err := os.MkdirAll(filepath.Dir(h.root(name)), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(h.root(name), []byte("old content"), 0o640); err != nil {
			h.t.Fatal(err)
		}
	}
}

// wantOldOrNew holds that a file is whole, with the mode that belongs to its content.
func (h *host) wantOldOrNew(name, content string) {
	h.t.Helper()
	info, err := os.Stat(h.root(name))
	if err != nil {
		h.t.Errorf("%s is not there: %v", name, err)
		return
	}
	switch got := h.content(h.root(name)); {
	case got == "old content" && info.Mode() == 0o640:
	case got == content && info.Mode() == 0o600:
	default:
		h.t.Errorf("%s has mode %v and %q", name, info.Mode(), got)
	}
}

// writing are the system calls that change files.
var writing = map[uint64]bool{
	unix.SYS_WRITE: true, unix.SYS_PWRITE64: true, unix.SYS_FTRUNCATE: true, unix.SYS_FSYNC: true,
	unix.SYS_MKDIRAT: true, unix.SYS_UNLINKAT: true, unix.SYS_SYMLINKAT: true, unix.SYS_RENAMEAT: true, unix.SYS_RENAMEAT2: true,
	unix.SYS_FCHMOD: true, unix.SYS_FCHMODAT: true, unix.SYS_FCHOWN: true, unix.SYS_FCHOWNAT: true,
	unix.SYS_MKDIR: true, unix.SYS_RENAME: true, unix.SYS_UNLINK: true, unix.SYS_CHMOD: true,
}

// tracedLife lets an agent live under ptrace until it is about to do the given write, the
// first being 1; 0 lets it live to its end. It returns how many writes there were.
func tracedLife(t *testing.T, cmd *exec.Cmd, killAt int) (writes int) {
	t.Helper()
	trace(t, cmd, func(_ int, regs syscall.PtraceRegs) (kill bool) {
		if !changes(regs) {
			return false
		}
		writes++
		return writes == killAt
	})
	return writes
}

// trace lets a process live under ptrace. Before each of its system calls each is called, and
// kills it by returning true.
func trace(t *testing.T, cmd *exec.Cmd, each func(tid int, regs syscall.PtraceRegs) (kill bool)) {
	t.Helper()
	// All of ptrace has to come from one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		skips.Skip(t, "processes cannot be traced here")
	} else if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	started := false
	for {
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-pid, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD):
			return
		case err != nil:
			t.Fatal(err)
		case !ws.Stopped():
			continue // a thread ended, or all of it
		}
		signal := 0
		switch s := ws.StopSignal(); {
		case !started:
			started = true
			if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
				t.Fatal(err)
			}
		case s == syscall.SIGTRAP|0x80:
			if regs, ok := begins(tid); ok && each(tid, regs) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				continue
			}
		case s == syscall.SIGTRAP || s == syscall.SIGSTOP: // a new thread
		default:
			signal = int(s)
		}
		_ = syscall.PtraceSyscall(tid, signal) // one that was killed meanwhile is gone
	}
}

// begins says whether the thread stands before a system call, and with what registers.
func begins(tid int) (regs syscall.PtraceRegs, ok bool) {
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return regs, false
	}
	return regs, int64(regs.Rax) == -int64(syscall.ENOSYS) // at the end it is the result
}

// changes says whether a system call changes a file.
func changes(regs syscall.PtraceRegs) bool {
	creates := regs.Orig_rax == unix.SYS_OPENAT && regs.Rdx&unix.O_CREAT != 0
	return writing[regs.Orig_rax] && regs.Rdi != 1 || creates
}
