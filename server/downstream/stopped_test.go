package downstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/server/observed"
)

// closing is the body of a request as the server has it: who closes it cannot read it any more.
type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Read(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, errors.New("read after close")
	}
	return c.Reader.Read(p)
}

func (c *closing) Close() error { c.closed.Store(true); return nil }

// TestAStoppedControlPlaneIsLeft by what waits for it: its API server takes connections and says nothing.
func TestAStoppedControlPlaneIsLeft(t *testing.T) {
	t.Parallel()
	first, second := newHost(t), newHost(t)
	for i, h := range []*host{first, second} {
		h.open = true
		h.set("True", map[string]any{machineLabel: fmt.Sprintf("seen-by-%d", i+1)})
	}
	m, changed := start(t, fleet{"fleet-default/custom-1": first, "fleet-default/custom-2": second}, controlPlane("custom-1"), controlPlane("custom-2"))
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	send := func(as Credentials, method, path string, body io.ReadCloser) (*http.Response, error) {
		request := httptest.NewRequestWithContext(t.Context(), method, "https://127.0.0.1:6443"+path, nil)
		request.RequestURI, request.Body = "", body
		request.Header.Set("Authorization", "Bearer mine")
		if body != nil {
			request.ContentLength = -1
		}
		return m.Way("fleet-default/harbour", as).RoundTrip(request)
	}
	watch, err := send(AdminCredentials, http.MethodGet, "/api/v1/nodes?watch=true&resourceVersion=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	known, err := send(AdminCredentials, http.MethodGet, "/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, known.Body)
	_ = known.Body.Close() // its connection is there for the next one

	first.pause()
	began, ended := time.Now(), make(chan error, 2)
	for _, tc := range []struct {
		what   string
		as     Credentials
		method string
		body   io.ReadCloser
		who    string
	}{
		{"a question over a connection that was there", AdminCredentials, http.MethodGet, nil, "system:admin"},
		{"a change over one of its own", NoCredentials, http.MethodPost, &closing{Reader: strings.NewReader("{}")}, "Bearer mine {}"},
	} {
		go func() {
			answer, err := send(tc.as, tc.method, "/whoami", tc.body)
			if err != nil {
				ended <- fmt.Errorf("%s: %w", tc.what, err)
				return
			}
			defer answer.Body.Close()
			who, err := io.ReadAll(answer.Body)
			if via, took := answer.Header.Get(ViaHeader), time.Since(began); err != nil || via != "fleet-default/custom-2" || string(who) != tc.who || took > waitLimit+connectLimit+10*time.Second {
				err = fmt.Errorf("%s: %q through %s after %s, %w", tc.what, who, via, took, err)
			}
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if _, err := io.Copy(io.Discard, watch.Body); !errors.Is(err, errLeft) {
		t.Errorf("the watch ended with %v", err)
	}
	if api := m.API("fleet-default/harbour"); !api.Reachable {
		t.Errorf("the cluster is out of reach: %+v", api)
	}
}
