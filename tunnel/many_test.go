package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"

	"github.com/drover-project/drover/plans/backoff"
)

var soakDials = flag.Int("soak-dials", 10_000, "how many dials TestSoak makes, with a reconnect for each hundred; a long run has a million")

// TestManyHostsReconnectAtOnce ends all tunnels in one moment, as a restart of a server does.
func TestManyHostsReconnectAtOnce(t *testing.T) { overEach(t, testManyHostsReconnectAtOnce) }

func testManyHostsReconnectAtOnce(t *testing.T, b *bed) {
	if testing.Short() {
		t.Skip("a thousand TLS handshakes, twice")
	}
	hosts := 1000
	if raceDetector {
		hosts = 200
	}
	const limit = 4 * time.Minute
	settled := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range hosts {
		c := NewClient(b.options(fmt.Sprintf("host-%d", i), inProcess(map[string]func(net.Conn){"echo:1": echo})))
		running.Go(func() { c.Run(ctx) })
	}
	all := func(since time.Time) func() bool {
		return func() bool {
			n := 0
			for _, one := range b.Sessions() {
				if one.Since.After(since) {
					n++
				}
			}
			return n == hosts
		}
	}
	waitLonger(t, limit, "all hosts are connected", all(time.Time{}))
	cut := time.Now()
	for _, one := range b.Sessions() {
		for _, s := range b.sessionsOf(one.Subject) {
			s.socket.Close()
		}
	}
	waitLonger(t, limit, "all hosts are back", all(cut))
	t.Logf("%d hosts were back after %s", hosts, time.Since(cut).Round(time.Millisecond))
	for i := range hosts {
		wantEcho(t, b.dial(t, fmt.Sprintf("host-%d", i), "echo:1"), "x")
	}
	if got := b.Stats(); got.Opened < int64(2*hosts) || got.Opened-got.Reconnects != int64(hosts) {
		t.Errorf("opened %d, of them %d again", got.Opened, got.Reconnects)
	}
	cancel()
	running.Wait()
	b.Server.Close()
	b.web.Close()
	waitLonger(t, limit, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= settled+5 })
}

func waitLonger(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not true after %s: %s", limit, what)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestSoak reconnects and dials until anything that is not given back would show.
func TestSoak(t *testing.T) { overEach(t, testSoak) }

func testSoak(t *testing.T, b *bed) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	c := NewClient(b.options("m1", inProcess(map[string]func(net.Conn){"echo:1": echo})))
	c.backoff.Backoff = backoff.Backoff{} // no pause
	start(t, c)
	connected := func() bool { return len(b.sessionsOf("m1")) == 1 }
	waitUntil(t, "the tunnel is open", connected)
	rounds := func(dials, reconnects int) {
		for range reconnects {
			one := b.sessionsOf("m1")[0]
			one.socket.Close()
			waitUntil(t, "the tunnel is open again", func() bool { all := b.sessionsOf("m1"); return len(all) == 1 && all[0] != one })
		}
		const abreast = 20
		var running sync.WaitGroup
		for range abreast {
			running.Go(func() {
				for range dials / abreast {
					conn, err := b.speak(t.Context(), "m1", "echo:1")
					if err != nil {
						t.Error(err)
						return
					}
					conn.Close()
				}
			})
		}
		running.Wait()
		waitLonger(t, time.Minute, "connections have ended", func() bool { return b.Sessions()[0].Connections == 0 })
		<-time.After(4 * b.limits.linger)
	}
	rounds(2000, 20) // fills pools
	goroutines, files, memory := runtime.NumGoroutine(), openFiles(t), inUse()
	began := time.Now()
	rounds(*soakDials, *soakDials/100)
	t.Logf("%d dials and %d reconnects in %s; %d goroutines before, %d after; %d and %d files; %d and %d KiB",
		*soakDials, *soakDials/100, time.Since(began).Round(time.Millisecond), goroutines, runtime.NumGoroutine(), files, openFiles(t), memory>>10, inUse()>>10)
	waitLonger(t, time.Minute, "goroutines are as many as before", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	waitLonger(t, time.Minute, "files are as many as before", func() bool { return openFiles(t) <= files+2 })
	if grown := int64(inUse()) - int64(memory); grown > 8<<20 {
		t.Errorf("memory has grown by %d KiB", grown>>10)
	}
}

// bare is a client of the original's make with the headers of its node agent.
func TestBareClientOfTheLibrary(t *testing.T) {
	needsLibrary(t)
	b := newBed(t)
	b.Server.o.Authorize = func(r *http.Request) (Peer, error) {
		if r.Header.Get("X-API-Tunnel-Token") != "tok123" || r.Header.Get("X-API-Tunnel-Params") == "" {
			return Peer{}, &HandshakeError{Status: 400, Text: "cluster not found"}
		}
		return Peer{Subject: "c-abcde:m-6cec8a5bb33a", Kind: "node-agent"}, nil
	}
	o := b.options("", nil)
	dialer := &websocket.Dialer{TLSClientConfig: o.TLS}
	allow := func(string, string) bool { return true }
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	headers := http.Header{"X-API-Tunnel-Token": {"tok123"}, "X-API-Tunnel-Params": {"eyJub2RlIjp7fX0="}}
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	go func() {
		for {
			c, err := target.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); echo(c) }()
		}
	}()
	go func() { over <- remotedialer.ConnectToProxy(ctx, o.URL, headers, allow, dialer, nil) }()
	waitUntil(t, "it is connected", func() bool { return len(b.Sessions()) == 1 })
	c, err := b.speak(t.Context(), "c-abcde:m-6cec8a5bb33a", target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, c, "hello")
	lost, refused := false, false
	if _, err := b.speak(t.Context(), "c-abcde:m-6cec8a5bb33a", "127.0.0.1:1"); err == nil {
		t.Error("a dial to a closed port worked")
	} else {
		refused = strings.Contains(err.Error(), "connection refused")
		lost = strings.Contains(err.Error(), "lost")
	}
	if !refused || lost {
		t.Errorf("refused %t, lost %t", refused, lost)
	}
	cancel()
	<-over
	headers.Set("X-API-Tunnel-Token", "wrong")
	headers["X-API-Tunnel-Token"] = []string{"wrong"}
	if _, answer, err := dialer.Dial(o.URL, headers); err == nil || answer.StatusCode != 400 {
		t.Errorf("wrong token: %v, %v", answer, err)
	}
}

func TestBareServerOfTheLibrary(t *testing.T) {
	needsLibrary(t)
	library := remotedialer.New(func(r *http.Request) (string, bool, error) {
		return "m1", r.Header.Get("X-API-Tunnel-Token") == "tok123", nil
	}, remotedialer.DefaultErrorWriter)
	web := httptest.NewTLSServer(library)
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	o := ClientOptions{
		URL: "wss" + strings.TrimPrefix(web.URL, "https"), TLS: &tls.Config{RootCAs: roots},
		Header: func() http.Header { return http.Header{"X-API-Tunnel-Token": {"tok123"}} },
		Dial:   inProcess(map[string]func(net.Conn){"echo:1": echo}),
	}
	stop := start(t, NewClient(o))
	waitUntil(t, "it is connected", func() bool { return library.HasSession("m1") })
	kept, err := library.Dialer("m1")(t.Context(), "tcp", "echo:1")
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, kept, "hello")
	refused, err := library.Dialer("m1")(t.Context(), "unix", "/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(refused); err == nil || !strings.Contains(err.Error(), "refused by this host") {
		t.Errorf("a target that is not offered: %v", err)
	}
	wantEcho(t, kept, "others go on")
	stop()
	waitUntil(t, "the server has seen the end", func() bool { return !library.HasSession("m1") })

	o.Header = func() http.Header { return http.Header{"X-API-Tunnel-Token": {"wrong"}} }
	if err := causeOf(t, o, nil); !strings.Contains(err.Error(), "401 Unauthorized: failed authentication") {
		t.Errorf("wrong token: %v", err)
	}
}
