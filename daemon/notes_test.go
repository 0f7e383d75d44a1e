package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/remote"
)

// TestAFailureOfAPlanThatHasSinceSucceededIsForgotten keeps those of other plans and of periodic instructions.
func TestAFailureOfAPlanThatHasSinceSucceededIsForgotten(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := newLiveStatus(func() time.Time { return now })
	b.observe(planFailed(now, "remote", "abc", "instruction i: exit code 3"))
	b.observe(planFailed(now, "remote", "other", "instruction i: exit code 3"))
	b.observe(apply.Event{Kind: apply.PeriodicEnded, Time: now, Source: "remote", Checksum: "abc", Instruction: -1, Name: "beat", Text: "exit code 1", ExitCode: 1})
	b.observe(apply.Event{Kind: apply.ApplyEnded, Time: now.Add(time.Minute), Source: "remote", Checksum: "abc", Result: &apply.Result{Succeeded: true}})
	var left []string
	for _, f := range b.lastFailures() {
		left = append(left, f.Plan+" "+f.Reason)
	}
	if got := strings.Join(left, "; "); got != "other instruction i: exit code 3; abc periodic instruction beat: exit code 1" {
		t.Errorf("left is %s", got)
	}
}

// TestAProbeThatFailsIsNotShownAsHealthy: a probe stays healthy by its thresholds while it fails a few times, as it does
// after each boot.
func TestAProbeThatFailsIsNotShownAsHealthy(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := newLiveStatus(func() time.Time { return now })
	healthy := map[string]plans.ProbeStatus{"kubelet": {Healthy: true}}
	shown := func() string {
		s := status.Status{Now: now}
		b.fill(&s)
		for line := range strings.Lines(s.String()) {
			if strings.HasPrefix(line, "probes") {
				return strings.TrimSpace(line)
			}
		}
		return ""
	}
	b.setProbes("remote", healthy, nil, nil)
	now = now.Add(time.Hour)
	b.setProbes("remote", healthy, map[string]error{"kubelet": errors.New("connection refused")}, nil)
	if got := shown(); !strings.Contains(got, "fails since") || !strings.Contains(got, "connection refused") || !strings.Contains(got, "13:00") {
		t.Errorf("shown is %q", got)
	}
	now = now.Add(time.Hour)
	b.setProbes("remote", healthy, nil, nil)
	if got := shown(); !strings.Contains(got, "healthy since") || strings.Contains(got, "12:00") {
		t.Errorf("shown is %q", got)
	}
}

func TestTheReportHasTheLastLineThatAnInstructionPrinted(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := newLiveStatus(func() time.Time { return now })
	b.observe(apply.Event{Kind: apply.ApplyBegan, Time: now, Source: remote.SourceName, Checksum: "abc"})
	b.observe(apply.Event{Kind: apply.InstructionBegan, Time: now, Source: remote.SourceName, Name: "install"})
	b.observe(apply.Event{Kind: apply.InstructionOutput, Source: remote.SourceName, Name: "install", Data: []byte("one\ntwo\n\n")})
	b.observe(apply.Event{Kind: apply.InstructionOutput, Source: "x.plan", Name: "other", Data: []byte("three\n")})
	if r := b.report(); r.Instruction != "install" || !r.Since.Equal(now) || r.Output != "two" {
		t.Errorf("the report is %+v", r)
	}
	b.observe(apply.Event{Kind: apply.ApplyEnded, Time: now, Source: remote.SourceName, Checksum: "abc"})
	if r := b.report(); r.Instruction != "" || r.Output != "" {
		t.Errorf("after the end it is %+v", r)
	}
}
