// Requests in traces.

package route

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover/server/traces"
)

// traced follows the request until its answer is sent, in the trace that the client began or in one of its own; requests that last are not
// followed. A span has the row, never the path, which may hold a token.
func traced(c *Call, w *statusRecorder) (end func()) {
	if c.env.Tracer == nil || lasts(c.R) {
		return func() {}
	}
	ctx, span := c.env.Tracer.Start(traces.In(c.R.Context(), c.R.Header.Get("traceparent")), c.Row.Method+" "+c.Row.Pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", c.Method), attribute.String("http.route", c.Row.Pattern),
	))
	c.R = c.R.WithContext(ctx)
	return func() {
		span.SetAttributes(attribute.Int("http.response.status_code", w.status), attribute.String("user.id", c.Who.UserID))
		if w.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
