package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/reconcile"
)

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestVersionDataIsReadAgain: a fetch that fails is tried at growing distances, one that does not a day later.
func TestVersionDataIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var asked []time.Duration
		s, err := versions.Open(versions.Options{
			Location: "https://m.example/d", DataDir: dir, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, time.Since(start))
			switch len(asked) {
			case 1:
				<-r.Context().Done() // never answers
				return nil, r.Context().Err()
			case 2:
				if fault := s.Status().Fault; fault != "fetch version data from https://m.example/d: no answer within 5s" {
					t.Errorf("the fault is %q", fault)
				}
				return nil, errors.New("no route")
			case 3, 5:
				return nil, errors.New("no route")
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"date":"2027-01-01","sets":{"x":{}},"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`)), Header: http.Header{}}, nil
		})
		_, wait := reconcile.Begin(ctx, keepVersions(s, transport), slog.New(slog.DiscardHandler))
		time.Sleep(25 * time.Hour)
		cancel()
		wait()
		// The second question takes its five seconds; of a pause at least a half passes.
		pauses := []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 24 * time.Hour, 10 * time.Second}
		if len(asked) != len(pauses) {
			t.Fatalf("asked at %v", asked)
		}
		for i, most := range pauses[1:] {
			least, is := most/2, asked[i+1]-asked[i]
			switch {
			case i == 0:
				least, most = least+5*time.Second, most+5*time.Second
			case most == 24*time.Hour:
				least = most
			}
			if is < least || is > most {
				t.Errorf("question %d came %s after the one before, want %s to %s", i+1, is, least, most)
			}
		}
	})
}
