// The TCP or TLS connection below a websocket, made to fail as a whole and to say why.
// The library leaves a socket open after a read error, waits a minute for a dead peer, and
// lets writes to one wait as long, during which everything that shares a lock with them
// waits too.

package tunnel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-project/drover/tunnel/peer"
)

const (
	// writeLimit is how long one write to the socket may wait for a peer that takes nothing.
	writeLimit = 15 * time.Second
	// silenceLimit is how long a peer may say nothing at all before it counts as dead. A
	// client pings every 5 s and a server answers, so that either end hears something; four pings
	// in a row have to be missing. It leaves time within the 30 s in which a lost host is shown. Where
	// no balancer answers in its place, a server knows of a lost host sooner, see watch.
	silenceLimit = 21 * time.Second
	// unanswered is the end of a socket whose host gives the kernel no sign of life.
	unanswered = "its host, or the network to it, does not answer any more"
	// goodbyeLimit is how long the words before a close may take.
	goodbyeLimit = time.Second
	// clientBuffer is the size of the client's write buffer, in bytes: a whole message of
	// 32 KiB leaves as one frame. It comes from a pool and is held only during a write.
	clientBuffer = 64 << 10
)

// socket closes itself when reading or writing fails.
type socket struct {
	net.Conn
	in     io.Reader // Conn, behind what was read from it before
	now    func() time.Time
	frames *frames // of what comes in; nil while no watch looks
	// silence and patience are silenceLimit and writeLimit, except in tests.
	silence, patience time.Duration
	opened            func()               // called at the first Read
	quiet             func() time.Duration // how long the kernel has heard nothing of the host; nil while it is not watched
	first             sync.Once
	heard             atomic.Int64 // when bytes last came, Unix nanoseconds
	limit             atomic.Int64 // until when the handshake may last, Unix nanoseconds; 0 is for ever
	writing           sync.Mutex

	once   sync.Once
	reason string // why it was closed; written before closed is closed
	err    error
	closed chan struct{}
}

func newSocket(c net.Conn, now func() time.Time) *socket {
	s := &socket{Conn: c, in: c, now: now, silence: silenceLimit, patience: writeLimit, closed: make(chan struct{})}
	s.heard.Store(now().UnixNano())
	return s
}

// NetConn is the connection below, as package peer looks for it.
func (s *socket) NetConn() net.Conn { return s.Conn }

// watch ends the socket soon after its host has lost its power or its network, whether anything is sent to it or not.
func (s *socket) watch() {
	peer.Watch(s.Conn)
	s.quiet = func() time.Duration { return peer.Silence(s.Conn) }
}

// Read is of net.Conn; an error ends the socket.
func (s *socket) Read(p []byte) (int, error) {
	if s.opened != nil {
		s.first.Do(s.opened)
	}
	// Deadlines of sockets are by the operating system's clock, and not by now.
	by := time.Now().Add(s.silence)
	if limit := s.limit.Load(); limit != 0 && limit < by.UnixNano() {
		by = time.Unix(0, limit)
	}
	if err := s.Conn.SetReadDeadline(by); err != nil {
		s.end("")
		return 0, err
	}
	n, err := s.in.Read(p)
	if n > 0 {
		s.heard.Store(s.now().UnixNano())
		if s.frames != nil {
			if wrong := s.frames.feed(p[:n]); wrong != nil {
				s.dismiss(1008, wrong.Error()) // policy violation
				return 0, wrong
			}
		}
	}
	if err != nil {
		s.end(s.readReason(err))
	}
	return n, err
}

// readReason says in words why reading ended.
func (s *socket) readReason(err error) string {
	switch {
	case s.frames != nil && s.frames.opcode == opClose:
		return s.lastWords()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it, or something on the way, closed the connection without a word"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("nothing was heard of it for %s", s.silence)
	case isUnanswered(err):
		return unanswered
	}
	return "reading from it failed: " + oneLine(err.Error())
}

// isUnanswered says whether the kernel has ended a connection since its host does not answer.
func isUnanswered(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// lastWords is why a websocket ended whose socket still works.
func (s *socket) lastWords() string {
	switch {
	case s.frames == nil || s.frames.opcode != opClose:
		return "it sent a message that cannot be understood"
	case s.frames.farewell() == "":
		return "it closed the tunnel"
	}
	return "it said: " + s.frames.farewell()
}

// Write is of net.Conn; an error ends the socket.
func (s *socket) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.quiet != nil && s.now().Sub(s.lastHeard()) > time.Second { // most of what is written answers what came a moment ago
		peer.AfterSending(s.quiet(), s.quiet, func() { s.end(unanswered) })
	}
	if err := s.Conn.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		s.end("")
		return 0, err
	}
	n, err := s.Conn.Write(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.end(fmt.Sprintf("it took nothing of what was sent to it for %s", s.patience))
	case isUnanswered(err):
		s.end(unanswered)
	case err != nil:
		s.end("writing to it failed: " + oneLine(err.Error()))
	}
	return n, err
}

// SetDeadline bounds the handshake; the zero time lifts the bound.
func (s *socket) SetDeadline(t time.Time) error {
	if t.IsZero() {
		s.limit.Store(0)
	} else {
		s.limit.Store(t.UnixNano())
	}
	return s.Conn.SetDeadline(t)
}

// SetWriteDeadline does nothing: each write has its own limit, which the library's
// zero and 60-second deadlines would only loosen.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: the library's 60 seconds count from the last ping, even when
// other frames are heard.
func (s *socket) SetReadDeadline(time.Time) error { return nil }

// Close is of net.Conn.
func (s *socket) Close() error {
	s.end("")
	return s.err
}

// end closes the socket for a reason; only the first call counts.
func (s *socket) end(reason string) {
	s.once.Do(func() {
		s.reason = reason
		s.err = s.Conn.Close()
		close(s.closed)
	})
}

// dismiss is end of a server's socket, after it has sent the peer the reason unless that has to wait.
func (s *socket) dismiss(code uint16, reason string) { s.depart(code, reason, s.writing.TryLock()) }

// depart is dismiss for a caller that holds writing, which is given back, if it does.
func (s *socket) depart(code uint16, reason string, holds bool) {
	if holds {
		defer s.writing.Unlock()
	}
	s.once.Do(func() {
		s.reason = reason
		if holds {
			// The peer may be gone or deaf; the reason is known at this end anyway.
			if s.Conn.SetWriteDeadline(time.Now().Add(goodbyeLimit)) == nil {
				_, _ = s.Conn.Write(closeFrame(code, reason))
			}
		}
		s.err = s.Conn.Close()
		close(s.closed)
	})
}

// over says whether the socket is closed, and why.
func (s *socket) over() (reason string, closed bool) {
	select {
	case <-s.closed:
		return s.reason, true
	default:
		return "", false
	}
}

func (s *socket) lastHeard() time.Time { return time.Unix(0, s.heard.Load()) }

// hijacker hands the websocket library a socket of ours.
type hijacker struct {
	http.ResponseWriter
	take func(net.Conn) *socket
}

// Hijack implements http.Hijacker.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("take over the connection (HTTP/2 cannot be): %w", err)
	}
	s := h.take(c)
	if s.in, err = behind(rw.Reader, c); err != nil {
		s.Close()
		return nil, nil, err
	}
	// The library keeps the reader and makes a write buffer of its own, 4 KiB each. TLS
	// buffers its records itself, so that larger ones gain nothing that BenchmarkThroughput
	// shows, while a server would pay for them with each idle agent.
	rw.Reader.Reset(s)
	rw.Writer.Reset(s)
	return s, rw, nil
}
