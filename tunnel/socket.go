// The TCP or TLS connection below a websocket, made to fail as a whole. The library
// leaves a socket open after a read error and lets writes to a dead peer wait for a
// minute, during which everything that shares a lock with them waits too.

package tunnel

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeLimit is how long one write to the socket may wait for a peer that takes nothing.
	writeLimit = 15 * time.Second
	// clientBuffer is the size of the client's write buffer, in bytes: a whole message of
	// 32 KiB leaves as one frame. It comes from a pool and is held only during a write.
	clientBuffer = 64 << 10
)

// socket closes itself when reading or writing fails.
type socket struct {
	net.Conn
	in     io.Reader // Conn, behind what was read from it before
	now    func() time.Time
	once   sync.Once
	err    error
	opened func() // called at the first Read
	first  sync.Once
	heard  atomic.Int64 // when bytes last came, Unix nanoseconds
	closed chan struct{}
}

func newSocket(c net.Conn, now func() time.Time) *socket {
	s := &socket{Conn: c, in: c, now: now, closed: make(chan struct{})}
	s.heard.Store(now().UnixNano())
	return s
}

func (s *socket) Read(p []byte) (int, error) {
	if s.opened != nil {
		s.first.Do(s.opened)
	}
	n, err := s.in.Read(p)
	if n > 0 {
		s.heard.Store(s.now().UnixNano())
	}
	if err != nil {
		s.Close()
	}
	return n, err
}

func (s *socket) Write(p []byte) (int, error) {
	// Deadlines of sockets are by the operating system's clock, whatever now says.
	if err := s.Conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		s.Close()
		return 0, err
	}
	n, err := s.Conn.Write(p)
	if err != nil {
		s.Close()
	}
	return n, err
}

// SetWriteDeadline does nothing: each write has its own limit, which the library's
// zero and 60-second deadlines would only loosen.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

func (s *socket) Close() error {
	s.once.Do(func() {
		s.err = s.Conn.Close()
		close(s.closed)
	})
	return s.err
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
	if n := rw.Reader.Buffered(); n > 0 {
		early, err := rw.Reader.Peek(n)
		if err != nil {
			s.Close()
			return nil, nil, fmt.Errorf("read what came with the request: %w", err)
		}
		s.in = io.MultiReader(bytes.NewReader(bytes.Clone(early)), c)
	}
	// The library keeps the reader and makes a write buffer of its own, 4 KiB each. TLS
	// buffers its records itself, so that larger ones gain nothing that BenchmarkThroughput
	// shows, while a server would pay for them with each idle agent.
	rw.Reader.Reset(s)
	rw.Writer.Reset(s)
	return s, rw, nil
}
