package selfupdate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

// newMountedScene is a host whose program is the place of a mount, as in a container.
func newMountedScene(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	outside := filepath.Join(t.TempDir(), "agent")
	if err := copyProgram(s.program, outside); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(outside, s.program, "", syscall.MS_BIND, ""); err != nil {
		skips.Skip(t, "no right to mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.program, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.manager.mu.Lock()
	s.manager.kill()
	s.manager.start()
	pid := s.manager.process.Process.Pid
	s.manager.mu.Unlock()
	s.until("the old agent runs from there", func() bool {
		var h Health
		ok, err := readRecord(healthFile(s.update), &h)
		return ok && err == nil && h.PID == pid
	})
	return s
}

// TestAProgramThatIsAMountPointIsWrittenInPlace, the new one and the one that comes back, also when the judge ends at any of its steps,
// and in the middle of each writing.
func TestAProgramThatIsAMountPointIsWrittenInPlace(t *testing.T) {
	for kind := range outcomes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			parts, all := 0, 0
			t.Run("to its end", func(t *testing.T) { all = writtenInPlace(t, kind, 0, nil) })
			if kind != "is well" && kind != "crashes" {
				return // its steps are those of crashes
			}
			for die := range all {
				t.Run(fmt.Sprint("ends at step ", die+1), func(t *testing.T) { writtenInPlace(t, kind, die+1, func() { parts++ }) })
			}
			if want := map[string]int{"is well": 1, "crashes": 2}[kind]; parts != want {
				t.Errorf("the judge ended in the middle of %d writings, want %d", parts, want)
			}
		})
	}
}

// writtenInPlace ends the judge at its step number die, 0 for at none, and lets another one go on. half is called for a writing that
// ended in its middle.
func writtenInPlace(t *testing.T, kind string, die int, half func()) (steps int) {
	s := newMountedScene(t)
	id, sum := s.begin(kind)
	step := func(name string) error {
		steps++
		if steps != die {
			return nil
		}
		if name == "write in place" {
			half()
			if err := os.WriteFile(s.program, []byte("\x7fELF"), 0o755); err != nil {
				t.Error(err)
			}
		}
		panic(errKilled)
	}
	err := func() (err error) {
		defer func() {
			if lost := recover(); lost != nil {
				err = errKilled
			}
		}()
		return s.watcher(step).Run(t.Context())
	}()
	if die > 0 {
		if !errors.Is(err, errKilled) {
			t.Fatalf("no crash: %v", err)
		}
		err = s.watcher(nil).Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.wantOutcome(kind, id, sum)
	if !slices.Contains(s.manager.calls, "stop "+Service) {
		t.Errorf("the service was not stopped: %q", s.manager.calls)
	}
	return steps
}

// TestAProgramThatCannotBeWrittenInPlaceComesBack: another process than the service's runs it, too.
func TestAProgramThatCannotBeWrittenInPlaceComesBack(t *testing.T) {
	s := newMountedScene(t)
	other := exec.Command(s.program, "sentinel", t.TempDir())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill() // it does not end by itself
		_ = other.Wait()
	})
	id, sum := s.begin("is well")
	if err := s.watcher(nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantEnd(id, sum, false, "cannot be written in place")
}
