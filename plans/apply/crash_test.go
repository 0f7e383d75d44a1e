package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// crashPlan is a plan with a bit of everything.
func crashPlan(h *host, last string) plans.Plan {
	return plans.Plan{
		Files: []plans.File{file("/etc/one", "1"), file("/etc/rancher/k3s/two", "2"), file("/etc/three", "3")},
		Instructions: []plans.OneTimeInstruction{
			h.counting("a", "echo out-a"), h.counting("b", "echo out-b"), h.counting("c", "echo out-c; "+last),
		},
		Probes: map[string]plans.Probe{"unit": {Systemd: &plans.SystemdUnit{Unit: "up.service"}}},
	}
}

// TestKilledAtEveryStep kills the agent between any two steps and lets another finish: the
// end is the same each time, and each instruction ran once.
func TestKilledAtEveryStep(t *testing.T) {
	for _, last := range []string{"exit 0", "exit 9"} {
		whole := newHost(t)
		t.Cleanup(whole.settle)
		want := whole.live(crashPlan(whole, last))
		if want.Passed < 10 || want.Result.Succeeded != (last == "exit 0") {
			t.Fatalf("%+v", want)
		}
		tree := whole.tree()
		first := 1
		if last != "exit 0" {
			first = want.Passed - 4 // the steps before are the same
		}
		for at := first; at <= want.Passed; at++ {
			t.Run(fmt.Sprintf("%s, killed at step %d", last, at), func(t *testing.T) {
				t.Parallel()
				h := newHost(t)
				t.Cleanup(h.settle)
				p := crashPlan(h, last)
				mustDie(t, h.agentCommand(p, at))
				got := h.live(p)
				if diff := cmp.Diff(want.Result, got.Result); diff != "" {
					t.Error(diff)
				}
				for _, name := range []string{"a", "b", "c"} {
					if h.runs(name) != "1" {
						t.Errorf("%s ran as attempts %q", name, h.runs(name))
					}
				}
				if diff := cmp.Diff(tree, h.tree()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(want.Probes, got.Probes); diff != "" {
					t.Error(diff)
				}
				if names := h.applied(); len(names) != 1 {
					t.Errorf("the history has %q", names)
				}
				if _, err := os.Stat(h.path("interlock", "applyinator-active")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the interlock is left: %v", err)
				}
			})
		}
	}
}

// TestKilledAgainAndAgain kills every life of the agent at its fifth step, so that each gets only a little further.
func TestKilledAgainAndAgain(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.settle)
	p := crashPlan(h, "exit 0")
	lives := 0
	for ; lives < 50; lives++ {
		if err := h.agentCommand(p, 5).Run(); err == nil {
			break
		}
	}
	if lives < 3 || lives == 50 {
		t.Errorf("done after %d lives", lives)
	}
	for _, name := range []string{"a", "b", "c"} {
		if h.runs(name) != "1" {
			t.Errorf("%s ran as attempts %q", name, h.runs(name))
		}
	}
}

func mustDie(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the agent was not killed: %v, %s", err, out)
	}
}

// begun starts an agent and returns when the instruction that waits for the fifo runs.
func begun(t *testing.T, h *host, p plans.Plan) *exec.Cmd {
	t.Helper()
	cmd := h.agentCommand(p, 0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.until("the instruction runs", func() bool { return h.runs("slow") != "" })
	return cmd
}

func TestKilledInTheMiddleOfAnInstruction(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.settle)
	fifo := h.fifo("go")
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{
		h.counting("before", ""), h.counting("slow", "echo early; read x < "+fifo+"; echo $x"), h.counting("after", "echo end"),
	}}
	agent := begun(t, h, p)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()

	e := h.engine()
	pending, ok, err := e.Pending("remote")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	want := []apply.Task{{Kind: apply.InstructionTask, Name: "slow", Starts: 1}, {Kind: apply.InstructionTask, Name: "after"}}
	if diff := cmp.Diff(want, pending.Remaining); diff != "" || pending.Finished || pending.ID != "uid-1" {
		t.Errorf("%+v %s", pending, diff)
	}
	done := make(chan apply.Result, 1)
	go func() {
		r, err := e.Apply(t.Context(), delivery(t, p))
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	// The new life waits for the instruction of the old one.
	select {
	case r := <-done:
		t.Fatalf("ended before its instruction: %+v", r)
	case <-time.After(200 * time.Millisecond):
	}
	if err := os.WriteFile(fifo, []byte("late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := <-done
	wantOut := map[string][]byte{"before": {}, "slow": []byte("early\nlate\n"), "after": []byte("end\n")}
	if diff := cmp.Diff(apply.Result{Succeeded: true, Outputs: wantOut}, r); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"before", "slow", "after"} {
		if h.runs(name) != "1" {
			t.Errorf("%s ran as attempts %q", name, h.runs(name))
		}
	}
	if pending, ok, err := e.Pending("remote"); err != nil || !ok || !pending.Finished || pending.Remaining != nil {
		t.Errorf("%+v %v %v", pending, ok, err)
	}
}

func TestAnInstructionThatEndedWhileNoAgentLived(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "read x < "+fifo+"; echo $x; exit 4")}}
	agent := begun(t, h, p)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if err := os.WriteFile(fifo, []byte("alone\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.until("its result is there", func() bool {
		names, err := filepath.Glob(h.path("work", "*", "*", "result.json"))
		return err == nil && len(names) == 1
	})
	r := h.apply(p)
	want := &apply.Failure{Instruction: "slow", Reason: "instruction slow: exit code 4", Output: []byte("alone\n"), ExitCode: 4}
	if diff := cmp.Diff(want, r.Failure); diff != "" || h.runs("slow") != "1" {
		t.Error(diff, h.runs("slow"))
	}
}

// TestKilledBeforeFilesAreStruckOff finds a ledger that has files and their instruction as open. Files are not done again where the
// instruction has begun, as it may have changed them, and are where it has not.
func TestKilledBeforeFilesAreStruckOff(t *testing.T) {
	for _, test := range []struct {
		name     string
		runs     bool   // the instruction has begun before the agent is killed
		boot     string // another one: the host went down
		attempts string
		content  string
	}{
		{"while it runs", true, "", "1", "filled in"},
		{"before it runs", false, "", "1", "filled in"},
		{"with the host, before it runs", false, "another boot", "2", "filled in"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			t.Cleanup(h.settle)
			fifo := h.fifo("go")
			name := h.root("/etc/one")
			p := plans.Plan{
				Files:        []plans.File{file("/etc/one", "as in the plan")},
				Instructions: []plans.OneTimeInstruction{h.counting("slow", "grep -q plan "+name+" && echo filled in > "+name+"; read x < "+fifo)},
			}
			agent := begun(t, h, p)
			h.until("the file is filled in", func() bool { return strings.HasPrefix(h.content(name), "filled in") })
			if err := agent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = agent.Wait()
			if !test.runs {
				if err := syscall.Kill(supervisorOf(h), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				for _, path := range append(h.glob("work", "*", "*.1"), h.path("counts", "slow"), name) {
					if err := os.RemoveAll(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			h.changeLedger(func(l map[string]any) {
				l["files"] = []string{"/etc/one"}
				if test.boot != "" {
					l["instructions"].([]any)[0].(map[string]any)["boot"] = test.boot
				}
			})
			time.AfterFunc(100*time.Millisecond, func() {
				if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
					t.Error(err)
				}
			})
			if r := h.apply(p); !r.Succeeded || h.runs("slow") != test.attempts || strings.TrimSpace(h.content(name)) != test.content {
				t.Errorf("%+v, ran as attempts %q, the file has %q", r, h.runs("slow"), h.content(name))
			}
		})
	}
}

// TestAnEndThatIsNotInTheHistory: the agent was killed between the two, and the next life adds it.
func TestAnEndThatIsNotInTheHistory(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "")}}
	h.apply(p)
	names := h.applied()
	entry := filepath.Join(h.options.AppliedDir, names[0])
	text := h.content(entry)
	h.engine()
	if again := h.content(entry); again != text || !strings.Contains(text, `"Plan":{`) {
		t.Errorf("a life that finds it there makes %s of %s", again, text)
	}
	h.remove("applied")
	e := h.engine()
	if again := h.applied(); len(names) != 1 || !slices.Equal(names, again) {
		t.Errorf("history %q, and once more %q", names, again)
	}
	if past := e.Past("remote", "uid-1", delivery(t, p).Checksum); past == nil || !past.Succeeded {
		t.Errorf("it ended as %+v", past)
	}
	h.engine()
	if again := h.applied(); !slices.Equal(names, again) {
		t.Errorf("a life that finds it there has %q", again)
	}
}

// supervisorOf is the pid of the only supervisor that works.
func supervisorOf(h *host) int {
	h.t.Helper()
	names, err := filepath.Glob(h.path("work", "*", "*", "supervisor.json"))
	if err != nil || len(names) == 0 {
		h.t.Fatal(names, err)
	}
	var id struct{ PID int }
	if err := json.Unmarshal([]byte(h.content(names[len(names)-1])), &id); err != nil {
		h.t.Fatal(err)
	}
	return id.PID
}

// TestTheHostGoesDown kills agent and supervisor, as a reboot does: the instruction runs
// again and learns that it is the second time; what it left running is gone by then.
func TestTheHostGoesDown(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{
		h.counting("before", "echo first"),
		h.counting("slow", "if [ $CATTLE_AGENT_ATTEMPT_NUMBER = 1 ]; then sleep 60 & echo $! > "+h.path("left")+"; read x < "+fifo+"; fi; echo second try"),
	}}
	agent := begun(t, h, p)
	h.until("it left a process", func() bool { b, err := os.ReadFile(h.path("left")); return err == nil && len(b) > 1 })
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if err := syscall.Kill(supervisorOf(h), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r := h.apply(p)
	want := apply.Result{Succeeded: true, Outputs: map[string][]byte{"before": []byte("first\n"), "slow": []byte("second try\n")}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if h.runs("before") != "1" || h.runs("slow") != "1 2" {
		t.Errorf("ran as attempts %q, %q", h.runs("before"), h.runs("slow"))
	}
	var pid int
	if _, err := fmt.Sscan(h.content(h.path("left")), &pid); err != nil {
		t.Fatal(err)
	}
	h.until("the process it left is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// TestAnInstructionThatTakesTheHostDown must not do so for ever.
func TestAnInstructionThatTakesTheHostDown(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("reboot", "kill -9 $PPID; sleep 60")}}
	r := h.apply(p)
	want := fmt.Sprintf("instruction reboot: was started %d times and died with the host or its supervisor each time", apply.MaxLost)
	if r.Failure == nil || r.Failure.Reason != want || h.runs("reboot") != "1 2 3 4 5" {
		t.Errorf("%+v, attempts %q", r.Failure, h.runs("reboot"))
	}
}

func TestTheWorkDirectoryIsRemovedUnderARunningInstruction(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "[ $CATTLE_AGENT_ATTEMPT_NUMBER = 1 ] && read x < "+fifo+"; true")}}
	agent := begun(t, h, p)
	// Noted only after the start, so wait for it.
	h.until("the supervisor is noted", func() bool { return len(h.glob("ledgers", "remote.supervisor")) == 1 })
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	h.remove("work")
	done := make(chan apply.Result, 1)
	go func() {
		r, err := h.engine().Apply(t.Context(), delivery(t, p))
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	select {
	case r := <-done:
		t.Fatalf("did not wait for the instruction that still runs: %+v", r)
	case <-time.After(200 * time.Millisecond):
	}
	if h.runs("slow") != "1" {
		t.Fatalf("two at once: attempts %q", h.runs("slow"))
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// How the first ended is not known, so it runs again, after it.
	if r := <-done; !r.Succeeded || h.runs("slow") != "1 2" {
		t.Errorf("%+v, attempts %q", r, h.runs("slow"))
	}
}

func TestAStoppedAgentLeavesTheInstructionRunning(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "read x < "+fifo)}}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := h.engine().Apply(ctx, delivery(t, p))
		errs <- err
	}()
	h.until("the instruction runs", func() bool { return h.runs("slow") != "" })
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	go func() {
		if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	if r := h.apply(p); !r.Succeeded || h.runs("slow") != "1" {
		t.Errorf("%+v, attempts %q", r, h.runs("slow"))
	}
}

func TestCancelledPlan(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "echo up; sleep 60 & wait"), h.counting("after", "")}}
	ctx, cancel := context.WithCancelCause(t.Context())
	results := make(chan apply.Result, 1)
	go func() {
		r, err := h.engine().Apply(ctx, delivery(t, p))
		if err != nil {
			t.Error(err)
		}
		results <- r
	}()
	h.until("the instruction has begun", func() bool { return h.runs("slow") != "" })
	cancel(apply.ErrCancelled)
	r := <-results
	if r.Failure == nil || r.Failure.Reason != "the plan was cancelled" || r.Failure.Instruction != "slow" || r.Failure.ExitCode != -1 || h.runs("after") != "" {
		t.Errorf("%+v", r.Failure)
	}
	if again := h.apply(p); again.Succeeded || h.runs("slow") != "1" {
		t.Error("a later life took it up again")
	}
}

func TestAbandon(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "echo $$ > "+h.path("pid")+"; exec sleep 60")}}
	agent := begun(t, h, p)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	h.until("the pid is there", func() bool { b, err := os.ReadFile(h.path("pid")); return err == nil && len(b) > 1 })
	e := h.engine()
	if err := e.Abandon(t.Context(), "remote"); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(h.content(h.path("pid")), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it still runs: %v", err)
	}
	pending, ok, err := e.Pending("remote")
	if err != nil || !ok || !pending.Finished {
		t.Errorf("%+v %v %v", pending, ok, err)
	}
	for _, source := range []string{"remote", "nobody"} {
		if err := e.Abandon(t.Context(), source); err != nil {
			t.Errorf("nothing left of %s: %v", source, err)
		}
	}
}

// TestANewerPlanWaitsForARunningInstruction: two installers at once would be worse than a late one.
func TestANewerPlanWaitsForARunningInstruction(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	old := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "read x < "+fifo+"; touch "+h.path("old-ended")), h.counting("never", "")}}
	agent := begun(t, h, old)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	newer := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("new", "ls "+h.path("old-ended"))}}
	results := make(chan apply.Result, 1)
	go func() {
		r, err := h.engine().Apply(t.Context(), delivery(t, newer, id("uid-2")))
		if err != nil {
			t.Error(err)
		}
		results <- r
	}()
	h.until("the wait is named", func() bool { return len(h.waited()) > 0 })
	if w := h.waited()[0]; w.For != "instruction slow of the plan before" || w.Cause != "it still runs" || w.Since.IsZero() || w.Source != "remote" {
		t.Errorf("%+v", w)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-results; !r.Succeeded || h.runs("never") != "" {
		t.Errorf("%+v, the old plan went on: %q", r, h.runs("never"))
	}
	if w := h.waited(); w[len(w)-1].For != "" {
		t.Errorf("the end of the wait was not reported: %+v", w)
	}
}

func TestLedgerThatCannotBeUsed(t *testing.T) {
	tests := []struct {
		name, ledger, want string
	}{
		{"newer schema", `{"schema":2,"future":{}}`, "ledger PATH was written by a newer agent (schema 2, this one knows 1): install that version again, or remove the file to have its plan begin anew"},
		{"damaged", `{"schema":1,"sou`, ""},
		{"no ledger at all", `[]`, ""},
		{"a run that leads out of the work directory", `{"schema":1,"run":"../../etc"}`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			e := h.engine()
			path := filepath.Join(h.options.LedgerDir, "remote.json")
			if err := os.WriteFile(path, []byte(test.ledger), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := e.Apply(t.Context(), delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "")}}))
			if test.want == "" {
				if err != nil || !r.Succeeded || h.runs("a") != "1" {
					t.Errorf("%+v, %v", r, err)
				}
				if got := h.content(path + ".damaged"); got != test.ledger {
					t.Errorf("put aside: %q", got)
				}
				return
			}
			if err == nil || err.Error() != strings.ReplaceAll(test.want, "PATH", path) || h.runs("a") != "" {
				t.Errorf("error %v, attempts %q", err, h.runs("a"))
			}
			if got := h.content(path); got != test.ledger {
				t.Errorf("the newer ledger was changed: %q", got)
			}
		})
	}
}

func TestForget(t *testing.T) {
	h := newHost(t)
	e := h.engine()
	source := func(d *apply.Delivery) { d.Source = "sub/Plan with spaces.plan" }
	if _, err := e.Apply(t.Context(), delivery(t, plans.Plan{}, source)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := e.Pending("sub/Plan with spaces.plan"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for range 2 {
		if err := e.Forget("sub/Plan with spaces.plan"); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := e.Pending("sub/Plan with spaces.plan"); ok || err != nil {
		t.Error(ok, err)
	}
}
