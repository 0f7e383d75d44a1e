// One connection of a session.

package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// firstWindow is what each side may send before anything is granted, in bytes.
	firstWindow = 256 << 10
	// maxWindow is what the window of one connection grows to when its reader keeps up and
	// the way is long, and maxGrown by how much those of a session may grow together.
	maxWindow = 8 << 20
	maxGrown  = 64 << 20
	// maxWaiting is how much of one connection waits to be written.
	maxWaiting = 128 << 10
	// tooLittle to send while more is soon granted.
	tooLittle = 4 << 10
)

// words are what a stream has to say apart from data.
type words byte

const (
	sayOpen words = 1 << iota
	sayOpened
	sayCredit
)

// Stream is a connection. One Read and one Write may run at a time; others wait.
type Stream struct {
	s      *Session
	id     uint64
	target string
	cancel func() // of the handler's context; nil at the server

	reading sync.Mutex
	head    *chunk // taken from in, guarded by reading
	sending sync.Mutex

	// Guarded by the session's mutex.
	inbound
	outbound
	over             sync.Cond
	opened           bool // the host has connected
	gone             bool // not in the session any more
	words            words
	signalled, lined bool // is in a line of the session
}

// inbound is what comes in on a stream.
type inbound struct {
	readable  sync.Cond
	in        []*chunk // to be read
	inEnd     error    // after it
	window    int      // what the peer may have on its way here
	granted   int      // of it, what it has not used
	consumed  int      // was read and not granted again
	lastGrant time.Time
	grow      int // to be granted on top
}

// outbound is what goes out on a stream.
type outbound struct {
	writable sync.Cond
	out      []*chunk // to be written
	outBytes int
	credit   int
	starved  bool  // a Write waits for credit
	outEnd   error // why nothing more can be written
	finish   bool  // after out
	finished bool
	reset    *ResetError // after out
}

func newStream(s *Session, id uint64) *Stream {
	st := &Stream{s: s, id: id, inbound: inbound{window: firstWindow, granted: firstWindow}, outbound: outbound{credit: firstWindow}}
	st.readable.L, st.writable.L, st.over.L = &s.mu, &s.mu, &s.mu
	return st
}

// Read returns io.EOF at the end of what the other end sends, a *ResetError when it has
// ended the connection, ErrOver when the session is over, net.ErrClosed after Close.
func (st *Stream) Read(p []byte) (int, error) {
	st.reading.Lock()
	defer st.reading.Unlock()
	n := 0
	for n < len(p) {
		if st.head == nil {
			c, err := st.pop(n == 0)
			if c == nil {
				if n > 0 {
					break
				}
				return 0, err
			}
			st.head = c
		}
		k := copy(p[n:], st.head.unread())
		st.head.r += k
		n += k
		if st.head.r == st.head.w {
			st.s.o.Buffers.put(st.head)
			st.head = nil
		}
	}
	st.consume(n)
	return n, nil
}

// WriteTo writes all that comes, without copying it. The error at the end of what the other
// end sends is nil; others are those of Read and of w.
func (st *Stream) WriteTo(w io.Writer) (total int64, err error) {
	st.reading.Lock()
	defer st.reading.Unlock()
	for {
		c := st.head
		st.head = nil
		if c == nil {
			if c, err = st.pop(true); errors.Is(err, io.EOF) {
				return total, nil
			} else if err != nil {
				return total, err
			}
		}
		n, err := w.Write(c.unread())
		total += int64(n)
		st.s.o.Buffers.put(c)
		if err != nil {
			return total, err
		}
		st.consume(n)
	}
}

// pop takes what came, and waits for it if it may.
func (st *Stream) pop(wait bool) (*chunk, error) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	for len(st.in) == 0 {
		if st.inEnd != nil {
			return nil, st.inEnd
		}
		if !wait {
			return nil, nil
		}
		st.readable.Wait()
	}
	c := st.in[0]
	st.in[0] = nil
	if st.in = st.in[1:]; len(st.in) == 0 {
		st.in = nil
	}
	return c, nil
}

// consume lets the peer send again as much as was read, half a window at a time.
func (st *Stream) consume(n int) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.consumed += n; st.consumed < st.window/2 || st.inEnd != nil {
		return
	}
	st.widen()
	st.say(sayCredit)
}

// widen doubles the window when half of it was used up in less time than an answer takes,
// so that the window and not the way or the reader was what held the peer up.
func (st *Stream) widen() {
	now := st.s.o.Now()
	took := now.Sub(st.lastGrant)
	st.lastGrant = now
	more := st.window
	if took > 2*st.s.pings.shortest || st.window+more > maxWindow || st.s.grown+more > maxGrown {
		return
	}
	st.window += more
	st.grow += more
	st.s.grown += more
}

// deliver takes a buffer that was filled.
func (st *Stream) deliver(c *chunk) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.inEnd != nil {
		st.s.o.Buffers.put(c)
		return
	}
	st.in = append(st.in, c)
	st.readable.Signal()
}

// deliverSmall copies to the end of the last buffer as long as that has room.
func (st *Stream) deliverSmall(p []byte) {
	if len(p) == 0 {
		return
	}
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.inEnd != nil {
		return
	}
	if n := len(st.in); n == 0 || len(st.in[n-1].room()) < len(p) {
		st.in = append(st.in, st.s.o.Buffers.get(len(p)))
	}
	c := st.in[len(st.in)-1]
	c.w += copy(c.room(), p)
	st.readable.Signal()
}

// Write returns once all is on its way or waits for its turn; it waits for what the other
// end has not granted. Errors are as of Read, except io.EOF.
func (st *Stream) Write(p []byte) (int, error) {
	st.sending.Lock()
	defer st.sending.Unlock()
	done := 0
	for done < len(p) {
		n := len(p) - done
		if n > maxData {
			n = roomyData
		}
		n, err := st.mayWrite(n)
		if err != nil {
			return done, err
		}
		c := st.s.o.Buffers.get(n)
		c.w += copy(c.room(), p[done:done+n])
		if err := st.enqueue(c); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// ReadFrom sends all that comes from r, without copying it. The error at the end of r is nil.
// While r has little, the buffer that waits for it is small.
func (st *Stream) ReadFrom(r io.Reader) (total int64, err error) {
	st.sending.Lock()
	defer st.sending.Unlock()
	size := 2 << 10
	for {
		n, err := st.mayWrite(min(size, roomyData))
		if err != nil {
			return total, err
		}
		c := st.s.o.Buffers.get(n)
		k, err := r.Read(c.room()[:n])
		c.w += k
		total += int64(k)
		switch {
		case k == n:
			size = min(4*size, maxData)
		case k < n/4:
			size = max(size/4, 2<<10)
		}
		if k == 0 {
			st.s.o.Buffers.put(c)
		} else if wrong := st.enqueue(c); wrong != nil {
			return total, wrong
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// mayWrite waits until something may be sent, and says how much of what is wanted.
func (st *Stream) mayWrite(wanted int) (int, error) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	for {
		poor := st.credit < min(wanted, tooLittle)
		switch {
		case st.outEnd != nil:
			return 0, st.outEnd
		case !poor && st.outBytes < maxWaiting:
			return min(wanted, st.credit), nil
		}
		st.starved = poor
		st.writable.Wait()
		st.starved = false
	}
}

// enqueue lines a buffer up to be written.
func (st *Stream) enqueue(c *chunk) error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.outEnd != nil {
		st.s.o.Buffers.put(c)
		return st.outEnd
	}
	n := c.w - c.r
	st.credit -= n
	st.outBytes += n
	st.out = append(st.out, c)
	st.queue()
	return nil
}

// Opened reports to the server that the host has connected to the target.
func (st *Stream) Opened() {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	st.say(sayOpened)
}

// Answered says whether the host has reported that it has connected to the target.
func (st *Stream) Answered() bool {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.opened
}

// CloseWrite ends this direction: nothing more comes, after what was written. The error says how the direction ended before.
func (st *Stream) CloseWrite() error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.outEnd != nil {
		return st.outEnd
	}
	st.outEnd, st.finish = net.ErrClosed, true
	st.writable.Broadcast()
	st.queue()
	return nil
}

// Wait waits until the connection is over in both directions, however it ends.
func (st *Stream) Wait() {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	for !st.gone && st.reset == nil {
		st.over.Wait()
	}
}

// Close ends the connection in both directions, after what was written. It does not wait,
// and its error is always nil.
func (st *Stream) Close() error {
	st.Reset(Closed, "")
	return nil
}

// Below, the session's mutex is held.

func (st *Stream) takeCredit(body []byte) error {
	if len(body) != 4 {
		return violationf("it granted with %d bytes, not 4", len(body))
	}
	more := binary.BigEndian.Uint32(body)
	if more > maxCredit || st.credit+int(more) > maxCredit {
		return violationf("it granted more than %d bytes", maxCredit)
	}
	st.credit += int(more)
	st.writable.Signal()
	return nil
}

// say lines a word up, before all data.
func (st *Stream) say(w words) {
	if st.gone {
		return
	}
	st.words |= w
	if !st.signalled {
		st.signalled = true
		st.s.signals.push(st)
	}
	st.s.kick()
}

// queue lines the stream up by what it sends next.
func (st *Stream) queue() {
	if st.lined || st.gone {
		return
	}
	switch {
	case len(st.out) > 0 && len(st.out[0].unread()) > smallFrame:
		st.s.bulk.push(st)
	case len(st.out) > 0 || st.finish || st.reset != nil:
		st.s.express.push(st)
	default:
		return
	}
	st.lined = true
	st.s.kick()
}
