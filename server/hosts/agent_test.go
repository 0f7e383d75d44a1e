package hosts

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"
)

// one is a tunnel to a server of the test, as that of a host.
type one struct{ address string }

func (o one) Dial(ctx context.Context, _ string, _ tunnel.Target) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", o.address)
}
func (one) Connected(string) (time.Time, bool)     { return time.Time{}, true }
func (one) Sessions() []tunnel.SessionInfo         { return nil }
func (one) Holders(string) (all []records.Replica) { return nil }

// TestAnAgentIsNotBelieved: it leads nowhere else, and what it sends is neither decompressed nor begun without a bound.
func TestAnAgentIsNotBelieved(t *testing.T) {
	var inside atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(other.Close)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/large":
			w.Header().Set("X-Large", strings.Repeat("a", 1<<20))
		default:
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "as it is: "+r.Header.Get("Accept-Encoding"))
		}
	}))
	t.Cleanup(agent.Close)
	way := one{agent.Listener.Addr().String()}
	h := &Hosts{relay: newRelay(relayOptions{Local: way, Presence: way, Logger: slog.New(slog.DiscardHandler)})}
	_, err := h.Ask(t.Context(), "fleet-default/m-1", "/elsewhere")
	if e, ok := errors.AsType[*answers.RedirectError](err); !ok || e.Status != http.StatusFound || inside.Load() != 0 {
		t.Errorf("a redirect: %v; %d requests went inside", err, inside.Load())
	}
	if _, err := h.Ask(t.Context(), "fleet-default/m-1", "/large"); err == nil || !strings.Contains(err.Error(), "header") {
		t.Errorf("a large header: %v", err)
	}
	answer, err := h.Ask(t.Context(), "fleet-default/m-1", "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "as it is: " {
		t.Errorf("%q, %v", text, err)
	}
}
