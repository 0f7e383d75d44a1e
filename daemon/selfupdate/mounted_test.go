package selfupdate

import (
	"errors"
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

// TestAProgramThatIsAMountPointIsWrittenInPlace, the new one and the one that comes back, also after a crash in the middle.
func TestAProgramThatIsAMountPointIsWrittenInPlace(t *testing.T) {
	for kind := range outcomes {
		for _, crash := range []bool{false, true} {
			name := kind
			if crash {
				name += " after a crash"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newMountedScene(t)
				id, sum := s.begin(kind)
				crashed := !crash
				step := func(name string) error {
					if crashed || name != "write in place" {
						return nil
					}
					crashed = true
					if err := os.WriteFile(s.program, []byte("\x7fELF"), 0o755); err != nil {
						t.Error(err)
					}
					panic(errKilled)
				}
				run := func() (err error) {
					defer func() {
						if lost := recover(); lost != nil {
							err = errKilled
						}
					}()
					return s.watcher(step).Run(t.Context())
				}
				err := run()
				if crash {
					if !errors.Is(err, errKilled) {
						t.Fatalf("no crash: %v", err)
					}
					err = run()
				}
				if err != nil {
					t.Fatal(err)
				}
				s.wantOutcome(kind, id, sum)
				if !slices.Contains(s.manager.calls, "stop "+Service) {
					t.Errorf("the service was not stopped: %q", s.manager.calls)
				}
			})
		}
	}
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
