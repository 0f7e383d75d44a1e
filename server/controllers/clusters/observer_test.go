package clusters

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// counts is an Observer that counts.
type counts struct {
	deliveries, retries, failures, passes atomic.Int64
	ended                                 chan operations.Operation
}

func (c *counts) Passed(time.Duration) { c.passes.Add(1) }

func (c *counts) Delivered(retry bool) {
	c.deliveries.Add(1)
	if retry {
		c.retries.Add(1)
	}
}

func (c *counts) Failed() { c.failures.Add(1) }

func (c *counts) Ended(o operations.Operation) { c.ended <- o }

// Each delivery, failure and retry is reported once, and each end of an operation, no matter which server wrote it.
func TestObserver(t *testing.T) {
	b := newBed(t)
	seen := &counts{ended: make(chan operations.Operation, 10)}
	b.control.Observe = seen
	b.run()
	b.apply(harbour)
	b.register()
	fail := func() {
		t.Helper()
		b.agent(func(o *plans.Outcome) { o.State, o.FailureCount = plans.StateFailed, 1 })
		b.wait("error", b.inState(records.Failed))
	}
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	fail()
	b.set(func() { b.now = b.now.Add(31 * time.Second) })
	b.wait("retry", func(m records.Machine) bool { return m.Status.Retries == 1 && b.planState() == plans.StatePending })
	fail()
	o := operations.Operation{ID: "op-1", Kind: "upgrade", Subject: "fleet-default/elsewhere", State: operations.Queued}
	if _, err := b.state.Operations.Create(t.Context(), o.Key(), o); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"replaced", "replaced by op-2"} { // the second time it had ended before
		if _, err := b.state.Operations.Modify(t.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) {
			o.State, o.Reason = operations.Aborted, reason
			return o, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-seen.ended; got.ID != "op-1" || got.State != operations.Aborted {
		t.Errorf("ended: %+v", got)
	}
	b.stop() // after which all that was written is reported
	if diff := cmp.Diff([]int64{2, 1, 2, 0}, []int64{seen.deliveries.Load(), seen.retries.Load(), seen.failures.Load(), int64(len(seen.ended))}); diff != "" {
		t.Errorf("deliveries, retries, failures, further ends: %s", diff)
	}
	if seen.passes.Load() < 4 {
		t.Errorf("%d passes", seen.passes.Load())
	}
}
