// The engine as the sources of plans have it: what they are answered is noted on the
// live status on its way.

package daemon

import (
	"context"
	"maps"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// noted is an engine whose answers are noted.
type noted struct {
	*apply.Engine
	liveStatus *liveStatus
}

// Apply is the engine's. What was looked after of the plan before is no longer.
func (t noted) Apply(ctx context.Context, d apply.Delivery) (apply.Result, error) {
	t.liveStatus.forget(d.Source)
	return t.Engine.Apply(ctx, d)
}

// Forget is the engine's.
func (t noted) Forget(source string) error {
	t.liveStatus.forget(source)
	return t.Engine.Forget(source)
}

// Probes is the engine's.
func (t noted) Probes(ctx context.Context, s apply.Standing, last map[string]plans.ProbeStatus, applied time.Time) (map[string]plans.ProbeStatus, map[string]error) {
	next, failures := t.Engine.Probes(ctx, s, last, applied)
	if ctx.Err() == nil {
		all := map[string]plans.ProbeStatus{}
		maps.Copy(all, last) // those that are healthy are not always asked
		maps.Copy(all, next)
		t.liveStatus.setProbes(s.Source, all, failures, ctx.Done())
	}
	return next, failures
}

// Periodic is the engine's.
func (t noted) Periodic(ctx context.Context, s apply.Standing, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	next := t.Engine.Periodic(ctx, s, last, force)
	if ctx.Err() == nil {
		t.liveStatus.setPeriodic(s, next)
	}
	return next
}
