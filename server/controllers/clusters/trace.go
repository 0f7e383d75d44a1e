// Decisions in traces.

package clusters

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/traces"
)

// traced follows a decision that gives hosts other plans, in the trace of the request that the operation under way came of.
func traced(ctx context.Context, c *Controller, key records.ClusterKey, d decide.Decision, began time.Time) (_ context.Context, end func()) {
	if c.Tracer == nil || !slices.ContainsFunc(d.Machines, func(m decide.MachineDecision) bool { return m.Deliver }) {
		return ctx, func() {}
	}
	active, _ := operations.Active(string(key), c.State.OperationsOf(key))
	ctx, span := c.Tracer.Start(traces.In(ctx, active.Trace), "decide", trace.WithTimestamp(began), trace.WithAttributes(attribute.String("drover.cluster", string(key))))
	return ctx, func() { span.End() }
}
