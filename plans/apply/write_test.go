//go:build linux && amd64

package apply_test

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// picked is how many system calls a short run picks; a whole one takes them all.
const picked = 12

// TestKilledAtEveryWrite kills the agent when it is about to change a file, wherever that
// is in its code, and lets another finish: the host is the same in the end, and each
// instruction ran once.
func TestKilledAtEveryWrite(t *testing.T) {
	whole := newHost(t)
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
			p := crashPlan(h, "exit 0")
			tracedLife(t, h.agentCommand(p, 0), at)
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
	// All of ptrace has to come from one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skip("processes cannot be traced here")
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
			return writes
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
			if begins(tid) {
				if writes++; writes == killAt {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					continue
				}
			}
		case s == syscall.SIGTRAP || s == syscall.SIGSTOP: // a new thread
		default:
			signal = int(s)
		}
		_ = syscall.PtraceSyscall(tid, signal) // one that was killed meanwhile is gone
	}
}

// begins says whether the thread stands before a system call that changes a file.
func begins(tid int) bool {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return false
	}
	before := int64(regs.Rax) == -int64(syscall.ENOSYS) // at the end it is the result
	creates := regs.Orig_rax == unix.SYS_OPENAT && regs.Rdx&unix.O_CREAT != 0
	return before && (writing[regs.Orig_rax] && regs.Rdi != 1 || creates)
}
