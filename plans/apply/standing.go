// A plan that was applied and is looked after: its probes and periodic instructions.

package apply

import (
	"context"
	"time"

	"github.com/drover-project/drover/plans"
)

// Standing is a plan that was delivered and is looked after.
type Standing struct {
	// Source and Checksum are those of its Delivery; empty when they are not known.
	Source, Checksum string
	// Plan has the probes and periodic instructions; nothing else of it is looked at, except by
	// RestoreFiles.
	Plan *plans.Plan
}

// Probes asks every probe of the plan once, all at the same time, and returns the new
// statuses of all of the plan's probes, and why those that were asked and failed did.
// applied is when the plan's apply ended: a probe whose initial delay is not over keeps its
// last status. The zero time means long ago.
func (e *Engine) Probes(ctx context.Context, s Standing, last map[string]plans.ProbeStatus, applied time.Time) (next map[string]plans.ProbeStatus, failures map[string]error) {
	return e.prober.Round(ctx, s.Plan.Probes, last, applied, "source", s.Source, "plan", plans.Short(s.Checksum))
}
