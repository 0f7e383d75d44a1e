package service

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// collected is a collector of traces that keeps what it gets.
type collected struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*otlp.Span
	auth  []string
}

func (c *collected) Export(ctx context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.auth = metadata.ValueFromIncomingContext(ctx, "authorization")
	for _, of := range r.ResourceSpans {
		for _, in := range of.ScopeSpans {
			c.spans = append(c.spans, in.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestTracesAreSent: the collector gets spans, at the latest when the server ends, with the headers of the environment.
func TestTracesAreSent(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20let-me-in")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := &collected{}
	service := grpc.NewServer()
	collector.RegisterTraceServiceServer(service, got)
	served := make(chan error, 1)
	go func() { served <- service.Serve(listener) }()
	defer func() {
		service.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	tracer, stop, err := openTraces(t.Context(), "http://"+listener.Addr().String(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "a request")
	span.End()
	stop()
	got.mu.Lock()
	defer got.mu.Unlock()
	if len(got.spans) != 1 || got.spans[0].Name != "a request" || len(got.auth) != 1 || got.auth[0] != "Bearer let-me-in" {
		t.Errorf("the collector has %v, by %q", got.spans, got.auth)
	}
}

// TestWithoutTheCollector: a collector that is away costs nothing but its traces, and the log says so.
func TestWithoutTheCollector(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var log bytes.Buffer
	tracer, stop, err := openTraces(t.Context(), "http://"+silent.Addr().String(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "a request")
	span.End()
	began := time.Now()
	stop()
	if took := time.Since(began); took > 4*lastSpans || !strings.Contains(log.String(), "traces could not be sent") {
		t.Errorf("after %s the log says %q", took, log.String())
	}
}

func TestCollectors(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"https://collector:4317": true, "http://127.0.0.1:4317": true, "": false, "collector:4317": false, "grpc://collector:4317": false, "https://": false, "https://a:b@collector:4317": false, "https://%zz": false,
	} {
		if err := checkCollector(endpoint); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "a:b") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
