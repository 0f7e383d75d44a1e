// Troubles that last for hours, on a clock that hours cost nothing on: the server, its TLS
// and HTTP are real, only the wire is in memory.

package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// wire is a network in memory.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type wireAddr struct{}

func (wireAddr) Network() string { return "tcp" }
func (wireAddr) String() string  { return "127.0.0.1:8443" }

func (w *wire) Addr() net.Addr { return wireAddr{} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case w.conns <- newBuffered(theirs):
		return newBuffered(ours), nil
	case <-w.closed:
		return nil, errors.New("connection refused")
	}
}

// buffered is a connection that takes what is written before the other side reads it, as
// a kernel does: TLS would stand still when both sides write.
type buffered struct {
	net.Conn
	queue  chan []byte
	closed chan struct{}
	once   sync.Once
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, queue: make(chan []byte, 4096), closed: make(chan struct{})}
	go b.pump()
	return b
}

func (b *buffered) pump() {
	defer b.Conn.Close()
	for {
		select {
		case p := <-b.queue:
			if _, err := b.Conn.Write(p); err != nil {
				return
			}
			continue
		default:
		}
		select {
		case p := <-b.queue:
			if _, err := b.Conn.Write(p); err != nil {
				return
			}
		case <-b.closed:
			return
		}
	}
}

func (b *buffered) Write(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, net.ErrClosed
	case b.queue <- slices.Clone(p):
		return len(p), nil
	}
}

func (b *buffered) SetDeadline(t time.Time) error    { return b.Conn.SetReadDeadline(t) }
func (b *buffered) SetWriteDeadline(time.Time) error { return nil }

func (b *buffered) Close() error {
	b.once.Do(func() {
		b.Conn.SetReadDeadline(time.Unix(1, 0))
		b.Conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
		close(b.closed)
	})
	return nil
}

// inMemory puts a server on a wire of its own.
func inMemory(s *server) {
	w := &wire{conns: make(chan net.Conn), closed: make(chan struct{})}
	s.Listener.Close()
	s.Listener = w
	s.t.Cleanup(func() { time.Sleep(time.Minute) }) // the last thing: what was written last is given up
	s.dial = w.dial
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// live runs a source, as patient as in production, until the test ends.
func live(t *testing.T, s *server, e *engine) (*Source, *journal) {
	t.Helper()
	said := &journal{}
	src, err := New(Options{Access: s.access(t), Namespace: namespace, SecretName: secretName, Engine: e, Logger: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	transport := src.client.http.Transport.(*http.Transport)
	transport.Proxy = nil
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return s.dial() }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		src.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return src, said
}

func always(answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		answer(w)
		return true
	}
}

// TestLongTrouble has one kind of trouble last for an hour or some minutes: it is reported in
// status and log, the server is asked at the pace of the longest pause, nothing is executed,
// and all is well at the first try after its end.
func TestLongTrouble(t *testing.T) {
	for _, tc := range []struct {
		name string
		trap func(w http.ResponseWriter, r *http.Request) bool
		want string
	}{
		{"500", always(func(w http.ResponseWriter) { fail(w, 500, "etcd") }), "the server answered 500 Internal Server Error: no: etcd"},
		{"401", always(func(w http.ResponseWriter) { fail(w, 401, "Unauthorized") }), "the server answered 401 Unauthorized"},
		{"429", always(func(w http.ResponseWriter) { fail(w, 429, "slow") }), "the server answered 429 Too Many Requests"},
		{"a web page", always(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<!doctype html><title>Log in</title>")
		}), "a web page came where JSON belongs: is there a proxy or a login page in between?"},
		{"half an object", always(func(w http.ResponseWriter) { io.WriteString(w, `{"type":"ADDED","object":{"kind":"Secret","meta`) }), "unexpected EOF"},
		{"a redirect", always(func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example/login")
			w.WriteHeader(302)
		}), "the server answered 302 Found: it redirects to https://elsewhere.example/login, which is not followed"},
		{"a watch that ends at once", func(w http.ResponseWriter, r *http.Request) bool { return isWatch(r) }, "the server ended the watch at once"},
		{"a watch that ends with an event at once", func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) {
				io.WriteString(w, `{"type":"LATER","object":{}}`)
			}
			return isWatch(r)
		}, "the server ended the watch at once"},
		{"410 without end", func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) {
				fail(w, 410, "Expired")
			}
			return isWatch(r)
		}, "the server answered 410 Gone"},
		{"an object of somebody else's", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "GET" && !isWatch(r) && strings.HasSuffix(r.URL.Path, "/secrets") {
				io.WriteString(w, `{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}`)
				return true
			}
			if isWatch(r) {
				fail(w, 400, "BadRequest")
			}
			return isWatch(r)
		}, `the server sent a "PodList" instead of the plan Secret`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, inMemory)
				s.set(map[string]string{"plan": planA, "plan-state": "pending"})
				e := &engine{}
				src, said := live(t, s, e)
				time.Sleep(20 * time.Second)
				if got := s.now()["plan-state"]; got != "succeeded" {
					t.Fatalf("plan-state %q: %s", got, said)
				}
				s.setTrap(tc.trap)
				s.cutStreams()
				before := len(s.asked())
				lasts := 10
				if tc.name == "500" {
					lasts = 60
				}
				time.Sleep(time.Duration(lasts) * time.Minute)
				// At most three requests a try, and a try each 15 to 30 seconds after the first few.
				if n := len(s.asked()) - before; n < lasts || n > 3*(4*lasts+6) {
					t.Errorf("%d requests in %d minutes", n, lasts)
				}
				if st := src.Status(); !strings.Contains(st.String(), tc.want) || !strings.Contains(st.String(), "not connected since 2000-01-01T00:") {
					t.Errorf("status %q, want %q in it", st, tc.want)
				}
				if next := time.Until(src.Status().Next); next > 30*time.Second {
					t.Errorf("next try in %v", next)
				}
				if !strings.Contains(said.String(), strings.Split(tc.want, `"`)[0]) {
					t.Errorf("the log does not say it:\n%.2000s", said)
				}
				s.setTrap(nil)
				s.set(map[string]string{"plan": planB, "plan-state": "pending"})
				time.Sleep(40 * time.Second)
				if got := s.now()["applied-checksum"]; got != sum(planB) || !src.Status().Connected {
					t.Errorf("not well again: %s", src.Status())
				}
				wantCalls(t, e, "apply a u1/1 attempt 1", "apply b u1/2 attempt 1")
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, inMemory)
		var at []time.Time
		var mu sync.Mutex
		s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			w.Header().Set("Retry-After", []string{"120", "86400", "-5", "soon"}[min(len(at)-1, 3)])
			fail(w, 429, "TooManyRequests")
			return true
		})
		live(t, s, &engine{})
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if d := at[1].Sub(at[0]); d < 120*time.Second || d > 150*time.Second {
			t.Errorf("%v after Retry-After: 120", d)
		}
		if d := at[2].Sub(at[1]); d < 300*time.Second || d > 375*time.Second {
			t.Errorf("%v after Retry-After of a day, want the longest wait that a server may ask for", d)
		}
		if d := at[3].Sub(at[2]); d > 30*time.Second {
			t.Errorf("%v after Retry-After that is none", d)
		}
	})
}

// TestFilesThatCannotAllBePutBack: each try puts some back and fails at another; that is no
// reason to try without a pause.
func TestFilesThatCannotAllBePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, inMemory)
		s.set(map[string]string{"plan": planA, "plan-state": "succeeded", "applied-checksum": sum(planA), "plan-revision": "1"})
		e := &engine{pending: apply.Pending{ID: "u1/1", Checksum: sum(planA), Finished: true}}
		e.onRestore = func(context.Context) ([]string, error) {
			if e.count("restore") > 1000 {
				return nil, nil
			}
			return []string{"/etc/x"}, errors.New("file /etc/y: read-only file system")
		}
		src, _ := live(t, s, e)
		time.Sleep(10 * time.Minute)
		if n := e.count("restore"); n < 5 || n > 60 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if said := src.Status().String(); !strings.Contains(said, "/etc/y") {
			t.Errorf("status %q does not name the file", said)
		}
	})
}

// TestPutThatHangs: the outcome is reported at last, the plan executed once, and meanwhile people see why.
func TestPutThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, inMemory)
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
		e := &engine{}
		var puts atomic.Int32
		s.setTrap(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != "PUT" || puts.Add(1) == 1 { // the claim
				return false
			}
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // an empty answer might still be on its way
		})
		src, said := live(t, s, e)
		time.Sleep(10 * time.Minute)
		if n := puts.Load(); n < 8 || n > 21 {
			t.Errorf("%d tries in ten minutes", n)
		}
		st := src.Status()
		for _, want := range []string{"reporting the outcome of the plan", "since 2000-01-01T00:00:0", "the server did not answer in time"} {
			if !strings.Contains(st.String(), want) || !st.Connected {
				t.Errorf("status %q, want %q in it", st, want)
			}
		}
		if !strings.Contains(said.String(), "the server did not answer in time") {
			t.Errorf("log:\n%s", said)
		}
		s.setTrap(nil)
		time.Sleep(time.Minute + time.Second)
		if got := s.now()["plan-state"]; got != "succeeded" || src.Status().Unwritten != nil {
			t.Errorf("plan-state %q, status %s", got, src.Status())
		}
		wantCalls(t, e, "apply a u1/1 attempt 1")
	})
}

// TestCertificateChanges: another certificate of the same authority is nothing special, one
// of another authority is never trusted, whatever the system trusts.
func TestCertificateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, start := newAuthority("ours"), time.Now()
		var config atomic.Pointer[tls.Config]
		config.Store(serve(ours.issue(start, "127.0.0.1")))
		s := newServer(t, inMemory, func(s *server) { s.config, s.ca = config.Load, ours.pem })
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
		e := &engine{}
		src, said := live(t, s, e)
		time.Sleep(20 * time.Second)
		if got := s.now()["plan-state"]; got != "succeeded" {
			t.Fatalf("plan-state %q: %s", got, said)
		}
		for _, tc := range []struct {
			name, want string
			cert       tls.Certificate
		}{
			{"of the same authority", "", ours.issue(start, "127.0.0.1")},
			{"of one that the system trusts", "certificate signed by unknown authority; no other CA than the kubeconfig's is ever trusted", public.issue(start, "127.0.0.1")},
			{"of the same authority again", "", ours.issue(start, "127.0.0.1")},
			{"for another host", "not 127.0.0.1; give the server a certificate with the name that the kubeconfig has", ours.issue(start, "127.0.0.2")},
			{"from the evening on", "look whether this host's clock is right", ours.issue(start.Add(8*time.Hour), "127.0.0.1")},
		} {
			config.Store(serve(tc.cert))
			s.CloseClientConnections()
			before := len(s.asked())
			time.Sleep(time.Hour)
			if tc.want == "" {
				if !src.Status().Connected {
					t.Errorf("%s: %s", tc.name, src.Status())
				}
				continue
			}
			if n := len(s.asked()) - before; n != 0 {
				t.Errorf("%s: %d requests, with a token, to a server that is not trusted", tc.name, n)
			}
			if st := src.Status().String(); !strings.Contains(st, tc.want) {
				t.Errorf("%s: status %q, want %q in it", tc.name, st, tc.want)
			}
		}
		time.Sleep(6 * time.Hour) // the clock is right at last
		if !src.Status().Connected {
			t.Errorf("not well again: %s", src.Status())
		}
	})
}

// TestSystemAuthorities are trusted when the kubeconfig pins none.
func TestSystemAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := newServer(t, inMemory, func(s *server) {
			s.config = func() *tls.Config { return serve(public.issue(start, "127.0.0.1")) }
			s.ca = public.pem
		})
		access, err := ParseKubeconfig(config("server: '"+s.URL+"/pfx'", "token: tok-1"))
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(access, namespace, secretName, "test", time.Now)
		c.http.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return s.dial() }
		defer c.close()
		if err := c.version(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNonsenseInTheSecret: what a server puts there neither ends the agent nor has it spin.
func TestNonsenseInTheSecret(t *testing.T) {
	const plan = `{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1/"}}}}`
	for _, tc := range []struct{ key, value string }{
		{"probe-period-seconds", "0"}, {"probe-period-seconds", "-1"}, {"probe-period-seconds", "0.0001"}, {"probe-period-seconds", "often"},
		{"probe-statuses", "null"}, {"probe-statuses", `{"web":null}`}, {"probe-statuses", "["}, {"applied-output", "no gzip"}, {"failure-count", "-7"},
	} {
		t.Run(tc.key+" "+tc.value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, inMemory)
				s.set(map[string]string{"plan": plan, "plan-state": "pending", tc.key: tc.value})
				e := &engine{onProbes: func() map[string]plans.ProbeStatus { return map[string]plans.ProbeStatus{"web": {Healthy: true}} }}
				live(t, s, e)
				time.Sleep(time.Minute)
				if n := e.count("probes"); n < 10 || n > 14 {
					t.Errorf("%d rounds of probes in a minute, want one in five seconds", n)
				}
				if got := s.now(); got["plan-state"] != "succeeded" || got["probe-statuses"] != `{"web":{"healthy":true}}` {
					t.Errorf("the Secret says %v", got)
				}
				if n := len(s.writes()); n > 3 {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}

func TestBookmarksMoveTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, inMemory)
		s.set(map[string]string{"plan": planA, "plan-state": "succeeded", "applied-checksum": sum(planA)})
		var mu sync.Mutex
		var from []string
		s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
			if !isWatch(r) {
				return false
			}
			mu.Lock()
			from = append(from, r.URL.Query().Get("resourceVersion"))
			n := len(from)
			mu.Unlock()
			if n == 2 {
				fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Secret","metadata":{"resourceVersion":"4711"}}}`)
				w.(http.Flusher).Flush()
				time.Sleep(2 * time.Second) // and ends in time
				return true
			}
			return false
		})
		live(t, s, &engine{})
		time.Sleep(10 * time.Second)
		s.cutStreams()
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"", "41", "4711"}; !slices.Equal(from, want) {
			t.Errorf("watched from %q, want %q", from, want)
		}
	})
}

func TestVersionsThatAreNoNumbers(t *testing.T) {
	for _, flow := range []string{"pending", ""} {
		t.Run("flow with state "+flow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, inMemory, func(s *server) { s.opaque = true })
				s.set(map[string]string{"plan": planA, "plan-state": flow})
				e := &engine{}
				live(t, s, e)
				time.Sleep(5 * time.Minute)
				s.cutStreams()
				s.set(map[string]string{"unrelated": "1"})
				time.Sleep(5 * time.Minute)
				s.set(map[string]string{"plan": planB, "plan-state": flow})
				time.Sleep(5 * time.Minute)
				if got := s.now()["applied-checksum"]; got != sum(planB) || e.count("apply") != 2 {
					t.Errorf("calls %v, the Secret says %v", e.said(), s.now())
				}
			})
		})
	}
}

// TestLargePlan: two MiB are beyond what Kubernetes stores, but not beyond us.
func TestLargePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := `{"files":[{"path":"/x","content":"` + strings.Repeat("QUJD", 2<<20/4) + `"}]}`
		s := newServer(t, inMemory)
		s.set(map[string]string{"plan": plan, "plan-state": "pending"})
		e := &engine{}
		src, _ := live(t, s, e)
		time.Sleep(time.Minute)
		if got := s.now(); got["plan-state"] != "succeeded" || got["plan"] != plan {
			t.Errorf("plan-state %q: %s", got["plan-state"], src.Status())
		}
		wantCalls(t, e, "apply empty u1/1 attempt 1")
	})
}
