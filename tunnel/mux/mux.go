// Package mux carries many connections over one websocket, faster and with stricter
// bounds than the protocol of github.com/rancher/remotedialer. It is spoken only between
// drover's own ends, after both have agreed on it in the headers of the upgrade.
//
// The websocket's framing (RFC 6455) is kept, masks included, because what stands between
// a host and a server may look at it. It is not what costs: masking is done while bytes
// are copied anyway, and a frame of 64 KiB has 26 bytes of headers. What costs elsewhere
// is the number of writes and copies, and waiting for one another.
//
// The payload of all binary messages together is one stream of bytes, so that frames may be
// split and joined on the way. In it, each frame is (big-endian)
//
//	kind 1 byte | length of the body 3 bytes | connection 8 bytes | body
//
//	1 open    the target, as text; only the server sends it, with numbers from 2 upwards
//	2 opened  the host has connected to the target
//	3 data    up to 64 KiB, and never more than was granted
//	4 credit  4 bytes: so many bytes more may be sent; each side begins with 256 KiB
//	5 finish  no more data comes in this direction
//	6 reset   a code of 1 byte and a text of up to 256: the connection is over
//
// Other kinds are skipped. Nothing is said of a number that is not open, since what was on
// its way when a connection ended still comes. The client speaks first, with a ping.
//
// Who sends: a frame of up to 4 KiB goes before larger ones, and among each the
// connections take turns, so that one that is interactive does not wait for those in bulk.
// A connection never waits for another's reader: what a peer may send is granted before, by
// connection, and a peer that sends more has broken the protocol.
package mux

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
)

// Options are of one end of a websocket.
type Options struct {
	// Handle serves a connection that the server opened, in a goroutine of its own; when it
	// returns the connection is closed. The context ends when the connection does, unless both
	// directions have come to their end, since the last that came may have to be used yet. It
	// makes this end the client, which masks what it writes and pings; nil makes it the server.
	Handle func(ctx context.Context, c *Stream, target string)
	// Streams is how many connections there may be at a time.
	Streams int
	// Ping is how often a client pings.
	Ping time.Duration
	// Buffers are shared by many sessions; nil has some of its own.
	Buffers *Buffers
	// Trace is called with each frame that comes; nil is not called.
	Trace func(kind string, stream uint64, size int)
	// End is called once with the reason of the end, before the connections learn of it. It
	// may say good-bye to the peer, and it closes the websocket's connection.
	End func(error)
	// Now is the clock.
	Now func() time.Time
}

// Session is one end of a websocket.
type Session struct {
	o       Options
	conn    io.ReadWriter
	client  bool
	work    sync.WaitGroup
	over    chan struct{}   // closed once err is set
	context context.Context //nolint:containedctx // is the life of the session

	mu      sync.Mutex
	err     error // why it is over
	streams map[uint64]*Stream
	next    uint64
	grown   int  // what windows have grown in total, in bytes
	heard   bool // the client has spoken
	writing bool // a goroutine writes what waits
	signals line // streams with a word to say
	express line // streams with little to send
	bulk    line // streams with much to send
	pings   pings
}

// New makes a session over a connection whose websocket handshake is done; Serve runs it.
func New(conn io.ReadWriter, o Options) *Session {
	s := &Session{
		o: o, conn: conn, client: o.Handle != nil, over: make(chan struct{}),
		streams: map[uint64]*Stream{}, next: firstStream,
	}
	if s.o.Buffers == nil {
		s.o.Buffers = NewBuffers()
	}
	return s
}

// Serve carries until the session is over and says why: what reading and writing said, a
// *ViolationError, or a *FarewellError. It returns after all that it started has ended. It
// reads through in, which the handshake may have left behind; nil makes one of 4 KiB.
func (s *Session) Serve(ctx context.Context, in *bufio.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.context = ctx
	if s.client {
		s.mu.Lock()
		s.heard = true
		s.pings.ask(s.o.Now())
		s.kick()
		s.mu.Unlock()
		s.work.Go(s.pingEvery)
	}
	if in == nil {
		in = bufio.NewReaderSize(s.conn, readBuffer)
	}
	s.end(s.read(in))
	cancel()
	s.work.Wait()
	return s.err
}

// pingEvery keeps what is on the way from cutting, and shows the server that all is well.
func (s *Session) pingEvery() {
	tick := time.NewTicker(s.o.Ping)
	defer tick.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-tick.C:
			s.mu.Lock()
			s.pings.ask(s.o.Now())
			s.kick()
			s.mu.Unlock()
		}
	}
}

// Open asks the host for a connection to a target. It does not wait for the answer: what is
// written goes with the request, and a refusal is a *ResetError of Read and Write.
func (s *Session) Open(target string) (*Stream, error) {
	if len(target) > maxTarget {
		return nil, fmt.Errorf("the target has %d bytes, more than %d", len(target), maxTarget)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, ErrOver
	case len(s.streams) >= s.o.Streams:
		return nil, fmt.Errorf("there are %d connections open already", len(s.streams))
	}
	st := newStream(s, s.next)
	st.target = target
	st.say(sayOpen)
	s.streams[st.id] = st
	s.next++
	return st, nil
}

// Paused is how many connections wait for the other end to take what was sent.
func (s *Session) Paused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, st := range s.streams {
		if st.starved {
			n++
		}
	}
	return n
}

// end is the end of everything; only the first reason counts.
func (s *Session) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	s.mu.Unlock()
	if s.o.End != nil {
		s.o.End(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	for _, st := range s.streams {
		st.abandon(ErrOver)
	}
	s.signals, s.express, s.bulk = line{}, line{}, line{}
}

// read takes frames until there are no more.
func (s *Session) read(from *bufio.Reader) error {
	in := newReader(from, !s.client, s.o.Now, s.control)
	var head [headerSize]byte
	var small [smallFrame]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		h := parseHeader(head)
		if err := s.greet(); err != nil {
			return err
		}
		if s.o.Trace != nil {
			s.o.Trace(h.kind.String(), h.stream, h.size)
		}
		if err := s.take(in, h, small[:]); err != nil {
			return err
		}
	}
}

// greet lets the server speak, once the client has.
func (s *Session) greet() error {
	if s.client {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted()
	return nil
}

// greeted is called with mu held.
func (s *Session) greeted() {
	if s.heard {
		return
	}
	s.heard = true
	s.pings.ask(s.o.Now()) // once, to know how long the way is
	s.kick()
}

// control takes pings, pongs and the end.
func (s *Session) control(op byte, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op {
	case opPing:
		if !s.heard && len(payload) != pingSize {
			return violationf("it speaks another protocol than was agreed on: a proxy on the way may have changed the headers")
		}
		s.greeted()
		s.pings.answer(payload)
		s.kick()
	case opPong:
		s.pings.answered(payload, s.o.Now())
	case opClose:
		return farewell(payload)
	}
	return nil
}

// take acts on one frame.
func (s *Session) take(in io.Reader, h header, small []byte) error {
	if limit := h.kind.limit(); h.size > limit {
		return violationf("it announced %q of %d bytes, more than %d", h.kind, h.size, limit)
	}
	if h.kind == kindData {
		return s.takeData(in, h, small)
	}
	body := small[:h.size]
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.kind == kindOpen {
		return s.takeOpen(h.stream, string(body))
	}
	st := s.streams[h.stream]
	if st == nil {
		return nil
	}
	switch h.kind {
	case kindOpened:
		st.opened = true
	case kindCredit:
		return st.takeCredit(body)
	case kindFinish:
		st.endInput(io.EOF)
		st.forgetIfOver()
	case kindReset:
		st.abandon(parseReset(body))
		st.forget()
	}
	return nil
}

// takeOpen is called with mu held.
func (s *Session) takeOpen(id uint64, target string) error {
	switch {
	case !s.client:
		return violationf("it asked the server to connect somewhere, which only the server may ask of it")
	case id < s.next:
		return violationf("it opened connection %d again", id)
	case len(s.streams) >= s.o.Streams:
		return violationf("it opened more than %d connections", s.o.Streams)
	case s.err != nil:
		return nil
	}
	s.next = id + 1
	st := newStream(s, id)
	s.streams[id] = st
	ctx, cancel := context.WithCancel(s.context)
	st.cancel = cancel
	s.work.Go(func() {
		defer cancel()
		s.o.Handle(ctx, st, target)
		st.Close()
	})
	return nil
}

// takeData brings data to its connection. What is small is put beside what waits already.
func (s *Session) takeData(in io.Reader, h header, small []byte) error {
	s.mu.Lock()
	st := s.streams[h.stream]
	wanted := st != nil && st.inEnd == nil
	if wanted {
		if h.size > st.granted {
			s.mu.Unlock()
			return violationf("it sent %d bytes on a connection where it might send %d", h.size, st.granted)
		}
		st.granted -= h.size
	}
	s.mu.Unlock()
	if !wanted {
		_, err := io.CopyN(io.Discard, in, int64(h.size))
		return err
	}
	if h.size <= len(small) {
		if _, err := io.ReadFull(in, small[:h.size]); err != nil {
			return err
		}
		st.deliverSmall(small[:h.size])
		return nil
	}
	c := s.o.Buffers.get(h.size)
	c.w = c.r + h.size
	if _, err := io.ReadFull(in, c.unread()); err != nil {
		s.o.Buffers.put(c)
		return err
	}
	st.deliver(c)
	runtime.Gosched() // as in write
	return nil
}

// parseReset never fails: with any body, the connection is over.
func parseReset(body []byte) *ResetError {
	if len(body) == 0 {
		return &ResetError{Code: Closed}
	}
	return &ResetError{Code: Code(body[0]), Text: string(body[1:])}
}

func parseHeader(b [headerSize]byte) header {
	first := binary.BigEndian.Uint32(b[:])
	return header{kind: kind(first >> 24), size: int(first & 0xffffff), stream: binary.BigEndian.Uint64(b[4:])}
}

// ErrOver says that a connection ended because its session did.
var ErrOver = errors.New("the session is over")
