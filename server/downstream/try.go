// One try to send a request over one connection, and what becomes of it when that leads nowhere.

package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// slowAnswer is when a connection is doubted over which no answer has come.
const slowAnswer = 2 * time.Second

var (
	// errReplaced is why a connection is over that need not be broken.
	errReplaced = errors.New("another connection is used")
	// errLeft ends a request over a connection that is over.
	errLeft = errors.New("it does not answer, and is not waited for any more")
)

// try sends a request over one connection. When that is over before the answer begins, a request that was not
// sent, or that may be repeated, ends with an UnsentError.
func (w way) try(c *connection, r *http.Request) (*http.Response, error) {
	if c.over.Err() != nil {
		return nil, c.left()
	}
	slow := time.AfterFunc(slowAnswer, func() { w.clusters.doubt(w.key, c) })
	defer slow.Stop()
	// It is not cancelled when the answer has begun, which would end its body; r's own context ends with the caller.
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(c.over, func() { cancel(errLeft) })
	var sent atomic.Bool
	traced := ctx
	if !repeatable(r) {
		traced = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
			sent.Store(true)
			stop()
		}})
	}
	response, err := w.over(c).RoundTrip(r.WithContext(traced))
	left := !stop() && !sent.Load()
	switch {
	case err != nil && left && context.Cause(ctx) == errLeft:
		return nil, c.left()
	case err != nil:
		cancel(nil)
		return nil, err
	case left:
		// What closing says of an answer that is not used is nobody's matter.
		_ = response.Body.Close()
		return nil, c.left()
	}
	if IsWatch(r) {
		response.Body = &watchBody{ReadCloser: response.Body, stop: context.AfterFunc(c.over, func() {
			if context.Cause(c.over) != errReplaced {
				cancel(errLeft)
			}
		})}
	}
	return response, nil
}

func (c *connection) left() error {
	return &UnsentError{Err: fmt.Errorf("the Kubernetes API %s: %w", c.place, errLeft)}
}

// repeatable says that a request changes nothing, so that it may be sent again when it is not known what became of it.
func repeatable(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && empty(r.Body) && r.Header.Get("Upgrade") == ""
}

func empty(body io.ReadCloser) bool { return body == nil || body == http.NoBody }

// IsWatch says that a request is a watch whose answer is a stream of its own.
func IsWatch(r *http.Request) bool {
	wish := r.URL.Query().Get("watch")
	return r.Header.Get("Upgrade") == "" && (wish == "true" || wish == "1" || strings.Contains(r.URL.Path, "/watch/"))
}

// watchBody is the body of a watch. It ends when the connection is given up: an API server that hangs says nothing, and one
// that has lost etcd nothing new, so that who watches would wait for ever.
type watchBody struct {
	io.ReadCloser
	stop func() bool
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

// heldBody is the body of a request that may be sent over several connections one after the other. A transport closes a body
// also when it could not send it.
type heldBody struct {
	io.ReadCloser
	mu             sync.Mutex
	closed, passed bool
}

// hold has the body of a request stay open until pass is called.
func hold(r *http.Request) (held *http.Request, pass func()) {
	if empty(r.Body) {
		return r, func() {}
	}
	body := &heldBody{ReadCloser: r.Body}
	held = r.WithContext(r.Context())
	held.Body = body
	return held, body.pass
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
