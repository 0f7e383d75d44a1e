package remote

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply"
)

// TestAWriteThatSucceedsWakesTheWatch: with pauses of an hour, the next plan comes at once.
func TestAWriteThatSucceedsWakesTheWatch(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	release := make(chan struct{})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		<-release
		return apply.Result{Succeeded: true}, nil
	}}
	src, err := New(Options{Access: s.access(t), Namespace: namespace, SecretName: secretName, Engine: e, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	src.pace = pace{retryMin: time.Hour, retryMax: time.Hour, mark: time.Minute, unanswered: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); src.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	waitUntil(t, "the plan is applied", func() bool { return e.count("apply") == 1 })
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			fail(w, 500, "InternalError")
		}
		return r.Method == http.MethodGet
	})
	s.cutStreams()
	waitUntil(t, "the watch is lost", func() bool { return !src.Status().Connected })
	s.setTrap(nil)
	close(release)
	s.wantState(t, "succeeded")
	s.set(map[string]string{"plan": planB, "plan-state": "pending"})
	waitUntil(t, "the next plan comes", func() bool { return s.now()["applied-checksum"] == sum(planB) })
}

// safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *safeBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// TestAHistoryThatEndedIsOneLine, and no warning.
func TestAHistoryThatEndedIsOneLine(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	var log safeBuffer
	src, err := New(Options{Access: s.access(t), Namespace: namespace, SecretName: secretName, Engine: &engine{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); src.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	s.wantState(t, "succeeded")
	<-time.After(shortWatch + 50*time.Millisecond) // a watch that ends sooner is a fault
	var once sync.Once
	s.setTrap(func(w http.ResponseWriter, r *http.Request) (trapped bool) {
		if r.URL.Query().Get("resourceVersion") != "" && r.URL.Query().Get("watch") != "" {
			once.Do(func() { fail(w, 410, "Expired"); trapped = true })
		}
		return trapped
	})
	before := len(log.String())
	s.cutStreams()
	waitUntil(t, "the watch begins anew", func() bool { return strings.Contains(log.String(), "watched anew") })
	s.set(map[string]string{"plan": planB, "plan-state": "pending"})
	waitUntil(t, "the next plan comes", func() bool { return s.now()["applied-checksum"] == sum(planB) })
	var about []string
	for line := range strings.Lines(log.String()[before:]) {
		if strings.Contains(line, "watched") || strings.Contains(line, "WARN") {
			about = append(about, line)
		}
	}
	if len(about) != 1 {
		t.Errorf("%q", about)
	}
}
