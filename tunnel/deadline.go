// What a connection keeps of itself: how far it has come, its deadlines, and the names of its ends.

package tunnel

import (
	"errors"
	"net"
	"os"
	"time"
)

// reached is how far a connection has come.
type reached struct {
	settled bool // the session knows how the dial went
	heard   bool // something came back
	read    bool // to the end of what the host sends
	written bool // to the end: CloseWrite was called
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

// Network is of net.Addr.
func (addr) Network() string { return "tunnel" }

// String is of net.Addr.
func (a addr) String() string { return string(a) }

// LocalAddr is of net.Conn; it names the server.
func (c *conn) LocalAddr() net.Addr { return addr("server") }

// RemoteAddr is of net.Conn; it names the subject and the target.
func (c *conn) RemoteAddr() net.Addr {
	return addr(c.session.peer.Subject + "/" + c.network + "/" + c.address)
}

// SetDeadline is of net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is of net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readBy, t) }

// SetWriteDeadline is of net.Conn.
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
