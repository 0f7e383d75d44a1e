// Where traces go.

package service

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

// lastSpans is how long a server that ends waits for a collector.
const lastSpans = 3 * time.Second

// checkCollector refuses an endpoint that is not the address of a collector.
func checkCollector(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return usageerr.Errorf("--otlp-endpoint %q is not the address of a collector, such as https://HOST:4317, or http:// without TLS", endpoint)
	case u.User != nil:
		return usageerr.Errorf("--otlp-endpoint: the address has no password in it; what the collector has to be shown is a header in OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// openTraces makes what sends spans to an address by OTLP over gRPC, many at once in the background. What the collector does not take in time
// is lost, and the log says so once a minute. The environment of OpenTelemetry counts: headers, authorities, sampling. stop sends the last ones.
func openTraces(ctx context.Context, endpoint string, log *slog.Logger) (tracer trace.Tracer, stop func(), err error) {
	if err := checkCollector(endpoint); err != nil {
		return nil, nil, err
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, nil, fmt.Errorf("send traces to %s: %w", endpoint, err)
	}
	var said atomic.Int64
	// The library reports what happens in the background to one function of the process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if now, last := time.Now().Unix(), said.Load(); now-last >= 60 && said.CompareAndSwap(last, now) {
			log.Warn("traces could not be sent", "collector", endpoint, "error", err)
		}
	}))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "drover"), attribute.String("service.version", drover.Version),
	)))
	return provider.Tracer("github.com/drover-project/drover/server"), func() {
		limit, done := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer done()
		if err := provider.Shutdown(limit); err != nil {
			log.Warn("the last traces could not be sent", "collector", endpoint, "error", err)
		}
	}, nil
}
