package selfupdate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var errKilled = errors.New("killed")

// outcomes are agents, and what comes of an update to them.
var outcomes = map[string]struct {
	updated bool
	reason  string
}{
	"is well":          {true, ""},
	"crashes":          {false, "in a row: exit code 3"},
	"hangs":            {false, "ready"},
	"does not connect": {false, "server"},
}

func (s *scene) wantOutcome(kind, id, sum string) {
	s.Helper()
	s.wantEnd(id, sum, outcomes[kind].updated, outcomes[kind].reason)
}

func (s *scene) wantEnd(id, sum string, updated bool, reason string) {
	s.Helper()
	last, ok, err := ReadLast(s.update)
	if err != nil || !ok || last.ID != id || last.Updated != updated || !strings.Contains(last.Reason, reason) {
		s.Errorf("last = %+v, %v, %v; want updated %v and the reason %q", last, ok, err, updated, reason)
	}
	wantSum := sum
	if !updated {
		wantSum = s.oldSum
		if last.Err() == nil || !strings.Contains(last.Err().Error(), last.Reason) {
			s.Errorf("Err = %v", last.Err())
		}
	}
	if got := s.installed(); got != wantSum {
		s.Errorf("the wrong program is installed: %s", got)
	}
	s.until("the right program runs", func() bool {
		u, err := systemctl(s.manager.systemctl).show(s.Context())
		return err == nil && u.running() && runs(u.pid, s.program)
	})
	for _, gone := range []string{intentFile(s.update), s.program + ".new", filepath.Join(s.units, WatchService)} {
		if _, err := os.Lstat(gone); !errors.Is(err, os.ErrNotExist) {
			s.Errorf("%s is left behind: %v", gone, err)
		}
	}
}

func TestUpdateKeepsWhatIsWellAndTakesTheRestBack(t *testing.T) {
	for kind := range outcomes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			id, sum := s.begin(kind)
			if err := s.watcher(nil).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.wantOutcome(kind, id, sum)
			if previous, err := checksum(s.program + previousSuffix); err != nil || previous != s.oldSum {
				t.Errorf("the previous program is %s, %v", previous, err)
			}
		})
	}
}

// That the old agent was restarted often says nothing of the new one.
func TestUpdateOfAnAgentThatWasRestartedOften(t *testing.T) {
	for kind := range outcomes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.manager.mu.Lock()
			s.manager.restarts = 3 * maxRestarts
			s.manager.mu.Unlock()
			id, sum := s.begin(kind)
			if err := s.watcher(nil).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.wantOutcome(kind, id, sum)
		})
	}
}

// The judge is killed before each of its steps, at each by turns, and the host goes down there.
func TestUpdateSurvivesTheEndOfItsJudgeAtEveryStep(t *testing.T) {
	for _, kind := range []string{"is well", "crashes", "hangs"} {
		for _, reboot := range []bool{false, true} {
			name := kind
			if reboot {
				name += " and the host goes down"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for die := 1; ; die++ {
					if steps := killedAt(t, kind, die, reboot); steps < die {
						if die < 5 {
							t.Errorf("only %d steps", steps)
						}
						return
					}
				}
			})
		}
	}
}

// killedAt ends the judge before its step number die and lets another one go on.
func killedAt(t *testing.T, kind string, die int, reboot bool) (steps int) {
	t.Helper()
	s := newScene(t)
	id, sum := s.begin(kind)
	err := s.watcher(func(string) error {
		if steps++; steps == die {
			return errKilled
		}
		return nil
	}).Run(t.Context())
	if steps < die {
		if err != nil {
			t.Fatal(err)
		}
		return steps
	}
	if !errors.Is(err, errKilled) {
		t.Fatalf("step %d: %v", die, err)
	}
	if reboot {
		s.boot, s.uptime = "another", 0
		s.manager.mu.Lock()
		s.manager.kill()
		s.manager.restarts = 0
		s.manager.mu.Unlock()
	}
	w := s.watcher(nil)
	if reboot { // the agents of this test know one boot only
		clock := w.clock
		actual, err := BootID()
		if err != nil {
			t.Fatal(err)
		}
		first := true
		w.clock = func() (string, float64, error) {
			boot, uptime, err := clock()
			if !first {
				boot = actual
			}
			first = false
			return boot, uptime, err
		}
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatalf("step %d: the second judge: %v", die, err)
	}
	s.wantOutcome(kind, id, sum)
	return steps
}

func TestAHostThatGoesDownAgainAndAgain(t *testing.T) {
	s := newScene(t)
	id, _ := s.begin("hangs")
	for boot := range maxBoots + 1 {
		s.boot = strings.Repeat("x", boot+1)
		looks := 0
		w := s.watcher(nil)
		clock := w.clock
		w.clock = func() (string, float64, error) {
			if looks++; looks == 6 && boot < maxBoots {
				return "", 0, errKilled
			}
			return clock()
		}
		if err := w.Run(t.Context()); boot < maxBoots != errors.Is(err, errKilled) {
			t.Fatalf("boot %d: %v", boot, err)
		}
	}
	last, ok, err := ReadLast(s.update)
	if err != nil || !ok || last.ID != id || last.Updated || !strings.Contains(last.Reason, "started 4 times") {
		t.Errorf("%+v, %v, %v", last, ok, err)
	}
}

// Of a service that is not loaded systemd has no count that could begin anew, and says so.
func TestUpdateOfAServiceThatIsNotLoaded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	id, sum := s.begin("is well")
	s.manager.fails = "reset-failed"
	if err := s.watcher(nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantOutcome("is well", id, sum)
}

// A program that systemd cannot execute at all, because it was damaged after it was checked.
func TestAProgramThatCannotBeExecuted(t *testing.T) {
	s := newScene(t)
	id, _ := s.begin("is well")
	damaged := bytes.Repeat([]byte("no program\n"), 100)
	if err := os.WriteFile(s.program+".new", damaged, 0o755); err != nil {
		t.Fatal(err)
	}
	// As if it had been so from the beginning.
	var in Intent
	if _, err := readRecord(intentFile(s.update), &in); err != nil {
		t.Fatal(err)
	}
	var err error
	if in.New, err = checksum(s.program + ".new"); err != nil {
		t.Fatal(err)
	}
	w := s.watcher(nil)
	w.complete()
	w.in = in
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	if err := s.watcher(nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantOutcome("crashes", id, "")
}

func TestAJudgeWithoutAnythingToDecideGoesAway(t *testing.T) {
	for name, content := range map[string]string{"no intent": "", "not ours": "{", "of a later agent": `{"schema":2}`} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			unit := filepath.Join(s.units, WatchService)
			if err := os.MkdirAll(s.units, 0o755); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{unit: "x", intentFile(s.update): content} {
				if text != "" {
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.watcher(nil).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(unit); err == nil || s.installed() != s.oldSum {
				t.Error("the unit is still there, or the program was touched")
			}
		})
	}
}

func TestWhatAnAgentReportsOfItsLastUpdate(t *testing.T) {
	for _, tc := range []struct {
		name, intent, last, want string
	}{
		{name: "there was none"},
		{name: "it succeeded", last: `{"updated":true}`},
		{name: "it failed", last: `{"oldVersion":"v1","newVersion":"v2","reason":"it hangs"}`, want: "from v1 to v2 was taken back at"},
		{name: "it is just being taken back", intent: `{"oldVersion":"v2","newVersion":"v3","back":"it crashes"}`, last: `{"updated":true}`, want: "from v2 to v3 was taken back: it crashes"},
		{name: "one is under way", intent: `{"oldVersion":"v2","newVersion":"v3"}`, last: `{"reason":"of the one before"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for path, content := range map[string]string{intentFile(dir): tc.intent, lastFile(dir): tc.last} {
				if content == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			fault, err := TakenBack(dir)
			if err != nil {
				t.Fatal(err)
			}
			if (fault == nil) != (tc.want == "") || fault != nil && !strings.Contains(fault.Error(), tc.want) {
				t.Errorf("fault = %v, want %q", fault, tc.want)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(lastFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TakenBack(dir); err == nil || !strings.Contains(err.Error(), lastFile(dir)) {
		t.Errorf("err = %v", err)
	}
}
