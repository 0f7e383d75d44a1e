package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// listening are targets behind real sockets, which can be half-closed.
func listening(t *testing.T, targets map[string]func(*net.TCPConn)) DialFunc {
	t.Helper()
	at := map[string]string{}
	for name, serve := range targets {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		at[name] = l.Addr().String()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					serve(c.(*net.TCPConn))
				}()
			}
		}()
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at[address])
	}
}

// count answers with what came, once all of it has come.
func count(c *net.TCPConn) {
	all, err := io.ReadAll(c)
	fmt.Fprintf(c, "%d %v", len(all), err)
}

func TestCloseWrite(t *testing.T) {
	b := newBed(t)
	b.join(t, "m1", listening(t, map[string]func(*net.TCPConn){"count:1": count}))
	c := b.dial(t, "m1", "count:1").(*conn)
	if _, err := c.Write(make([]byte, 1_000_000)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	var typed *net.OpError
	if _, err := c.Write([]byte("x")); !errors.As(err, &typed) || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write() after CloseWrite() = %v", err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "1000000 <nil>" {
		t.Errorf("the answer is %q, %v", got, err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read() after the end = %v", err)
	}
	c.Close()
	if err := c.CloseWrite(); !errors.As(err, &typed) {
		t.Errorf("CloseWrite() of a closed connection = %v", err)
	}
	waitUntil(t, "it is forgotten", func() bool { return b.Sessions()[0].Connections == 0 })
}

func TestHostThatCannotBeToldOfAnEnd(t *testing.T) {
	needsLibrary(t)
	b := newBed(t)
	b.original = true
	b.join(t, "m1", listening(t, map[string]func(*net.TCPConn){"echo:1": func(c *net.TCPConn) { echo(c) }}))
	c := b.dial(t, "m1", "echo:1").(*conn)
	wantEcho(t, c, "before")
	var typed *net.OpError
	if err := c.CloseWrite(); !errors.As(err, &typed) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite() = %v", err)
	}
	wantEcho(t, c, "after")
}

// What the host has to say may end first.
func TestHostEndsItsDirectionFirst(t *testing.T) {
	b := newBed(t)
	got := make(chan string, 1)
	b.join(t, "m1", listening(t, map[string]func(*net.TCPConn){"bye:1": func(c *net.TCPConn) {
		io.WriteString(c, "bye")
		c.CloseWrite()
		all, err := io.ReadAll(c)
		got <- fmt.Sprintf("%d %v", len(all), err)
	}}))
	c := b.dial(t, "m1", "bye:1").(*conn)
	if said, err := io.ReadAll(c); string(said) != "bye" || err != nil {
		t.Fatalf("%q, %v", said, err)
	}
	if _, err := c.Write(make([]byte, 200_000)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.Close() // what was written comes nevertheless
	if all := <-got; all != "200000 <nil>" {
		t.Errorf("the host got %s", all)
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("Write() to a connection that is over")
	}
}

func TestGuardsOfAHalfClosedConnection(t *testing.T) {
	b := newBed(t)
	b.limits.idle = 300 * time.Millisecond
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	b.join(t, "m1", listening(t, map[string]func(*net.TCPConn){"hang:1": func(*net.TCPConn) { <-over }}))
	half := func() *conn {
		c := b.dial(t, "m1", "hang:1").(*conn)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	idle := half()
	if _, err := idle.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "no byte had passed for 300ms") {
		t.Errorf("an idle one ended with %v", err)
	}
	late := half()
	late.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its deadline, Read() = %v", err)
	}
}

// desk is where people's requests become connections to a host.
type desk struct {
	*httptest.Server
	joined chan error
}

func newDesk(t *testing.T, host func() (io.ReadWriteCloser, error)) *desk {
	t.Helper()
	d := &desk{joined: make(chan error, 100)}
	d.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := host()
		if err != nil {
			t.Error(err)
			return
		}
		person, err := Hijack(w)
		if err != nil {
			t.Error(err)
			return
		}
		defer context.AfterFunc(r.Context(), func() { person.Close(); to.Close() })()
		io.WriteString(person, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_, _, err = Join(to, person)
		d.joined <- err
	}))
	t.Cleanup(d.Close)
	return d
}

// person is a connection through the desk; the first bytes go with the request.
func (d *desk) person(t *testing.T, first string) (person *tls.Conn, below *net.TCPConn) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(d.Certificate())
	person, err := tls.Dial("tcp", d.Listener.Addr().String(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fmt.Fprintf(person, "GET / HTTP/1.1\r\nHost: desk\r\n\r\n%s", first)
	answer := make([]byte, len("HTTP/1.1 101 Switching Protocols\r\n\r\n"))
	if _, err := io.ReadFull(person, answer); err != nil {
		t.Fatal(err)
	}
	person.SetReadDeadline(time.Now().Add(patience))
	return person, person.NetConn().(*net.TCPConn)
}

func (d *desk) wantJoined(t *testing.T) {
	t.Helper()
	select {
	case <-d.joined:
	case <-time.After(patience):
		t.Fatal("Join() does not end")
	}
}

// A person who sends no more gets what the host still has to say, whether or not the host
// can be notified of the end.
func TestJoinHandsEndsOn(t *testing.T) { overEach(t, testJoinHandsEndsOn) }

func testJoinHandsEndsOn(t *testing.T, b *bed) {
	heard, speak := make(chan string, 1), make(chan struct{})
	b.join(t, "m1", listening(t, map[string]func(*net.TCPConn){"late:1": func(c *net.TCPConn) {
		hello := make([]byte, 10)
		if _, err := io.ReadFull(c, hello); err != nil {
			t.Error(err)
		}
		heard <- string(hello)
		if !b.original {
			if _, err := c.Read(hello); !errors.Is(err, io.EOF) {
				t.Errorf("the host got %v", err)
			}
		}
		<-speak
		io.WriteString(c, "the answer")
	}}))
	d := newDesk(t, func() (io.ReadWriteCloser, error) {
		return b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "late:1"})
	})
	person, _ := d.person(t, "hello")
	io.WriteString(person, "hello")
	if err := person.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "hellohello" {
		t.Errorf("the host heard %q", got)
	}
	close(speak)
	if got, err := io.ReadAll(person); string(got) != "the answer" || err != nil {
		t.Errorf("the person got %q, %v", got, err)
	}
	person.Close()
	d.wantJoined(t)
}

// A side that has ended one direction and then goes leaves nothing behind.
func TestJoinEndsWithWhoIsGone(t *testing.T) {
	b := newBed(t)
	over, entered := make(chan struct{}), make(chan struct{}, 1)
	release := sync.OnceFunc(func() { close(over) }) // the targets
	t.Cleanup(release)
	join := func() func() {
		return b.join(t, "m1", listening(t, map[string]func(*net.TCPConn){
			"hang:1":  func(c *net.TCPConn) { io.Copy(io.Discard, c); entered <- struct{}{}; <-over },
			"quiet:1": func(*net.TCPConn) { <-over }, // it may never be connected to
			"bye:1":   func(c *net.TCPConn) { c.CloseWrite(); <-over },
		}))
	}
	stop := join()
	var address string
	d := newDesk(t, func() (io.ReadWriteCloser, error) {
		return b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: address})
	})
	for _, tt := range []struct {
		name, address string
		leave         func(person *tls.Conn, below *net.TCPConn)
	}{
		{"a person who closes", "hang:1", func(person *tls.Conn, _ *net.TCPConn) { person.CloseWrite(); <-entered; person.Close() }},
		{"a person whose machine says that nobody is there", "hang:1", func(person *tls.Conn, below *net.TCPConn) {
			person.CloseWrite()
			<-entered
			below.SetLinger(0)
			below.Close()
		}},
		{"a person who is gone without a word", "quiet:1", func(_ *tls.Conn, below *net.TCPConn) { below.Close() }},
		{"a host whose tunnel ends", "bye:1", func(person *tls.Conn, _ *net.TCPConn) {
			if _, err := person.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("the person got %v", err)
			}
			stop()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address = tt.address
			person, below := d.person(t, "")
			tt.leave(person, below)
			d.wantJoined(t)
			person.Close()
		})
	}
	waitUntil(t, "the tunnel is over", func() bool { return len(b.sessionsOf("m1")) == 0 })
	join()
	address = "hang:1"
	files, routines := openFiles(t), runtime.NumGoroutine()
	for range 20 {
		person, _ := d.person(t, "")
		person.CloseWrite()
		<-entered
		person.Close()
		d.wantJoined(t)
	}
	release()
	waitUntil(t, "descriptors and goroutines are as before", func() bool { return openFiles(t) <= files && runtime.NumGoroutine() <= routines })
}

func TestJoinReportsWhatPassedAndWhatFailed(t *testing.T) {
	host, there := net.Pipe()
	person, here := net.Pipe()
	go func() {
		io.WriteString(here, "12345")
		io.ReadFull(here, make([]byte, 3))
		here.Close()
	}()
	go func() {
		io.ReadFull(there, make([]byte, 5))
		io.WriteString(there, "678")
		there.Close()
	}()
	toPerson, toHost, err := Join(host, person)
	if toPerson != 3 || toHost != 5 || err != nil {
		t.Errorf("%d to the person, %d to the host, %v", toPerson, toHost, err)
	}
	host, there = net.Pipe()
	person, here = net.Pipe()
	there.Close()
	go io.WriteString(here, "x")
	here.SetReadDeadline(time.Now().Add(patience))
	if _, _, err = Join(host, person); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a host that takes nothing: %v", err)
	}
	if _, err := here.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the person got %v", err)
	}
}
