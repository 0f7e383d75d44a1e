package downstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// ask sends a request with a token of its own, and returns whom the API takes for its sender.
func ask(t *testing.T, over http.RoundTripper) (string, error) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:6443/whoami", nil)
	request.RequestURI = ""
	request.Header.Set("Authorization", "Bearer mine")
	response, err := over.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestARequestGoesThroughTheNextHost(t *testing.T) {
	first, second := newHost(t), newHost(t)
	for i, h := range []*host{first, second} {
		h.open = true
		h.set("True", map[string]any{machineLabel: fmt.Sprintf("seen-by-%d", i+1)})
	}
	second.down = true
	m, changed := start(t, fleet{"fleet-default/custom-1": first, "fleet-default/custom-2": second}, controlPlane("custom-1"), controlPlane("custom-2"))
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	over := m.Way("fleet-default/harbour", NoCredentials)
	if _, err := ask(t, over); err != nil {
		t.Fatal(err)
	}
	// The first one's API stops listening, and nothing tells the server: its watches go on.
	first.mu.Lock()
	first.down = true
	first.mu.Unlock()
	second.mu.Lock()
	second.down = false
	second.mu.Unlock()
	m.watcher("fleet-default/harbour").connection.bare.(purposes).CloseIdleConnections()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://127.0.0.1:6443/whoami", strings.NewReader("{}"))
	request.RequestURI = ""
	response, err := over.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if via := response.Header.Get(ViaHeader); via != "fleet-default/custom-2" {
		t.Errorf("the request went through %q", via)
	}
}

func TestNothingIsSentOverARefusedConnection(t *testing.T) {
	only := newHost(t)
	only.open = true
	only.set("True", map[string]any{machineLabel: "m"})
	m, changed := start(t, only)
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	w := m.watcher("fleet-default/harbour")
	c, _, _, _ := w.now()
	only.stop(true)
	if _, err := c.bare.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:6443/whoami", nil)); !errors.As(err, new(*UnsentError)) {
		t.Errorf("a connection that was refused: %v", err)
	}
}

func TestHowLongAConnectionIsAwaited(t *testing.T) {
	for _, tc := range []struct {
		name string
		// ago is when the last connection was lost, zero for never; comes is when the next one is there, zero for never.
		ago, comes time.Duration
		waits      time.Duration
		found      bool
	}{
		{name: "a cluster that is being provisioned"},
		{name: "a connection that was lost long ago", ago: time.Minute},
		{name: "one that was just lost", ago: 3 * time.Second, waits: 7 * time.Second},
		{name: "one that comes back", ago: time.Second, comes: 2 * time.Second, waits: 2 * time.Second, found: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c := &Clusters{Options: Options{Now: time.Now}, watchers: map[records.ClusterKey]*watcher{}}
				w := &watcher{clusters: c, changes: make(chan struct{}), api: observed.API{Cause: "it is away"}}
				c.watchers["fleet-default/harbour"] = w
				if tc.ago > 0 {
					w.since = began.Add(-tc.ago)
				}
				if tc.comes > 0 {
					go func() { time.Sleep(tc.comes); w.use(&connection{end: func(error) {}}) }()
				}
				got, err := c.awaited(t.Context(), "fleet-default/harbour")
				if (got != nil) != tc.found || (err == nil) != tc.found || err != nil && err.Error() != "it is away" {
					t.Errorf("got %v, %v", got, err)
				}
				if waited := time.Since(began); waited != tc.waits {
					t.Errorf("it waited for %s, want %s", waited, tc.waits)
				}
			})
		})
	}
}
