package remote

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// TestConnections holds what thousands of agents cost a server that offers HTTP/1.1 alone: one connection each while
// nothing happens, and no certificates and signatures for another.
func TestConnections(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(s *server) { s.http1 = true })
	var resumed atomic.Int32
	s.setTrap(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && r.TLS.DidResume {
			resumed.Add(1)
		}
		return false
	})
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	follow(t, s, &engine{})
	s.wantState(t, "succeeded")
	waitUntil(t, "only the watch is left", func() bool {
		open := 0
		s.connections.Range(func(any, any) bool { open++; return true })
		return open == 1
	})
	if n := resumed.Load(); n != 2 {
		t.Errorf("%d of the 2 reports came on a resumed session", n)
	}
}

// TestOneConnection holds that a claim takes one round trip: it goes over the connection of the
// watch, also after a quiet time, and no handshake comes before it.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	src, _ := follow(t, s, &engine{})
	s.wantState(t, "succeeded")
	src.client.close() // as time does: what nothing is under way on is given up
	for _, plan := range []string{planB, planA} {
		s.set(map[string]string{"plan": plan, "plan-state": "pending"})
		waitUntil(t, "the plan is applied", func() bool { return s.now()["applied-checksum"] == sum(plan) })
		src.client.close()
	}
	if n := s.made.Load(); n != 1 {
		t.Errorf("%d connections were made for a watch and six writes", n)
	}
}

// TestALongWayIsNoSlowServer: the connection to an HTTP/1.1 server is given up after a report when
// the server takes its time, and kept when the way does.
func TestALongWayIsNoSlowServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		way, took time.Duration
		made      int32
	}{
		{"near", time.Millisecond, 3 * time.Millisecond, 1},
		{"a long way", 60 * time.Millisecond, 70 * time.Millisecond, 1},
		{"slow", time.Millisecond, 70 * time.Millisecond, 2},
		{"slow and a long way", 60 * time.Millisecond, 120 * time.Millisecond, 2},
	} {
		s := newServer(t, func(s *server) { s.http1 = true })
		s.set(map[string]string{"plan": planA})
		c := newClient(s.access(t), namespace, secretName, "test", time.Now)
		for range 2 {
			if _, err := c.get(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.way.Store(int64(tc.way))
			c.took.Store(int64(tc.took))
			c.release()
		}
		if n := s.made.Load(); n != tc.made {
			t.Errorf("%s: %d connections for two requests, want %d", tc.name, n, tc.made)
		}
		c.close()
	}
}
