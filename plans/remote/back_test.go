package remote

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// TestAServerThatStartsAnewIsFoundSoon: it refused connections for so long that the pauses would be
// hours by now, then answers 403 and 503 while it makes ready. Its plan does not wait for those hours.
func TestAServerThatStartsAnewIsFoundSoon(t *testing.T) {
	t.Parallel()
	before := newServer(t)
	access, address := before.access(t), before.Listener.Addr().String()
	before.Close()
	var refused atomic.Int32
	e := &engine{}
	src, err := New(Options{Access: access, Namespace: namespace, SecretName: secretName, Engine: e, Logger: quiet(), Changed: func(Status) { refused.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	src.pace = pace{retryMin: time.Millisecond, retryMax: 24 * time.Hour, mark: time.Minute, unanswered: time.Millisecond, report: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); src.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	waitUntil(t, "it was refused for long", func() bool { return refused.Load() > 40 })
	var unready atomic.Int32
	s := newServer(t, func(s *server) {
		s.Listener.Close()
		var err error
		if s.Listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		s.trap = func(w http.ResponseWriter, _ *http.Request) bool {
			switch unready.Add(1) {
			case 1, 2:
				fail(w, 403, "Forbidden")
			case 3:
				fail(w, 503, "ServiceUnavailable")
			default:
				return false
			}
			return true
		}
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	})
	s.wantState(t, "succeeded")
}
