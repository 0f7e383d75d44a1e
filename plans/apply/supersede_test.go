package apply_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// TestANewerPlanEndsAnInstructionThatWaits lets an instruction print, work on in silence shorter than the limit, and then
// wait for ever. Once superseded, it is ended in that wait and nowhere before, and the next one is not started.
func TestANewerPlanEndsAnInstructionThatWaits(t *testing.T) {
	h := newHost(t)
	h.options.Quiet = 700 * time.Millisecond
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{
		shell("waits", `for i in 1 2 3 4 5; do sleep 0.2; echo working; done; echo done >>`+h.path("counts/worked")+`; exec sleep 1000`),
		h.counting("next", ""),
	}}
	d := delivery(t, p)
	begun := make(chan struct{})
	h.options.Observe = func(e apply.Event) {
		if e.Kind == apply.InstructionBegan {
			close(begun)
		}
	}
	late := make(chan struct{})
	d.Superseded = late
	go func() {
		<-begun
		close(late)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := h.engine().Apply(ctx, d)
	if err != nil || result.Succeeded || result.Failure.Instruction != "waits" || !strings.Contains(result.Failure.Reason, "a newer plan came") {
		t.Fatalf("%v: %+v", err, result)
	}
	if got := h.content(h.path("counts/worked")); got != "done\n" {
		t.Errorf("it was ended while it worked: %q", got)
	}
	if got := h.runs("next"); got != "" {
		t.Errorf("the next instruction ran: %q", got)
	}
}

// TestASupersededPlanStartsNothing has the newer plan come before the first instruction.
func TestASupersededPlanStartsNothing(t *testing.T) {
	h := newHost(t)
	superseded := make(chan struct{})
	close(superseded)
	result := h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("one", "")}}, func(d *apply.Delivery) { d.Superseded = superseded })
	if result.Succeeded || h.runs("one") != "" {
		t.Errorf("%+v, ran %q", result, h.runs("one"))
	}
}
