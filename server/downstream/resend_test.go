package downstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestHold(t *testing.T) {
	below := &body{Reader: strings.NewReader("{}")}
	r, pass := hold(httptest.NewRequest(http.MethodPost, "/", below))
	_ = r.Body.Close() // by a transport that could not send it
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "{}" || below.closed {
		t.Errorf("%q, %v, closed: %t", text, err, below.closed)
	}
	pass()
	if !below.closed {
		t.Error("it stays open")
	}
	below = &body{Reader: strings.NewReader("{}")}
	r, pass = hold(httptest.NewRequest(http.MethodPost, "/", below))
	if pass(); below.closed {
		t.Error("it is closed while the transport sends it")
	}
	if _ = r.Body.Close(); !below.closed {
		t.Error("it stays open when the transport has sent it")
	}
	// Anything but no body at all would be sent in chunks.
	if r, _ := hold(httptest.NewRequest(http.MethodGet, "/", http.NoBody)); r.Body != http.NoBody {
		t.Errorf("nothing has become %T", r.Body)
	}
}

func TestRepeatable(t *testing.T) {
	for name, tc := range map[string]struct {
		r    *http.Request
		want bool
	}{
		"a question":     {httptest.NewRequest(http.MethodGet, "/", http.NoBody), true},
		"a watch":        {httptest.NewRequest(http.MethodGet, "/?watch=1", nil), true},
		"one with words": {httptest.NewRequest(http.MethodGet, "/", strings.NewReader("{}")), false},
		"a change":       {httptest.NewRequest(http.MethodDelete, "/", http.NoBody), false},
		"an upgrade":     {&http.Request{Method: http.MethodGet, Header: http.Header{"Upgrade": {"websocket"}}}, false},
	} {
		if got := repeatable(tc.r); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
