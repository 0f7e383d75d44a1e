// The engine as the sources of plans have it: what they are answered is noted on the
// board on its way.

package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/apply/probe"
)

// told is an engine whose answers are noted.
type told struct {
	*apply.Engine
	board *board
}

// Apply is the engine's. What was looked after of the plan before is no longer.
func (t told) Apply(ctx context.Context, d apply.Delivery) (apply.Result, error) {
	t.board.forget(d.Source)
	return t.Engine.Apply(ctx, d)
}

// Forget is the engine's.
func (t told) Forget(source string) error {
	t.board.forget(source)
	return t.Engine.Forget(source)
}

// Probes is the engine's.
func (t told) Probes(ctx context.Context, p *plans.Plan, last map[string]plans.ProbeStatus, applied time.Time) map[string]plans.ProbeStatus {
	var mu sync.Mutex
	reasons := map[string]string{}
	listening := probe.Listen(ctx, func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if reasons[name] = ""; err != nil {
			reasons[name] = err.Error()
		}
	})
	next := t.Engine.Probes(listening, p, last, applied)
	if ctx.Err() == nil {
		t.board.setProbes(apply.SourceOf(ctx), next, reasons, ctx.Done())
	}
	return next
}

// Periodic is the engine's.
func (t told) Periodic(ctx context.Context, p *plans.Plan, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	next := t.Engine.Periodic(ctx, p, last, force)
	if ctx.Err() == nil {
		t.board.setPeriodic(apply.SourceOf(ctx), p, next)
	}
	return next
}
