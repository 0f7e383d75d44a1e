// Package traces follows a request through the store: its place in its trace (traceparent of W3C Trace Context) stands in the operation
// that it began, and from there in the plan Secrets that are delivered for it. server/controllers/traces sends the spans.
package traces

import (
	"context"
	"maps"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/drover-project/drover/server/records"
)

const traceparent = "traceparent"

// Of is where a context is in its trace, as traceparent; empty when it is in none.
func Of(ctx context.Context) string {
	is := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, is)
	return is[traceparent]
}

// In continues the trace of a traceparent; one that is empty or that cannot be read continues none.
func In(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}

// annotation of a plan Secret has the traceparent of the decision that the plan came of, and when it was delivered (RFC 3339).
const annotation = "drover.dev/trace"

// Mark writes to a plan Secret of which trace its plan is.
func Mark(ctx context.Context, s records.PlanSecret, delivered time.Time) records.PlanSecret {
	s.Annotations = maps.Clone(s.Annotations)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[annotation] = Of(ctx) + " " + delivered.UTC().Format(time.RFC3339Nano)
	return s
}

// Marked is what Mark has written; ok is false where nothing is.
func Marked(s records.PlanSecret) (parent string, delivered time.Time, ok bool) {
	parent, text, _ := strings.Cut(s.Annotations[annotation], " ")
	delivered, err := time.Parse(time.RFC3339Nano, text)
	return parent, delivered, err == nil
}
