package apply_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// starts has the supervisors of a host counted as they are started.
func (h *host) starts() func() int {
	h.options.Supervisor = append([]string{"/bin/sh", "-c", "echo >> " + h.path("starts") + `; exec "$@"`, "sh"}, h.options.Supervisor...)
	return func() int { return strings.Count(h.content(h.path("starts")), "\n") }
}

// TestClaimedPlan makes ready for a plan while it is claimed and begins it only then.
func TestClaimedPlan(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	starts := h.starts()
	var begun atomic.Bool
	h.options.Observe = func(e apply.Event) {
		if e.Kind == apply.ApplyBegan {
			begun.Store(true)
		}
	}
	e := h.engine()
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}}
	d := delivery(t, p)
	claimed := make(chan bool, 1)
	d.Claimed = claimed
	done := make(chan error, 1)
	go func() {
		_, err := e.Apply(t.Context(), d)
		done <- err
	}()
	h.until("the ledger is written", func() bool { p, ok, _ := e.Pending(d.Source); return ok && p.ID == d.ID })
	time.Sleep(50 * time.Millisecond)
	if h.runs("a") != "" || begun.Load() {
		t.Errorf("before the claim the instruction ran %q times, begun is reported: %t", h.runs("a"), begun.Load())
	}
	claimed <- true
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	e.Close()
	if n := starts(); n != 1 || h.runs("a") != "1" || !begun.Load() {
		t.Errorf("%d supervisors were started, the instruction ran %q times, begun: %t", n, h.runs("a"), begun.Load())
	}
}

// TestUnclaimedPlan takes back what was made ready for plans that are not claimed, in time or
// at all: the ledger is what it was, no directory stays, nothing ran.
func TestUnclaimedPlan(t *testing.T) {
	t.Parallel()
	for _, p := range []func(h *host) plans.Plan{
		func(h *host) plans.Plan {
			return plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}}
		},
		func(h *host) plans.Plan { return plans.Plan{Files: []plans.File{file("/etc/one", "1")}} },
		func(h *host) plans.Plan { return plans.Plan{} },
		func(h *host) plans.Plan {
			return plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Image: "none/such:v1"}}}}
		},
	} {
		h := newHost(t)
		e := h.engine()
		before := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("before", "true")}})
		before.ID = "before"
		for _, old := range []bool{false, true} {
			if old {
				if _, err := e.Apply(t.Context(), before); err != nil {
					t.Fatal(err)
				}
			}
			had, _ := os.ReadFile(filepath.Join(h.options.LedgerDir, "remote.json"))
			runs, _ := os.ReadDir(h.options.WorkDir)
			d := delivery(t, p(h))
			no := make(chan bool, 1)
			d.Claimed = no
			time.AfterFunc(20*time.Millisecond, func() { no <- false })
			d.Ended = func(r apply.Result) <-chan struct{} { t.Errorf("a result: %+v", r); return nil }
			if _, err := e.Apply(t.Context(), d); !errors.Is(err, apply.ErrUnclaimed) {
				t.Fatalf("Apply() = %v", err)
			}
			has, _ := os.ReadFile(filepath.Join(h.options.LedgerDir, "remote.json"))
			left, _ := os.ReadDir(h.options.WorkDir)
			_, missing := os.Stat(h.root("/etc/one"))
			if string(has) != string(had) || len(left) != len(runs) || h.runs("a") != "" || missing == nil {
				t.Errorf("old=%t: ledger %s instead of %s, %d directories instead of %d, ran %q, file: %v", old, has, had, len(left), len(runs), h.runs("a"), missing)
			}
		}
	}
}

// TestClaimThatTakesLong gives the engine up for others, and the plan begins when it is asked for again.
func TestClaimThatTakesLong(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.engine()
	d := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}})
	d.Claimed = make(chan bool)
	if _, err := e.Apply(t.Context(), d); !errors.Is(err, apply.ErrUnclaimed) {
		t.Fatalf("Apply() = %v", err)
	}
	d.Claimed = nil
	if r, err := e.Apply(t.Context(), d); err != nil || !r.Succeeded || h.runs("a") != "1" {
		t.Errorf("%+v, %v, ran %q times", r, err, h.runs("a"))
	}
}

// TestResultBeforeItIsWrittenDown hands out the result once, before the ledger has it.
func TestResultBeforeItIsWrittenDown(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.engine()
	d := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "echo out")}})
	times := 0
	d.Ended = func(r apply.Result) <-chan struct{} {
		times++
		if p, _, err := e.Pending(d.Source); err != nil || p.Finished || !r.Succeeded {
			t.Errorf("pending %+v, %v, result %+v", p, err, r)
		}
		return nil // it is written down all the same
	}
	if _, err := e.Apply(t.Context(), d); err != nil || times != 1 {
		t.Errorf("%v, the result was handed out %d times", err, times)
	}
	if p, _, err := e.Pending(d.Source); err != nil || !p.Finished {
		t.Errorf("pending %+v, %v", p, err)
	}
}
