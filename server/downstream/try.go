// One try to send a request over one connection, and what becomes of it when that leads nowhere.

package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
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
	case err != nil && left && errors.Is(context.Cause(ctx), errLeft):
		return nil, c.left()
	case err != nil:
		cancel(nil)
		return nil, err
	case left:
		// What closing says of an answer that is not used is of no use.
		_ = response.Body.Close()
		return nil, c.left()
	}
	if IsWatch(r) {
		response.Body = &watchBody{ReadCloser: response.Body, stop: context.AfterFunc(c.over, func() {
			if !errors.Is(context.Cause(c.over), errReplaced) {
				cancel(errLeft)
			}
		})}
	}
	return response, nil
}

func (c *connection) left() error {
	return &UnsentError{Err: fmt.Errorf("the Kubernetes API %s: %w", c.place, errLeft)}
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
