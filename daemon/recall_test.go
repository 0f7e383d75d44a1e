package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/daemon/outputstream"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans/apply"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// planFailed is the end of a plan.
func planFailed(at time.Time, source, plan, reason string) apply.Event {
	return apply.Event{
		Kind: apply.ApplyEnded, Time: at, Source: source, Checksum: plan, Instruction: -1, Text: reason, ExitCode: 3,
		Result: &apply.Result{Failure: &apply.Failure{Instruction: "i", Reason: reason, Output: []byte("said\n"), ExitCode: 3}},
	}
}

// TestTheSameFailureAgain does not push the others out.
func TestTheSameFailureAgain(t *testing.T) {
	b := newLiveStatus(time.Now)
	b.observe(planFailed(noon, "remote", "abc", "instruction i: exit code 3"))
	beat := apply.Event{Kind: apply.PeriodicEnded, Source: "remote", Instruction: -1, Name: "beat", Text: "exit code 1", ExitCode: 1}
	for i := range 10 {
		beat.Time = noon.Add(time.Duration(i) * time.Minute)
		b.observe(beat)
	}
	got := b.lastFailures()
	if len(got) != 2 || got[0].Plan != "abc" || got[0].Times != 0 || got[1].Times != 10 || !got[1].Time.Equal(beat.Time) {
		t.Errorf("%+v", got)
	}
}

// TestFailuresBeforeThisStart are known, each once, wherever they come from.
func TestFailuresBeforeThisStart(t *testing.T) {
	failure := func(at time.Time, plan string) status.Failure {
		return status.Failure{Source: "remote", Plan: plan, Time: at, Instruction: "i", Reason: "why", ExitCode: 3, Output: "said\n"}
	}
	mark := func(f status.Failure) status.Failure { f.BeforeStart = true; return f }
	for _, tc := range []struct {
		name  string
		kept  []status.Failure
		ended apply.Event
		want  []status.Failure
	}{
		{"kept and in the ledger", []status.Failure{failure(noon.Add(time.Millisecond), "abc")}, planFailed(noon, "remote", "abc", "why"),
			[]status.Failure{mark(failure(noon.Add(time.Millisecond), "abc"))}},
		{"in the ledger alone", nil, planFailed(noon, "remote", "abc", "why"), []status.Failure{mark(failure(noon, "abc"))}},
		{"in the ledger, and one later that was kept", []status.Failure{failure(noon.Add(time.Hour), "later")}, planFailed(noon, "remote", "abc", "why"),
			[]status.Failure{mark(failure(noon, "abc")), mark(failure(noon.Add(time.Hour), "later"))}},
		{"the ledger's plan succeeded", []status.Failure{failure(noon, "abc")},
			apply.Event{Kind: apply.ApplyEnded, Time: noon, Source: "remote", Checksum: "new", Result: &apply.Result{Succeeded: true}},
			[]status.Failure{mark(failure(noon, "abc"))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newLiveStatus(time.Now)
			b.recallFailures(tc.kept)
			b.recall(tc.ended)
			if diff := cmp.Diff(tc.want, b.lastFailures()); diff != "" {
				t.Error(diff)
			}
			if !b.last.BeforeStart || b.last.Plan != tc.ended.Checksum || !b.last.Ended.Equal(noon) {
				t.Errorf("last %+v", b.last)
			}
		})
	}
}

// TestFailuresAreKept: each is on disk as soon as it was reported.
func TestFailuresAreKept(t *testing.T) {
	a := &agent{liveStatus: newLiveStatus(time.Now), feed: outputstream.New(), ledgers: filepath.Join(t.TempDir(), "ledger")}
	a.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	for i, reason := range []string{"one", "two"} {
		a.observe(planFailed(noon, "remote", "abc", reason))
		got, err := status.ReadFailures(a.failuresFile())
		if err != nil || len(got) != i+1 || got[i].Reason != reason || got[i].Output != "said\n" {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
