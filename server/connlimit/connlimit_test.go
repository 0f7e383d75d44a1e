package connlimit

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// bed is a guarded web server with TLS. /stream writes for as long as it may, /wait answers
// when asked, /hijack takes the connection over.
type bed struct {
	*Guard
	web     *httptest.Server
	below   net.Listener // below TLS
	release chan struct{}
	wrote   atomic.Int64
	failed  chan error
	entered func() (leave func()) // /late; nil for nothing
}

func newBed(t *testing.T, o Options) *bed {
	t.Helper()
	b := &bed{release: make(chan struct{}), failed: make(chan error, 100)}
	if o.Trusted == nil {
		o.Trusted = func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer good" }
	}
	b.Guard = New(o)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.failed <- err
			return
		}
		fmt.Fprint(w, "ok")
	})
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.failed <- err
			return
		}
		if b.entered != nil {
			defer b.entered()()
		}
		select {
		case <-r.Context().Done():
			b.failed <- r.Context().Err()
		case <-b.release:
			fmt.Fprint(w, "late")
		}
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		buf := make([]byte, 64<<10)
		for {
			n, err := w.Write(buf)
			b.wrote.Add(int64(n))
			if err != nil {
				b.failed <- err
				return
			}
		}
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			b.failed <- err
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		<-b.release
	})
	b.web = httptest.NewUnstartedServer(mux)
	b.below = b.Guard.Listener(b.web.Listener)
	b.web.Listener = b.below
	b.web.Config.IdleTimeout = time.Hour
	b.Protect(b.web.Config)
	b.web.StartTLS()
	t.Cleanup(b.web.CloseClientConnections)
	return b
}

func (b *bed) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", b.web.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a request and reads its answer, on a connection that stays open.
func ask(c net.Conn, path, token string) error {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if path == "/hijack" {
		return nil
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

// TestOneSourceHasSoManyConnections: those of an anonymous client make room for each other, those
// with credentials and those that were taken over are not counted.
func TestOneSourceHasSoManyConnections(t *testing.T) {
	b := newBed(t, Options{PerSource: func() int { return 5 }})
	defer close(b.release)
	var agents []net.Conn
	for range 10 {
		c := b.dial(t)
		if err := ask(c, "/", "good"); err != nil {
			t.Fatal(err)
		}
		agents = append(agents, c)
	}
	for range 10 {
		if err := ask(b.dial(t), "/hijack", ""); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "no connection with credentials is counted", func() bool { n, _ := b.Open(); return n == 0 })

	var idle []net.Conn
	for range 8 {
		c := b.dial(t)
		if err := ask(c, "/", "bad"); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
		waitFor(t, "it is known to be idle", func() bool { return b.idle() == min(len(idle), 5) })
	}
	if n, refused := b.Open(); n != 5 || refused != 3 {
		t.Errorf("%d connections are counted and %d made room, want 5 and 3", n, refused)
	}
	for i, c := range idle {
		err := ask(c, "/", "bad")
		if gone := i < 3; gone != (err != nil) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	for i, c := range agents {
		if err := ask(c, "/", "good"); err != nil {
			t.Errorf("agent %d was cut: %v", i, err)
		}
	}
}

// TestAnAnonymousClientWhoseConnectionsAllWaitGetsNoMore: none is idle, so that none makes room.
func TestAnAnonymousClientWhoseConnectionsAllWaitGetsNoMore(t *testing.T) {
	b := newBed(t, Options{PerSource: func() int { return 5 }})
	defer close(b.release)
	for range 5 {
		fmt.Fprint(b.dial(t), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
	}
	waitFor(t, "all are counted", func() bool { n, _ := b.Open(); return n == 5 })
	c, err := net.Dial("tcp", b.web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "\x16") // as a handshake begins
	if err := ends(c); err != nil {
		t.Errorf("the sixth connection: %v", err)
	}
	if n, refused := b.Open(); n != 5 || refused == 0 {
		t.Errorf("%d counted, %d refused", n, refused)
	}
}

// TestBodiesThatStallEnd, and one that keeps coming for longer than a stall does not.
func TestBodiesThatStallEnd(t *testing.T) {
	b := newBed(t, Options{BodyStall: 200 * time.Millisecond, BodyLimit: time.Second})
	defer close(b.release)
	for name, test := range map[string]struct {
		pause time.Duration
		parts int
		fails bool
	}{
		"stalls":                    {time.Hour, 10, true},
		"slow, but it keeps coming": {50 * time.Millisecond, 10, false},
		"drips for ever":            {100 * time.Millisecond, 10_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := b.dial(t)
			began := time.Now()
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", test.parts)
			go func() {
				for range test.parts {
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
					if test.pause > time.Minute {
						return
					}
					time.Sleep(test.pause)
				}
			}()
			if !test.fails {
				if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
					t.Error(err)
				}
				return
			}
			select {
			case err := <-b.failed:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the body may stall for ever")
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestAnAnswerMayTakeLongerThanABody: the limit of the body ends with the body.
func TestAnAnswerMayTakeLongerThanABody(t *testing.T) {
	b := newBed(t, Options{BodyStall: 100 * time.Millisecond, BodyLimit: 100 * time.Millisecond})
	c := b.dial(t)
	fmt.Fprint(c, "POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
	time.AfterFunc(700*time.Millisecond, func() { close(b.release) })
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err, len(b.failed))
	}
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "late") {
		t.Errorf("%q, %v", text, err)
	}
	select {
	case err := <-b.failed:
		t.Errorf("the request was cut: %v", err)
	default:
	}
}

// TestAClientThatReadsNothingIsCut, whatever the handler writes; one that reads slowly is not.
func TestAClientThatReadsNothingIsCut(t *testing.T) {
	b := newBed(t, Options{WriteStall: 2 * time.Second})
	defer close(b.release)
	c := b.dial(t)
	fmt.Fprint(c, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-b.failed:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a client that reads nothing holds its connection for ever")
	}
	slow := b.dial(t)
	fmt.Fprint(slow, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 20 {
		if _, err := io.ReadFull(slow, make([]byte, 512<<10)); err != nil {
			t.Fatalf("a slow client was cut: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestAPatientConnectionWaits: of a connection of which that was said, a write may wait longer than the usual time.
func TestAPatientConnectionWaits(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := &conn{Conn: server, guard: New(Options{WriteStall: 50 * time.Millisecond})}
	Patient(tls.Server(c, &tls.Config{}), time.Minute)
	wrote := make(chan error, 1)
	go func() { _, err := c.Write([]byte("x")); wrote <- err }()
	select {
	case err := <-wrote:
		t.Fatalf("a write of a patient connection ended at once: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Errorf("a write that was read at last failed: %v", err)
	}
	Patient(server, time.Minute) // no guard is below, and nothing happens
}

// TestShorterDeadlinesHold: who has taken a connection over sets limits of its own.
func TestShorterDeadlinesHold(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := &conn{Conn: server, guard: New(Options{WriteStall: time.Minute})}
	_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	began := time.Now()
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("a write ended after %s with %v", time.Since(began), err)
	}
}
