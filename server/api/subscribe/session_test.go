package subscribe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// serve runs a session for each connection and gives the server's address.
func serve(t *testing.T, l *Log, shape func(*http.Request, *Session)) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &Session{
			Log: l, From: l.Now(), Ping: time.Hour, Alive: func() error { return nil },
			Show: func(c Change) []Frame { return []Frame{{Name: "resource.change", Data: c.Key}} },
		}
		if shape != nil {
			shape(r, s)
		}
		conn, err := Upgrade(w, r)
		if err != nil {
			return
		}
		s.Conn = conn
		_ = s.Run(ctx) // what the client sees is what counts
	}))
	t.Cleanup(func() { cancel(); srv.Close() })
	return strings.TrimPrefix(srv.URL, "http://")
}

func dial(t *testing.T, address, query string) *websocket.Conn {
	t.Helper()
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+address+"/?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func next(t *testing.T, conn *websocket.Conn) Frame {
	t.Helper()
	kind, data, err := conn.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	var f Frame
	if err := json.Unmarshal(data, &f); err != nil || kind != websocket.TextMessage {
		t.Fatalf("frame %d %s: %v", kind, data, err)
	}
	return f
}

// TestAnyKey speaks the handshake by hand, since libraries send good keys only.
func TestAnyKey(t *testing.T) {
	l := NewLog(time.Now)
	address := serve(t, l, func(_ *http.Request, s *Session) { s.Ping = 10 * time.Millisecond })
	for _, c := range []struct{ name, key, accept string }{
		{"as RFC 6455 has it", "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
		{"13 bytes, as in the guides", "SGVsbG8sIHdvcmxkIQ==", "qGEgH3En71di5rrssAZTmtRTyFk="},
		{"not base64", "hello", string(accept("hello"))},
		{"none", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", c.key)
			br := bufio.NewReader(conn)
			response, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.accept == "" {
				if response.StatusCode != http.StatusBadRequest {
					t.Errorf("status %s", response.Status)
				}
				return
			}
			if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != c.accept {
				t.Fatalf("status %s, accept %q, want %q", response.Status, response.Header.Get("Sec-WebSocket-Accept"), c.accept)
			}
			// A text frame that is final, not masked and shorter than 126 bytes.
			head := make([]byte, 2)
			if _, err := br.Read(head); err != nil || head[0] != 0x81 || head[1] > 125 {
				t.Fatalf("frame begins with % x, %v", head, err)
			}
			body := make([]byte, head[1])
			if _, err := br.Read(body); err != nil || string(body) != `{"name":"ping","revision":"0","data":{}}` {
				t.Errorf("frame %s, %v", body, err)
			}
		})
	}
}

// TestNothingIsLost cuts a client's connection in the middle of 100 changes.
func TestNothingIsLost(t *testing.T) {
	l := NewLog(time.Now)
	l.Begin(5)
	address := serve(t, l, func(r *http.Request, s *Session) {
		if since, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64); err == nil {
			from, ok := l.Since(since)
			s.From, s.Lost = from, !ok
		}
	})
	conn := dial(t, address, "since=5")
	seen := map[string]bool{}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			l.Add(Change{Revision: int64(6 + i/2), Key: fmt.Sprint(i)}) // two changes a revision
		}
	}
	add(0, 50)
	last := ""
	for range 25 { // cut between two changes of one revision
		f := next(t, conn)
		seen[fmt.Sprint(f.Data)], last = true, f.Revision
	}
	_ = conn.Close()
	add(50, 100)
	conn = dial(t, address, "since="+last)
	for len(seen) < 100 {
		f := next(t, conn)
		if f.Name != "resource.change" {
			t.Fatalf("frame %+v", f)
		}
		seen[fmt.Sprint(f.Data)] = true
	}
}

func TestResync(t *testing.T) {
	l := NewLog(time.Now)
	l.Begin(5)
	address := serve(t, l, func(_ *http.Request, s *Session) { s.From, s.Lost = l.Now(), true })
	conn := dial(t, address, "")
	if f := next(t, conn); f.Name != "resync" || f.Revision != "5" {
		t.Errorf("first frame %+v", f)
	}
	l.Add(Change{Revision: 6, Key: "a"})
	if f := next(t, conn); f.Name != "resource.change" || f.Revision != "6" || f.Data != "a" {
		t.Errorf("second frame %+v", f)
	}
}

func TestSessionEnds(t *testing.T) {
	expired := &EndError{Code: CloseExpired, Reason: "the token expired"}
	for _, c := range []struct {
		name  string
		shape func(*Session)
		do    func(*Log, *websocket.Conn)
		code  int
	}{
		{"token expires, seen by a ping", func(s *Session) { s.Ping, s.Alive = time.Millisecond, func() error { return expired } }, nil, 4001},
		{
			"token expires, seen by a change", func(s *Session) { s.Alive = func() error { return expired } },
			func(l *Log, _ *websocket.Conn) { l.Add(Change{Revision: 1}) }, 4001,
		},
		{"token is revoked, seen at once", func(s *Session) {
			over := make(chan struct{})
			close(over)
			s.Over, s.Alive = over, func() error { return expired }
		}, nil, 4001},
		{"client sends too much", nil, func(_ *Log, conn *websocket.Conn) {
			_ = conn.WriteMessage(websocket.TextMessage, make([]byte, readLimit+1))
		}, websocket.CloseMessageTooBig},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLog(time.Now)
			conn := dial(t, serve(t, l, func(_ *http.Request, s *Session) {
				if c.shape != nil {
					c.shape(s)
				}
			}), "")
			if c.do != nil {
				c.do(l, conn)
			}
			_, data, err := conn.ReadMessage()
			if end, ok := errors.AsType[*websocket.CloseError](err); !ok || end.Code != c.code {
				t.Errorf("frame %q, error %v, want code %d", data, err, c.code)
			}
		})
	}
}

// TestWhatMayGoOnGoesOn: a session that was asked for and may go on shows what comes, and asks no more by itself.
func TestWhatMayGoOnGoesOn(t *testing.T) {
	l := NewLog(time.Now)
	over, asked := make(chan struct{}), make(chan struct{}, 100)
	conn := dial(t, serve(t, l, func(_ *http.Request, s *Session) {
		s.Over, s.Alive = over, func() error { asked <- struct{}{}; return nil }
	}), "")
	close(over)
	<-asked
	for i, key := range []string{"a", "b"} {
		l.Add(Change{Revision: int64(i + 1), Key: key})
		if f := next(t, conn); f.Data != key {
			t.Errorf("frame %+v", f)
		}
		<-asked // before it was shown
	}
	if len(asked) > 0 {
		t.Errorf("it was asked %d times more", len(asked))
	}
}

// TestASessionThatFellBehind: the client of such a session is told once to list again, and the session goes on from there.
func TestASessionThatFellBehind(t *testing.T) {
	l := NewLog(time.Now)
	l.Begin(5)
	l.first = 10 // those before have gone
	conn := dial(t, serve(t, l, func(_ *http.Request, s *Session) { s.From = 3 }), "")
	if f := next(t, conn); f.Name != "resync" || f.Revision != "5" {
		t.Errorf("first frame %+v", f)
	}
	for i, key := range []string{"a", "b"} {
		l.Add(Change{Revision: int64(6 + i), Key: key})
		if f := next(t, conn); f.Name != "resource.change" || f.Data != key {
			t.Errorf("frame %+v", f)
		}
	}
}

// TestBatches: Batch is called before the changes of a batch are shown; the revision of each frame of a change stays.
func TestBatches(t *testing.T) {
	l := NewLog(time.Now)
	var told []string
	conn := dial(t, serve(t, l, func(_ *http.Request, s *Session) {
		s.From = 0
		s.Batch = func(changes []Change) { told = append(told, fmt.Sprint(len(changes), " from ", changes[0].Revision)) }
		s.Show = func(c Change) []Frame {
			told = append(told, c.Key)
			f := Frame{Name: "resource.change", Data: strings.Join(told, " ")}
			if c.Key == "b" {
				f.Revision = "own"
			}
			return []Frame{f}
		}
		for i, key := range []string{"a", "b", "c"} {
			l.Add(Change{Revision: int64(6 + i), Key: key})
		}
	}), "")
	for _, want := range [][2]string{{"6", "3 from 6 a"}, {"own", "3 from 6 a b"}, {"8", "3 from 6 a b c"}} {
		if f := next(t, conn); f.Revision != want[0] || f.Data != want[1] {
			t.Errorf("frame %+v, want %q", f, want)
		}
	}
	l.Add(Change{Revision: 9, Key: "d"})
	if f := next(t, conn); f.Data != "3 from 6 a b c 1 from 9 d" {
		t.Errorf("frame %+v", f)
	}
}

// TestASessionEndsWhileItsClientSpeaks: a frame of the client that is read and not handled does not block the end of the session.
func TestASessionEndsWhileItsClientSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			_, _ = http.ReadResponse(bufio.NewReader(client), nil)
			time.Sleep(time.Second)
			_, _ = client.Write([]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}) // a text of one byte, masked by zeros
			_, _ = io.Copy(io.Discard, client)
		}()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v3/subscribe", nil)
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": sampleKey} {
			r.Header.Set(name, value)
		}
		conn, err := Upgrade(taking{httptest.NewRecorder(), server}, r)
		if err != nil {
			t.Fatal(err)
		}
		l, asked, expired := NewLog(time.Now), 0, &EndError{Code: CloseExpired, Reason: "the token expired"}
		s := &Session{
			Conn: conn, Log: l, Ping: time.Hour, Receive: func([]byte) []Frame { t.Error("it was taken"); return nil },
			Show: func(Change) []Frame {
				time.Sleep(2 * time.Second)
				l.Add(Change{Revision: 2})
				return nil
			},
			Alive: func() error {
				if asked++; asked > 1 {
					return expired
				}
				return nil
			},
		}
		l.Add(Change{Revision: 1})
		if err := s.Run(t.Context()); !errors.Is(err, expired) {
			t.Error(err)
		}
	})
}

func TestServerStops(t *testing.T) {
	l := NewLog(time.Now)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Upgrade(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		s := &Session{Conn: conn, Log: l, Ping: time.Hour, Alive: func() error { return nil }, Show: func(Change) []Frame { return nil }}
		done <- s.Run(ctx)
	}))
	defer srv.Close()
	conn := dial(t, strings.TrimPrefix(srv.URL, "http://"), "")
	stop()
	_, _, err := conn.ReadMessage()
	if end, ok := errors.AsType[*websocket.CloseError](err); !ok || end.Code != websocket.CloseGoingAway {
		t.Errorf("error %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAClientThatLeaves is noticed though nothing is written to it.
func TestAClientThatLeaves(t *testing.T) {
	l, done := NewLog(time.Now), make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Upgrade(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		s := &Session{Conn: conn, Log: l, Ping: time.Hour, Alive: func() error { return nil }, Show: func(Change) []Frame { return nil }}
		done <- s.Run(t.Context())
	}))
	defer srv.Close()
	_ = dial(t, strings.TrimPrefix(srv.URL, "http://"), "").Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("its session goes on")
	}
}

func TestReceive(t *testing.T) {
	l := NewLog(time.Now)
	conn := dial(t, serve(t, l, func(_ *http.Request, s *Session) {
		s.Receive = func(data []byte) []Frame { return []Frame{{Name: "echo", Data: string(data)}} }
	}), "")
	for _, text := range []string{"a", "b"} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if f := next(t, conn); f.Name != "echo" || f.Data != text {
			t.Errorf("frame %+v", f)
		}
	}
}

func TestClientFramesAreIgnored(t *testing.T) {
	l := NewLog(time.Now)
	conn := dial(t, serve(t, l, nil), "")
	if err := conn.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	l.Add(Change{Revision: 1, Key: "a"})
	if f := next(t, conn); f.Data != "a" {
		t.Errorf("frame %+v", f)
	}
}

// taking is an answer whose connection may be taken over.
type taking struct {
	http.ResponseWriter
	conn net.Conn
}

func (w taking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

// TestASubscriberThatNeverReads is left: one frame at a time waits for it, and not for long.
func TestASubscriberThatNeverReads(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changes int
		began   time.Duration // when the first frame is written
	}{{"while a thousand things change", 1000, 0}, {"while nothing changes", 0, 5 * time.Second}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer client.Close()
				go func() { // it reads that it is a websocket now, and nothing more
					_, _ = http.ReadResponse(bufio.NewReader(client), nil)
				}()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v3/subscribe", nil)
				for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": sampleKey} {
					r.Header.Set(name, value)
				}
				conn, err := Upgrade(taking{httptest.NewRecorder(), server}, r)
				if err != nil {
					t.Fatal(err)
				}
				l, shown := NewLog(time.Now), 0
				s := &Session{
					Conn: conn, Log: l, From: l.Now(), Ping: 5 * time.Second, Alive: func() error { return nil },
					Show: func(c Change) []Frame { shown++; return []Frame{{Name: "resource.change", Data: c.Key}} },
				}
				for i := range tc.changes {
					l.Add(Change{Revision: int64(i + 1), Key: "harbour"})
				}
				began := time.Now()
				err = s.Run(t.Context())
				if took := time.Since(began) - tc.began; !errors.Is(err, os.ErrDeadlineExceeded) || took < writeTimeout || took > writeTimeout+2*time.Second {
					t.Errorf("it was left after %s with %v", took, err)
				}
				if shown > 1 {
					t.Errorf("%d frames were made for it", shown)
				}
			})
		})
	}
}
