//go:build e2e

// What a wire hears of watches, and how it is cut.

package peer

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// watched is an event of a watch.
type watched struct {
	request int // the number of the watch
	kind    string
	version string
	code    int // of an ERROR
}

// listen writes down the events of a watch as they go by.
func (w *wire) listen(r *http.Response) {
	if i, ok := r.Request.Context().Value(indexKey{}).(int); ok && r.StatusCode == http.StatusOK && r.Request.URL.Query().Has("watch") {
		if w.lag != 0 {
			r.Body = late(r.Body, w.lag)
		}
		r.Body = &listened{ReadCloser: r.Body, line: func(text []byte) { w.hear(i, text) }}
	}
}

func (w *wire) hear(request int, text []byte) {
	var event struct {
		Type   string
		Object struct {
			Code     int
			Metadata struct{ ResourceVersion string }
		}
	}
	if err := json.Unmarshal(text, &event); err != nil {
		return // cut in the middle, or of another encoding
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = append(w.watched, watched{request, event.Type, event.Object.Metadata.ResourceVersion, event.Object.Code})
}

// events are what watches said from the n-th request on.
func (w *wire) events(n int) (all []watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.watched {
		if e.request >= n {
			all = append(all, e)
		}
	}
	return all
}

// listened hands on what is read, and each line of it once it is whole.
type listened struct {
	io.ReadCloser
	line func([]byte)
	rest []byte
}

func (l *listened) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.rest = append(l.rest, p[:n]...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return n, err
		}
		l.line(line)
		l.rest = rest
	}
}

// plug is a listener whose connections can be cut all at once, and new ones kept away.
type plug struct {
	net.Listener

	mu    sync.Mutex
	out   bool
	conns []net.Conn
}

func (p *plug) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil || p.keep(conn) {
			return conn, err
		}
		_ = conn.Close()
	}
}

func (p *plug) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.out {
		p.conns = append(p.conns, conn)
	}
	return !p.out
}

// cut ends all connections of the wire; until heal there are no new ones.
func (w *wire) cut() {
	w.plug.mu.Lock()
	defer w.plug.mu.Unlock()
	w.plug.out = true
	for _, conn := range w.plug.conns {
		_ = conn.Close() // it may be closed already
	}
	w.plug.conns = nil
}

func (w *wire) heal() {
	w.plug.mu.Lock()
	defer w.plug.mu.Unlock()
	w.plug.out = false
}

// revision is a resource version of Kubernetes as the number that it is.
func revision(t *testing.T, version string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(version, 10, 64)
	must(t, err)
	return n
}
