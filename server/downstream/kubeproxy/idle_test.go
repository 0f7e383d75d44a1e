package kubeproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/server/connlimit"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
)

// pipes is a listener whose connections are pipes, so that a clock of the test's own goes for them.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestAWatchOfHours outlives all that bounds a request: the patience with a cluster, that with a watcher, and the token of the
// account in the cluster, which is good for its beginning.
func TestAWatchOfHours(t *testing.T) {
	p := newProxy(t, &upstream{})
	synctest.Test(t, func(t *testing.T) {
		const life, silence = time.Hour, 3 * time.Hour
		began := time.Now()
		var tokens []time.Time
		p.Token = func(context.Context, records.ClusterKey, downstream.Person) (string, error) {
			tokens = append(tokens, time.Now())
			return time.Now().Format(time.RFC3339), nil
		}
		cluster := serveOver(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if given, err := time.Parse("Bearer "+time.RFC3339, r.Header.Get("Authorization")); err != nil || time.Since(given) > life {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(silence)
			_, _ = io.WriteString(w, "second\n")
		}))
		way := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return cluster.dial() }, IdleConnTimeout: 90 * time.Second}
		defer way.CloseIdleConnections()
		p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return way }
		front := serveOver(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.Serve(w, r, member) }))

		conn, err := front.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /k8s/clusters/c-m-abcd2345/api/v1/pods?watch=true HTTP/1.1\r\nHost: drover\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", response, err)
		}
		lines := bufio.NewReader(response.Body)
		for _, want := range []struct {
			line  string
			after time.Duration
		}{{"first\n", 0}, {"second\n", silence}} {
			line, err := lines.ReadString('\n')
			if err != nil || line != want.line || time.Since(began) != want.after {
				t.Fatalf("after %s came %q, %v; want %q after %s", time.Since(began), line, err, want.line, want.after)
			}
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("then came %q, %v", rest, err)
		}
		if len(tokens) != 1 {
			t.Errorf("the watch took tokens at %v", tokens)
		}
	})
}

// TestAShellMayBePaused: who reads nothing of a shell for some minutes, as a user who has stopped its output, has all of it afterwards,
// though the server's connections have a shorter limit. It is not for ever: the shell's output would wait with the server.
func TestAShellMayBePaused(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		want  string
	}{"for some minutes": {paused - time.Minute, "output"}, "for ever": {paused + time.Minute, ""}} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, &upstream{})
			synctest.Test(t, func(t *testing.T) {
				cluster := serveOver(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					conn := grant(t, w, r, "$ ")
					defer conn.Close()
					_, _ = io.WriteString(conn, "output") // the shell ends when this fails
				}))
				way := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return cluster.dial() }}
				defer way.CloseIdleConnections()
				p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return way }
				watch := connlimit.New(connlimit.Options{})
				front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.Serve(w, r, member) })}
				watch.Protect(front)
				listener := newPipes()
				go func() { _ = front.Serve(watch.Listener(listener)) }()
				t.Cleanup(func() { _ = front.Close() })

				conn, err := listener.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, "POST "+shell+" HTTP/1.1\r\nHost: drover\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				from := bufio.NewReader(conn)
				if response, err := http.ReadResponse(from, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("%+v, %v", response, err)
				}
				if _, err := io.ReadFull(from, make([]byte, len("$ "))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.pause)
				if text, err := io.ReadAll(from); string(text) != c.want {
					t.Errorf("after %s came %q, %v; want %q", c.pause, text, err, c.want)
				}
			})
		})
	}
}

// serveOver serves over pipes until the test ends.
func serveOver(t *testing.T, h http.Handler) *pipes {
	listener, server := newPipes(), &http.Server{Handler: h}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener
}
