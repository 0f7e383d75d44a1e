package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// patience bounds waits for things that happen at once unless something is broken.
const patience = 2 * time.Minute

const (
	namespace  = "fleet-default"
	secretName = "custom-0a1b2c3d4e5f-machine-plan"
	collection = "/pfx/api/v1/namespaces/fleet-default/secrets"
)

// server plays the Kubernetes API of one plan Secret, with TLS, below a path prefix.
type server struct {
	*httptest.Server
	t     *testing.T
	clock atomic.Int64 // how far the agent's clock is ahead, in nanoseconds

	mu       sync.Mutex
	version  int
	uid      string
	data     map[string]string // nil: there is no Secret
	history  []change
	forgot   int           // versions up to this one are too old for a watch
	changed  chan struct{} // closed at each change
	requests []string
	puts     []map[string]string // data of each accepted update
	meta     []map[string]any    // metadata of each
	trap     func(w http.ResponseWriter, r *http.Request) bool
	held     bool // watches bring no version above shown: they lag behind
	shown    int
	cut      context.CancelFunc // ends all streams
	streams  context.Context

	connections sync.Map // the open ones
	made        atomic.Int32

	// Set before it starts.
	http1  bool                     // it offers no HTTP/2
	opaque bool                     // versions are no numbers and do not grow
	config func() *tls.Config       // of the next connection; nil: the one of httptest
	ca     string                   // whom the kubeconfig pins, as PEM; empty: the certificate of httptest
	dial   func() (net.Conn, error) // when it is on a network of its own
	// report is what the source says of its host.
	report func(context.Context, []string) plans.HostReport
}

type change struct {
	version int
	event   string
}

func newServer(t *testing.T, prepare ...func(*server)) *server {
	s := &server{t: t, version: 40, uid: "u1", changed: make(chan struct{})}
	s.streams, s.cut = context.WithCancel(context.Background())
	s.Server = httptest.NewUnstartedServer(s)
	for _, f := range prepare {
		f(s)
	}
	if s.config != nil {
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.config(), nil }}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = !s.http1
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.made.Add(1)
		}
		if state == http.StateClosed {
			s.connections.Delete(c)
		} else {
			s.connections.Store(c, true)
		}
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.cutStreams()
		s.Close()
	})
	return s
}

func (s *server) access(t *testing.T) *Access {
	t.Helper()
	ca := s.ca
	if ca == "" {
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	}
	a, err := ParseKubeconfig(kubeconfigText(s.URL+"/pfx", ca, "token: tok-1"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// set has the server change data; an empty string removes a key.
func (s *server) set(changes map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "MODIFIED"
	if s.data == nil {
		s.data, kind = map[string]string{}, "ADDED"
	}
	s.data = maps.Clone(s.data)
	for k, v := range changes {
		if v == "" {
			delete(s.data, k)
		} else {
			s.data[k] = v
		}
	}
	s.note(kind)
}

// hold has watches lag behind: what comes from now on is brought by show alone.
func (s *server) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.shown = true, s.version
}

// show has watches bring the next n versions that they hold back; 0 all, for good.
func (s *server) show(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown += n
	s.held = n > 0
	close(s.changed)
	s.changed = make(chan struct{})
}

// remove deletes the Secret; the next set makes one with another UID.
func (s *server) remove(nextUID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("DELETED")
	s.data, s.uid = nil, nextUID
}

// text is a version as it is on the wire.
func (s *server) text(version int) string {
	if s.opaque {
		return fmt.Sprintf("v%x", 1<<20-version)
	}
	return strconv.Itoa(version)
}

// number is the version of a text; 0 of none.
func (s *server) number(text string) int {
	if !s.opaque {
		n, _ := strconv.Atoi(text)
		return n
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "v"), 16, 64)
	if err != nil {
		return 0
	}
	return 1<<20 - int(n)
}

// note makes the present state the newest version. The lock is held.
func (s *server) note(kind string) {
	s.version++
	s.history = append(s.history, change{s.version, fmt.Sprintf(`{"type":%q,"object":%s}`, kind, s.object())})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) object() string {
	data := map[string][]byte{}
	for k, v := range s.data {
		data[k] = []byte(v)
	}
	b, err := json.Marshal(map[string]any{
		"kind": "Secret", "apiVersion": "v1", "type": "rke.cattle.io/machine-plan", "data": data,
		"metadata": map[string]any{
			"name": secretName, "namespace": namespace, "uid": s.uid, "resourceVersion": s.text(s.version),
			"labels": map[string]string{"rke.cattle.io/machine-name": "m"}, "managedFields": []any{map[string]any{"manager": "rancher"}},
		},
	})
	if err != nil {
		s.t.Error(err)
	}
	return string(b)
}

func (s *server) now() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data)
}

func (s *server) writes() []map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]string(nil), s.puts...)
}

func (s *server) setTrap(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trap = f
}

func (s *server) cutStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	s.streams, s.cut = context.WithCancel(context.Background())
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 100
	s.forgot = s.version
}

func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func fail(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no: %s"}`, reason, code, reason)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	what := r.Method + " " + strings.TrimPrefix(r.URL.Path, collection)
	if q.Get("watch") == "true" {
		what = "WATCH initial=" + q.Get("sendInitialEvents")
	}
	s.mu.Lock()
	s.requests = append(s.requests, what)
	trap := s.trap
	s.mu.Unlock()
	if want := map[bool]int{true: 1, false: 2}[s.http1 || s.config != nil]; r.ProtoMajor != want {
		s.t.Errorf("%s over %s, want HTTP/%d", what, r.Proto, want)
	}
	if trap != nil && trap(w, r) {
		return
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer tok-1":
		fail(w, 401, "Unauthorized")
	case r.URL.Path == "/pfx/version":
		io.WriteString(w, `{"major":"1"}`)
	case what == "GET /"+secretName:
		s.get(w)
	case what == "PUT /"+secretName:
		s.put(w, r)
	case q.Get("fieldSelector") != "metadata.name="+secretName:
		fail(w, 403, "Forbidden")
	case what == "GET ":
		s.mu.Lock()
		defer s.mu.Unlock()
		items := ""
		if s.data != nil {
			items = s.object()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, s.text(s.version), items)
	case q.Get("watch") == "true" && r.URL.Path == collection:
		s.watch(w, r)
	default:
		fail(w, 404, "NotFound")
	}
}

func (s *server) get(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		fail(w, 404, "NotFound")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, s.object())
}

func (s *server) put(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Kind     string
		Type     string
		Metadata map[string]any
		Data     map[string][]byte
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		fail(w, 400, "BadRequest")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.data == nil:
		fail(w, 404, "NotFound")
	case in.Kind != "Secret" || in.Type != "rke.cattle.io/machine-plan":
		fail(w, 422, "Invalid")
	case in.Metadata["resourceVersion"] != s.text(s.version) || in.Metadata["uid"] != s.uid:
		fail(w, 409, "Conflict")
	default:
		next := map[string]string{}
		for k, v := range in.Data {
			next[k] = string(v)
		}
		if !maps.Equal(s.data, next) {
			s.data = next
			s.note("MODIFIED")
		}
		s.puts = append(s.puts, next)
		s.meta = append(s.meta, in.Metadata)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, s.object())
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if n, err := strconv.Atoi(q.Get("timeoutSeconds")); err != nil || n < 300 || n > 600 {
		s.t.Errorf("timeoutSeconds=%q", q.Get("timeoutSeconds"))
	}
	s.mu.Lock()
	from := s.number(q.Get("resourceVersion"))
	initial := q.Get("sendInitialEvents") == "true"
	if from < s.forgot && !initial {
		s.mu.Unlock()
		fail(w, 410, "Expired")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	if initial {
		if s.data != nil {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", s.object())
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":%q,"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", s.text(s.version))
		from = s.version
	}
	streams := s.streams
	for {
		for _, c := range s.history {
			if c.version > from && (!s.held || c.version <= s.shown) {
				from = c.version
				io.WriteString(w, c.event+"\n")
			}
		}
		changed := s.changed
		w.(http.Flusher).Flush()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-streams.Done():
			return
		}
		s.mu.Lock()
	}
}

func kubeconfigText(server, ca, user string) string {
	indented := "  " + strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n  ")
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: agent
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: agent
  user: {%s}
contexts:
- name: agent
  context: {cluster: agent, user: agent}
current-context: agent
`, server, b64(strings.ReplaceAll(strings.TrimPrefix(indented, "  "), "\n  ", "\n")), user)
}
