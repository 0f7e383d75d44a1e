package clusters

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
)

// TestOrdersArePerformedByTheLeader, and the controller ends when nothing is performed any more.
func TestOrdersArePerformedByTheLeader(t *testing.T) {
	b := newBed(t)
	o := b.control.Options
	var performing atomic.Bool
	started := make(chan context.Context, 1)
	o.Work = func(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }
	o.Order = func(records.ClusterKey, []planner.NodeOrder) {}
	o.Perform = func(ctx context.Context) (wait func()) {
		performing.Store(true)
		started <- ctx
		return func() {
			<-ctx.Done()
			performing.Store(false)
		}
	}
	b.control = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.control.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	if leading := <-started; leading.Err() != nil {
		t.Error("performing began without leadership")
	}
	cancel()
	<-done
	if performing.Load() {
		t.Error("the controller did not wait until nothing is performed any more")
	}
}

// TestAControllerWithoutAnybodyWhoPerformsOrders leads all the same.
func TestAControllerWithoutAnybodyWhoPerformsOrders(t *testing.T) {
	b := newBed(t)
	b.control.Order("fleet-default/harbour", []planner.NodeOrder{{ID: "o1"}})
	if work := b.control.Work("fleet-default/harbour"); len(work) != 0 {
		t.Errorf("work = %v", work)
	}
	b.run()
}
