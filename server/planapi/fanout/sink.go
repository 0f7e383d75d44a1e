// How events reach a client. On HTTP/1.1 the connection is taken over from the HTTP
// server, whose buffers and goroutines cost several times what an idle watch needs; on
// HTTP/2 that is not possible, and the handler stays.

package fanout

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/tunnel/peer"
)

// sendTimeout is how long a client may take to receive what is sent to it.
const sendTimeout = 15 * time.Second

// eventOverhead is the room of an event beside its object, and of its chunk's frame.
const eventOverhead = 64

// usualObject is room for a Secret with the plan of a worker and its outcome.
const usualObject = 12 << 10

// maxPooled is the largest buffer that is kept for the next event.
const maxPooled = 256 << 10

// buffers are shared by all sinks, as only few of them send at a time.
type buffers struct{ pool sync.Pool }

func (p *buffers) take(size int) []byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

func (p *buffers) give(b []byte) {
	if cap(b) <= maxPooled {
		p.pool.Put(&b)
	}
}

// rawSink is an HTTP/1.1 connection of its own, with a chunk for each event.
type rawSink struct {
	conn net.Conn
	hub  *Hub
}

// takeOver takes the connection. Its error is http.ErrNotSupported when that is not
// possible and the answer is still the handler's.
func (h *Hub) takeOver(w http.ResponseWriter, r *http.Request) (*rawSink, error) {
	if !r.ProtoAtLeast(1, 1) {
		return nil, fmt.Errorf("take the connection of a watch over: no chunks in %s: %w", r.Proto, http.ErrNotSupported)
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("take the connection of a watch over: %w", err)
	}
	if rw.Reader.Buffered() > 0 {
		_ = conn.Close()
		return nil, errors.New("take the connection of a watch over: the client sent more than its request")
	}
	peer.Watch(conn)
	return &rawSink{conn: conn, hub: h}, nil
}

func (s *rawSink) begin() error {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-cache, private\r\nConnection: close\r\n" +
		"Transfer-Encoding: chunked\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n\r\n"
	return s.write([]byte(head))
}

func (s *rawSink) send(kind string, object []byte) error {
	const head = 10 // a chunk's size in hex and its line end
	size := len(`{"type":"","object":}`) + len(kind) + len(object) + 1
	b := s.hub.buffers.take(size + head + eventOverhead)
	defer func() { s.hub.buffers.give(b) }()
	b = append(strconv.AppendInt(b, int64(size), 16), "\r\n"...)
	b = appendEvent(b, kind, object)
	b = append(b, "\r\n"...)
	return s.write(b)
}

func (s *rawSink) write(b []byte) error {
	// A deadline is real time, with any clock that the server's records have.
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.hub.sendTimeout)); err != nil {
		return fmt.Errorf("send to a watch: %w", err)
	}
	if _, err := s.conn.Write(b); err != nil {
		return fmt.Errorf("send to a watch: %w", err)
	}
	return nil
}

func (s *rawSink) end() {
	_ = s.write([]byte("0\r\n\r\n"))
	_ = s.conn.Close()
}

func (s *rawSink) cut() { _ = s.conn.Close() }

func (s *rawSink) silence() time.Duration { return peer.Silence(s.conn) }

// awaitPeer blocks until the client has gone. A client that sends something on a
// connection that is one answer is no better than gone.
func (s *rawSink) awaitPeer() {
	awaitReadable(s.conn)
	var b [1]byte
	_, _ = s.conn.Read(b[:])
}

// handlerSink is an answer that its handler waits for.
type handlerSink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	hub     *Hub
}

func (s *handlerSink) begin() error {
	s.w.Header().Set("Content-Type", "application/json")
	s.w.Header().Set("Cache-Control", "no-cache, private")
	s.w.WriteHeader(http.StatusOK)
	// The server's own limits are for answers that end by themselves; not every server has deadlines.
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Time{})
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("begin a watch: %w", err)
	}
	return nil
}

func (s *handlerSink) send(kind string, object []byte) error {
	b := s.hub.buffers.take(len(object) + eventOverhead)
	defer func() { s.hub.buffers.give(b) }()
	b = appendEvent(b, kind, object)
	_ = s.control.SetWriteDeadline(time.Now().Add(s.hub.sendTimeout))
	defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }()
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("send to a watch: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("send to a watch: %w", err)
	}
	return nil
}

func (s *handlerSink) end()                   {}
func (s *handlerSink) cut()                   {}
func (s *handlerSink) silence() time.Duration { return 0 }
