//go:build e2e

// The wire between an agent and its server, seen and disturbed in the middle.

package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// seen is a request of an agent.
type seen struct {
	at     time.Time
	method string
	path   string
	query  url.Values
	proto  string
	sent   *secret // body of a PUT
	status int     // 0 until the answer has begun
}

// String is the request in the short form of the contract: what, and what for.
func (s seen) String() string {
	what := s.method + " " + s.path
	switch {
	case s.query.Get("sendInitialEvents") != "":
		what = "WATCH from the start"
	case s.query.Get("watch") != "":
		what = "WATCH from a version"
	case s.query.Has("fieldSelector"):
		what = "LIST"
	case s.method == http.MethodGet && len(s.path) > 20:
		what = "GET secret"
	case s.sent != nil:
		what = fmt.Sprintf("PUT %s", s.sent.state())
	}
	return fmt.Sprintf("%s %d", what, s.status)
}

// wire is a proxy with the server's own certificate.
type wire struct {
	testing.TB
	url string

	mu   sync.Mutex
	seen []seen
	// before runs before a PUT goes on to the server.
	before func(*secret)
	// older refuses streamed lists as servers do that do not have them, so that the
	// agent lists and watches like those of older generations.
	older bool
	// watchSeconds, if not 0, is how long each watch may last, instead of what the agent asks.
	watchSeconds int
	// lag is by how much later watches bring what they say.
	lag time.Duration

	plug    *plug
	watched []watched // of all watches
}

type indexKey struct{}

// newWire starts a wire to a server; it ends with the test.
func newWire(s *server) *wire {
	s.Helper()
	tlsDir := filepath.Join(s.dataDir, "tls")
	pair, err := tls.LoadX509KeyPair(filepath.Join(tlsDir, "server.crt"), filepath.Join(tlsDir, "server.key"))
	must(s.TB, err)
	return wireTo(s.TB, s.url, pair, &tls.Config{RootCAs: s.trust()})
}

func wireTo(t testing.TB, target string, pair tls.Certificate, trust *tls.Config) *wire {
	t.Helper()
	w := &wire{TB: t}
	to, err := url.Parse(target)
	must(t, err)
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host; w.shorten(r.Out.URL) },
		FlushInterval:  -1,
		Transport:      transport,
		ModifyResponse: func(r *http.Response) error { w.answered(r.Request.Context(), r.StatusCode); w.listen(r); return nil },
		// As if there were no proxy: a server that does not answer has no status.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.url, w.plug = "https://"+listener.Addr().String(), &plug{Listener: listener}
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: soon,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			r = w.note(r)
			if w.older && r.URL.Query().Has("sendInitialEvents") {
				w.answered(r.Context(), http.StatusBadRequest)
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400}`)
				return
			}
			proxy.ServeHTTP(rw, r)
		}),
	}
	over := make(chan error, 1)
	go func() { over <- server.ServeTLS(w.plug, "", "") }()
	t.Cleanup(func() {
		_ = server.Close() // watches do not end by themselves
		if err := <-over; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the wire broke: %v", err)
		}
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("on the wire:\n%s", w)
		}
	})
	return w
}

func (w *wire) note(r *http.Request) *http.Request {
	s := seen{at: time.Now(), method: r.Method, path: r.URL.Path, query: r.URL.Query(), proto: r.Proto}
	if r.Method == http.MethodPut {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the agent was killed while it sent
		}
		s.sent = new(secret)
		if err := json.Unmarshal(text, s.sent); err != nil {
			w.Errorf("a PUT was not a Secret: %v", err)
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
	}
	w.mu.Lock()
	i, before := len(w.seen), w.before
	w.seen = append(w.seen, s)
	w.mu.Unlock()
	if s.sent != nil && before != nil {
		before(s.sent)
	}
	return r.WithContext(context.WithValue(r.Context(), indexKey{}, i))
}

func (w *wire) answered(ctx context.Context, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i, ok := ctx.Value(indexKey{}).(int); ok {
		w.seen[i].status = status
	}
}

func (w *wire) shorten(u *url.URL) {
	if q := u.Query(); w.watchSeconds != 0 && q.Has("watch") {
		q.Set("timeoutSeconds", strconv.Itoa(w.watchSeconds))
		u.RawQuery = q.Encode()
	}
}

// disturb sets what happens before a PUT goes on; nil for nothing.
func (w *wire) disturb(f func(*secret)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = f
}

// requests are all so far.
func (w *wire) requests() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]seen(nil), w.seen...)
}

// texts are the requests since the n-th in their short form.
func (w *wire) texts(n int) []string {
	var all []string
	for _, s := range w.requests()[n:] {
		all = append(all, s.String())
	}
	return all
}

// settled are the texts since the n-th, once all of them are answered.
func (w *wire) settled(t *testing.T, n int) (all []string) {
	t.Helper()
	await(t, "answers to all requests", func() error {
		all = w.texts(n)
		if slices.ContainsFunc(all, func(s string) bool { return strings.HasSuffix(s, " 0") }) {
			return fmt.Errorf("so far %q", all)
		}
		return nil
	})
	return all
}

// puts are the updates since the n-th request.
func (w *wire) puts(n int) []seen {
	var all []seen
	for _, s := range w.requests()[n:] {
		if s.sent != nil {
			all = append(all, s)
		}
	}
	return all
}

func (w *wire) String() string {
	var b bytes.Buffer
	all := w.requests()
	for _, s := range all {
		fmt.Fprintf(&b, "%8s %s %s", s.at.Sub(all[0].at).Round(time.Millisecond), s.proto, s)
		if s.sent != nil {
			fmt.Fprintf(&b, " at %s, applied %.8s, failed %.8s, failures %s", s.sent.Metadata.ResourceVersion, s.sent.Data[plans.KeyAppliedChecksum],
				s.sent.Data[plans.KeyFailedChecksum], s.sent.Data[plans.KeyFailureCount])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
