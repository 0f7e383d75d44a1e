package remote

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// TestInProgressByTheServer has a plan that ended, well or not, run once more each time the
// server puts it back to in-progress, also after a restart, and never otherwise.
func TestInProgressByTheServer(t *testing.T) {
	for _, end := range []string{"true", "exit 3"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			state := map[string]string{"true": "succeeded", "exit 3": "failed"}[end]
			s := newServer(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "record")
			plan := recorder(t, file, 7, end)
			s.set(map[string]string{"plan": plan, "plan-state": "pending"})
			_, stop := life(t, s, dir)
			s.wantState(t, state)
			want := []string{"7"}
			for range 2 {
				s.set(map[string]string{"plan-state": "in-progress"})
				want = append(want, "7")
				waitUntil(t, "it runs again", func() bool { return len(lines(t, file)) == len(want) })
				s.wantState(t, state)
			}
			// An agent that dies before it notes this reports once more and runs nothing.
			waitUntil(t, "the report is noted", func() bool {
				b, err := os.ReadFile(filepath.Join(dir, "ledger", "remote.reported"))
				return err == nil && strings.HasSuffix(string(b), ".2")
			})
			stop()
			s.set(map[string]string{"plan-state": "in-progress"})
			_, stop = life(t, s, dir)
			want = append(want, "7")
			waitUntil(t, "it runs again after a restart", func() bool { return len(lines(t, file)) == len(want) })
			s.wantState(t, state)
			stop()
			life(t, s, dir)
			s.set(map[string]string{"unrelated": "x"})
			<-time.After(200 * time.Millisecond)
			if diff := cmp.Diff(want, lines(t, file)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestServerRestoredFromABackup: a server that went back to before a report is told how the plans
// ended that it delivers again, and none of them runs again; what it delivers then does, also the
// same plan. The agent lives on, or begins a new life.
func TestServerRestoredFromABackup(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for _, state := range []string{"pending", "in-progress"} {
			t.Run(fmt.Sprintf("%s, agent restarted %t", state, restarted), func(t *testing.T) {
				t.Parallel()
				s := newServer(t)
				dir := t.TempDir()
				file := filepath.Join(dir, "record")
				_, stop := life(t, s, dir)
				give := func(n int, end string) {
					s.set(map[string]string{"plan": recorder(t, file, n, end), "plan-state": "pending"})
				}
				run := func(n int, end, state string) {
					give(n, end)
					s.wantState(t, state)
					waitUntil(t, "the report is noted", func() bool {
						b, err := os.ReadFile(filepath.Join(dir, "ledger", "remote.reported"))
						return err == nil && strings.HasSuffix(string(b), "/"+s.now()["plan-revision"])
					})
				}
				run(1, "true", "succeeded")
				backup := s.now()
				backup["plan"], backup["plan-state"] = recorder(t, file, 2, "exit 3"), state
				backup["plan-revision"] = map[string]string{"pending": "1", "in-progress": "2"}[state]
				backup["last-apply-time"] = "Sat Nov 21 12:00:00 UTC 2026"
				run(2, "exit 3", "failed")
				run(3, "true", "succeeded")
				if restarted {
					stop()
				}
				s.set(backup)
				if restarted {
					life(t, s, dir)
				}
				s.wantState(t, "failed")
				if got := s.now(); got["plan-revision"] != "2" || got["failed-checksum"] != sum(backup["plan"]) {
					t.Errorf("reported again: %v", got)
				}
				give(3, "true")
				s.wantState(t, "succeeded")
				waitUntil(t, "the files are the plan's", func() bool {
					conf, err := os.ReadFile(filepath.Join(dir, "conf"))
					return err == nil && string(conf) == "plan 3"
				})
				if diff := cmp.Diff([]string{"1", "2", "3"}, lines(t, file)); diff != "" {
					t.Errorf("runs after the server was restored (-want +got):\n%s", diff)
				}
				run(3, "true", "succeeded")
				if got := s.now()["plan-revision"]; got != "4" {
					t.Errorf("a plan given after that has the revision %s, want 4", got)
				}
				if diff := cmp.Diff([]string{"1", "2", "3", "3"}, lines(t, file)); diff != "" {
					t.Errorf("runs of what was given anew (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestOutcomeAndPeriodicOutputAreOneWrite: no outcome is ever seen without the records of the
// first round.
func TestOutcomeAndPeriodicOutputAreOneWrite(t *testing.T) {
	t.Parallel()
	const plan = `{"instructions":[{"name":"a","command":"true"}],"periodicInstructions":[{"name":"beat","command":"true"}]}`
	s := newServer(t)
	s.set(map[string]string{"plan": plan, "plan-state": "pending"})
	e := &engine{onPeriodic: func(bool) map[string]plans.PeriodicOutput {
		return map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: []byte("lub")}}
	}}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	out, err := plans.DecodePeriodicOutputs([]byte(s.now()["applied-periodic-output"]))
	if err != nil || string(out["beat"].Stdout) != "lub" {
		t.Errorf("with the outcome came %v, %v", out, err)
	}
	if n := e.count("periodic force=true"); n != 1 {
		t.Errorf("forced %d times: %q", n, e.said())
	}
}

// TestTheFirstProbesOfTheLegacyFlow come with the outcome, after their initial delay; in the
// flow with states the outcome does not wait.
func TestTheFirstProbesOfTheLegacyFlow(t *testing.T) {
	for flow, test := range map[string]struct {
		delay int // in seconds; an outcome that waits for the longer one is never there
		want  string
	}{"": {1, `{"web":{"healthy":true}}`}, "pending": {3600, `{"web":{}}`}} {
		t.Run("state "+flow, func(t *testing.T) {
			t.Parallel()
			plan := fmt.Sprintf(`{"instructions":[{"name":"a","command":"true"}],"probes":{"web":{"initialDelaySeconds":%d,"httpGet":{"url":"http://127.0.0.1:1/"}}}}`, test.delay)
			s := newServer(t)
			s.set(map[string]string{"plan": plan, "plan-state": flow})
			e := &engine{onProbes: func() map[string]plans.ProbeStatus {
				if test.delay > 1 {
					return map[string]plans.ProbeStatus{"web": {}}
				}
				return map[string]plans.ProbeStatus{"web": {Healthy: true}}
			}}
			var first string
			began := time.Now()
			follow(t, s, e)
			waitUntil(t, "the outcome is there", func() bool {
				now := s.now()
				first = strings.TrimSpace(now["probe-statuses"])
				return now["applied-checksum"] == sum(plan)
			})
			if waited := time.Since(began); first != test.want || flow == "" && waited < time.Second {
				t.Errorf("with the outcome, after %s, came %s, want %s", waited, first, test.want)
			}
		})
	}
}

// TestOutputThatFitsReachesTheSecret: 900 KB of text that can be compressed arrive whole, and
// of what cannot as much as a Secret takes.
func TestOutputThatFitsReachesTheSecret(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for i := 0; text.Len() < 900_000; i++ {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	noise := make([]byte, 1<<20)
	x := uint32(1)
	for i := range noise {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		noise[i] = byte(x)
	}
	for name, out := range map[string][]byte{"text": text.Bytes(), "noise": noise} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.set(map[string]string{"plan": planA, "plan-state": "pending"})
			s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && r.ContentLength > 3<<19 { // base64 of 1 MiB, and more
					t.Errorf("a request of %d bytes", r.ContentLength)
				}
				return false
			})
			follow(t, s, &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
				return apply.Result{Succeeded: true, Outputs: map[string][]byte{"a": out}}, nil
			}})
			s.wantState(t, "succeeded")
			outputs, err := plans.DecodeOutputs([]byte(s.now()["applied-output"]))
			if err != nil {
				t.Fatal(err)
			}
			if got := outputs["a"]; name == "text" && !bytes.Equal(got, out) || len(got) < 500_000 || !bytes.HasSuffix(got, out[len(out)-1000:]) {
				t.Errorf("%d of %d bytes arrived", len(got), len(out))
			}
		})
	}
}
