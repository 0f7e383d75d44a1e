// The connections to a bucket: bounded, and given up when nothing comes.

package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// impatience has connections end when nothing moves for a time.
func impatience(dial func(context.Context, string, string) (net.Conn, error), stall time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatient{conn, stall}, nil
	}
}

// bounded ends answers that are longer than they can be. Those with the bytes of an object, which Get counts, are as long as it is.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if errors.Is(err, io.EOF) { // for which the client has words of its own
		err = errEnded
	}
	if err != nil {
		return nil, err
	}
	object := r.Method == http.MethodGet && r.URL.RawQuery == "" && (answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusPartialContent)
	if !object {
		answer.Body = &limited{ReadCloser: answer.Body, bytes: maxAnswer, marks: maxMarks}
	}
	return answer, nil
}

// limited is an answer in XML, in which a few bytes become an object of a list.
type limited struct {
	io.ReadCloser
	bytes, marks int
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b[:min(len(b), l.bytes+1)])
	l.bytes -= n
	l.marks -= bytes.Count(b[:n], []byte("<"))
	if l.bytes < 0 || l.marks < 0 {
		return 0, errEndless
	}
	return n, err
}

type impatient struct {
	net.Conn
	stall time.Duration
}

func (c *impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write moves the end of waiting reads, too: an answer comes when all was sent.
func (c *impatient) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

var (
	errEndless = errors.New("its answer is longer than one of a bucket can be")
	errEnded   = errors.New("the connection ended without an answer")
)
