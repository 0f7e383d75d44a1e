package apply_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// periodic is a periodic instruction that runs a line of shell.
func periodic(name, script string) plans.PeriodicInstruction {
	return plans.PeriodicInstruction{Instruction: plans.Instruction{Name: name, Command: "sh", Args: []string{"-c", script}}}
}

func TestPeriodicRecords(t *testing.T) {
	hour := noon.Add(-time.Hour)
	tests := []struct {
		name string
		in   plans.PeriodicInstruction
		last plans.PeriodicOutput
		want plans.PeriodicOutput
	}{
		{
			name: "first success, stderr not asked for",
			in:   periodic("p", "echo out; echo err >&2"),
			want: plans.PeriodicOutput{Name: "p", Stdout: []byte("out\n"), LastSuccessfulRunTime: noon},
		},
		{
			name: "success after failures, stderr asked for",
			in: func() plans.PeriodicInstruction {
				in := periodic("p", "echo out $CATTLE_AGENT_ATTEMPT_NUMBER; echo err >&2")
				in.SaveStderrOutput = true
				return in
			}(),
			last: plans.PeriodicOutput{Name: "p", Failures: 3, LastFailedRunTime: hour, ExitCode: 1},
			want: plans.PeriodicOutput{Name: "p", Stdout: []byte("out 4\n"), Stderr: []byte("err\n"), LastSuccessfulRunTime: noon},
		},
		{
			name: "failure keeps the last success",
			in:   periodic("p", "echo tried; exit 5"),
			last: plans.PeriodicOutput{Name: "p", LastSuccessfulRunTime: hour, Failures: 1, LastFailedRunTime: hour},
			want: plans.PeriodicOutput{Name: "p", Stdout: []byte("tried\n"), ExitCode: 5, LastSuccessfulRunTime: hour, Failures: 2, LastFailedRunTime: noon},
		},
		{
			name: "killed by a signal",
			in:   periodic("p", "kill -9 $$"),
			want: plans.PeriodicOutput{Name: "p", Stdout: []byte{}, ExitCode: -1, Failures: 1, LastFailedRunTime: noon},
		},
		{
			name: "no such command",
			in:   plans.PeriodicInstruction{Instruction: plans.Instruction{Name: "p", Command: "no-such-command-here"}},
			want: plans.PeriodicOutput{Name: "p", Stdout: []byte{}, ExitCode: -1, Failures: 1, LastFailedRunTime: noon},
		},
		{
			name: "a name that is not a file name",
			in:   periodic("../../p", "pwd | grep -c /work/"),
			want: plans.PeriodicOutput{Name: "../../p", Stdout: []byte("1\n"), LastSuccessfulRunTime: noon},
		},
		{
			name: "a script",
			in:   plans.PeriodicInstruction{Instruction: plans.Instruction{Name: "p", Script: "#!/bin/sh\necho script"}},
			want: plans.PeriodicOutput{Name: "p", Stdout: []byte("script\n"), LastSuccessfulRunTime: noon},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.options.Now = func() time.Time { return noon }
			last := map[string]plans.PeriodicOutput{test.in.Name: test.last, "of a plan before": {Name: "of a plan before"}}
			got := h.engine().Periodic(t.Context(), apply.Standing{Plan: &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{test.in}}}, last, false)
			if diff := cmp.Diff(map[string]plans.PeriodicOutput{test.in.Name: test.want}, got); diff != "" {
				t.Error(diff)
			}
			if names := list(t, h.path("work")); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

func TestWhenPeriodicInstructionsAreDue(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	tests := []struct {
		name   string
		period int
		last   plans.PeriodicOutput
		force  bool
		next   time.Time // noon: due
	}{
		{"never ran", 0, plans.PeriodicOutput{}, false, noon},
		{"within the default of ten minutes", 0, plans.PeriodicOutput{LastSuccessfulRunTime: ago(599 * time.Second)}, false, noon.Add(time.Second)},
		{"ten minutes over", 0, plans.PeriodicOutput{LastSuccessfulRunTime: ago(600 * time.Second)}, false, noon},
		{"within its own period", 60, plans.PeriodicOutput{LastSuccessfulRunTime: ago(time.Second)}, false, noon.Add(59 * time.Second)},
		{"within its period, forced", 60, plans.PeriodicOutput{LastSuccessfulRunTime: ago(time.Second)}, true, noon},
		{"one failure", 1, plans.PeriodicOutput{Failures: 1, LastFailedRunTime: ago(29 * time.Second)}, false, noon.Add(time.Second)},
		{"one failure, waited for", 1, plans.PeriodicOutput{Failures: 1, LastFailedRunTime: ago(30 * time.Second)}, false, noon},
		{"a failure without a count", 1, plans.PeriodicOutput{LastFailedRunTime: ago(29 * time.Second)}, false, noon.Add(time.Second)},
		{"four failures", 1, plans.PeriodicOutput{Failures: 4, LastFailedRunTime: ago(100 * time.Second)}, false, noon.Add(20 * time.Second)},
		{"many failures wait three minutes", 1, plans.PeriodicOutput{Failures: 99, LastFailedRunTime: ago(179 * time.Second)}, false, noon.Add(time.Second)},
		{"a failure within the period", 600, plans.PeriodicOutput{Failures: 1, LastFailedRunTime: ago(time.Minute), LastSuccessfulRunTime: ago(5 * time.Minute)}, false, noon.Add(5 * time.Minute)},
		{"the clock was set back a day", 60, plans.PeriodicOutput{LastSuccessfulRunTime: ago(-24 * time.Hour)}, false, noon},
		{"the clock was set back a day after a failure", 60, plans.PeriodicOutput{Failures: 2, LastFailedRunTime: ago(-24 * time.Hour)}, false, noon},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.options.Now = func() time.Time { return noon }
			in := periodic("p", "echo new")
			in.PeriodSeconds = test.period
			p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{in}}
			test.last.Name, test.last.Stdout = "p", []byte("old")
			last := map[string]plans.PeriodicOutput{"p": test.last}
			got := h.engine().Periodic(t.Context(), standing(p), last, test.force)
			if ran := string(got["p"].Stdout) == "new\n"; ran != test.next.Equal(noon) {
				t.Errorf("ran = %v: %+v", ran, got)
			}
			if test.force {
				return
			}
			if next, ok := apply.NextPeriodic(p, last, noon); !ok || !next.Equal(test.next) {
				t.Errorf("next at %v, want %v", next, test.next)
			}
		})
	}
	if _, ok := apply.NextPeriodic(&plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{{}}}, nil, noon); ok {
		t.Error("an instruction without a name is never due")
	}
}

func TestPeriodicInstructionsDoNotHoldEachOtherUp(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{
		periodic("fails", "exit 1"),
		periodic("slow", "read x < "+fifo),
		periodic("", "touch "+h.path("nameless")),
		periodic("releases", "echo go > "+fifo),
		periodic("releases", "touch "+h.path("twice")),
	}}
	got := h.engine().Periodic(t.Context(), standing(p), nil, true)
	if len(got) != 3 || got["fails"].Failures != 1 || got["slow"].ExitCode != 0 || got["releases"].ExitCode != 0 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"nameless", "twice"} {
		if _, err := os.Stat(h.path(name)); err == nil {
			t.Errorf("the %s one ran", name)
		}
	}
}

// TestPeriodicInstructionThatDoesNotEnd: the others go on at their own pace, it does not run
// twice at once, it is reported as a wait, and its record comes when it has ended after all.
func TestPeriodicInstructionThatDoesNotEnd(t *testing.T) {
	h := newHost(t)
	h.options.PeriodicPatience = 50 * time.Millisecond
	var seen observer
	h.options.Observe = seen.observe
	fifo := h.fifo("go")
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{
		periodic("hangs", "echo again >> "+h.path("runs")+"; read x < "+fifo+"; echo why; exit 3"),
		periodic("beats", "echo beat >> "+h.path("beats")),
	}}
	standing := apply.Standing{Source: "a.plan", Checksum: "sum", Plan: p}
	e := h.engine()
	var records map[string]plans.PeriodicOutput
	h.until("the others go on", func() bool {
		records = e.Periodic(t.Context(), standing, records, true)
		b, _ := os.ReadFile(h.path("beats"))
		return strings.Count(string(b), "beat") >= 3
	})
	if _, known := records["hangs"]; known {
		t.Errorf("it has a record: %+v", records)
	}
	h.until("the wait is reported", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, w := range h.waits {
			if strings.Contains(w.Source, "periodic instruction hangs of a.plan") && w.For != "" && !w.Since.IsZero() {
				return true
			}
		}
		return false
	})
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	h.until("its record comes", func() bool {
		records = e.Periodic(t.Context(), standing, records, false)
		return records["hangs"].ExitCode == 3
	})
	if b, _ := os.ReadFile(h.path("runs")); string(b) != "again\n" {
		t.Errorf("it ran again: %q", b)
	}
	said := false
	for _, event := range seen.all() {
		said = said || event.Name == "hangs" && event.Source == "a.plan" && string(event.Data) == "why\n" && event.Text == "exit code 3"
	}
	if !said {
		t.Errorf("its failure was not reported: %+v", seen.all())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	last := apply.Wait{}
	for _, w := range h.waits {
		if strings.Contains(w.Source, "instruction hangs") {
			last = w
		}
	}
	if last.For != "" {
		t.Errorf("the wait is not over: %+v", last)
	}
}

func TestPeriodicInstructionThatLeavesAProcess(t *testing.T) {
	h := newHost(t)
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{periodic("p", "sleep 30 & echo done")}}
	begin := time.Now()
	got := h.engine().Periodic(t.Context(), standing(p), nil, true)
	if got["p"].ExitCode != 0 || string(got["p"].Stdout) != "done\n" || time.Since(begin) > 20*time.Second {
		t.Errorf("%+v after %v", got["p"], time.Since(begin))
	}
}

func TestPeriodicInstructionsAreKilledWithTheirGroup(t *testing.T) {
	tests := []struct {
		name    string
		timeout time.Duration
		want    map[string]plans.PeriodicOutput
	}{
		{"the agent stops, which is not a failure", 0, map[string]plans.PeriodicOutput{}},
		{"its time limit", 5 * time.Second, map[string]plans.PeriodicOutput{
			"p": {Name: "p", Stdout: []byte("up\n"), ExitCode: -1, Failures: 1, LastFailedRunTime: noon},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.options.Now = func() time.Time { return noon }
			h.options.Timeout = test.timeout
			alive := h.path("alive")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.timeout == 0 {
				go func() {
					h.until("it runs", func() bool { _, err := os.Stat(alive); return err == nil })
					cancel()
				}()
			}
			// The child of the child would write on.
			p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{
				periodic("p", "(while :; do date > "+alive+"; sleep 0.01; done) & echo up; wait"),
			}}
			got := h.engine().Periodic(ctx, standing(p), nil, true)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			// A child that is killed may finish a step of the kernel's that it was in; one that lives does so again and again.
			for looks := range 4 {
				err := os.Remove(alive)
				switch {
				case err != nil && looks == 0:
					t.Fatal(err)
				case err != nil:
					return
				}
				<-time.After(100 * time.Millisecond)
			}
			t.Error("its child goes on")
		})
	}
}

func TestNothingPeriodicRunsUnderAnInstaller(t *testing.T) {
	h := newHost(t)
	var log bytes.Buffer
	h.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e := h.engine()
	pending := filepath.Join(h.options.InterlockDir, "restart-pending")
	if err := os.WriteFile(pending, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	last := map[string]plans.PeriodicOutput{"p": {Name: "p", Stdout: []byte("old")}}
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{periodic("p", "echo new")}}
	standing := apply.Standing{Source: "remote", Checksum: "sum", Plan: p}
	for range 2 {
		got := e.Periodic(t.Context(), standing, last, true)
		if diff := cmp.Diff(last, got); diff != "" {
			t.Error(diff)
		}
	}
	if text := log.String(); strings.Count(text, `msg=waiting source="periodic instructions of remote" for=`+pending) != 1 {
		t.Errorf("the wait is not logged once: %s", text)
	}
	if err := os.Remove(pending); err != nil {
		t.Fatal(err)
	}
	if got := e.Periodic(t.Context(), standing, last, true); string(got["p"].Stdout) != "new\n" || strings.Count(log.String(), "no longer waiting") != 1 {
		t.Errorf("%+v; %s", got, log.String())
	}
}

// TestInstallersDoNotWaitForWhatDoesNotEnd: the interlock is given up after the patience,
// taken again for the next pass, and nothing begins below an installer meanwhile.
func TestInstallersDoNotWaitForWhatDoesNotEnd(t *testing.T) {
	h := newHost(t)
	h.options.PeriodicPatience = time.Second // far more than what ends needs, on a busy machine too
	gate := h.path("gate")
	active, pending := filepath.Join(h.options.InterlockDir, "applyinator-active"), filepath.Join(h.options.InterlockDir, "restart-pending")
	there := func() bool { _, err := os.Stat(active); return err == nil }
	all := []plans.PeriodicInstruction{periodic("sees", "test -e "+active)}
	for i := range 5 { // more than may run at the same time
		all = append(all, periodic(fmt.Sprintf("hangs%d", i), "echo >> "+h.path("begun")+"; while test -d "+h.dir+" && ! test -e "+gate+"; do sleep 0.05; done"))
	}
	p, e := &plans.Plan{PeriodicInstructions: all}, h.engine()
	begun := func() int { b, _ := os.ReadFile(h.path("begun")); return strings.Count(string(b), "\n") }
	records := e.Periodic(t.Context(), standing(p), nil, true)
	if records["sees"].LastSuccessfulRunTime.IsZero() {
		t.Errorf("it does not see the interlock: %+v", records["sees"])
	}
	h.until("all have begun", func() bool { return begun() == 5 })
	h.until("the interlock is given up", func() bool { return !there() })
	if records = e.Periodic(t.Context(), standing(p), records, true); records["sees"].Failures > 0 {
		t.Errorf("the next pass did not take it: %+v", records["sees"])
	}
	h.until("it is given up again", func() bool { return !there() })
	if err := os.WriteFile(pending, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before := records["sees"].LastSuccessfulRunTime
	if records = e.Periodic(t.Context(), standing(p), records, true); !records["sees"].LastSuccessfulRunTime.Equal(before) || there() {
		t.Errorf("it ran below an installer: %+v", records["sees"])
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.until("all have ended", func() bool {
		records = e.Periodic(t.Context(), standing(p), records, false)
		return len(records) == 6
	})
	if there() || begun() != 5 {
		t.Errorf("interlock there: %v, begun %d", there(), begun())
	}
}

func TestPeriodicOutputIsBounded(t *testing.T) {
	h := newHost(t)
	h.options.OutputLimit = 1000
	got := h.engine().Periodic(t.Context(), apply.Standing{Plan: &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{
		periodic("p", "echo begin; head -c 1048576 /dev/zero; echo end"),
	}}}, nil, true)
	out := string(got["p"].Stdout)
	if len(out) > 1100 || !strings.HasPrefix(out, "begin\n") || !strings.HasSuffix(out, "end\n") || !strings.Contains(out, "[1047586 bytes cut]") {
		t.Errorf("%d bytes", len(out))
	}
}

// TestClockJumps: whatever the clock does, an instruction runs about once a period of real
// time. Nothing of this depends on plans being applied meanwhile.
func TestClockJumps(t *testing.T) {
	const day, period, step = 24 * time.Hour, time.Minute, 20 * time.Second
	for _, script := range []string{"exit 0", "exit 1"} {
		for name, jumps := range map[string]map[int]time.Duration{
			"forward": {4: day}, "backward": {4: -day}, "forth and back": {4: day, 8: -day}, "a little, often": {3: -5 * time.Second, 5: -5 * time.Second, 7: 5 * time.Second},
		} {
			t.Run(name+", "+script, func(t *testing.T) {
				t.Parallel()
				h := newHost(t)
				var seen observer
				now := noon
				h.options.Now = func() time.Time { return now }
				h.options.Observe = seen.observe
				in := periodic("p", script)
				in.PeriodSeconds = int(period.Seconds())
				p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{in}}
				e := h.engine()
				var records map[string]plans.PeriodicOutput
				quiet, most := 0, 0 // steps without a run
				for i := range 18 {
					now = now.Add(step + jumps[i])
					before := seen.ofKind(apply.PeriodicEnded)
					records = e.Periodic(t.Context(), standing(p), records, false)
					if next, ok := apply.NextPeriodic(p, records, now); !ok || next.Before(now) || next.After(now.Add(4*period)) {
						t.Fatalf("step %d: next at %v, now %v", i, next, now)
					}
					if quiet++; seen.ofKind(apply.PeriodicEnded) > before {
						quiet = 0
					}
					most = max(most, quiet)
				}
				// A failing one waits up to three minutes.
				if limit := map[string]int{"exit 0": 3, "exit 1": 9}[script]; most > limit {
					t.Errorf("starved for %d steps", most)
				}
				if runs := seen.ofKind(apply.PeriodicEnded); runs > 18/3+1+2*len(jumps) {
					t.Errorf("ran %d times in six minutes", runs)
				}
			})
		}
	}
}
