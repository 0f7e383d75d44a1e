package planapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	namespace = "fleet-default"
	one       = "custom-000000000001"
	two       = "custom-000000000002"
	suffix    = "-machine-plan"
	oneKey    = namespace + "/" + one + suffix
	secrets   = "/api/v1/namespaces/" + namespace + "/secrets"
	onePath   = secrets + "/" + one + suffix
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is an API over a real store with two machines; a machine's token is its name.
type fixture struct {
	*planapi.API
	state  *state.State
	server *httptest.Server
	client *http.Client
}

type option func(*planapi.Options, *httptest.Server)

func http2(_ *planapi.Options, s *httptest.Server) { s.EnableHTTP2 = true }

func heartbeat(d time.Duration) option {
	return func(o *planapi.Options, _ *httptest.Server) { o.Heartbeat = d }
}

func setUp(t testing.TB, options ...option) *fixture {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	f := serve(t, st, options...)
	for _, name := range []string{one, two} {
		f.create(t, name)
	}
	return f
}

// serve is a start of the API over a store.
func serve(t testing.TB, st *state.State, options ...option) *fixture {
	t.Helper()
	o := planapi.Options{
		State: st,
		Now:   func() time.Time { return noon },
		Machine: func(bearer string) (records.MachineKey, bool) {
			return records.NewMachineKey(namespace, bearer), strings.HasPrefix(bearer, "custom-")
		},
		User: func(r *http.Request) (auth.Identity, error) {
			if r.Header.Get("Authorization") != "Bearer admin" {
				return auth.Identity{}, auth.ErrUnauthenticated
			}
			return auth.Identity{UserID: "u-1", Admin: true}, nil
		},
	}
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	for _, option := range options {
		option(&o, server)
	}
	f := &fixture{API: planapi.New(o), state: st, server: server}
	f.Routes(mux)
	server.StartTLS()
	f.client = server.Client()
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		f.Close()
		server.Close()
	})
	return f
}

func (f *fixture) create(t testing.TB, machine string) {
	t.Helper()
	s := records.PlanSecret{
		Object: records.Object{
			Namespace: namespace, Name: machine + suffix, UID: "uid-" + machine, Created: noon,
			Labels: map[string]string{"rke.cattle.io/machine-name": machine},
		},
	}
	if _, err := f.state.PlanSecrets.Create(t.Context(), s.Key(), s); err != nil {
		t.Fatal(err)
	}
}

// set writes data as the server's controllers do; an empty key deletes nothing.
func (f *fixture) set(t testing.TB, key string, pairs ...string) int64 {
	t.Helper()
	d, err := f.state.PlanSecrets.Modify(t.Context(), key, func(s records.PlanSecret) (records.PlanSecret, error) {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		for i := 0; i < len(pairs); i += 2 {
			s.Data[pairs[i]] = []byte(pairs[i+1])
		}
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d.Revision
}

func (f *fixture) remove(t testing.TB, key string) {
	t.Helper()
	if err := f.state.PlanSecrets.Delete(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) stored(t testing.TB, key string) store.Document[records.PlanSecret] {
	t.Helper()
	d, ok := f.state.PlanSecrets.Get(key)
	if !ok {
		t.Fatalf("there is no Secret %s", key)
	}
	return d
}

// secret is a Secret on the wire.
type secret struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Metadata   struct {
		Name              string            `json:"name,omitempty"`
		Namespace         string            `json:"namespace,omitempty"`
		UID               string            `json:"uid,omitempty"`
		ResourceVersion   string            `json:"resourceVersion,omitempty"`
		CreationTimestamp string            `json:"creationTimestamp,omitempty"`
		Labels            map[string]string `json:"labels,omitempty"`
		Annotations       map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Type    string             `json:"type,omitempty"`
	Data    map[string]*string `json:"data,omitempty"`
	Code    int                `json:"code,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Message string             `json:"message,omitempty"`
	Status  string             `json:"status,omitempty"`
}

type answer struct {
	secret
	HTTP   int
	Header http.Header
	Text   string
}

func (f *fixture) do(t testing.TB, method, path, token, contentType string, body any) answer {
	t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{HTTP: res.StatusCode, Header: res.Header, Text: string(text)}
	if method != http.MethodHead {
		if err := json.Unmarshal(text, &a.secret); err != nil {
			t.Fatalf("%s %s: %d %q: %v", method, path, a.HTTP, text, err)
		}
	}
	return a
}

func (f *fixture) get(t testing.TB, path, token string) answer {
	t.Helper()
	return f.do(t, http.MethodGet, path, token, "", nil)
}

// event is one event of a watch.
type event struct {
	Type   string
	Object secret
}

// watcher reads one watch.
type watcher struct {
	status int
	events chan event // closed at the end of the stream
	cancel context.CancelFunc
	err    error // after events is closed: nil for an end in order
}

func (f *fixture) watch(t testing.TB, path, token, query string) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.server.URL+path+"?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{status: res.StatusCode, events: make(chan event, 10_000), cancel: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.events)
		defer res.Body.Close()
		decoder := json.NewDecoder(res.Body)
		for {
			var e event
			if err := decoder.Decode(&e); err != nil {
				if err != io.EOF {
					w.err = err
				}
				return
			}
			w.events <- e
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// next is the next event; a stream that stays silent fails the test by its deadline.
func (w *watcher) next(t testing.TB) event {
	t.Helper()
	select {
	case e, ok := <-w.events:
		if !ok {
			t.Fatalf("the stream ended: %v", w.err)
		}
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("no event came")
	}
	return event{}
}

// end reads until the stream ends.
func (w *watcher) end(t testing.TB) []event {
	t.Helper()
	var all []event
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case e, ok := <-w.events:
			if !ok {
				return all
			}
			all = append(all, e)
		case <-deadline:
			t.Fatal("the stream did not end")
		}
	}
}

// nameQuery selects one machine's Secret as agents do.
func nameQuery(machine string) string {
	return "fieldSelector=metadata.name%3D" + machine + suffix
}
