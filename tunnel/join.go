// Two connections made one: a person's and a host's, or a server's and another server's.

package tunnel

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// halfCloser is a connection that can end its own direction alone.
type halfCloser interface{ CloseWrite() error }

// goneWaiter is a connection that knows when its other end is gone; see WaitGone.
type goneWaiter interface{ WaitGone() bool }

// WaitGone waits, after the end of what comes from a connection, until the other end takes
// nothing any more either, or the connection is closed here. Where it cannot be known it says
// false at once. TLS connections are known, those of a tunnel, and others with such a method.
func WaitGone(c any) bool {
	switch c := c.(type) {
	case goneWaiter:
		return c.WaitGone()
	case *tls.Conn:
		// Behind the last word of TLS comes only the end of the connection below.
		_, _ = c.NetConn().Read(make([]byte, 1))
		return true
	}
	return false
}

// endWrite ends the direction to a connection, if it supports that.
func endWrite(c any) error {
	half, can := c.(halfCloser)
	if !can {
		return nil
	}
	if err := half.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Join carries bytes both ways between two connections until both directions have ended, and
// closes both connections. The end of one direction is passed on to the side that it leads to by
// its method CloseWrite() error; one that has none, or whose error wraps
// errors.ErrUnsupported, gets no such end. Either way the other direction goes on, until it ends
// too or the side that ended the first is gone altogether, as far as WaitGone knows. An error
// ends both directions; the first one is returned, with the bytes that passed.
func Join(a, b io.ReadWriteCloser) (toB, toA int64, err error) {
	j := &joint{a: a, b: b}
	var back sync.WaitGroup
	back.Go(func() { toA = j.carry(a, b) })
	toB = j.carry(b, a)
	back.Wait()
	j.end(nil)
	j.watching.Wait()
	return toB, toA, j.err
}

type joint struct {
	a, b     io.ReadWriteCloser
	watching sync.WaitGroup
	once     sync.Once
	err      error
}

// end closes both sides, which wakes the goroutines that wait on them.
func (j *joint) end(err error) {
	j.once.Do(func() {
		j.err = err
		j.a.Close()
		j.b.Close()
	})
}

func (j *joint) carry(to, from io.ReadWriteCloser) int64 {
	n, err := io.Copy(to, from)
	if err == nil {
		err = endWrite(to)
	}
	if err != nil {
		j.end(err)
		return n
	}
	j.watching.Go(func() {
		if WaitGone(from) {
			j.end(nil)
		}
	})
	return n
}

// Begun is a connection whose first bytes were read already and are in a reader of it, as a
// connection that can be joined. The reader is not used any more. A connection that cannot be joined is an error.
func Begun(c net.Conn, in *bufio.Reader) (net.Conn, error) {
	rest, err := behind(in, c)
	if err != nil {
		return nil, err
	}
	return &begun{Conn: c, in: rest}, nil
}

// Hijack takes a request's connection over, whole and without deadlines. Reading it does not
// end the request's context, as reading through http.Hijacker's reader does. A connection that cannot be taken over is an error.
func Hijack(w http.ResponseWriter) (net.Conn, error) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("this connection cannot be taken over: %w", err)
	}
	_ = c.SetDeadline(time.Time{}) // what the web server had set; reading fails where this failed
	taken, err := Begun(c, buffered.Reader)
	if err != nil {
		c.Close()
	}
	return taken, err
}

// behind is what a reader holds, and then the connection.
func behind(in *bufio.Reader, c net.Conn) (io.Reader, error) {
	n := in.Buffered()
	if n == 0 {
		return c, nil
	}
	early, err := in.Peek(n)
	if err != nil {
		return nil, fmt.Errorf("read what came with the request: %w", err)
	}
	return io.MultiReader(bytes.NewReader(bytes.Clone(early)), c), nil
}

type begun struct {
	net.Conn
	in io.Reader
}

// NetConn is the connection below, for who sets options of it.
func (c *begun) NetConn() net.Conn { return c.Conn }

// Read is of net.Conn: first what was read ahead, then the connection.
func (c *begun) Read(p []byte) (int, error) { return c.in.Read(p) }

// CloseWrite ends the direction to the other end.
func (c *begun) CloseWrite() error {
	if half, can := c.Conn.(halfCloser); can {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// WaitGone is as of the connection below.
func (c *begun) WaitGone() bool { return WaitGone(c.Conn) }
