package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
)

// each is how much one stream carries in one round of a throughput measure, in bytes.
const each = 16 << 20

// BenchmarkCarriers measures in one run, so that the figures can be compared: plain TCP,
// TLS 1.3 alone, the original library at both ends, our ends when they speak its protocol,
// and our ends with each other. All go over loopback, tunnels with TLS 1.3; the targets
// are in the host's process and cost next to nothing.
func BenchmarkCarriers(b *testing.B) {
	for _, way := range []struct {
		name string
		open func(testing.TB) DialFunc
	}{
		{"tcp", plainTCP}, {"tls", plainTLS},
		{"remotedialer", func(t testing.TB) DialFunc { return libraryAlone(t, nil) }},
		{"original-protocol", func(t testing.TB) DialFunc { return ourEnds(t, nil, true) }},
		{"tunnel", func(t testing.TB) DialFunc { return ourEnds(t, nil, false) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			ends := func(name string, measure func(*testing.B, DialFunc)) {
				b.Run(name, func(b *testing.B) { measure(b, way.open(b)) })
			}
			for _, streams := range []int{1, 16} {
				ends(fmt.Sprintf("from-host-%d", streams), func(b *testing.B, dial DialFunc) { throughput(b, dial, streams, "flood:1", takeFrom) })
				ends(fmt.Sprintf("to-host-%d", streams), func(b *testing.B, dial DialFunc) { throughput(b, dial, streams, "sink:1", giveTo) })
			}
			ends("round-trip", roundTrips)
			ends("dial", dials)
			ends("echo-beside-8", func(b *testing.B, dial DialFunc) { echoBeside(b, dial, 8) })
		})
	}
}

// benchTargets are a host's: one that sends without end, one that answers a byte for each
// so many that it got, one that sends back what comes.
func benchTargets(_ context.Context, _, address string) (net.Conn, error) {
	over := make(chan struct{})
	switch address {
	case "flood:1":
		return &flood{over: over}, nil
	case "sink:1":
		return &sink{over: over, full: make(chan struct{}, 1)}, nil
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		echo(there)
	}()
	return here, nil
}

type flood struct {
	net.Conn
	once sync.Once
	over chan struct{}
}

func (f *flood) Read(p []byte) (int, error) {
	select {
	case <-f.over:
		return 0, io.EOF
	default:
		return len(p), nil
	}
}
func (f *flood) Write(p []byte) (int, error)      { return len(p), nil }
func (f *flood) SetWriteDeadline(time.Time) error { return nil }
func (f *flood) Close() error                     { f.once.Do(func() { close(f.over) }); return nil }

type sink struct {
	net.Conn
	once sync.Once
	got  int
	full chan struct{}
	over chan struct{}
}

func (s *sink) Write(p []byte) (int, error) {
	if s.got += len(p); s.got >= each {
		s.got -= each
		s.full <- struct{}{}
	}
	return len(p), nil
}

func (s *sink) Read(p []byte) (int, error) {
	select {
	case <-s.full:
		return copy(p, "!"), nil
	case <-s.over:
		return 0, io.EOF
	}
}
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) Close() error                     { s.once.Do(func() { close(s.over) }); return nil }

func plainTCP(t testing.TB) DialFunc { return plain(t, nil, nil) }

func plainTLS(t testing.TB) DialFunc {
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return plain(t, web.TLS.Clone(), &tls.Config{RootCAs: roots, ServerName: "example.com"})
}

// plain dials a listener of its own for each target.
func plain(t testing.TB, server, client *tls.Config) DialFunc {
	listeners := map[string]net.Listener{}
	for _, address := range []string{"flood:1", "sink:1", "echo:1"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if server != nil {
			l = tls.NewListener(l, server)
		}
		t.Cleanup(func() { l.Close() })
		listeners[address] = l
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go relayPlainly(c, address)
			}
		}()
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to := listeners[address].Addr().String()
		if client != nil {
			return (&tls.Dialer{Config: client}).DialContext(ctx, network, to)
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
}

func relayPlainly(c net.Conn, address string) {
	if address == "echo:1" {
		defer c.Close()
		echo(c)
		return
	}
	target, _ := benchTargets(context.Background(), "", address)
	both := func() { c.Close(); target.Close() }
	go func() { io.Copy(struct{ io.Writer }{target}, struct{ io.Reader }{c}); both() }()
	go func() { io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{target}); both() }()
}

// libraryAlone is the original at both ends, as its own programs use it; a nil listener is
// one on loopback.
func libraryAlone(t testing.TB, l net.Listener) DialFunc {
	server := remotedialer.New(func(*http.Request) (string, bool, error) { return "m1", true, nil }, remotedialer.DefaultErrorWriter)
	web := httptest.NewUnstartedServer(server)
	startWeb(web, l)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	dialer := &websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	url := "wss" + strings.TrimPrefix(web.URL, "https")
	go remotedialer.ConnectToProxyWithDialer(ctx, url, nil, acceptOnTheWire, dialer, benchTargets, nil)
	waitUntil(t, "it is connected", func() bool { return server.HasSession("m1") })
	through := server.Dialer("m1")
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return through(ctx, network, address)
	}
}

func ourEnds(t testing.TB, l net.Listener, original bool) DialFunc {
	b := newBedOn(t, l)
	b.original = original
	o := b.options("m1", benchTargets)
	o.TLS.ServerName = "example.com"
	start(t, NewClient(o))
	b.wantChange(t, "m1 true")
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return b.Dial(ctx, "m1", Target{Network: network, Address: address})
	}
}

func mustDial(b *testing.B, dial DialFunc, address string) net.Conn {
	b.Helper()
	c, err := dial(b.Context(), "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// takeFrom reads one round, giveTo writes one until the host has all of it.
func takeFrom(c net.Conn, buf []byte) error {
	for left := each; left > 0; {
		n, err := c.Read(buf[:min(left, len(buf))])
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

func giveTo(c net.Conn, buf []byte) error {
	for left := each; left > 0; left -= len(buf) {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(c, buf[:1])
	return err
}

func throughput(b *testing.B, dial DialFunc, streams int, address string, round func(net.Conn, []byte) error) {
	var open []net.Conn
	for range streams {
		c := mustDial(b, dial, address)
		defer c.Close()
		open = append(open, c)
	}
	b.SetBytes(int64(each * streams))
	for b.Loop() {
		done := make(chan error, streams)
		for _, c := range open {
			go func() { done <- round(c, make([]byte, 64<<10)) }()
		}
		for range streams {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
	}
}

func roundTrips(b *testing.B, dial DialFunc) {
	c := mustDial(b, dial, "echo:1")
	defer c.Close()
	wantEcho(b, c, "x")
	text := strings.Repeat("x", 64)
	for b.Loop() {
		wantEcho(b, c, text)
	}
}

// dials counts from the dial to the first byte that came back.
func dials(b *testing.B, dial DialFunc) {
	for b.Loop() {
		c := mustDial(b, dial, "echo:1")
		wantEcho(b, c, "x")
		c.Close()
	}
}

// echoBeside measures an interactive connection while others are read as fast as they send.
func echoBeside(b *testing.B, dial DialFunc, bulk int) {
	var reading sync.WaitGroup
	defer reading.Wait()
	for range bulk {
		c := mustDial(b, dial, "flood:1")
		reading.Go(func() { io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 64<<10)) })
		defer c.Close()
	}
	c := mustDial(b, dial, "echo:1")
	defer c.Close()
	text := strings.Repeat("x", 64)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		wantEcho(b, c, text)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// BenchmarkIdle prints what one open tunnel costs both sides together, TLS and stacks included.
func BenchmarkIdle(b *testing.B) {
	const tunnels = 200
	for b.Loop() {
		bed := newBed(b)
		before := inUse()
		var stops []func()
		for i := range tunnels {
			stops = append(stops, bed.join(b, fmt.Sprint(i), nil))
		}
		b.ReportMetric(float64(inUse()-before)/tunnels/1024, "KiB/tunnel")
		for _, stop := range stops {
			stop()
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
