// Which requests may be sent over one connection after another; their bodies are kept for that.

package downstream

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// repeatable says that a request changes nothing, so that it may be sent again when it is not known what became of it.
func repeatable(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && empty(r.Body) && r.Header.Get("Upgrade") == ""
}

func empty(body io.ReadCloser) bool { return body == nil || body == http.NoBody }

// IsWatch says that a request is a watch whose answer is a stream of its own.
func IsWatch(r *http.Request) bool {
	request := r.URL.Query().Get("watch")
	return r.Header.Get("Upgrade") == "" && (request == "true" || request == "1" || strings.Contains(r.URL.Path, "/watch/"))
}

// hold has the body of a request stay open until pass is called: a transport closes a body also when it could not send it.
func hold(r *http.Request) (held *http.Request, pass func()) {
	if empty(r.Body) {
		return r, func() {}
	}
	body := &heldBody{ReadCloser: r.Body}
	held = r.WithContext(r.Context())
	held.Body = body
	return held, body.pass
}

// heldBody is closed once it was passed on and its reader has closed it, in whichever order.
type heldBody struct {
	io.ReadCloser
	mu             sync.Mutex
	closed, passed bool
}

// Close implements io.Closer.
func (b *heldBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if !b.passed {
		return nil
	}
	return b.ReadCloser.Close()
}

func (b *heldBody) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passed = true
	if b.closed {
		// The transport that closed it has no use for what that says.
		_ = b.ReadCloser.Close()
	}
}
