//go:build linux && amd64

package apply_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/supervise"
)

// call is a system call that changes a file, with the paths it is about.
type call struct {
	what string // create, write, sync, mode, owner, rename, remove
	path string
	to   string // of a rename
	mode uint64 // of create and mode
}

func (c call) String() string {
	if c.to != "" {
		return c.what + " " + c.path + " -> " + c.to
	}
	return fmt.Sprintf("%s %s %o", c.what, c.path, c.mode)
}

// traced are the calls of a process that is let live to its end.
func traced(t *testing.T, cmd *exec.Cmd) []call {
	t.Helper()
	var calls []call
	trace(t, cmd, func(tid int, regs syscall.PtraceRegs) bool {
		if c, ok := callOf(tid, regs); ok {
			calls = append(calls, c)
		}
		return false
	})
	return calls
}

func callOf(tid int, r syscall.PtraceRegs) (c call, ok bool) {
	switch r.Orig_rax {
	case unix.SYS_OPENAT:
		return call{what: "create", path: at(tid, r.Rdi, r.Rsi), mode: r.R10}, r.Rdx&unix.O_CREAT != 0
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		return call{what: "write", path: fdPath(tid, r.Rdi)}, true
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return call{what: "sync", path: fdPath(tid, r.Rdi)}, true
	case unix.SYS_FCHMOD:
		return call{what: "mode", path: fdPath(tid, r.Rdi), mode: r.Rsi}, true
	case unix.SYS_FCHOWN:
		return call{what: "owner", path: fdPath(tid, r.Rdi)}, true
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return call{what: "rename", path: at(tid, r.Rdi, r.Rsi), to: at(tid, r.Rdx, r.R10)}, true
	case unix.SYS_UNLINKAT:
		return call{what: "remove", path: at(tid, r.Rdi, r.Rsi)}, true
	}
	return call{}, false
}

func fdPath(tid int, fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	if err != nil {
		return fmt.Sprint("fd ", int32(fd))
	}
	return path
}

// at is the path that a descriptor of a directory and the address of a name lead to.
func at(tid int, fd, address uint64) string {
	var name []byte
	for b := make([]byte, 1); len(name) < 4096; name = append(name, b[0]) {
		if _, err := syscall.PtracePeekData(tid, uintptr(address)+uintptr(len(name)), b); err != nil || b[0] == 0 {
			break
		}
	}
	if filepath.IsAbs(string(name)) || int32(fd) == unix.AT_FDCWD {
		return string(name)
	}
	return filepath.Join(fdPath(tid, fd), string(name))
}

// find is the first call from i on that fits, or -1.
func find(calls []call, i int, fits func(call) bool) int {
	if i < 0 {
		return -1
	}
	if n := slices.IndexFunc(calls[i:], fits); n >= 0 {
		return i + n
	}
	return -1
}

func synced(path string) func(call) bool {
	return func(c call) bool { return c.what == "sync" && c.path == path }
}
func named(path string) func(call) bool {
	return func(c call) bool { return c.what == "rename" && c.to == path }
}

// wantDurable checks rule 2 for each time that a path gets new content: written, owned and
// closed to others under another name, durable, then named, then the name durable before the
// call at limit. It returns where the name is durable the last time.
func wantDurable(t *testing.T, calls []call, path string, limit int) (last int) {
	t.Helper()
	last = -1
	for i := find(calls, 0, named(path)); i >= 0; i = find(calls, i+1, named(path)) {
		temp, begun := calls[i].path, -1
		for n := range i {
			if calls[n].what == "create" && calls[n].path == temp {
				begun = n
			}
		}
		if begun < 0 {
			t.Errorf("%s: where its content comes from is not seen", path)
			continue
		}
		if calls[begun].mode != 0o600 {
			t.Errorf("%s: its new content begins with mode %o", path, calls[begun].mode)
		}
		durable := find(calls, begun, synced(temp))
		if durable < 0 || durable > i {
			t.Errorf("%s gets its name before its content is durable", path)
		}
		for n := begun; n < len(calls); n++ {
			c := calls[n]
			if c.path == temp && n > i {
				break // of the next time
			}
			if n > durable && n < i && c.path == temp && c.what != "sync" {
				t.Errorf("%s: %s after its content was made durable", path, c)
			}
		}
		dir := find(calls, i, synced(filepath.Dir(path)))
		if next := find(calls, i+1, named(path)); dir < 0 || next >= 0 && dir > next || limit >= 0 && next < 0 && dir > limit {
			t.Errorf("the name of %s is not durable in time", path)
		}
		last = dir
	}
	if n := find(calls, 0, func(c call) bool { return c.what == "remove" && c.path == path }); n >= 0 {
		t.Errorf("%s was removed", path)
	}
	if last < 0 {
		t.Errorf("%s was never replaced", path)
	}
	return last
}

// wantRewritten checks the same of a file that is written over, after it was made with a slot for the old and one for the new: each write is
// durable before the next.
func wantRewritten(t *testing.T, calls []call, path string) {
	t.Helper()
	wantDurable(t, calls, path, -1)
	times, dirty := 0, false
	for i, c := range calls {
		switch {
		case c.path == path && c.what == "write":
			if dirty {
				t.Errorf("%s is written with call %d before it is durable as it was", path, i)
			}
			times, dirty = times+1, true
		case c.path == path && c.what == "sync":
			dirty = false
		}
	}
	if times == 0 || dirty {
		t.Errorf("%s was written over %d times, and in the end it is not durable: %t", path, times, dirty)
	}
}

// TestOrder traces a whole apply and checks the order that order.go states.
func TestOrder(t *testing.T) {
	h := newHost(t)
	for _, name := range []string{"/etc/one", "/etc/three"} {
		if err := os.MkdirAll(filepath.Dir(h.root(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.root(name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := plans.Plan{
		Files:        []plans.File{file("/etc/one", "1"), file("/etc/rancher/k3s/two", "2"), file("/etc/three", "3")},
		Instructions: []plans.OneTimeInstruction{h.counting("a", ""), h.counting("b", "")},
	}
	p.Files[0].Permissions = "0640"
	if os.Getuid() == 0 {
		p.Files[0].UID, p.Files[0].GID = 1, 1
	}
	calls := traced(t, h.agentCommand(p, 0))
	ledger := filepath.Join(h.options.LedgerDir, "remote.json")
	command := func(c call) bool { return c.what == "rename" && strings.HasSuffix(c.to, "/command.json") }

	saved := func(c call) bool { return c.what == "sync" && (c.path == ledger || c.path == h.options.LedgerDir) }

	// 1
	first := find(calls, 0, func(c call) bool { return strings.HasPrefix(c.path, h.options.Root+"/") })
	begun := find(calls, find(calls, 0, named(ledger)), synced(h.options.LedgerDir))
	if begun < 0 || first < begun {
		t.Errorf("call %d, %s, comes before the ledger is durable with call %d", first, calls[first], begun)
	}
	// 2, 3 and 4
	start := find(calls, 0, command)
	for _, name := range []string{"/etc/one", "/var/lib/agent/etc/k3s/two", "/etc/three"} {
		wantDurable(t, calls, h.root(name), start)
	}
	one := find(calls, 0, named(h.root("/etc/one")))
	for _, what := range []string{"mode", "owner"} {
		n := find(calls, 0, func(c call) bool { return c.what == what && one >= 0 && c.path == calls[one].path })
		if (n < 0 || n > one) && (what == "mode" || os.Getuid() == 0) {
			t.Errorf("the %s of a file is not set before it has its name", what)
		}
	}
	if n := find(calls, 0, func(c call) bool {
		return c.what == "mode" && strings.HasPrefix(c.path, h.root("/etc/one")) && c.path == h.root("/etc/one")
	}); n >= 0 {
		t.Errorf("the mode of a file is set after it has its name")
	}
	// 4 and 6
	wantRewritten(t, calls, ledger)
	previous := 0
	for i := start; i >= 0; i = find(calls, i+1, command) {
		if durable := find(calls, previous, saved); durable < 0 || durable > i {
			t.Errorf("a command is there before the ledger that speaks of it is durable: call %d", i)
		}
		previous = i
	}
	// 7
	history := find(calls, 0, func(c call) bool { return c.what == "rename" && strings.HasSuffix(c.to, "-applied.plan") })
	if history < 0 {
		t.Fatal("no history was written")
	}
	wantDurable(t, calls, calls[history].to, -1)
	if late := find(calls, history, saved); late >= 0 {
		t.Errorf("the history is written before the outcome: call %d after %d", late, history)
	}
	if t.Failed() {
		for i, c := range calls {
			t.Log(i, strings.ReplaceAll(c.String(), h.dir, ""))
		}
	}
}

// TestOrderOfTheResult traces a supervisor.
func TestOrderOfTheResult(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "try")
	if err := supervise.Prepare(dir, supervise.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "echo out"}, Dir: "/", OutputLimit: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(), supervise.Entry, dir)
	cmd.Env = append(os.Environ(), quickExit)
	calls := traced(t, cmd)
	result := filepath.Join(dir, "result.json")
	name := find(calls, 0, named(result))
	written := -1
	for i := range max(name, 0) {
		if c := calls[i]; c.what == "write" && c.path == result+".tmp" {
			written = i
		}
	}
	durable := find(calls, written, synced(result+".tmp"))
	output := find(calls, 0, synced(filepath.Join(dir, "output.000000")))
	if written < 0 || durable < 0 || durable > name || output < 0 || output > name {
		t.Errorf("the result has its name with call %d, is written with %d, durable with %d, and its output with %d", name, written, durable, output)
	}
	if find(calls, name, synced(dir)) < 0 {
		t.Error("the result's name is not made durable")
	}
	if t.Failed() {
		for i, c := range calls {
			t.Log(i, c)
		}
	}
}
