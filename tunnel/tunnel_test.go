package tunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/plans/backoff"
)

func TestDialReachesHTTPServerOnTheHost(t *testing.T) {
	overEach(t, testDialReachesHTTPServerOnTheHost)
}

func testDialReachesHTTPServerOnTheHost(t *testing.T, b *bed) {
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	t.Cleanup(host.Close)
	b.join(t, "m1", (&net.Dialer{}).DialContext)

	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return b.Dial(ctx, "m1", Target{Network: network, Address: address})
		},
	}}
	t.Cleanup(client.CloseIdleConnections)
	body := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB there and back
	answer, err := client.Post(host.URL, "text/plain", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("answer of %d bytes, %v; want the %d sent", len(got), err, len(body))
	}
}

func TestDialReachesInProcessListener(t *testing.T) { overEach(t, testDialReachesInProcessListener) }

func testDialReachesInProcessListener(t *testing.T, b *bed) {
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"drover-agent:80": echo}))
	c := b.dial(t, "m1", "drover-agent:80")
	wantEcho(t, c, "hello")
	if got := c.RemoteAddr().String(); got != "m1/tcp/drover-agent:80" {
		t.Errorf("remote address %q", got)
	}
}

func TestRefusedTargetLeavesOtherStreamsAlone(t *testing.T) {
	overEach(t, testRefusedTargetLeavesOtherStreamsAlone)
}

func testRefusedTargetLeavesOtherStreamsAlone(t *testing.T, b *bed) {
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	kept := b.dial(t, "m1", "echo:1")
	wantEcho(t, kept, "before")
	only := b.sessionsOf("m1")[0]

	refused := b.dial(t, "m1", "10.0.0.1:22")
	if _, err := refused.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "refused by this host") {
		t.Errorf("err = %v, want the host's reason", err)
	}
	wantEcho(t, kept, "after")
	if got := b.sessionsOf("m1"); len(got) != 1 || got[0] != only {
		t.Error("the refusal ended the session")
	}
}

func TestServerPolicy(t *testing.T) { overEach(t, testServerPolicy) }

func testServerPolicy(t *testing.T, b *bed) {
	asked := make(chan string, 10)
	b.join(t, "m1", func(_ context.Context, _, address string) (net.Conn, error) {
		asked <- address
		return nil, errors.New("no")
	})
	for _, tc := range []struct{ name, network, address string }{
		{"not in the table", "tcp", "forbidden:1"},
		{"too long for older clients", "tcp", strings.Repeat("x", 97)},
		{"relay to another client", "m2::tcp", "127.0.0.1:6443"},
		{"slash in the network", "tcp/x", "127.0.0.1:6443"},
		{"no network", "", "127.0.0.1:6443"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := b.Dial(t.Context(), "m1", Target{Network: tc.network, Address: tc.address})
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Errorf("err = %v, want a refusal", err)
			}
		})
	}
	b.dial(t, "m1", "allowed:1")
	if got := <-asked; got != "allowed:1" {
		t.Errorf("the host was asked for %q", got)
	}
}

func TestDialWithoutSession(t *testing.T) { overEach(t, testDialWithoutSession) }

func testDialWithoutSession(t *testing.T, b *bed) {
	_, err := b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "x:1"})
	var none *NoSessionError
	if !errors.As(err, &none) || !none.Last.IsZero() {
		t.Errorf("err = %v, want one that was never there", err)
	}
	stop := b.join(t, "m1", nil)
	stop()
	b.wantChange(t, "m1 true")
	b.wantChange(t, "m1 false")
	_, err = b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "x:1"})
	if !errors.As(err, &none) || none.Last.IsZero() {
		t.Errorf("err = %v, want one that is gone since a time", err)
	}
	if since, ok := b.Connected("m1"); ok || !since.Equal(none.Last) {
		t.Errorf("Connected() = %v, %t", since, ok)
	}
}

func TestRefusedCredentialsGetASentence(t *testing.T) {
	overEach(t, testRefusedCredentialsGetASentence)
}

func testRefusedCredentialsGetASentence(t *testing.T, b *bed) {
	o := b.options("m1", nil)
	o.Header = nil
	changed := make(chan Status, 100)
	o.Changed = func(s Status) { changed <- s }
	start(t, NewClient(o))
	for {
		s := <-changed
		if s.State != Waiting {
			continue
		}
		var refused *HandshakeError
		if !errors.As(s.Cause, &refused) {
			t.Fatalf("cause = %v", s.Cause)
		}
		want := HandshakeError{Status: 401, Text: "this tunnel needs a machine's token"}
		if diff := cmp.Diff(want, *refused); diff != "" {
			t.Errorf("refusal (-want +got):\n%s", diff)
		}
		return
	}
}

// TestWordsOfAServer: what refuses a tunnel may be anything that stands before the server.
func TestWordsOfAServer(t *testing.T) {
	if got := oneLine("no\x1b[2J\n\u009b31m\u202e\xffway"); got != "no [2J 31m way" {
		t.Errorf("%q", got)
	}
}

func TestClientTrustsOnlyThePinnedCA(t *testing.T) { overEach(t, testClientTrustsOnlyThePinnedCA) }

func testClientTrustsOnlyThePinnedCA(t *testing.T, b *bed) {
	o := b.options("m1", nil)
	o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	changed := make(chan Status, 100)
	o.Changed = func(s Status) { changed <- s }
	start(t, NewClient(o))
	for s := range changed {
		if s.State == Connected {
			t.Fatal("connected to a server it cannot know")
		}
		if s.State == Waiting {
			var unknown x509.UnknownAuthorityError
			if !errors.As(s.Cause, &unknown) {
				t.Errorf("cause = %v", s.Cause)
			}
			return
		}
	}
}

func TestClientRefusesPlainText(t *testing.T) {
	for _, url := range []string{"ws://host/x", "https://host/x", "wss://", "", "://"} {
		if err := NewClient(ClientOptions{URL: url}).Run(t.Context()); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("Run() with %q = %v, want a refusal", url, err)
		}
	}
}

func TestReconnectsAfterTheConnectionIsCut(t *testing.T) {
	overEach(t, testReconnectsAfterTheConnectionIsCut)
}

func testReconnectsAfterTheConnectionIsCut(t *testing.T, b *bed) {
	c := NewClient(b.options("m1", inProcess(map[string]func(net.Conn){"echo:1": echo})))
	c.backoff.Backoff = backoff.Backoff{Min: time.Millisecond, Max: time.Millisecond}
	start(t, c)
	b.wantChange(t, "m1 true")
	first := b.dial(t, "m1", "echo:1")
	wantEcho(t, first, "one")

	b.sessionsOf("m1")[0].socket.Close()
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("a stream outlived its tunnel")
	}
	b.wantChange(t, "m1 false")
	b.wantChange(t, "m1 true")
	wantEcho(t, b.dial(t, "m1", "echo:1"), "two")
}

func TestOfSeveralSessionsTheNewestThatWorksIsUsed(t *testing.T) {
	overEach(t, testOfSeveralSessionsTheNewestThatWorksIsUsed)
}

func testOfSeveralSessionsTheNewestThatWorksIsUsed(t *testing.T, b *bed) {
	who := func(t *testing.T) string {
		t.Helper()
		text, err := io.ReadAll(b.dial(t, "m1", "who:1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	broken := make(chan struct{})
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"who:1": say("old")}))
	stopNew := b.join(t, "m1", inProcess(map[string]func(net.Conn){"who:1": say("new"), "hang:1": silence(broken)}))
	defer close(broken)
	b.wantChange(t, "m1 true")

	if got := who(t); got != "new" {
		t.Errorf("used the %s session, want the newest", got)
	}
	c := b.dial(t, "m1", "hang:1")
	c.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("the handshake worked")
	}
	if got := who(t); got != "old" {
		t.Errorf("after a failed handshake used the %s session, want the other", got)
	}
	stopNew()
	waitUntil(t, "one session is left", func() bool { return len(b.sessionsOf("m1")) == 1 })
	if got := who(t); got != "old" {
		t.Errorf("used the %s session, want the one that is left", got)
	}
	if _, ok := b.Connected("m1"); !ok {
		t.Error("not connected with one session left")
	}
	if len(b.changes) > 0 {
		t.Errorf("change %q, want none while a session is open", <-b.changes)
	}
}

func TestDeadlines(t *testing.T) { overEach(t, testDeadlines) }

func testDeadlines(t *testing.T, b *bed) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo, "hang:1": silence(over)}))
	const soon = 20 * time.Millisecond
	read := func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	flood := func(c net.Conn) error {
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return err
			}
		}
	}
	for _, tc := range []struct {
		name  string
		block func(net.Conn) error
	}{
		{"read, set before", func(c net.Conn) error { c.SetReadDeadline(time.Now().Add(soon)); return read(c) }},
		{"read, set while it waits", func(c net.Conn) error {
			time.AfterFunc(soon, func() { c.SetReadDeadline(time.Now()) })
			return read(c)
		}},
		{"read, in the past", func(c net.Conn) error { c.SetDeadline(time.Now().Add(-time.Hour)); return read(c) }},
		{"write to a peer that does not read", func(c net.Conn) error { c.SetWriteDeadline(time.Now().Add(5 * soon)); return flood(c) }},
		{"write, set while it waits", func(c net.Conn) error {
			time.AfterFunc(5*soon, func() { c.SetWriteDeadline(time.Now()) })
			return flood(c)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.block(b.dial(t, "m1", "hang:1"))
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("err = %v, want a timeout", err)
			}
		})
	}
	for _, tc := range []struct {
		name string
		set  func(net.Conn)
	}{
		{"cleared", func(c net.Conn) { c.SetDeadline(time.Now().Add(soon)); c.SetDeadline(time.Time{}) }},
		{"moved", func(c net.Conn) { c.SetDeadline(time.Now().Add(soon)); c.SetDeadline(time.Now().Add(time.Hour)) }},
		{"in the past for a moment, as tls.Conn sets it", func(c net.Conn) {
			c.SetWriteDeadline(time.Now())
			if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("err = %v", err)
			}
			c.SetWriteDeadline(time.Time{})
		}},
		{"kept by a write that was in time", func(c net.Conn) {
			c.SetWriteDeadline(time.Now().Add(soon))
			wantEcho(t, c, "x")
			c.SetWriteDeadline(time.Time{})
		}},
	} {
		t.Run("connection lives on when the deadline was "+tc.name, func(t *testing.T) {
			c := b.dial(t, "m1", "echo:1")
			tc.set(c)
			<-time.After(2 * soon)
			wantEcho(t, c, "still here")
		})
	}
}

func TestClosedConnection(t *testing.T) { overEach(t, testClosedConnection) }

func testClosedConnection(t *testing.T, b *bed) {
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo, "bye:1": say("bye")}))
	c := b.dial(t, "m1", "echo:1")
	waiting := make(chan error)
	go func() { _, err := c.Read(make([]byte, 1)); waiting <- err }()
	c.Close()
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read() of a closed connection = %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write() to a closed connection = %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close() = %v", err)
	}
	if got, err := io.ReadAll(b.dial(t, "m1", "bye:1")); string(got) != "bye" || err != nil {
		t.Errorf("the host's last words: %q, %v; want an ordinary end", got, err)
	}
}

// The library says good-bye to each stream of a dead websocket, and while it does it
// holds a lock that all websockets of one of its servers share.
func TestDeadTunnelHoldsUpNobody(t *testing.T) {
	b := newBed(t)
	b.join(t, "alive", inProcess(map[string]func(net.Conn){"echo:1": echo}))

	o := b.options("dead", nil)
	ws, _, err := (&websocket.Dialer{TLSClientConfig: o.TLS}).Dial(o.URL, o.Header())
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	waitUntil(t, "the dead one is connected", func() bool { return len(b.sessionsOf("dead")) == 1 })
	var streams []net.Conn
	for range 20 {
		streams = append(streams, b.dial(t, "dead", "x:1"))
	}
	for _, c := range streams {
		go c.Write(make([]byte, 4<<20)) // more than the sockets hold, to a peer that never reads
	}
	<-time.After(100 * time.Millisecond) // until they are full
	ws.WriteMessage(websocket.TextMessage, []byte("ends the session"))
	began := time.Now()
	wantEcho(t, b.dial(t, "alive", "echo:1"), "hello")
	if d := time.Since(began); d > 8*time.Second { // less than the library's wait for a write
		t.Errorf("another subject waited %v", d)
	}
}

func TestNothingIsLeftRunning(t *testing.T) { overEach(t, testNothingIsLeftRunning) }

func testNothingIsLeftRunning(t *testing.T, b *bed) {
	t.Run("stopped", func(t *testing.T) { testNothingIsLeftAfter(t, b, false) })
	t.Run("cut", func(t *testing.T) { testNothingIsLeftAfter(t, b, true) })
}

// testNothingIsLeftAfter ends a client in good order, or after its websocket was cut.
func testNothingIsLeftAfter(t *testing.T, b *bed, cut bool) {
	over := make(chan struct{})
	settled := runtime.NumGoroutine()
	targets := inProcess(map[string]func(net.Conn){
		"echo:1":  echo,
		"hang:1":  silence(over),
		"flood:1": func(c net.Conn) { io.Copy(c, zeros{}) },
	})
	stop := b.join(t, "m1", targets)
	wantEcho(t, b.dial(t, "m1", "echo:1"), "x")
	go b.dial(t, "m1", "hang:1").Read(make([]byte, 1))
	b.dial(t, "m1", "flood:1")                              // fills our buffer, so that the host is paused
	go b.dial(t, "m1", "hang:1").Write(make([]byte, 8<<20)) // fills the host's, so that we are
	<-time.After(200 * time.Millisecond)                    // until the buffers are full
	if cut {
		for _, s := range b.sessionsOf("m1") {
			s.socket.Close()
		}
	}
	stop()
	close(over)
	b.web.CloseClientConnections()
	waitUntil(t, "the server has seen the end", func() bool { return len(b.sessionsOf("m1")) == 0 }) // what is counted may be of earlier tests
	waitUntil(t, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= settled })
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
