// Clusters that do not answer, and watchers that do not read.

package kubeproxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/server/downstream"
)

const (
	// defaultPatience is a little more than the minute in which an API server itself ends requests.
	defaultPatience = 70 * time.Second
	// defaultStalled is long for a program that watches, which has no user who pauses.
	defaultStalled = time.Minute
)

// errHangs says that a cluster did not begin its answer.
var errHangs = errors.New("no answer")

// impatient sends a request, whose answer has to begin within patience unless it is long-running.
func (p *Proxy) impatient(way http.RoundTripper, r *http.Request) (*http.Response, error) {
	if longRunning(r) {
		return way.RoundTrip(r)
	}
	patience := cmp.Or(p.Patience, defaultPatience)
	// It is not cancelled when the answer has begun, which would end its body; the request's own context ends with the handler.
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(patience, func() { cancel(errHangs) })
	response, err := way.RoundTrip(r.WithContext(ctx))
	timer.Stop()
	if err != nil && errors.Is(context.Cause(ctx), errHangs) {
		return nil, errHangs
	}
	return response, err
}

// longRunning says that an answer may begin late, as API servers see it: watches, and what leads to a container.
func longRunning(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" || downstream.IsWatch(r) {
		return true
	}
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		switch part {
		case "proxy", "log", "exec", "attach", "portforward", "logs":
			return true
		}
	}
	return false
}

// watched is the answer to a watch. Who takes nothing of it for so long is left: what the cluster sends would wait in
// the memory of all between.
type watched struct {
	http.ResponseWriter
	stalled time.Duration
}

// Write implements io.Writer.
func (w *watched) Write(b []byte) (int, error) {
	w.patient()
	return w.ResponseWriter.Write(b)
}

// FlushError is found by http.ResponseController.
func (w *watched) FlushError() error {
	w.patient()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is found by http.ResponseController, too.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watched) patient() {
	// A connection without deadlines ends by itself.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.stalled))
}
