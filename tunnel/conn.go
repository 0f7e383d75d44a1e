// A tunnelled connection as the rest of the program sees it. The library's own keeps
// neither deadlines nor timeouts: a read deadline wakes nobody, a write deadline closes
// the connection long after the write is done, and both report untyped errors.

package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// maxChunk is the largest payload of one message, in bytes.
	maxChunk = 32 << 10
	// stallLimit is how long a write without deadline may wait for a peer that asked
	// to pause. The library can lose the message that ends a pause.
	stallLimit = 15 * time.Minute
	// linger is how long after Close the host may end the connection by itself, as a target
	// does that was told so in its own protocol (TLS). The library is not made for both
	// ends to close in the same instant (rancher/remotedialer issue 254).
	linger = 50 * time.Millisecond
)

// conn implements net.Conn. A deadline that passes during a Read or Write ends the
// connection, and so does an error of either, because the library can wake a waiting
// call only so and the protocol knows no half-closed connections. A deadline that passes
// while nobody waits makes the next call fail and does no more, as usual.
type conn struct {
	raw     net.Conn
	session *session
	remote  addr
	write   sync.Mutex // one Write at a time, since it may be several messages

	mu       sync.Mutex
	cause    error // why the connection is over; nil while it is not
	readBy   deadline
	writeBy  deadline
	answered bool
}

var _ net.Conn = (*conn)(nil)

func newConn(raw net.Conn, s *session, network, address string) *conn {
	return &conn{raw: raw, session: s, remote: addr(s.subject + "/" + network + "/" + address)}
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.enter(&c.readBy); err != nil {
		return 0, c.opError("read", err)
	}
	n, err := c.raw.Read(p)
	c.leave(&c.readBy)
	if n > 0 {
		c.noteAnswer()
	}
	if err == nil {
		return n, nil
	}
	c.fail(err)
	return n, c.opError("read", c.over())
}

func (c *conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	stalled := time.AfterFunc(stallLimit, func() { c.fail(os.ErrDeadlineExceeded) })
	defer stalled.Stop()
	written := 0
	for {
		if err := c.enter(&c.writeBy); err != nil {
			return written, c.opError("write", err)
		}
		chunk := p[written:min(len(p), written+maxChunk)]
		_, err := c.raw.Write(chunk)
		c.leave(&c.writeBy)
		if err != nil {
			c.fail(err)
			return written, c.opError("write", c.over())
		}
		written += len(chunk)
		if written == len(p) {
			return written, nil
		}
	}
}

// enter begins a call that waits, unless the connection is over or its deadline has passed.
func (c *conn) enter(d *deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		return c.cause
	case d.passed:
		return os.ErrDeadlineExceeded
	}
	d.waiting++
	return nil
}

func (c *conn) leave(d *deadline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.waiting--
}

func (c *conn) Close() error {
	c.fail(net.ErrClosed)
	return nil
}

// fail ends the connection for a reason, unless it is over already.
func (c *conn) fail(cause error) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = cause
	c.readBy.stop()
	c.writeBy.stop()
	unanswered := !c.answered
	c.mu.Unlock()
	if unanswered {
		c.session.answered(false)
	}
	c.session.forget(c)
	if errors.Is(cause, net.ErrClosed) {
		time.AfterFunc(linger, c.end)
		return
	}
	c.end()
}

// end wakes a Read and a Write.
func (c *conn) end() { c.raw.Close() } // its error is always nil

func (c *conn) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// noteAnswer tells the session that the dial was answered, once.
func (c *conn) noteAnswer() {
	c.mu.Lock()
	told := c.answered
	c.answered = true
	c.mu.Unlock()
	if !told {
		c.session.answered(true)
	}
}

func (c *conn) opError(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return &net.OpError{Op: op, Net: c.remote.Network(), Addr: c.remote, Err: err}
}

func (c *conn) LocalAddr() net.Addr  { return addr("server") }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.setDeadline(&c.readBy, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeBy, t) }

func (c *conn) setDeadline(d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.opError("set", c.cause)
	}
	d.stop()
	if t.IsZero() {
		return nil
	}
	wait := time.Until(t)
	if wait <= 0 && d.waiting == 0 {
		d.passed = true
		return nil
	}
	generation := d.generation
	d.timer = time.AfterFunc(wait, func() { c.expire(d, generation) })
	return nil
}

func (c *conn) expire(d *deadline, generation int) {
	c.mu.Lock()
	current := d.generation == generation
	if current {
		d.passed = true
	}
	waiting := d.waiting > 0
	c.mu.Unlock()
	if current && waiting {
		c.fail(os.ErrDeadlineExceeded)
	}
}

// deadline is a timer that counts how often it was set, so that one which fires while
// it is being moved does nothing.
type deadline struct {
	timer      *time.Timer
	generation int
	passed     bool
	waiting    int // calls that wait now
}

func (d *deadline) stop() {
	d.generation++
	d.passed = false
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// addr names subject and target.
type addr string

func (addr) Network() string  { return "tunnel" }
func (a addr) String() string { return string(a) }
