package apply_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
			had := h.ledger("remote")
			runs, _ := os.ReadDir(h.options.WorkDir)
			d := delivery(t, p(h))
			no := make(chan bool, 1)
			d.Claimed = no
			time.AfterFunc(20*time.Millisecond, func() { no <- false })
			d.Ended = func(r apply.Result) <-chan struct{} { t.Errorf("a result: %+v", r); return nil }
			if _, err := e.Apply(t.Context(), d); !errors.Is(err, apply.ErrUnclaimed) {
				t.Fatalf("Apply() = %v", err)
			}
			has := h.ledger("remote")
			left, _ := os.ReadDir(h.options.WorkDir)
			_, missing := os.Stat(h.root("/etc/one"))
			if string(has) != string(had) || len(left) != len(runs) || h.runs("a") != "" || missing == nil {
				t.Errorf("old=%t: ledger %s instead of %s, %d directories instead of %d, ran %q, file: %v", old, has, had, len(left), len(runs), h.runs("a"), missing)
			}
		}
	}
}

// TestRefusedPlanWaitsForNobody is refused while another plan is applied, and while an
// installer is in the way.
func TestRefusedPlanWaitsForNobody(t *testing.T) {
	t.Parallel()
	refused := func(e *apply.Engine, d apply.Delivery) {
		t.Helper()
		d.Claimed = make(chan bool)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(apply.ErrUnclaimed) })
		done := make(chan error, 1)
		go func() {
			_, err := e.Apply(ctx, d)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, apply.ErrUnclaimed) {
				t.Errorf("Apply() = %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("it still waits")
		}
		if p, ok, _ := e.Pending(d.Source); ok {
			t.Errorf("the ledger says %+v", p)
		}
	}
	h := newHost(t)
	e := h.engine()
	release := h.fifo("go")
	other := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("other", "read line < "+release)}}, func(d *apply.Delivery) { d.Source = "other" })
	var applying sync.WaitGroup
	applying.Go(func() {
		if _, err := e.Apply(t.Context(), other); err != nil {
			t.Error(err)
		}
	})
	h.until("the other plan runs", func() bool { return h.runs("other") != "" })
	refused(e, delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}}))
	if err := os.WriteFile(release, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	applying.Wait()
	if err := os.WriteFile(filepath.Join(h.options.InterlockDir, "restart-pending"), fmt.Appendf(nil, "pid %d\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(e, delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}}))
	if h.runs("a") != "" {
		t.Error("it ran")
	}
}

// TestEndBeforeTheClaim: an agent that ends before it knows whether the plan is its own leaves no trace of it.
func TestEndBeforeTheClaim(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.engine()
	d := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}})
	d.Claimed = make(chan bool)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := e.Apply(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Apply() = %v", err)
	}
	if p, ok, _ := e.Pending(d.Source); ok {
		t.Errorf("the ledger says %+v", p)
	}
}

// TestConclude writes down an end that only the source knows, and runs nothing for it.
func TestConclude(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "read line < "+h.fifo("go"))}}
	agent := begun(t, h, p)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	var ended []apply.Event
	h.options.Observe = func(e apply.Event) {
		if e.Kind == apply.ApplyEnded {
			ended = append(ended, e)
		}
	}
	e := h.engine()
	d := delivery(t, p)
	at := time.Now().Add(-time.Hour).Round(0)
	end := apply.Ending{Reason: "exit code 3", At: at}
	if err := e.Conclude(t.Context(), d, end); err != nil {
		t.Fatal(err)
	}
	if p, _, _ := e.Pending(d.Source); p.Finished {
		t.Error("an end is written down while the instruction runs")
	}
	if err := os.WriteFile(h.path("go"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	h.until("the supervisor has ended", func() bool { return len(h.glob("work", "*", "*", "result.json")) == 1 })
	h.until("it is concluded", func() bool {
		if err := e.Conclude(t.Context(), d, end); err != nil {
			t.Fatal(err)
		}
		p, _, _ := e.Pending(d.Source)
		return p.Finished
	})
	if len(ended) != 1 || ended[0].Result.Succeeded || ended[0].Text != "exit code 3" || ended[0].ExitCode != -1 {
		t.Errorf("events %+v", ended)
	}
	if entries := h.applied(); len(entries) != 1 || !strings.HasPrefix(entries[0], at.UTC().Format("20060102-150405")) {
		t.Errorf("history %v", entries)
	}
	if other := delivery(t, p, id("uid-2")); e.Conclude(t.Context(), other, end) != nil || h.runs("slow") != "1" {
		t.Error("another delivery is concluded, or something ran")
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
