package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/daemon/status"
)

// TestFailuresAfterARestart: a person who looks after a crash or a restart finds what failed
// before, with its output, and so does who looks while no agent runs.
func TestFailuresAfterARestart(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			m := newManagement(t)
			dir := t.TempDir()
			config := m.install(t, dir)
			p := sentinelOf(t, config)
			// One fails and is followed by others; the ledger has only the last of a source.
			m.deliver(`{"instructions":[{"name":"breaks","command":"sh","args":["-c","echo this is why >&2; exit 7"]}]}`)
			waitStatus(t, config, "the failure", func(s status.Status) bool { return len(s.Failures) > 0 && s.Failures[0].Instruction == "breaks" })
			m.deliver(fmt.Sprintf(`{"instructions":[{"name":"works","command":"sh","args":["-c","echo fine"]}],
				"periodicInstructions":[{"name":"beat","command":"sh","args":["-c","mkdir %s/once && echo no pulse && exit 4; true"]}]}`, dir))
			before := waitStatus(t, config, "the other failure", func(s status.Status) bool {
				return len(s.Failures) == 2 && s.Last != nil && s.Last.Succeeded
			})
			waitUntil(t, "both are written down, an instant after they are shown", func() bool {
				kept, err := status.ReadFailures(status.FailuresFile(filepath.Join(dir, "ledger")))
				return err == nil && len(kept) == 2
			})
			p.stop(t, signal)

			out, code := agentCommand(t, config, "status")
			for _, want := range []string{"instruction breaks: exit code 7", "| this is why", "| no pulse"} {
				if code != 1 || !strings.Contains(out, want) {
					t.Errorf("while no agent runs, %q is missing: %s", want, out)
				}
			}

			sentinelOf(t, config)
			after := waitStatus(t, config, "the agent is back", func(s status.Status) bool { return s.PID != before.PID })
			for i, want := range before.Failures {
				if want.Output == "" || want.ExitCode == 0 || want.Time.IsZero() {
					t.Errorf("not whole: %+v", want)
				}
				want.BeforeStart = true
				if diff := cmp.Diff(want, after.Failures[i]); diff != "" {
					t.Error(diff)
				}
			}
			if last := after.Last; last == nil || !last.BeforeStart || !last.Succeeded || last.Plan != before.Last.Plan {
				t.Errorf("last applied: %+v", last)
			}
			out, _ = agentCommand(t, config, "status")
			for _, want := range []string{"before this start of the agent: instruction breaks: exit code 7", "| this is why", "last        plan "} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
		})
	}
}

// TestFailuresCannotBeKept: a file that is damaged, or a place that cannot be written, keeps
// the agent from nothing.
func TestFailuresCannotBeKept(t *testing.T) {
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "failures.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := sentinelOf(t, config)
	m.deliver(`{"instructions":[{"name":"breaks","command":"sh","args":["-c","exit 7"]}],"probes":{}}`)
	waitStatus(t, config, "the failure", func(s status.Status) bool { return len(s.Failures) == 1 })
	for _, want := range []string{"failures before this start are not known", "last failures are not kept"} {
		waitUntil(t, want, func() bool { return strings.Contains(p.out.String(), want) })
	}
}
