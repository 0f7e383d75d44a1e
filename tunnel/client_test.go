package tunnel

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/tunnel/trust"
)

// forwarder is a proxy on the way to a server, on an address of its own. It can stop
// forwarding without closing anything, as a broken network does.
type forwarder struct {
	net.Listener
	to      string
	hole    atomic.Bool
	connect func(net.Conn) net.Conn // done with a connection before it is forwarded; nil is nothing
	idle    time.Duration           // cut after so long without traffic; 0 is never
	life    time.Duration           // cut after so long; 0 is never
	opened  atomic.Int64
}

func newForwarder(t *testing.T, listen, to string) *forwarder {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{Listener: l, to: to}
	return f
}

func (f *forwarder) start(t *testing.T) *forwarder {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { f.Close(); cancel(); running.Wait() })
	running.Go(func() {
		for {
			c, err := f.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f.forward(ctx, c) })
		}
	})
	return f
}

func (f *forwarder) forward(ctx context.Context, from net.Conn) {
	defer from.Close()
	if f.connect != nil {
		if from = f.connect(from); from == nil {
			return
		}
	}
	to, err := net.Dial("tcp", f.to)
	if err != nil {
		return
	}
	defer to.Close()
	f.opened.Add(1)
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	if f.life > 0 {
		time.AfterFunc(f.life, cut)
	}
	idle := time.AfterFunc(time.Hour, cut)
	defer idle.Stop()
	copying := func(to, from net.Conn) {
		defer func() {
			if !f.hole.Load() { // a close does not come through a hole
				cut()
			}
		}()
		buf := make([]byte, 32<<10)
		for {
			if f.idle > 0 {
				idle.Reset(f.idle)
			}
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if f.hole.Load() {
				continue
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go copying(to, from)
	go copying(from, to)
	<-ctx.Done()
}

// httpProxy is the beginning of an HTTP proxy's connection: CONNECT with credentials.
func httpProxy(c net.Conn) net.Conn {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pass word"))
	if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != want {
		io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return nil
	}
	io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	return c
}

func through(f *forwarder, user *url.Userinfo) func(*http.Request) (*url.URL, error) {
	return http.ProxyURL(&url.URL{Scheme: "http", User: user, Host: f.Addr().String()})
}

// addresses is a resolver whose answer can be changed.
type addresses struct {
	mu  sync.Mutex
	now []string
}

func (a *addresses) set(to ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = to
}

func (a *addresses) resolve(context.Context, string) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.now) == 0 {
		return nil, errors.New("no such host")
	}
	var found []netip.Addr
	for _, text := range a.now {
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

func quick() backoff.Row {
	return backoff.Row{Backoff: backoff.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}, Away: 10 * time.Millisecond, Now: time.Now}
}

// named is options for a server by its name; example.com is in the certificate of httptest.
func (b *bed) named(subject string, dial DialFunc, f *forwarder, a *addresses) ClientOptions {
	o := b.options(subject, dial)
	_, port, _ := net.SplitHostPort(f.Addr().String())
	o.URL = "wss://example.com:" + port + "/"
	o.Resolve = a.resolve
	o.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return o
}

func (b *bed) address() string { return b.web.Listener.Addr().String() }

func TestClientFollowsTheServersName(t *testing.T) { overEach(t, testClientFollowsTheServersName) }

func testClientFollowsTheServersName(t *testing.T, b *bed) {
	first := newForwarder(t, "127.0.0.2:0", b.address()).start(t)
	_, port, _ := net.SplitHostPort(first.Addr().String())
	second := newForwarder(t, "127.0.0.3:"+port, b.address()).start(t)
	var name addresses
	name.set("127.0.0.2")
	c := NewClient(b.named("m1", inProcess(map[string]func(net.Conn){"echo:1": echo}), first, &name))
	c.times.resolve = 20 * time.Millisecond
	start(t, c)
	b.wantChange(t, "m1 true")
	old := b.dial(t, "m1", "echo:1")
	wantEcho(t, old, "through the first")

	name.set() // does not resolve: the tunnel stays
	<-time.After(100 * time.Millisecond)
	if first.opened.Load() != 1 || len(b.Ended("m1")) > 0 {
		t.Error("the tunnel did not stay while the name did not resolve")
	}
	name.set("127.0.0.3") // while the old address keeps answering
	waitUntil(t, "a tunnel through the second address", func() bool { return len(b.sessionsOf("m1")) == 2 && second.opened.Load() == 1 })
	wantEcho(t, old, "still through the first")
	wantEcho(t, b.dial(t, "m1", "echo:1"), "through the second")
	old.Close()
	waitUntil(t, "the first tunnel has ended", func() bool { return len(b.Ended("m1")) == 1 })
	if got := b.Ended("m1")[0].Reason; !strings.Contains(got, "moved to another address") {
		t.Errorf("reason %q", got)
	}
	if len(b.changes) > 0 {
		t.Errorf("change %q; there was always a tunnel", <-b.changes)
	}
}

func TestRefreshMovesAtOnceAndABoundEndsTheOld(t *testing.T) {
	overEach(t, testRefreshMovesAtOnceAndABoundEndsTheOld)
}

func testRefreshMovesAtOnceAndABoundEndsTheOld(t *testing.T, b *bed) {
	first := newForwarder(t, "127.0.0.2:0", b.address()).start(t)
	_, port, _ := net.SplitHostPort(first.Addr().String())
	newForwarder(t, "127.0.0.3:"+port, b.address()).start(t)
	var name addresses
	name.set("127.0.0.2")
	c := NewClient(b.named("m1", inProcess(map[string]func(net.Conn){"echo:1": echo}), first, &name))
	c.times.retire = 50 * time.Millisecond
	start(t, c)
	b.wantChange(t, "m1 true")
	old := b.dial(t, "m1", "echo:1")
	wantEcho(t, old, "x")
	name.set("127.0.0.3")
	c.Refresh()
	waitUntil(t, "the first tunnel has ended", func() bool { return len(b.Ended("m1")) == 1 })
	var lost *LostError
	if _, err := old.Read(make([]byte, 1)); !errors.As(err, &lost) {
		t.Errorf("the connection that was kept open ended with %v", err)
	}
}

func TestLastGoodAddressServesWhenTheNameIsGone(t *testing.T) {
	overEach(t, testLastGoodAddressServesWhenTheNameIsGone)
}

func testLastGoodAddressServesWhenTheNameIsGone(t *testing.T, b *bed) {
	f := newForwarder(t, "127.0.0.2:0", b.address()).start(t)
	var name addresses
	name.set("127.0.0.9", "127.0.0.2") // no program listens on the first
	c := NewClient(b.named("m1", nil, f, &name))
	c.backoff = quick()
	start(t, c)
	b.wantChange(t, "m1 true")
	name.set()
	b.sessionsOf("m1")[0].socket.Close()
	b.wantChange(t, "m1 false")
	b.wantChange(t, "m1 true")
}

func TestProxyWithCredentials(t *testing.T) { overEach(t, testProxyWithCredentials) }

func testProxyWithCredentials(t *testing.T, b *bed) {
	f := newForwarder(t, "127.0.0.1:0", b.address())
	f.connect = httpProxy
	f.start(t)
	o := b.options("m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	o.Proxy = through(f, url.UserPassword("user", "pass word"))
	start(t, NewClient(o))
	b.wantChange(t, "m1 true")
	wantEcho(t, b.dial(t, "m1", "echo:1"), "x")

	o = b.options("m2", nil)
	o.Proxy = through(f, url.UserPassword("user", "s3cret"))
	cause := causeOf(t, o, nil)
	if text := cause.Error(); !strings.Contains(text, "Proxy Authentication Required") || !strings.Contains(text, f.Addr().String()) || strings.Contains(text, "s3cret") {
		t.Errorf("cause %q", text)
	}
}

// causeOf runs a client until its first attempt has failed.
func causeOf(t *testing.T, o ClientOptions, change func(*Client)) error {
	t.Helper()
	changed := make(chan Status, 1000)
	o.Changed = func(s Status) {
		select {
		case changed <- s:
		default:
		}
	}
	c := NewClient(o)
	if change != nil {
		change(c)
	}
	defer start(t, c)()
	for limit := time.After(patience); ; {
		select {
		case s := <-changed:
			if s.State == Waiting {
				return s.Cause
			}
		case <-limit:
			t.Fatal("nothing failed")
		}
	}
}

func TestProxyThatCutsAnyway(t *testing.T) { overEach(t, testProxyThatCutsAnyway) }

func testProxyThatCutsAnyway(t *testing.T, b *bed) {
	f := newForwarder(t, "127.0.0.1:0", b.address())
	f.connect, f.life = httpProxy, 200*time.Millisecond
	f.start(t)
	o := b.options("m1", nil)
	o.Proxy = through(f, url.UserPassword("user", "pass word"))
	c := NewClient(o)
	c.backoff = quick()
	start(t, c)
	waitUntil(t, "it has connected three times", func() bool { return f.opened.Load() >= 3 })
}

// A proxy that cuts websockets which are idle for 10 s is common.
// A proxy that hands on only the headers it knows leaves both ends with different ideas of
// what they speak; then they speak the original's protocol.
func TestProxyThatDropsOurHeader(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	to, err := url.Parse(b.web.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:      b.web.Client().Transport,
		ModifyResponse: func(answer *http.Response) error { answer.Header.Del(protocolHeader); return nil },
	})
	t.Cleanup(proxy.Close)
	o := b.options("m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	o.URL = "wss" + strings.TrimPrefix(proxy.URL, "https")
	c := NewClient(o)
	start(t, c)
	b.wantChange(t, "m1 true")
	b.wantChange(t, "m1 false") // at the first ping of the wrong kind
	waitUntil(t, "both know why", func() bool {
		return c.Status().Cause != nil && strings.Contains(c.Status().Cause.Error(), "a proxy on the way")
	})
	b.wantChange(t, "m1 true")
	conn, err := b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "echo:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wantEcho(t, conn, "x")
}

func TestPingsKeepAProxyFromCutting(t *testing.T) { overEach(t, testPingsKeepAProxyFromCutting) }

func testPingsKeepAProxyFromCutting(t *testing.T, b *bed) {
	if testing.Short() {
		t.Skip("waits for pings, which are 5 s apart")
	}
	t.Parallel()
	f := newForwarder(t, "127.0.0.1:0", b.address())
	f.connect, f.idle = httpProxy, 15*time.Second // three pings, should one be late
	f.start(t)
	o := b.options("m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	o.Proxy = through(f, url.UserPassword("user", "pass word"))
	start(t, NewClient(o))
	b.wantChange(t, "m1 true")
	<-time.After(19 * time.Second)
	wantEcho(t, b.dial(t, "m1", "echo:1"), "still there")
	if n := f.opened.Load(); n != 1 {
		t.Errorf("connected %d times", n)
	}
}

// TestBlackHole stops the network under an open tunnel: neither end gets a reset.
func TestBlackHole(t *testing.T) { overEach(t, testBlackHole) }

func testBlackHole(t *testing.T, b *bed) {
	if testing.Short() {
		t.Skip("waits for pings, which are 5 s apart")
	}
	t.Parallel()
	const silence = 12 * time.Second // more than two pings' time, should one be late
	b.silence = silence
	f := newForwarder(t, "127.0.0.2:0", b.address()).start(t)
	var name addresses
	name.set("127.0.0.2")
	o := b.named("m1", nil, f, &name)
	ended := make(chan error, 100)
	o.Changed = func(s Status) {
		if s.State == Waiting {
			ended <- s.Cause
		}
	}
	c := NewClient(o)
	c.times.silence = silence
	start(t, c)
	b.wantChange(t, "m1 true")
	<-time.After(silence + time.Second)
	if len(ended) > 0 || len(b.Ended("m1")) > 0 {
		t.Fatal("the tunnel ended while the network was whole")
	}
	f.hole.Store(true)
	began := time.Now()
	if err := <-ended; !strings.Contains(err.Error(), "nothing was heard of it for 12s") {
		t.Errorf("cause %v", err)
	}
	if d := time.Since(began); d > 3*silence {
		t.Errorf("noticed after %s", d)
	}
	waitUntil(t, "the server has noticed too", func() bool { return len(b.Ended("m1")) == 1 })
	f.hole.Store(false)
	b.wantChange(t, "m1 false")
	waitUntil(t, "it is back", func() bool { _, ok := b.Connected("m1"); return ok })
}

// authority makes a CA and a certificate of it for example.com, good for an hour.
func authority(t *testing.T) (bundle []byte, pair tls.Certificate) {
	t.Helper()
	build := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, signer := build(ca, ca, nil)
	leaf, key := build(&x509.Certificate{DNSNames: []string{"example.com"}}, ca, signer)
	bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return bundle, tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}
}

// newCABed is a bed whose certificate can be exchanged, with /cacerts.
func newCABed(t *testing.T) (b *bed, o ClientOptions, exchange func(bundle []byte, pair tls.Certificate, token string)) {
	b = newBed(t)
	type current struct {
		bundle []byte
		pair   tls.Certificate
		token  string
	}
	var now atomic.Pointer[current]
	b.plain.HandleFunc("/cacerts", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Cattle-Hash", trust.Proof(now.Load().token, r.Header.Get("X-Cattle-Nonce"), now.Load().bundle))
		w.Write(now.Load().bundle)
	})
	other := httptest.NewUnstartedServer(b.plain)
	other.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &now.Load().pair, nil }}
	other.StartTLS()
	other.TLS.Certificates = nil
	t.Cleanup(func() { b.Server.Close(); other.Close() })
	exchange = func(bundle []byte, pair tls.Certificate, token string) { now.Store(&current{bundle, pair, token}) }
	o = b.options("m1", nil)
	_, port, _ := net.SplitHostPort(other.Listener.Addr().String())
	var name addresses
	name.set("127.0.0.1")
	o.URL, o.Resolve = "wss://example.com:"+port+"/", name.resolve
	o.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return b, o, exchange
}

func TestNewCAIsAdoptedWhenProven(t *testing.T) {
	b, o, exchange := newCABed(t)
	first, old := authority(t)
	exchange(first, old, "tok123")
	roots, err := trust.Pool(first)
	if err != nil {
		t.Fatal(err)
	}
	adopted := make(chan string, 10)
	o.TLS = &tls.Config{RootCAs: roots}
	o.Renewal = &Renewal{
		Token:   func() (string, error) { return "tok123", nil },
		Adopted: func(bundle []byte) error { adopted <- string(bundle); return nil },
	}
	c := NewClient(o)
	c.backoff = quick()
	start(t, c)
	b.wantChange(t, "m1 true")
	second, pair := authority(t)
	exchange(second, pair, "tok123")
	b.sessionsOf("m1")[0].socket.Close()
	b.wantChange(t, "m1 false")
	b.wantChange(t, "m1 true")
	if got := <-adopted; got != string(second) || len(adopted) > 0 {
		t.Errorf("adopted %q", got)
	}
	// The new authority replaces the old one: who has a key of that is not trusted any more.
	exchange(first, old, "guessed")
	b.sessionsOf("m1")[0].socket.Close()
	b.wantChange(t, "m1 false")
	waitUntil(t, "the old authority is refused", func() bool {
		st := c.Status()
		return st.State == Waiting && st.Cause != nil && strings.Contains(st.Cause.Error(), "its proof is wrong")
	})
	if all := b.sessionsOf("m1"); len(all) != 0 {
		t.Errorf("a tunnel is open to a server with a certificate of the old authority: %v", all[0].remote)
	}
}

// TestAttemptsHaveAPauseBetweenThem: a server that refuses is not asked again at once.
func TestAttemptsHaveAPauseBetweenThem(t *testing.T) {
	b := newBed(t)
	var asked atomic.Int64
	b.Server.o.Authorize = func(*http.Request) (Peer, error) {
		asked.Add(1)
		return Peer{}, errors.New("not yet")
	}
	o := b.options("m1", nil)
	pauses := make(chan time.Duration, 1000)
	o.Changed = func(s Status) {
		if s.State == Waiting {
			pauses <- time.Until(s.Next)
		}
	}
	c := NewClient(o)
	c.backoff.Backoff = backoff.Backoff{Min: 300 * time.Millisecond, Max: 300 * time.Millisecond, Floor: 1}
	start(t, c)
	began := time.Now()
	for range 3 {
		if pause := <-pauses; pause < 200*time.Millisecond {
			t.Errorf("the next attempt is due in %s", pause)
		}
	}
	if took := time.Since(began); took < 600*time.Millisecond || asked.Load() > 4 {
		t.Errorf("three attempts within %s, %d in all", took, asked.Load())
	}
}

func TestNewCAIsRefused(t *testing.T) {
	other, _ := authority(t)
	for name, tc := range map[string]struct {
		bundle  []byte
		proof   string
		renewal *Renewal
		want    string
	}{
		"without a token":            {nil, "tok123", nil, "unknown authority"},
		"with a wrong proof":         {nil, "guessed", &Renewal{Token: func() (string, error) { return "tok123", nil }}, "its proof is wrong"},
		"that did not sign":          {other, "tok123", &Renewal{Token: func() (string, error) { return "tok123", nil }}, "did not sign its certificate"},
		"when the token is not read": {nil, "tok123", &Renewal{Token: func() (string, error) { return "", errors.New("gone") }}, "cannot be read: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			_, o, exchange := newCABed(t)
			bundle, pair := authority(t)
			if tc.bundle != nil {
				bundle = tc.bundle
			}
			exchange(bundle, pair, tc.proof)
			o.TLS, o.Renewal = &tls.Config{RootCAs: x509.NewCertPool()}, tc.renewal
			if err := causeOf(t, o, nil); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("cause %v, want %q", err, tc.want)
			}
		})
	}
}

func TestClockThatIsADayOff(t *testing.T) {
	_, o, exchange := newCABed(t)
	bundle, pair := authority(t)
	exchange(bundle, pair, "")
	roots, err := trust.Pool(bundle)
	if err != nil {
		t.Fatal(err)
	}
	for name, off := range map[string]time.Duration{"fast": 24 * time.Hour, "slow": -24 * time.Hour} {
		o.TLS = &tls.Config{RootCAs: roots, Time: func() time.Time { return time.Now().Add(off) }}
		if err := causeOf(t, o, nil); !strings.Contains(err.Error(), "certificate has expired or is not yet valid: current time") {
			t.Errorf("%s: cause %v", name, err)
		}
	}
}

func TestStuckClient(t *testing.T) { overEach(t, testStuckClient) }

func testStuckClient(t *testing.T, b *bed) {
	b.Server.o.Authorize = func(*http.Request) (Peer, error) { return Peer{}, errors.New("not today") }
	o := b.options("m1", nil)
	began := time.Now()
	var minutes atomic.Int64
	o.Now = func() time.Time { return began.Add(time.Duration(minutes.Load()) * time.Minute) }
	o.Changed = func(s Status) {
		if s.State == Waiting {
			minutes.Add(7)
		}
	}
	var resolved atomic.Int64
	c := NewClient(o)
	c.backoff = quick()
	dialer := &c.dialer
	dialer.Proxy = func(*http.Request) (*url.URL, error) { resolved.Add(1); return nil, nil }
	err := c.Run(t.Context())
	var stuck *StuckError
	if !errors.As(err, &stuck) || !strings.Contains(err.Error(), "not today") {
		t.Fatalf("Run() = %v", err)
	}
	if got := minutes.Load(); got != 35 {
		t.Errorf("gave up after %d minutes", got)
	}
	if dialer.Proxy == nil || resolved.Load() == 0 {
		t.Error("nothing was asked")
	}
	before := resolved.Load()
	if _, err := c.dialer.Proxy(c.request()); err != nil || resolved.Load() != before {
		t.Error("it did not start from scratch in between")
	}
}

// TestHostileServer is what a server may not do to a host.
func TestHostileServer(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*websocket.Conn)
		want string
		sent string
	}{
		{"text", func(ws *websocket.Conn) { ws.WriteMessage(websocket.TextMessage, []byte("x")) }, "wrong websocket message type", "the client cannot go on"},
		{"1 GiB announced", func(ws *websocket.Conn) { ws.NetConn().Write([]byte{0x82, 127, 0, 0, 0, 0, 0x40, 0, 0, 0}) }, "read limit exceeded", ""},
		{"truncated header", func(ws *websocket.Conn) { ws.WriteMessage(websocket.BinaryMessage, []byte{0x80}) }, "EOF", ""},
		{"ping flood", func(ws *websocket.Conn) {
			for range maxControls + 1 {
				ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
			}
		}, "pings within", "the client cannot go on"},
		{"list of half a number", func(ws *websocket.Conn) { ws.WriteMessage(websocket.BinaryMessage, message(typeSync, 0, "abc")) }, "decoding sync connections", "the client cannot go on"},
		{"target without a network", func(ws *websocket.Conn) { ws.WriteMessage(websocket.BinaryMessage, message(typeConnect, 2, "nothing")) }, "failed to parse connect address", "the client cannot go on"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := make(chan error, 100)
			web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
				if err != nil {
					return
				}
				defer ws.Close()
				tc.do(ws)
				_, err = readAll(ws)
				sent <- err
			}))
			t.Cleanup(web.Close)
			roots := x509.NewCertPool()
			roots.AddCert(web.Certificate())
			o := ClientOptions{URL: "wss" + strings.TrimPrefix(web.URL, "https"), TLS: &tls.Config{RootCAs: roots}}
			if err := causeOf(t, o, nil); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("cause %v, want %q", err, tc.want)
			}
			if err := <-sent; !strings.Contains(err.Error(), tc.sent) {
				t.Errorf("the server got %v, want %q", err, tc.sent)
			}
		})
	}
}
