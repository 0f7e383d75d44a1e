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

// Each delivery, failure and retry is reported once, and each end of an operation, whoever wrote it.
func TestObserver(t *testing.T) {
	b := newBed(t)
	var deliveries, retries, failures, passes atomic.Int64
	ended := make(chan operations.Operation, 10)
	b.control.Observe = Observer{
		Passed: func(time.Duration) { passes.Add(1) },
		Delivered: func(retry bool) {
			deliveries.Add(1)
			if retry {
				retries.Add(1)
			}
		},
		Failed: func() { failures.Add(1) },
		Ended:  func(o operations.Operation) { ended <- o },
	}
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
	if got := <-ended; got.ID != "op-1" || got.State != operations.Aborted {
		t.Errorf("ended: %+v", got)
	}
	b.stop() // after which all that was written is reported
	if diff := cmp.Diff([]int64{2, 1, 2, 0}, []int64{deliveries.Load(), retries.Load(), failures.Load(), int64(len(ended))}); diff != "" {
		t.Errorf("deliveries, retries, failures, further ends: %s", diff)
	}
	if passes.Load() < 4 {
		t.Errorf("%d passes", passes.Load())
	}
}
