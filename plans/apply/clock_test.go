package apply_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// TestTheClockJumpsByADay at each look, forth and back: nothing runs twice, is left out or
// waits for a day that will not come.
func TestTheClockJumpsByADay(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		at   func(look int64) time.Time
	}{
		{"forth", func(n int64) time.Time { return start.Add(time.Duration(n) * 24 * time.Hour) }},
		{"back", func(n int64) time.Time { return start.Add(-time.Duration(n) * 24 * time.Hour) }},
		{"forth and back", func(n int64) time.Time { return start.Add(time.Duration(n%2) * 24 * time.Hour) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			var looks atomic.Int64
			h.options.Now = func() time.Time { return test.at(looks.Add(1)) }
			p := plans.Plan{
				Files:                []plans.File{file("/a", "1"), file("/b", "2")},
				Instructions:         []plans.OneTimeInstruction{h.counting("first", "echo one"), h.counting("second", "echo two")},
				PeriodicInstructions: []plans.PeriodicInstruction{{Instruction: h.counting("again", "").Instruction, PeriodSeconds: 60}},
			}
			for _, delivered := range []string{"uid-1", "uid-2", "uid-1"} {
				if r := h.apply(p, id(delivered)); !r.Succeeded || string(r.Outputs["second"]) != "two\n" {
					t.Fatalf("%s: %+v", delivered, r)
				}
			}
			// The third is the first again after another one, which is a delivery of its own.
			if first, second := h.runs("first"), h.runs("second"); first != "1 1 1" || second != "1 1 1" {
				t.Errorf("runs: %q and %q", first, second)
			}
			if h.content(h.root("/a")) != "1" || h.content(h.root("/b")) != "2" {
				t.Error("a file is not as wanted")
			}
			e := h.engine()
			last := e.Periodic(t.Context(), &p, nil, false)
			if err := e.PruneNow(); err != nil {
				t.Fatal(err)
			}
			e.Periodic(t.Context(), &p, last, false)
			if test.name == "forth and back" {
				return // due or not, the two looks may lie a day apart or not at all
			}
			if got := h.runs("again"); got != "1 1" {
				t.Errorf("periodic runs: %q", got)
			}
		})
	}
}
