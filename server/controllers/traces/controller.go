// Package traces sends what became of requests to a collector of OpenTelemetry: what operations and hosts have done, from the changes of
// the store that the leader sees anyway, so that no code has to announce a span; what ends while no server leads is not sent.
package traces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/traces"
)

// Worker sends each span with the change that ends it, so that no key is left to work on.
func Worker(s *state.State, tracer trace.Tracer, now func() time.Time) reconcile.Worker {
	return reconcile.Worker{
		Name: "traces", Title: "sends what operations and hosts have done to the collector of traces",
		Keys:      func() []string { return nil },
		Reconcile: func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil },
		Start: func(ctx context.Context) func() {
			ops := s.Operations.Observe(func(e store.Event[operations.Operation]) { send(ctx, tracer, ofOperation(e)) })
			secrets := s.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) { send(ctx, tracer, ofSecret(e, now())) })
			return func() { ops(); secrets() }
		},
	}
}

func send(in context.Context, tracer trace.Tracer, all []span) {
	for _, s := range all {
		ctx, sent := tracer.Start(traces.In(in, s.parent), s.name, trace.WithTimestamp(s.begin), trace.WithAttributes(s.attributes...))
		if s.failed != "" {
			sent.SetStatus(codes.Error, s.failed)
		}
		send(ctx, tracer, s.parts)
		sent.End(trace.WithTimestamp(s.end))
	}
}
