package fanout

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// recordedConn records when writes had to be done by.
type recordedConn struct {
	net.Conn
	by     time.Time
	writes []time.Duration // that each write had left; negative without a deadline
}

func (c *recordedConn) SetWriteDeadline(t time.Time) error { c.by = t; return nil }
func (c *recordedConn) Close() error                       { return nil }

func (c *recordedConn) Write(p []byte) (int, error) {
	left := time.Duration(-1)
	if !c.by.IsZero() {
		left = time.Until(c.by)
	}
	c.writes = append(c.writes, left)
	return len(p), nil
}

// recordedWriter is the same of an answer that its handler writes.
type recordedWriter struct {
	*httptest.ResponseRecorder
	recordedConn
}

func (w *recordedWriter) Header() http.Header             { return w.ResponseRecorder.Header() }
func (w *recordedWriter) Write(p []byte) (int, error)     { return w.recordedConn.Write(p) }
func (w *recordedWriter) SetReadDeadline(time.Time) error { return nil }

// TestEventsHaveADeadline: a client that takes nothing holds a buffer and a goroutine for no
// longer than a limit, and an idle watch is ended by none.
func TestEventsHaveADeadline(t *testing.T) {
	hub := &Hub{sendTimeout: sendTimeout}
	conn := &recordedConn{}
	raw := &rawSink{conn: conn, hub: hub}
	w := &recordedWriter{ResponseRecorder: httptest.NewRecorder()}
	handler := &handlerSink{w: w, control: http.NewResponseController(w), hub: hub}
	for name, s := range map[string]struct {
		sink
		conn *recordedConn
		idle bool // whether the deadline is lifted afterwards
	}{"HTTP/1.1": {raw, conn, false}, "HTTP/2": {handler, &w.recordedConn, true}} {
		if err := s.begin(); err != nil {
			t.Fatal(name, err)
		}
		s.conn.writes, s.conn.by = nil, time.Time{}
		for range 2 {
			if err := s.send("ADDED", []byte("{}")); err != nil {
				t.Fatal(name, err)
			}
		}
		if len(s.conn.writes) != 2 {
			t.Errorf("%s: %d writes for two events", name, len(s.conn.writes))
		}
		for _, left := range s.conn.writes {
			if left < sendTimeout/2 || left > sendTimeout {
				t.Errorf("%s: a write has %s, want %s", name, left, sendTimeout)
			}
		}
		if s.idle != s.conn.by.IsZero() {
			t.Errorf("%s: the deadline after a write is %v", name, s.conn.by)
		}
	}
}
