package drop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/drop"
)

// TestPlansBehindAnother: while one is applied, and be it for ever, the others are reported: that
// they wait and for what, or what is wrong with them.
func TestPlansBehindAnother(t *testing.T) {
	b := newBench(t)
	gate := make(chan struct{})
	b.engine.answer = func(d apply.Delivery) (apply.Result, error) {
		if d.Source == "m.plan" {
			<-gate
		}
		return apply.Result{Succeeded: true, Outputs: map[string][]byte{}}, nil
	}
	b.put("a.plan", numbered(1))
	b.put("m.plan", numbered(2))
	b.put("x.plan", numbered(3))
	b.put("y.yaml", "instructions:\n- comand: sh\n")
	b.put("z.plan", numbered(4))
	b.put("z.plan.skip", "")
	b.start()
	b.state("a.plan", drop.Applied)
	st := b.state("x.plan", drop.Waiting)
	if st.Reason != "for m.plan, whose turn it is; one plan at a time is applied" || st.Since.IsZero() || st.Checksum == "" {
		t.Errorf("%+v", st)
	}
	b.clock.pass(time.Second)
	if st := b.state("y.yaml", drop.Refused); !strings.Contains(st.Reason, `y.yaml:2: unknown field "comand"`) {
		t.Errorf("%+v", st)
	}
	b.state("z.plan", drop.Skipped)
	b.put("b.plan", numbered(5)) // dropped meanwhile
	b.state("b.plan", drop.Waiting)
	b.state("m.plan", drop.Applying)
	if n := len(b.engine.deliveries()); n != 2 {
		t.Errorf("%d plans were applied: %s", n, b.engine.order())
	}
	close(gate)
	for _, name := range []string{"a.plan", "b.plan", "m.plan", "x.plan"} {
		b.state(name, drop.Applied)
	}
}
