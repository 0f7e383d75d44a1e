package tunnel

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// message is one of the protocol's, with an id of no meaning.
func message(kind messageType, conn int64, payload string) []byte {
	b := binary.AppendVarint(nil, 7)
	b = binary.AppendVarint(b, conn)
	b = binary.AppendVarint(b, int64(kind))
	if kind == typeData || kind == typeConnect {
		b = binary.AppendVarint(b, 15000)
	}
	return append(b, payload...)
}

// raw is a websocket that the test itself speaks over.
func (b *bed) raw(t *testing.T, subject string) *websocket.Conn {
	t.Helper()
	o := b.options(subject, nil)
	ws, _, err := (&websocket.Dialer{TLSClientConfig: o.TLS}).Dial(o.URL, o.Header())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	waitUntil(t, subject+" is connected", func() bool { return len(b.sessionsOf(subject)) == 1 })
	return ws
}

// TestHostileClient sends what no client sends: the server ends that websocket, notifies both
// sides of the reason, and everybody else's goes on.
func TestHostileClient(t *testing.T) {
	binaryMessage := func(m []byte) func(*websocket.Conn) {
		return func(ws *websocket.Conn) { ws.WriteMessage(websocket.BinaryMessage, m) }
	}
	for _, tc := range []struct {
		name string
		do   func(*websocket.Conn)
		want string
	}{
		{"text", func(ws *websocket.Conn) { ws.WriteMessage(websocket.TextMessage, []byte("hello")) }, "text message"},
		{"asks the server to dial", binaryMessage(message(typeConnect, 1, "tcp/127.0.0.1:22")), "only the server may ask"},
		{"announces clients", binaryMessage(message(typeAddClient, 0, "other/1")), "only another server may do"},
		{"truncated header", binaryMessage([]byte{0x80}), "header cannot be read"},
		{"list of half a number", binaryMessage(message(typeSync, 0, "abc")), "cannot be understood"},
		{"1 GiB announced", func(ws *websocket.Conn) {
			ws.NetConn().Write([]byte{0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4})
		}, "announced a message of 1073741824 bytes"},
		{"ping flood", func(ws *websocket.Conn) {
			for range maxControls + 1 {
				ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience))
			}
		}, "pings within"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t)
			b.join(t, "good", inProcess(map[string]func(net.Conn){"echo:1": echo}))
			kept := b.dial(t, "good", "echo:1")
			wantEcho(t, kept, "before")
			ws := b.raw(t, "bad")
			victim := b.dial(t, "bad", "x:1")
			tc.do(ws)

			var said *websocket.CloseError
			_, err := readAll(ws)
			if !errors.As(err, &said) || !strings.Contains(said.Text, tc.want) {
				t.Errorf("the client got %v, want %q", err, tc.want)
			}
			var lost *LostError
			if _, err := victim.Read(make([]byte, 1)); !errors.As(err, &lost) {
				t.Errorf("its connection ended with %v", err)
			}
			waitUntil(t, "the end is noted", func() bool { return len(b.Ended("bad")) == 1 })
			if got := b.Ended("bad")[0].Reason; !strings.Contains(got, tc.want) {
				t.Errorf("the server noted %q, want %q", got, tc.want)
			}
			wantEcho(t, kept, "after")
		})
	}
}

// TestHostileMuxClient is the same for our own protocol, whose rules package mux tests.
func TestHostileMuxClient(t *testing.T) {
	b := newBed(t)
	b.join(t, "good", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	kept := b.dial(t, "good", "echo:1")
	wantEcho(t, kept, "before")
	o := b.options("bad", nil)
	h := o.Header()
	h.Set(protocolHeader, "later7, "+muxProtocol)
	ws, answer, err := (&websocket.Dialer{TLSClientConfig: o.TLS}).Dial(o.URL, h)
	if err != nil || answer.Header.Get(protocolHeader) != muxProtocol {
		t.Fatalf("%v, %v", answer, err)
	}
	defer ws.Close()
	waitUntil(t, "it is connected", func() bool { return len(b.sessionsOf("bad")) == 1 })
	victim := b.dial(t, "bad", "x:1")
	ws.WriteMessage(websocket.BinaryMessage, append([]byte{1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, 'x')) // open
	const want = "only the server may ask"
	var said *websocket.CloseError
	if _, err := readAll(ws); !errors.As(err, &said) || !strings.Contains(said.Text, want) {
		t.Errorf("the client got %v, want %q", err, want)
	}
	var lost *LostError
	if _, err := victim.Read(make([]byte, 1)); !errors.As(err, &lost) || !strings.Contains(err.Error(), want) {
		t.Errorf("its connection ended with %v", err)
	}
	waitUntil(t, "the end is noted", func() bool { return len(b.Ended("bad")) == 1 })
	if got := b.Ended("bad")[0].Reason; !strings.Contains(got, want) {
		t.Errorf("the server noted %q, want %q", got, want)
	}
	wantEcho(t, kept, "after")
}

// readAll reads until an error.
func readAll(ws *websocket.Conn) (last []byte, err error) {
	ws.SetReadDeadline(time.Now().Add(patience))
	for {
		_, got, err := ws.ReadMessage()
		if err != nil {
			return last, err
		}
		last = got
	}
}

// What is odd and harmless is answered or ignored: later versions may send it.
func TestOddClientIsBorneWith(t *testing.T) {
	b := newBed(t)
	ws := b.raw(t, "odd")
	for _, m := range [][]byte{
		message(99, 2, "unknown type"),
		message(-1<<62, -1<<62, ""),
		message(typePause, 1<<62, ""),
		message(typeError, 77, "no such connection"),
		message(typeData, 1<<62, "data for a closed stream"),
	} {
		if err := ws.WriteMessage(websocket.BinaryMessage, m); err != nil {
			t.Fatal(err)
		}
	}
	_, answer, err := ws.ReadMessage()
	if err != nil || !strings.Contains(string(answer), "connection not found") {
		t.Errorf("answer to data for a closed stream: %q, %v", answer, err)
	}
	if _, ok := b.Connected("odd"); !ok {
		t.Error("the session ended")
	}
}

// A client that sends on while it was asked to pause would fill the server's memory.
func TestClientThatDoesNotPause(t *testing.T) {
	b := newBed(t)
	b.limits.unread = 4 << 20
	ws := b.raw(t, "bad")
	c := b.dial(t, "bad", "x:1")
	before := inUse()
	var err error
	chunk := message(typeData, 2, strings.Repeat("x", 32<<10))
	for range 10_000 {
		if err = ws.WriteMessage(websocket.BinaryMessage, chunk); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the server took everything")
	}
	waitUntil(t, "the end is noted", func() bool { return len(b.Ended("bad")) == 1 })
	if got := b.Ended("bad")[0].Reason; !strings.Contains(got, "asked to pause") {
		t.Errorf("reason %q", got)
	}
	c.Close()
	if grown := int64(inUse()) - int64(before); grown > 32<<20 {
		t.Errorf("%d MiB are held", grown>>20)
	}
}

func TestHeadersOfARequest(t *testing.T) {
	b := newBed(t)
	for size, want := range map[int]int{60 << 10: http.StatusSwitchingProtocols, 66 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		o := b.options("m1", nil)
		h := o.Header()
		h.Set("X-API-Tunnel-Params", strings.Repeat("a", size))
		ws, answer, err := (&websocket.Dialer{TLSClientConfig: o.TLS}).Dial(o.URL, h)
		if answer == nil || answer.StatusCode != want {
			t.Errorf("%d bytes of headers: %v, %v; want %d", size, answer, err, want)
		}
		if err == nil {
			ws.Close()
		} else if text, _ := io.ReadAll(answer.Body); !strings.Contains(string(text), "up to 65536") {
			t.Errorf("refused with %q", text)
		}
	}
}

func TestRefusalHasTheStatusThatTheAuthoriserChose(t *testing.T) {
	b := newBed(t)
	b.Server.o.Authorize = func(*http.Request) (Peer, error) {
		return Peer{}, &HandshakeError{Status: 400, Text: "cluster not found"}
	}
	o := b.options("m1", nil)
	_, answer, err := (&websocket.Dialer{TLSClientConfig: o.TLS}).Dial(o.URL, o.Header())
	if err == nil || answer.StatusCode != 400 {
		t.Fatalf("%v, %v", answer, err)
	}
	if text, _ := io.ReadAll(answer.Body); string(text) != "cluster not found\n" {
		t.Errorf("body %q", text)
	}
}

func TestPlainRequestIsNoTunnel(t *testing.T) {
	b := newBed(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer m1")
	answer, err := b.web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusBadRequest || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%d %q, want one sentence and 400", answer.StatusCode, text)
	}
}

func TestAgentThatNeverAnswersLeavesNothing(t *testing.T) {
	b := newBed(t)
	b.limits.connections = 10
	b.raw(t, "deaf")
	var open []net.Conn
	for range 10 {
		open = append(open, b.dial(t, "deaf", "x:1"))
	}
	if _, err := b.Dial(t.Context(), "deaf", Target{Network: "tcp", Address: "x:1"}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v, want that it is busy", err)
	}
	for _, c := range open {
		c.Close()
	}
	if got := b.Sessions()[0].Connections; got != 0 {
		t.Errorf("%d connections are left", got)
	}
	settled := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if c, err := b.Dial(ctx, "deaf", Target{Network: "tcp", Address: "x:1"}); err == nil {
			c.Close()
		}
	}
	waitUntil(t, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= settled+2 })
	waitUntil(t, "no connection is left after dials that were given up", func() bool { return b.Sessions()[0].Connections == 0 })
}
