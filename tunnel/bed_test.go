package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/skips"
)

// patience bounds waits for things that happen at once unless something is broken.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	LogTo(slog.New(slog.DiscardHandler))
	m.Run()
}

// bed is a server with TLS; the subject of a request is its bearer token.
type bed struct {
	*Server
	web     *httptest.Server
	plain   *http.ServeMux // other paths than the tunnel's
	changes chan string
	// original makes the clients speak the original's protocol only.
	original bool
	// prove is what a tunnel has to do before its subject has it; nil for nothing.
	prove func(context.Context, func(context.Context, Target) (net.Conn, error)) error
}

func newBed(t testing.TB) *bed {
	t.Helper()
	return newBedOn(t, nil)
}

// newBedOn is newBed on a listener; nil is one on loopback.
func newBedOn(t testing.TB, l net.Listener) *bed {
	t.Helper()
	b := &bed{changes: make(chan string, 10_000)}
	b.Server = NewServer(ServerOptions{
		Authorize: func(r *http.Request) (Peer, error) {
			subject, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return Peer{}, errors.New("this tunnel needs a machine's token")
			}
			return Peer{Subject: subject, Kind: "test", Prove: b.prove}, nil
		},
		Allow: func(_ Peer, _, address string) error {
			if address == "forbidden:1" {
				return errors.New("not in the table")
			}
			return nil
		},
	})
	b.OnChange(func(subject string, connected bool) { b.changes <- fmt.Sprintf("%s %t", subject, connected) })
	b.plain = http.NewServeMux()
	b.plain.Handle("/", b.Server)
	b.plain.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong") })
	b.web = httptest.NewUnstartedServer(from(b.plain))
	b.web.EnableHTTP2 = true // as the real server does
	startWeb(b.web, l)
	t.Cleanup(func() {
		b.Server.Close()
		b.web.Close()
	})
	return b
}

// fromHeader has a request come from an address of the test's choice.
const fromHeader = "X-Test-From"

func from(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if address := r.Header.Get(fromHeader); address != "" {
			r.RemoteAddr = address
		}
		next.ServeHTTP(w, r)
	})
}

// startWeb starts a web server with TLS, on a listener unless that is nil.
func startWeb(web *httptest.Server, l net.Listener) {
	if l != nil {
		web.Listener.Close()
		web.Listener = l
	}
	web.StartTLS()
}

// overEach runs a test with clients of ours, and with some that know the original's protocol only.
func overEach(t *testing.T, test func(*testing.T, *bed)) {
	for _, original := range []bool{false, true} {
		b := &bed{original: original}
		t.Run(b.protocol(), func(t *testing.T) {
			if original {
				needsLibrary(t)
			}
			b := newBed(t)
			b.original = original
			test(t, b)
		})
	}
}

// needsLibrary is called by tests in which the library carries connections. It marks a
// connection as closed, and looks at the mark, without a lock (v0.6.1), and the detector
// sees that whenever both ends close; these tests run without it.
func needsLibrary(t *testing.T) {
	t.Helper()
	if raceDetector {
		skips.Skip(t, "the library has data races of its own")
	}
}

// protocol is what the bed's clients speak with it.
func (b *bed) protocol() string {
	if b.original {
		return "remotedialer"
	}
	return muxProtocol
}

func (b *bed) options(subject string, dial DialFunc) ClientOptions {
	roots := x509.NewCertPool()
	roots.AddCert(b.web.Certificate())
	return ClientOptions{
		URL:    "wss" + strings.TrimPrefix(b.web.URL, "https"),
		Header: func() http.Header { return http.Header{"Authorization": {"Bearer " + subject}} },
		TLS:    &tls.Config{RootCAs: roots},
		Dial:   dial, original: b.original,
	}
}

// start runs a client until the test ends or stop is called, which waits for its end.
func start(t testing.TB, c *Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run() = %v", err)
			}
		case <-time.After(patience):
			t.Error("Run() does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

func (b *bed) wantChange(t testing.TB, want string) {
	t.Helper()
	select {
	case got := <-b.changes:
		if got != want {
			t.Fatalf("change = %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("no change, want %q", want)
	}
}

// join starts a client and waits for its tunnel.
func (b *bed) join(t testing.TB, subject string, dial DialFunc) (stop func()) {
	t.Helper()
	before := len(b.sessionsOf(subject))
	stop = start(t, NewClient(b.options(subject, dial)))
	waitUntil(t, "the tunnel is open", func() bool { return len(b.sessionsOf(subject)) > before })
	return stop
}

func (b *bed) sessionsOf(subject string) []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all := b.subjects[subject]; all != nil {
		return append([]*session(nil), all.sessions...)
	}
	return nil
}

func (b *bed) dial(t testing.TB, subject, address string) net.Conn {
	t.Helper()
	c, err := b.Dial(t.Context(), subject, Target{Network: "tcp", Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

// inProcess serves each dialled connection by a function and refuses other addresses.
func inProcess(targets map[string]func(net.Conn)) DialFunc {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		serve, ok := targets[address]
		if !ok {
			return nil, errors.New("refused by this host")
		}
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			serve(there)
		}()
		return here, nil
	}
}

func echo(c net.Conn) { io.Copy(c, c) }

// silence takes nothing and says nothing until the connection ends.
func silence(until <-chan struct{}) func(net.Conn) { return func(net.Conn) { <-until } }

func say(text string) func(net.Conn) { return func(c net.Conn) { io.WriteString(c, text) } }

func wantEcho(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("echo of %q = %q, %v", text, got, err)
	}
}
