package drop_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/drop"
)

func TestFailedPlansAreTriedAgain(t *testing.T) {
	b := newBench(t)
	b.engine.answer = failing
	b.put("a.plan", numbered(1))
	b.sweep = 20 * time.Millisecond // the test's clock is not the timer's
	b.start()
	sum := plans.Checksum([]byte(numbered(1)))
	for n, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		st := b.state("a.plan", drop.Failed)
		b.until("it failed once more", func() bool {
			st = b.state("a.plan", drop.Failed)
			return st.Failures == n+1
		})
		if st.Reason != "instruction a: exit code 1" || st.Next.Sub(b.clock.now()) > pause {
			t.Errorf("%+v, next in %v, want %v", st, st.Next.Sub(b.clock.now()), pause)
		}
		pos := b.position("a.pos")
		if pos["appliedChecksum"] != nil || pos["failedChecksum"] != sum || pos["failureCount"] != float64(n+1) {
			t.Errorf("position %v", pos)
		}
		b.clock.pass(pause - 5*time.Second)
		<-time.After(60 * time.Millisecond)
		if got := len(b.engine.deliveries()); got != n+1 {
			t.Fatalf("tried again too soon: %d times after %v", got, pause-5*time.Second)
		}
		if n == 1 {
			b.stop()
			b.start() // the count and the pause outlive the agent
		}
		b.clock.pass(5 * time.Second)
		b.until("it is tried again", func() bool { return len(b.engine.deliveries()) == n+2 })
	}
	ds := b.engine.deliveries()
	seen := map[string]bool{}
	for i, d := range ds {
		if d.Attempt != i || seen[d.ID] {
			t.Errorf("attempt %d has number %d and id %s", i, d.Attempt, d.ID)
		}
		seen[d.ID] = true
	}
	// A new content begins anew and at once.
	b.put("a.plan", numbered(2))
	b.until("the new content is tried", func() bool { d := b.engine.deliveries(); return d[len(d)-1].Checksum != sum })
	if d := b.engine.deliveries(); d[len(d)-1].Attempt != 0 {
		t.Errorf("%+v", d[len(d)-1])
	}
	// The pause is counted from the failure: the clock goes on only when that one is recorded.
	newSum := plans.Checksum([]byte(numbered(2)))
	b.until("its failure is recorded", func() bool {
		st := b.state("a.plan", drop.Failed)
		return st.Checksum == newSum && st.Failures == 1
	})
	b.engine.mu.Lock()
	b.engine.answer = nil
	b.engine.mu.Unlock()
	b.clock.pass(time.Hour)
	b.state("a.plan", drop.Applied)
	if pos := b.position("a.pos"); pos["failedChecksum"] != nil || pos["failureCount"] != nil {
		t.Errorf("position %v", pos)
	}
}

func TestAnEngineThatCannotGoOn(t *testing.T) {
	b := newBench(t)
	b.engine.answer = func(apply.Delivery) (apply.Result, error) { return apply.Result{}, errors.New("ledger: some trouble") }
	b.put("a.plan", numbered(1))
	b.sweep = 20 * time.Millisecond
	b.start()
	st := b.state("a.plan", drop.Failed)
	if st.Reason != "ledger: some trouble" || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
	b.engine.mu.Lock()
	b.engine.answer = nil
	b.engine.mu.Unlock()
	b.clock.pass(10 * time.Second)
	b.state("a.plan", drop.Applied)
	// It is the same delivery: what was done of it is not done again.
	if ds := b.engine.deliveries(); ds[0].ID != ds[len(ds)-1].ID {
		t.Errorf("ids %s and %s", ds[0].ID, ds[len(ds)-1].ID)
	}
}

// TestKilledBeforeTheResultWasRecorded: the next life asks for the same delivery, whose result the engine still has.
func TestKilledBeforeTheResultWasRecorded(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.put("a.plan", numbered(1))
	b.engine.answer = func(apply.Delivery) (apply.Result, error) {
		cancel() // the agent is stopped just when the result is there
		return apply.Result{Succeeded: true}, nil
	}
	source := drop.New(drop.Options{Dir: b.dir, Engine: b.engine, Logger: slog.New(slog.DiscardHandler)})
	if err := source.Run(ctx); err != nil {
		t.Fatal(err)
	}
	b.engine.answer = nil
	b.start()
	b.state("a.plan", drop.Applied)
	if ds := b.engine.deliveries(); len(ds) != 2 || ds[0].ID != ds[1].ID {
		t.Errorf("%+v", ds)
	}
}

func TestPositionOfTheOriginalAgent(t *testing.T) {
	b := newBench(t)
	out, err := plans.EncodeOutputs(map[string][]byte{"a": []byte("theirs\n")})
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]any{"appliedChecksum": plans.Checksum([]byte(numbered(1))), "output": out, "probeStatus": map[string]any{"web": map[string]any{}}}
	content, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	b.put("a.plan", numbered(1))
	b.put("a.pos", string(content))
	b.put("b.plan", numbered(2))
	b.put("b.pos", string(content)) // of an earlier content
	b.start()
	b.state("a.plan", drop.Applied)
	b.state("b.plan", drop.Applied)
	if got := b.engine.order(); got != "b.plan" {
		t.Errorf("applied %s", got)
	}
	if pos := b.position("a.pos"); pos["output"] == nil || pos["probeStatus"] == nil {
		t.Errorf("position %v", pos)
	}
}
