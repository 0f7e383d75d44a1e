// Lists that go on.

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Change is one message of a watch: a thing that is new or has changed, or what became of the connection.
type Change[T any] struct {
	// Thing is as it is now; of a thing that is gone it has the ID, the name and the namespace alone.
	Thing T
	// Gone says that the thing was removed, or may not be seen by the caller any more.
	Gone bool
	// Lost is why the connection was lost, or could not be made again; Thing is nothing then. Again says that it is there again: all
	// things that there are follow, and what does not come has gone meanwhile.
	Lost  error
	Again bool
	// Line is the JSON of the thing.
	Line json.RawMessage
}

// Watch are the things of a list that can be followed, such as /v1-drover/machines, or one thing, such as
// /v1-drover/operations/op-1a2b3c4d: each as it is, and again whenever it changes. A connection that is lost, or on which nothing comes for
// half a minute, is made again after a second. The watch ends with ctx, with the first error of the first connection, and with a refusal.
func Watch[T any](ctx context.Context, c *Client, path string) iter.Seq2[Change[T], error] {
	return WatchStream[T](ctx, func(ctx context.Context) (io.ReadCloser, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		body, err := c.Stream(ctx, with(path, url.Values{"follow": {"true"}, "gone": {"true"}}))
		if err != nil {
			cancel(nil)
			return nil, err
		}
		return &lively{body, ctx, cancel, time.AfterFunc(silence, func() { cancel(errSilent) })}, nil
	})
}

// silence is for how long nothing may come: a server sends an empty line every two seconds.
const silence = 30 * time.Second

var errSilent = fmt.Errorf("nothing came from the server for %s", silence)

// lively is an answer that ends when nothing comes for too long.
type lively struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // of the request whose answer this is
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// Read reads, and has the timer begin anew.
func (l *lively) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil && errors.Is(context.Cause(l.ctx), errSilent) {
		err = errSilent
	}
	l.timer.Reset(silence)
	return n, err
}

// Close ends the request.
func (l *lively) Close() error {
	l.timer.Stop()
	l.cancel(nil)
	return l.ReadCloser.Close()
}

// rest is left before a connection that was lost is made again.
const rest = time.Second

// WatchStream is Watch of a stream of lines of JSON that open begins.
func WatchStream[T any](ctx context.Context, open func(context.Context) (io.ReadCloser, error)) iter.Seq2[Change[T], error] {
	return func(yield func(Change[T], error) bool) {
		for first := true; ; first = false {
			body, err := open(ctx)
			if err == nil {
				if !first && !yield(Change[T]{Again: true}, nil) {
					_ = body.Close()
					return
				}
				var more bool
				if more, err = lines(body, yield); !more {
					return
				}
			} else if refused, is := errors.AsType[*Error](err); first || is && refused.Status < http.StatusInternalServerError {
				yield(Change[T]{}, err)
				return
			}
			if ctx.Err() == nil && !yield(Change[T]{Lost: err}, nil) {
				return
			}
			select {
			case <-ctx.Done():
				yield(Change[T]{}, ctx.Err())
				return
			case <-time.After(rest):
			}
		}
	}
}

// maxLine bounds a line of a stream, in bytes.
const maxLine = 16 << 20

// lines yields the things of a stream. more says that they are still wanted, and err why the stream has ended.
func lines[T any](body io.ReadCloser, yield func(Change[T], error) bool) (more bool, err error) {
	defer body.Close()
	stream := bufio.NewScanner(body)
	stream.Buffer(nil, maxLine)
	for stream.Scan() {
		line := bytes.TrimSpace(stream.Bytes())
		if len(line) == 0 { // a sign of life
			continue
		}
		change := Change[T]{Line: bytes.Clone(line)}
		if err := json.Unmarshal(line, &change.Thing); err != nil {
			return true, fmt.Errorf("read a line of the server's answer: %w", err)
		}
		var gone struct {
			Gone bool `json:"gone"`
		}
		_ = json.Unmarshal(line, &gone) // a thing whose field of this name is of another kind is not gone
		if change.Gone = gone.Gone; !yield(change, nil) {
			return false, nil
		}
	}
	if err := stream.Err(); err != nil {
		return true, err
	}
	return true, io.EOF
}
