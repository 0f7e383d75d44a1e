// A tunnelled connection as the rest of the program sees it. The library's own keeps
// neither deadlines nor timeouts: a read deadline wakes no reader, a write deadline closes
// the connection long after the write is done, and both report untyped errors.

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-project/drover/tunnel/mux"
)

const (
	// maxChunk is the largest payload of one message, in bytes.
	maxChunk = 32 << 10
	// A dial that its caller gave up within briefly says nothing about the host.
	briefly = 2 * time.Second
)

// The library and its peers say these as text and in no other way: the client's list of
// connections lacked this one, and the session is over.
const (
	textSync       = "sync from client"
	textDisconnect = "tunnel disconnect"
)

// conn implements net.Conn. A deadline that passes during a Read or Write ends the
// connection, and so does an error of either, because the library can wake a waiting
// call only so. A deadline that passes while no call waits makes the next call fail and does
// no more, as usual. Over our own protocol each direction may end alone, as with TCP; the
// original's knows no half-closed connections, and there the end of one is that of both.
type conn struct {
	raw              net.Conn // nil until begin
	session          *session
	network, address string
	number           int64 // in the protocol
	begun            time.Time
	stall            time.Duration
	write            sync.Mutex // one Write at a time, since it may be several messages
	received         atomic.Int64
	consumed         atomic.Int64
	traffic          atomic.Int64 // when bytes last passed, Unix nanoseconds
	paused           bool         // guarded by the session's mutex

	mu      sync.Mutex
	cause   error // why the connection is over; nil while it is not
	readBy  deadline
	writeBy deadline
	reached
	idle *time.Timer
}

var _ net.Conn = (*conn)(nil)

func newConn(s *session, network, address string) *conn {
	return &conn{session: s, network: network, address: address, begun: s.now(), stall: s.limits.stall}
}

// begin takes the library's connection, unless ours was given up meanwhile.
func (c *conn) begin(raw net.Conn) {
	c.mu.Lock()
	c.raw = raw
	over := c.cause != nil
	if !over {
		c.traffic.Store(c.session.now().UnixNano())
		c.idle = time.AfterFunc(c.session.limits.idle, c.watchIdle)
	}
	c.mu.Unlock()
	if over {
		raw.Close() // its error is always nil
		c.session.forget(c)
	}
}

// watchIdle closes a connection without traffic, or looks again when there was some.
func (c *conn) watchIdle() {
	limit := c.session.limits.idle
	quiet := c.session.now().Sub(time.Unix(0, c.traffic.Load()))
	if quiet >= limit {
		c.fail(c.lost(fmt.Sprintf("it was closed, as no byte had passed for %s", limit)))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.idle.Reset(limit - quiet)
	}
}

// Read is of net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.enter(&c.readBy); err != nil {
		return 0, c.opError("read", err)
	}
	n, err := c.raw.Read(p)
	c.leave(&c.readBy)
	if n > 0 {
		c.passed(&c.session.in, n)
		c.consumed.Add(int64(n))
		c.settle(true, true, "")
	}
	if err == nil {
		return n, nil
	}
	if _, can := c.raw.(halfCloser); can && errors.Is(err, io.EOF) {
		c.endRead()
		return n, io.EOF
	}
	c.fail(c.judge(err))
	return n, c.opError("read", c.over())
}

// endRead notes that the host sends no more. It may still be sent to.
func (c *conn) endRead() {
	c.settle(false, true, "")
	c.mu.Lock()
	c.read = true
	both := c.written
	c.mu.Unlock()
	if both {
		c.fail(io.EOF)
	}
}

// CloseWrite ends the direction to the host after what was written; what the host
// sends is still read. A host that speaks the original's protocol has no message for that: then the
// error wraps errors.ErrUnsupported, and the connection stays as it is.
func (c *conn) CloseWrite() error {
	c.write.Lock() // a Write that runs is waited for
	defer c.write.Unlock()
	half, can := c.raw.(halfCloser)
	c.mu.Lock()
	cause, again, both := c.cause, c.written, c.read
	c.written = again || can && cause == nil
	c.mu.Unlock()
	switch {
	case cause != nil:
		return c.opError("close", cause)
	case !can:
		return c.opError("close", errors.ErrUnsupported)
	case again:
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		if cause = c.over(); cause == nil {
			cause = c.judge(err) // Read returns the same, behind what came before
		}
		return c.opError("close", cause)
	}
	if both {
		c.fail(io.EOF)
	}
	return nil
}

// WaitGone waits, after the end of one direction, for that of the other.
func (c *conn) WaitGone() bool {
	if whole, half := c.raw.(stream); half {
		whole.Wait()
	}
	return true
}

// judge turns the library's error into one with a meaning.
func (c *conn) judge(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	var reset *mux.ResetError
	if errors.As(err, &reset) {
		return c.judgeReset(reset)
	}
	reason, ended := c.session.socket.over()
	switch text := err.Error(); {
	case ended:
		return c.lost("the tunnel ended: " + reason)
	case text == textDisconnect, errors.Is(err, mux.ErrOver):
		return c.lost("the tunnel ended")
	case text == textSync:
		return c.lost("the host did not know of the connection")
	case !c.answered():
		return &TargetRefusedError{Subject: c.session.peer.Subject, Network: c.network, Address: c.address, Text: oneLine(text)}
	default:
		return fmt.Errorf("the host ended the connection: %s", oneLine(text))
	}
}

// whyClosed finds the reason behind a write to a connection that the library has closed:
// an empty Read returns it, unless data is still to be read.
func (c *conn) whyClosed(err error) error {
	if !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	if _, why := c.raw.Read(nil); why != nil {
		return why
	}
	return io.EOF
}

func (c *conn) lost(reason string) error {
	return &LostError{Subject: c.session.peer.Subject, Network: c.network, Address: c.address, Answered: c.answered(), Reason: reason}
}

// Write is of net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	stalled := time.AfterFunc(c.stall, func() {
		c.fail(fmt.Errorf("the host took nothing for %s: %w", c.stall, os.ErrDeadlineExceeded))
	})
	defer stalled.Stop()
	written, most := 0, c.session.carrier.chunk()
	for {
		if err := c.enter(&c.writeBy); err != nil {
			return written, c.opError("write", err)
		}
		chunk := p[written:min(len(p), written+most)]
		_, err := c.raw.Write(chunk)
		c.leave(&c.writeBy)
		if err != nil {
			c.fail(c.judge(c.whyClosed(err)))
			return written, c.opError("write", c.over())
		}
		c.passed(&c.session.out, len(chunk))
		written += len(chunk)
		if written == len(p) {
			return written, nil
		}
		stalled.Reset(c.stall)
	}
}

func (c *conn) passed(counter *atomic.Int64, n int) {
	counter.Add(int64(n))
	c.traffic.Store(c.session.now().UnixNano())
}

// enter begins a call that waits, unless the connection is over or its deadline has passed.
func (c *conn) enter(d *deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		return c.cause
	case d == &c.writeBy && c.written:
		return syscall.EPIPE
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

// Close is of net.Conn.
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
	if c.idle != nil {
		c.idle.Stop()
	}
	raw := c.raw
	c.mu.Unlock()
	works, why := c.verdict(cause)
	c.settle(false, works, why)
	c.session.forget(c)
	switch {
	case raw == nil:
	case errors.Is(cause, net.ErrClosed) && c.session.limits.linger > 0:
		time.AfterFunc(c.session.limits.linger, func() { raw.Close() })
	default:
		raw.Close() // wakes a Read and a Write; its error is always nil
	}
}

// verdict is what the end of an unanswered connection says of the dial: whether the host
// works, and why the dial failed.
func (c *conn) verdict(cause error) (works bool, why failure) {
	var refused *TargetRefusedError
	switch {
	case errors.Is(cause, io.EOF):
		return true, ""
	case errors.As(cause, &refused):
		return true, failTarget
	case errors.Is(cause, os.ErrDeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		return false, failTimeout
	case errors.Is(cause, net.ErrClosed), errors.Is(cause, context.Canceled):
		if c.session.now().Sub(c.begun) < briefly {
			return false, failGaveUp
		}
		return false, failTimeout
	default:
		return false, failLost
	}
}

func (c *conn) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// settle reports to the session, once, how the dial went.
func (c *conn) settle(heard, works bool, why failure) {
	c.mu.Lock()
	reported := c.settled
	c.settled = true
	c.heard = c.heard || heard
	c.mu.Unlock()
	if !reported {
		c.session.settled(c, works, why)
	}
}

func (c *conn) answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

func (c *conn) opError(op string, err error) error {
	var lost *LostError
	var refused *TargetRefusedError
	switch {
	case errors.Is(err, io.EOF) && op == "read":
		return io.EOF
	case errors.Is(err, io.EOF):
		err = syscall.EPIPE
	case errors.As(err, &lost), errors.As(err, &refused):
		return err
	}
	return &net.OpError{Op: op, Net: "tunnel", Addr: c.RemoteAddr(), Err: err}
}
