package node

import (
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestAServerThatShedsLoadIsLeftAlone by all parts of an agent: what is refused once with Retry-After is not followed by
// anything else, not even when a person asks for it.
func TestAServerThatShedsLoadIsLeftAlone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		sheds   func(path string) bool
		cluster bool
		first   string // condition that the refusal is seen by
		most    int32  // requests that may have been under way when the refusal came
	}{
		{"at the start, when the check and the tunnel's CA are asked for", func(string) bool { return true }, false, onTunnel, 2},
		{"at the start of a cluster agent", func(string) bool { return true }, true, onTunnel, 2},
		{"a node config", func(path string) bool { return path == "/v3/connect/config" }, false, onConfig, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newManagement(t)
			var shed atomic.Int32
			next := m.Config.Handler
			m.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !tc.sheds(r.URL.Path) {
					next.ServeHTTP(w, r)
					return
				}
				shed.Add(1)
				w.Header().Set("Retry-After", "300")
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			h := newHost(t, m)
			if tc.cluster {
				server, ca := api(t)
				var account string
				h, account = newPod(t, m, server)
				mountAccount(t, account, accountToken, ca)
			}
			refresh := make(chan os.Signal)
			h.o.Refresh = refresh
			h.live(t)
			h.cause(t, tc.first, anything)
			refresh <- syscall.SIGHUP
			if !tc.cluster {
				h.cause(t, onConfig, "the server asked to be left alone for another ")
			}
			if n := shed.Load(); n > tc.most {
				t.Errorf("the server was asked %d times, %d are expected at most", n, tc.most)
			}
		})
	}
}
