package mux

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 2 * time.Minute

// wires are two ends of a TCP connection on loopback.
func wires(t testing.TB) (host, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); server.Close() })
	return host, server
}

// serve runs a session until the test ends and reports why it ended.
func serve(t testing.TB, conn net.Conn, o Options) (s *Session, ended chan error) {
	t.Helper()
	if o.Streams == 0 {
		o.Streams = 100
	}
	o.Ping, o.Now, o.End = time.Second, time.Now, func(error) { conn.Close() }
	s, ended = New(conn, o), make(chan error, 1)
	done := make(chan struct{})
	go func() { ended <- s.Serve(context.Background(), nil); close(done) }()
	t.Cleanup(func() {
		conn.Close()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("Serve() does not end")
		}
	})
	return s, ended
}

// pair is a server's session with a host that handles by a function.
func pair(t testing.TB, handle func(context.Context, *Stream, string)) *Session {
	t.Helper()
	host, server := wires(t)
	serve(t, host, Options{Handle: handle})
	s, _ := serve(t, server, Options{})
	return s
}

func echo(_ context.Context, c *Stream, _ string) {
	c.Opened()
	buf := make([]byte, 70_000)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

func open(t testing.TB, s *Session, target string) *Stream {
	t.Helper()
	c, err := s.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestBytesComeAsTheyWereSent(t *testing.T) {
	s := pair(t, echo)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			c := open(t, s, "echo")
			sent := make([]byte, 3<<20+i)
			for j := range sent {
				sent[j] = byte(random.Uint32())
			}
			go func() {
				for rest := sent; len(rest) > 0; {
					n := min(len(rest), 1+random.IntN(1<<(1+random.IntN(18))))
					if _, err := c.Write(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			}()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("stream %d: %v, or other bytes than were sent", i, err)
			}
		})
	}
	running.Wait()
}

func TestHalfClose(t *testing.T) {
	s := pair(t, func(_ context.Context, c *Stream, _ string) {
		all, err := io.ReadAll(c)
		fmt.Fprintf(c, "%d %v", len(all), err)
	})
	c := open(t, s, "x")
	c.Write(make([]byte, 1_000_000))
	c.CloseWrite()
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write() after CloseWrite() = %v", err)
	}
	got := make([]byte, 13)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "1000000 <nil>" {
		t.Errorf("answer %q, %v", got, err)
	}
}

func TestRefusal(t *testing.T) {
	s := pair(t, func(_ context.Context, c *Stream, target string) { c.Reset(Refused, "not "+target) })
	c := open(t, s, "tcp/x:1")
	var reset *ResetError
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &reset) || *reset != (ResetError{Refused, "not tcp/x:1"}) {
		t.Errorf("Read() = %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.As(err, &reset) {
		t.Errorf("Write() = %v", err)
	}
	waitUntil(t, "it is forgotten", func() bool { return s.count() == 0 })
}

func TestAnswerIsNoted(t *testing.T) {
	s := pair(t, echo)
	c := open(t, s, "x")
	waitUntil(t, "the host has connected", c.Answered)
}

func TestStreamThatNobodyReadsHoldsUpNoOther(t *testing.T) {
	over := make(chan struct{})
	s := pair(t, func(ctx context.Context, c *Stream, target string) {
		if target == "deaf" {
			<-over
			return
		}
		echo(ctx, c, target)
	})
	defer close(over)
	deaf, good := open(t, s, "deaf"), open(t, s, "echo")
	written := make(chan int, 1)
	go func() { n, _ := deaf.Write(make([]byte, 64<<20)); written <- n }()
	waitUntil(t, "one is paused", func() bool { return s.Paused() == 1 })
	good.Write([]byte("hello"))
	if _, err := io.ReadFull(good, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	deaf.Close()
	if n := <-written; n > maxWindow {
		t.Errorf("%d bytes were taken of what nobody reads", n)
	}
}

func TestEndWakesEverybody(t *testing.T) {
	host, server := wires(t)
	serve(t, host, Options{Handle: func(ctx context.Context, _ *Stream, _ string) { <-ctx.Done() }})
	s, _ := serve(t, server, Options{})
	c := open(t, s, "x")
	ended := make(chan error, 2)
	go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
	go func() { _, err := c.Write(make([]byte, 4<<20)); ended <- err }()
	waitUntil(t, "it is paused", func() bool { return s.Paused() == 1 })
	server.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, ErrOver) {
			t.Errorf("ended with %v", err)
		}
	}
	if _, err := s.Open("y"); !errors.Is(err, ErrOver) {
		t.Errorf("Open() = %v", err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	s := pair(t, echo)
	use := func() {
		c := open(t, s, "x")
		c.Write([]byte("hello"))
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	use()
	settled := runtime.NumGoroutine()
	for range 500 {
		use()
	}
	waitUntil(t, "all are forgotten", func() bool { return s.count() == 0 })
	waitUntil(t, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= settled })
}

func TestWindowGrowsOnlyOnALongWay(t *testing.T) {
	now := time.Unix(0, 0)
	s := New(nil, Options{Now: func() time.Time { return now }, Streams: 10})
	st := newStream(s, 2)
	s.pings.shortest = 50 * time.Millisecond
	for range 20 {
		now = now.Add(10 * time.Millisecond)
		st.consume(st.window / 2)
		st.speak(nil)
	}
	if st.window != maxWindow || st.granted < maxWindow || s.grown != maxWindow-firstWindow {
		t.Errorf("a fast reader at the end of a long way has a window of %d, granted %d, grown %d", st.window, st.granted, s.grown)
	}
	slow := newStream(s, 3)
	for range 20 {
		now = now.Add(time.Second)
		slow.consume(slow.window / 2)
		slow.speak(nil)
	}
	if slow.window != firstWindow {
		t.Errorf("a slow reader has a window of %d", slow.window)
	}
}

// TestWindowsAreGivenBack: what windows may grow together is a budget of the session, and a
// connection that has ended takes nothing of it.
func TestWindowsAreGivenBack(t *testing.T) {
	now := time.Unix(0, 0)
	s := New(nil, Options{Now: func() time.Time { return now }, Streams: 1000})
	s.pings.shortest = 50 * time.Millisecond
	widen := func(st *Stream) {
		for range 10 {
			now = now.Add(time.Millisecond)
			st.consume(st.window / 2)
			st.speak(nil)
		}
	}
	var all []*Stream
	for range 20 {
		st, err := s.Open("x")
		if err != nil {
			t.Fatal(err)
		}
		widen(st)
		all = append(all, st)
	}
	if s.grown > maxGrown || s.grown < maxGrown/2 {
		t.Fatalf("windows have grown by %d, the budget is %d", s.grown, maxGrown)
	}
	if last := all[len(all)-1]; last.window >= maxWindow {
		t.Errorf("the last connection has a window of %d beyond the budget", last.window)
	}
	for _, st := range all {
		s.mu.Lock()
		st.abandon(ErrOver)
		st.forget()
		s.mu.Unlock()
	}
	if s.grown != 0 {
		t.Errorf("%d bytes of the budget are still taken after all connections have ended", s.grown)
	}
	st, err := s.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	if widen(st); st.window != maxWindow {
		t.Errorf("a new connection has a window of %d", st.window)
	}
}

// gate is a connection whose writes wait until it is opened, and are recorded.
type gate struct {
	net.Conn
	open    chan struct{}
	mu      sync.Mutex
	written bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.written.Write(p)
}

// TestSmallFramesGoFirst: what an interactive connection sends waits for one large frame at
// the most, however much others have lined up before it.
func TestSmallFramesGoFirst(t *testing.T) {
	host, server := wires(t)
	g := &gate{Conn: server, open: make(chan struct{})}
	s, _ := serve(t, g, Options{})
	if _, err := host.Write(raw(opPing, "12345678")); err != nil {
		t.Fatal(err)
	}
	var bulk []*Stream
	for range 4 {
		st := open(t, s, "bulk")
		bulk = append(bulk, st)
		go st.Write(bytes.Repeat([]byte("B"), firstWindow))
	}
	waitUntil(t, "much waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, st := range bulk {
			if st.outBytes < maxWaiting {
				return false
			}
		}
		return true
	})
	quick := open(t, s, "quick")
	if _, err := quick.Write([]byte("interactive")); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	waitUntil(t, "all is written", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return bytes.Count(g.written.Bytes(), []byte("B")) >= 4*maxWaiting
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	at := bytes.Index(g.written.Bytes(), []byte("interactive"))
	if at < 0 {
		t.Fatal("it was not written")
	}
	// One large frame may have been on its way already, and one has its turn.
	if before := bytes.Count(g.written.Bytes()[:at], []byte("B")); before > 2*maxData {
		t.Errorf("%d bytes of others went before it", before)
	}
}

func (s *Session) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

func waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

// plain is a frame of the protocol in a message of a client, whatever is in it.
func plain(k kind, stream uint64, body string) []byte {
	return appendFrame(nil, true, header{k, len(body), stream}, []byte(body))
}

func raw(op byte, payload string) []byte {
	key := [4]byte{1, 0x22, 0xf0, 9}
	b := appendMessage(nil, op, len(payload), &key)
	begin := len(b)
	b = append(b, payload...)
	xor(b[begin:], key, 0)
	return b
}

// TestHostileHost is what a host may not do to a server.
func TestHostileHost(t *testing.T) {
	huge := plain(kindData, 2, "")
	key := [4]byte(huge[2:6])
	binary.BigEndian.PutUint32(huge[6:], uint32(kindData)<<24|0xffffff)
	xor(huge[6:10], key, 0)
	for name, tc := range map[string]struct {
		sends []byte
		want  string
	}{
		"asks the server to dial":     {plain(kindOpen, 1, "tcp/127.0.0.1:22"), "only the server may ask"},
		"text":                        {raw(opText, "hello"), "text message"},
		"no mask":                     {appendFrame(nil, false, header{kindData, 1, 2}, []byte("x")), "mask"},
		"an extension":                {[]byte{0xc2, 0x80}, "extension"},
		"a frame of 16 MiB":           {huge, "more than 65536"},
		"a word that is too long":     {plain(kindCredit, 2, "12345"), "more than 4"},
		"half a number":               {plain(kindCredit, 2, "12"), "with 2 bytes"},
		"endless credit":              {plain(kindCredit, 2, "\x7f\xff\xff\xff"), "granted more than"},
		"more than it was granted":    {bytes.Repeat(plain(kindData, 2, strings.Repeat("x", maxData)), 5), "where it might send 0"},
		"fragment of nothing":         {raw(opContinuation, "x"), "not begun"},
		"a message inside of another": {append([]byte{0x02, 0x81, 0, 0, 0, 0, 9}, raw(opBinary, "x")...), "inside of another"},
		"a reserved kind":             {raw(5, ""), "unknown kind"},
		"a large ping":                {[]byte{0x89, 0xfe, 1, 0, 0, 0, 0, 0}, "control frame"},
		"ping flood":                  {bytes.Repeat(raw(opPing, "12345678"), maxControls+1), "pings within"},
		"another protocol":            {raw(opPing, ""), "speaks another protocol"},
		"empty messages without end":  {bytes.Repeat(raw(opBinary, ""), maxControls+1), "pings within"},
		"an announcement of 2^63":     {[]byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "announced a frame"},
	} {
		t.Run(name, func(t *testing.T) {
			host, server := wires(t)
			s, ended := serve(t, server, Options{})
			c := open(t, s, "x")
			go io.Copy(io.Discard, host)
			host.Write(tc.sends)
			select {
			case err := <-ended:
				var wrong *ViolationError
				if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("ended with %v, want %q", err, tc.want)
				}
			case <-time.After(patience):
				t.Fatal("the server bears with it")
			}
			if _, err := io.ReadAll(c); !errors.Is(err, ErrOver) {
				t.Errorf("its connection ended with %v", err)
			}
		})
	}
}

// What is odd and harmless is ignored: later versions may send it, and things cross on the way.
func TestOddHostIsBorneWith(t *testing.T) {
	host, server := wires(t)
	s, _ := serve(t, server, Options{})
	c := open(t, s, "x")
	go io.Copy(io.Discard, host)
	for _, b := range [][]byte{
		plain(99, 2, "a kind of later"), plain(kindData, 77, "gone"), plain(kindCredit, 77, "1234"), plain(kindFinish, 77, ""),
		plain(kindReset, 77, ""), plain(kindOpened, 2, ""), plain(kindOpened, 2, ""), raw(opPong, "unasked"), raw(opBinary, ""),
	} {
		host.Write(b)
	}
	split := plain(kindData, 2, "hello")
	binary.BigEndian.PutUint32(split[2:], 0) // no mask, so that it can be cut anywhere
	payload := append(appendHeader(nil, header{kindData, 5, 2}), "hello"...)
	for i, b := range payload { // each byte in a part of its own, with a ping between
		op := byte(opContinuation)
		if i == 0 {
			op = opBinary
		}
		part := raw(op, string(b))
		if i < len(payload)-1 {
			part[0] &^= 0x80
		}
		host.Write(append(part, raw(opPing, "")...))
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestHostileServer is what a server may not do to a host.
func TestHostileServer(t *testing.T) {
	of := func(k kind, stream uint64, body string) []byte {
		return appendFrame(nil, false, header{k, len(body), stream}, []byte(body))
	}
	var many []byte
	for i := range 200 {
		many = append(many, of(kindOpen, uint64(2+i), "hang")...)
	}
	for name, tc := range map[string]struct {
		sends []byte
		want  string
	}{
		"too many connections":    {many, "more than 100 connections"},
		"the same number again":   {append(of(kindOpen, 2, "hang"), of(kindOpen, 2, "hang")...), "again"},
		"a target without an end": {of(kindOpen, 2, strings.Repeat("x", maxTarget+1)), "more than 266"},
		"a mask":                  {plain(kindOpen, 2, "x"), "mask"},
		"more than was granted":   {append(of(kindOpen, 2, "hang"), bytes.Repeat(of(kindData, 2, strings.Repeat("x", maxData)), 5)...), "where it might send 0"},
	} {
		t.Run(name, func(t *testing.T) {
			host, server := wires(t)
			_, ended := serve(t, host, Options{Handle: func(ctx context.Context, _ *Stream, _ string) { <-ctx.Done() }})
			go io.Copy(io.Discard, server)
			server.Write(tc.sends)
			select {
			case err := <-ended:
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("ended with %v, want %q", err, tc.want)
				}
			case <-time.After(patience):
				t.Fatal("the host bears with it")
			}
		})
	}
}

// A peer that sends its whole window in the smallest frames, on many connections, costs
// little more than the window.
func TestSmallFramesHoldNoLargeBuffers(t *testing.T) {
	s := New(nil, Options{Now: time.Now, Streams: 10})
	st := newStream(s, 2)
	for range firstWindow / 600 {
		st.deliverSmall(make([]byte, 600))
	}
	held := 0
	for _, c := range st.in {
		held += len(c.buf)
	}
	if held > 2*firstWindow {
		t.Errorf("%d bytes are held for %d", held, firstWindow)
	}
}

func TestGoodbye(t *testing.T) {
	host, server := wires(t)
	_, ended := serve(t, server, Options{})
	host.Write(raw(opClose, "\x03\xe9moved"))
	var bye *FarewellError
	if err := <-ended; !errors.As(err, &bye) || *bye != (FarewellError{1001, "moved"}) {
		t.Errorf("ended with %v", err)
	}
}

func TestXor(t *testing.T) {
	key := [4]byte{1, 0x22, 0xf0, 9}
	for size := range 100 {
		for at := range 4 {
			got := make([]byte, size)
			xor(got, key, at)
			for i, b := range got {
				if b != key[(at+i)%4] {
					t.Fatalf("byte %d of %d from %d is %#x", i, size, at, b)
				}
			}
		}
	}
}

// wire is a connection whose peer has said everything and hears nothing.
type wire struct{ io.Reader }

func (wire) Write(p []byte) (int, error) { return len(p), nil }

// FuzzSession feeds both ends with anything: they end, and hold no more than was granted.
func FuzzSession(f *testing.F) {
	f.Add(plain(kindData, 2, "hello"), false)
	f.Add(append(plain(kindFinish, 2, ""), plain(kindReset, 3, "\x01no")...), false)
	f.Add(appendFrame(appendFrame(nil, false, header{kindOpen, 4, 2}, []byte("tcp/")), false, header{kindData, 1, 2}, []byte("x")), true)
	f.Fuzz(func(t *testing.T, stream []byte, client bool) {
		o := Options{Streams: 4, Ping: time.Hour, Now: time.Now}
		if client {
			o.Handle = func(ctx context.Context, c *Stream, _ string) { <-ctx.Done() }
		}
		s := New(wire{bytes.NewReader(stream)}, o)
		if !client {
			open(t, s, "a")
			open(t, s, "b")
		}
		if err := s.Serve(t.Context(), nil); err == nil {
			t.Error("Serve() ended without a reason")
		}
		for _, st := range s.streams {
			held := 0
			for _, c := range st.in {
				held += len(c.unread())
			}
			if held > st.window || st.credit < 0 || st.granted < 0 {
				t.Errorf("%d bytes are held, the window is %d, credit %d, granted %d", held, st.window, st.credit, st.granted)
			}
		}
	})
}
