package remote

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// TestConnections holds what thousands of agents cost a server: one connection each while
// nothing happens, and no certificates and signatures for another.
func TestConnections(t *testing.T) {
	t.Parallel()
	s := newServer(t)
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
