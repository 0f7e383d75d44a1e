// Package answers bounds what the server reads of hosts and clusters: how large an answer of each kind is, how long it takes, and
// how much memory all answers together take that are being read at the same time. Who answers is not trusted: an answer may have
// no end, come byte by byte, or lead somewhere else.
package answers

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync/atomic"
	"time"
)

// HeaderBytes is how large the header of an answer may be, for MaxResponseHeaderBytes of an http.Transport.
const HeaderBytes = 64 << 10

// Bound is what an answer of one kind may be.
type Bound struct {
	// What names the kind in errors, as in "a list of nodes".
	What string
	// Bytes bounds the whole answer; 0 is no bound, for answers that are passed on while they are read.
	Bytes int64
	// Each bounds each JSON value of an answer that is a sequence of them, as a watch is; 0 for all others.
	Each int64
	// Passed is set for an answer that its reader does not keep, so that it takes no memory. It need not be JSON.
	Passed bool
	// Together bounds all answers of this kind over a Transport, in bytes, where a client keeps them as long as it lives; 0 is no bound.
	Together int64
	// Within is how long the whole answer may take; 0 is no limit.
	Within time.Duration
}

// Transport is an http.RoundTripper whose answers are bounded. No redirect leaves it. It is not to be copied after its first request.
type Transport struct {
	// Next sends the requests. It must not decompress answers.
	Next http.RoundTripper
	// Of is the bound of the answer to a request.
	Of func(*http.Request) Bound
	// From is who answers, as the first words of an error.
	From string
	// Budget is what all answers together may take; nil is that of the process.
	Budget *Budget
	// OnTooLarge is called when an answer was refused for its size; may be nil. It must not block.
	OnTooLarge func(*TooLargeError)

	// kept is how much there was of answers that are bounded together.
	kept atomic.Int64
}

// TooLargeError says that an answer was not read to its end.
type TooLargeError struct {
	// From is who answered, What the kind of answer, Bytes the bound that was met.
	From, What string
	Bytes      int64
	// Values says that it was not longer than that, but had more values in it than such an answer has.
	Values bool
}

func (e *TooLargeError) Error() string {
	if e.Values {
		return fmt.Sprintf("%s answered %s with more values in it than %s may have", e.From, e.What, inBytes(e.Bytes))
	}
	return fmt.Sprintf("%s answered %s with more than %s", e.From, e.What, inBytes(e.Bytes))
}

func inBytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// SlowError says that an answer did not end in time.
type SlowError struct {
	From, What string
	Within     time.Duration
}

func (e *SlowError) Error() string {
	return fmt.Sprintf("%s has not answered %s whole within %s", e.From, e.What, e.Within)
}

// RedirectError says that an answer led somewhere else, where nothing was sent.
type RedirectError struct {
	From   string
	Status int
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s answered %d, a redirect, which is not followed", e.From, e.Status)
}

// ContentError says that an answer was of a type that was not asked for.
type ContentError struct{ From, What, Type string }

func (e *ContentError) Error() string {
	return fmt.Sprintf("%s answered %s in %.60q and not in JSON", e.From, e.What, e.Type)
}

// Refused is the error of this package that an error is made of, if any: client libraries put words of their own before it.
func Refused(err error) error {
	if e, ok := errors.AsType[*TooLargeError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*BusyError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*SlowError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*RedirectError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*ContentError](err); ok {
		return e
	}
	return nil
}

type togetherKey struct{}

// together bounds all answers to the requests of a context.
type together struct {
	sum   sum
	what  string
	bytes int64
}

// Together bounds all answers to the requests of a context together, as those are that make one list page by page. They are read
// one after the other.
func Together(ctx context.Context, what string, bytes int64) context.Context {
	return context.WithValue(ctx, togetherKey{}, &together{what: what, bytes: bytes})
}

// RoundTrip implements http.RoundTripper. Errors are those of Next and of this package.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	bound := t.Of(r)
	ctx, cancel := context.WithCancelCause(r.Context())
	end := func() { cancel(nil) }
	if bound.Within > 0 {
		slow := time.AfterFunc(bound.Within, func() { cancel(&SlowError{From: t.From, What: bound.What, Within: bound.Within}) })
		end = func() { slow.Stop(); cancel(nil) }
	}
	answer, err := t.Next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		if slow, ok := errors.AsType[*SlowError](context.Cause(ctx)); ok {
			err = slow
		}
		end()
		return nil, err
	}
	if err := t.check(answer, bound); err != nil {
		_ = answer.Body.Close() // what closing says of an answer that is not read is of no use
		end()
		return nil, err
	}
	b := &body{ReadCloser: answer.Body, transport: t, bound: bound, asked: r.Context(), ctx: ctx, end: end}
	b.together, _ = r.Context().Value(togetherKey{}).(*together)
	answer.Body = b
	return answer, nil
}

// check refuses an answer by its header.
func (t *Transport) check(answer *http.Response, bound Bound) error {
	if s := answer.StatusCode; s >= 300 && s < 400 && s != http.StatusNotModified {
		return &RedirectError{From: t.From, Status: s}
	}
	if bound.Bytes > 0 && answer.ContentLength > bound.Bytes {
		return t.tooLarge(&TooLargeError{From: t.From, What: bound.What, Bytes: bound.Bytes})
	}
	if given := answer.Header.Get("Content-Type"); !bound.Passed && !plain(given) {
		return &ContentError{From: t.From, What: bound.What, Type: given}
	}
	return nil
}

// plain says whether what is in an answer can be weighed while it comes: JSON, or text, which nothing decodes. In the other forms
// that client libraries decode a few bytes are an object, or stand for many.
func plain(contentType string) bool {
	if contentType == "" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || kind == "text/plain" || kind == "text/html")
}

func (t *Transport) tooLarge(e *TooLargeError) error {
	if t.OnTooLarge != nil {
		t.OnTooLarge(e)
	}
	return e
}

func (t *Transport) budget() *Budget {
	if t.Budget != nil {
		return t.Budget
	}
	return process
}

// CloseIdleConnections closes those of Next.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
