package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans/apply/supervise"
)

// TestKillEndsTheWholeGroup, also when the command itself obeys and one that it started does not.
func TestKillEndsTheWholeGroup(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	c := shell(t, "trap 'exit 0' TERM; (trap '' TERM; echo up; while :; do sleep 0.05; done) & echo $! > "+left+"; wait")
	c.Grace, c.Drain = 10*time.Second, 10*time.Second
	running := start(t, prepare(t, c))
	result := wait(t, running, func(output.Chunk) {
		if err := running.Kill(); err != nil {
			t.Error(err)
		}
	})
	if !result.Killed || result.Ended.Sub(result.Started) > 8*time.Second {
		t.Errorf("%+v", result)
	}
	b, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("a process of the group still runs")
		}
	}
}

// TestANumberThatIsUsedAgain is not taken for the process that had it: not one that started at
// another time, nor one of another boot; and what it runs is not killed as a leftover.
func TestANumberThatIsUsedAgain(t *testing.T) {
	c := shell(t, "echo up; sleep 60")
	c.Env = append(c.Env, "MARK=here")
	running := start(t, prepare(t, c))
	wait(t, running, func(output.Chunk) { // once it runs
		usedAgain(t, running.Identity)
		if err := running.Kill(); err != nil {
			t.Error(err)
		}
	})
}

func usedAgain(t *testing.T, id supervise.Identity) {
	t.Helper()
	if !id.Alive() {
		t.Error("not alive")
	}
	for name, change := range map[string]func(*supervise.Identity){
		"another start": func(id *supervise.Identity) { id.Start-- },
		"another boot":  func(id *supervise.Identity) { id.Boot = "00000000-0000-0000-0000-000000000000" },
	} {
		other := id
		change(&other)
		if other.Alive() {
			t.Errorf("%s: taken for the same process", name)
		}
	}
	before := id
	before.Start--
	if n := before.KillLeftovers("MARK=here"); n != 0 || !id.Alive() {
		t.Errorf("%d processes of somebody else were killed", n)
	}
}
