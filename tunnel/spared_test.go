package tunnel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

// TestAServerThatShedsLoadIsLeftAlone: after one refusal with Retry-After nothing follows before that time, no tunnel, no
// question for /ping or a new CA, and no other client that shares the request; without it the usual pauses count.
func TestAServerThatShedsLoadIsLeftAlone(t *testing.T) {
	for _, tc := range []struct {
		status  int
		request string
		heeded  bool
	}{{429, "300", true}, {503, "300", true}, {503, "", false}, {429, "soon", false}, {500, "300", false}} {
		t.Run(fmt.Sprintf("%d %s", tc.status, tc.request), func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				if tc.request != "" {
					w.Header().Set("Retry-After", tc.request)
				}
				w.WriteHeader(tc.status)
			}))
			defer server.Close()
			pool := x509.NewCertPool()
			pool.AddCert(server.Certificate())
			o := ClientOptions{
				URL: "wss" + strings.TrimPrefix(server.URL, "https"), TLS: &tls.Config{RootCAs: pool}, Spared: new(backoff.Spared),
				Renewal: &Renewal{Token: func() (string, error) { return "t", nil }},
			}
			waiting := make(chan time.Duration, 1000)
			o.Changed = func(s Status) {
				if s.State != Waiting {
					return
				}
				select {
				case waiting <- time.Until(s.Next):
				default:
				}
			}
			c := NewClient(o)
			c.backoff = quick()
			defer start(t, c)()
			pause := <-waiting
			if !tc.heeded {
				if pause > 10*time.Millisecond {
					t.Errorf("the next attempt is in %s", pause)
				}
				<-waiting // it comes
				return
			}
			if pause < 299*time.Second || pause > 375*time.Second {
				t.Errorf("the next attempt is in %s, the server asked for 5 min and gets up to a quarter more", pause)
			}
			var spared *backoff.SparedError
			if _, err := c.open(t.Context()); !errors.As(err, &spared) {
				t.Errorf("an attempt in between: %v", err)
			}
			if c.ping(t.Context()) {
				t.Error("the server answered a ping")
			}
			if err := c.renew(t.Context()); !errors.As(err, &spared) {
				t.Errorf("a question for the CA: %v", err)
			}
			defer start(t, NewClient(o))()
			if pause := <-waiting; pause < 290*time.Second {
				t.Errorf("another client tries again in %s", pause)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}
