//go:build e2e

package ui

// A server of real parts over a real store, whose documents the tests write themselves: no controller judges them, so
// that every page has everything to show. Hosts and clusters that it would reach are stood for.

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/clusters"
	groups "github.com/drover-project/drover/server/controllers/directories"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/hosts"
	lines "github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

// TestMain is kubectl where the terminal has started the test as that.
func TestMain(m *testing.M) {
	if os.Args[0] == lines.Program {
		os.Exit(commands.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// served is the server. Its address stays when it is stopped and started.
type served struct {
	t       *testing.T
	st      *state.State
	auth    *auth.Auth
	set     *settings.Settings
	handler http.Handler
	web     *httptest.Server
	address string
}

// serve starts a server; shape changes what it stands on.
func serve(t *testing.T, shape ...func(*api.Options)) *served {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	must(t, err)
	s := &served{t: t, st: st}
	s.set = settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: "https://drover.example", CACerts: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", Version: "v0.1.0"})
	s.auth = auth.New(st, nil, nil)
	s.auth.UnsafeCheapPasswords()
	quiet := slog.New(slog.DiscardHandler)
	trail, err := audit.Open(audit.Options{Dir: t.TempDir(), Server: "drover.example:8443", Setting: func(name string) string { return s.set.Get(name).Value }, Now: time.Now, Logger: quiet})
	must(t, err)
	happened := events.New(events.Options{State: st, Now: time.Now, Logger: quiet})
	o := s.options(quiet)
	o.Events, o.Audit = happened, trail
	for _, change := range shape {
		change(&o)
	}
	all, err := api.New(o)
	must(t, err)
	s.handler = all.Handler()
	t.Cleanup(func() {
		s.stop()
		all.Close()
		trail.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	s.start()
	return s
}

// options are what the API stands on.
func (s *served) options(quiet *slog.Logger) api.Options {
	s.t.Helper()
	known, err := versions.Load("")
	must(s.t, err)
	data := func() *versions.Data { return known }
	now := time.Now
	register := registration.New(registration.Options{State: s.st, Settings: s.set, Now: now})
	control := clusters.New(clusters.Options{
		State: s.st, Versions: data, InstallerImage: func() string { return "" }, Logger: quiet, Now: now, Hosts: connected{}, API: s.clusterSeen, Nodes: noNodes{},
	})
	persons := &people.People{State: s.st, Auth: s.auth, Now: now, Log: quiet}
	outside, err := logins.New(logins.Options{State: s.st, Auth: s.auth, People: persons, Settings: s.set, Secret: "a secret of all servers", Outgoing: new(outgoing.Outgoing), Now: now, Logger: quiet})
	must(s.t, err)
	return api.Options{
		Data:     api.Data{State: s.st, Settings: s.set, Versions: data},
		Identity: api.Identity{Auth: s.auth, People: persons, Directories: outside, Groups: &groups.Controller{Desk: outside}},
		Ways: api.Ways{
			Registration: register, KubeProxy: cluster{}, Hosts: pier{}, ClusterAPIs: seen{s}, Servers: native.Servers{State: s.st, Peers: s, Workers: func() []reconcile.Status { return nil }},
			Presence: hosts.NewPresence(hosts.PresenceOptions{
				State: s.st, Self: records.Replica{ID: "this", URL: "https://drover-1.example:8443", Version: "v0.1.0", Started: now().Add(-time.Hour)}, Logger: quiet, Now: now,
			}),
		},
		Work: api.Work{
			Clusters: &asked.Applier{State: s.st, Versions: data, Preview: control.Preview, Now: now}, PreviewOperation: control.PreviewOperation,
			PreviewFleet: control.PreviewFleet,
			Rehearsals: &rehearsals.Service{State: s.st, Snapshots: &etcdops.Service{State: s.st, Now: now}, Watching: connected{}.Watching, Now: now, Logger: quiet,
				InstallerImage: func() string { return "" }, DefaultRegistry: func() string { return "" }, Server: func() (url, ca string) { return "https://drover.example", "" }},
		},
		Logger: quiet,
	}
}

// seen is what is seen of clusters whose own APIs take no request.
type seen struct{ s *served }

func (c seen) API(key records.ClusterKey) observed.API { return c.s.clusterSeen(key) }

func (seen) CA(records.ClusterKey) []byte { return nil }

func (seen) Client(records.ClusterKey) (kubernetes.Interface, error) {
	return nil, errors.New("no tunnel is open")
}

// clusterSeen is what the server sees of the API of a cluster: all is well there.
func (s *served) clusterSeen(key records.ClusterKey) observed.API {
	d, _ := s.st.Clusters.Get(string(key))
	seen := observed.API{Reachable: true, Version: d.Value.Status.Version, Nodes: map[string]records.NodeRef{}}
	for _, d := range s.st.MachinesByCluster.Find(key) {
		if d.Value.Status.Node != nil {
			seen.Nodes[d.Value.UID] = *d.Value.Status.Node
		}
	}
	return seen
}

// noNodes performs no orders.
type noNodes struct{}

// connected are hosts that have been connected for an hour.
type connected struct{}

func (connected) Watching(string) (time.Time, bool) { return time.Now().Add(-time.Hour), true }
func (connected) Tunnel(records.Subject) observed.Tunnel {
	return observed.Tunnel{Connected: true, Since: time.Now().Add(-time.Hour)}
}

func (noNodes) Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }
func (noNodes) Want(records.ClusterKey, []pass.NodeOrder)                        {}

// Workers are those of this server alone.
func (s *served) Workers(_ context.Context, own []reconcile.Status) []hosts.Said[[]reconcile.Status] {
	return []hosts.Said[[]reconcile.Status]{{Server: "https://drover.example:8443", Value: own}}
}

// OpenTunnels are those of two servers, of which one is silent.
func (s *served) OpenTunnels(context.Context) []hosts.HeldTunnels {
	held := hosts.HeldTunnels{Server: "https://drover.example:8443"}
	for _, d := range s.st.Connections.List() {
		held.Value = append(held.Value, tunnel.SessionInfo{
			Subject: d.Value.Subject, Kind: "system-agent", Protocol: "drover", Remote: "192.0.2.10:43210", Since: d.Value.Since, LastHeard: time.Now(),
			Healthy: len(held.Value) != 1, Connections: len(held.Value), BytesIn: 7 << 20, BytesOut: 130 << 10,
		})
	}
	return []hosts.HeldTunnels{held, {Server: "https://drover-2.example:8443", Fault: "dial tcp 192.0.2.2:8443: connection refused"}}
}

// pier stands for the agents on hosts.
type pier struct{}

func (pier) Dial(context.Context, records.Subject, tunnel.Target) (net.Conn, error) {
	return nil, errors.New("no host is there")
}

// Ask is answered with what runs there, and with logs until the caller is gone.
func (pier) Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error) {
	answer := func(kind string, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: body}, nil
	}
	switch what, _, _ := strings.Cut(path, "?"); what {
	case "/v1/containers":
		return answer("application/json", io.NopCloser(strings.NewReader(`{"data":[
			{"id":"4f1c2a9be0441177","name":"web","image":"registry.example/harbour/web:1.27@sha256:1a2b3c4d5e6f","state":"running","status":"Up 3 hours"},
			{"id":"9be0444f1c2a1177","name":"migrate","image":"registry.example/harbour/migrate:9","state":"exited","status":"Exited (1) 2 hours ago"}]}`)))
	case "/v1/output":
		return answer("application/x-ndjson", pour(ctx, func(i int) string {
			return fmt.Sprintf(`{"kind":"text","name":"install","text":"line %d of the plan on %s"}`+"\n", i, subject)
		}))
	case "/v1/logs":
		return answer("text/plain; charset=utf-8", pour(ctx, func(i int) string { return fmt.Sprintf("line %d of %s\n", i, path) }))
	}
	return nil, errors.New("the host is not there")
}

// pour is a body that goes on until it is not read any more.
func pour(ctx context.Context, line func(i int) string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 1; ; i++ {
			if _, err := io.WriteString(w, line(i)); err != nil {
				return
			}
			select {
			case <-ctx.Done():
				_ = w.CloseWithError(ctx.Err())
				return
			case <-tick.C:
			}
		}
	}()
	return r
}

// cluster stands for the APIs of all clusters.
type cluster struct{}

// Ask reaches no cluster.
func (cluster) Ask(*http.Request, auth.Identity, string, kubeproxy.Question, func(kubeproxy.Reply) error) error {
	return errors.New("no tunnel is open")
}

// Serve answers what kubectl asks.
func (cluster) Serve(w http.ResponseWriter, r *http.Request, _ auth.Identity) {
	answer := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/k8s/clusters/"), "/")
	switch path {
	case "api":
		answer(200, `{"kind":"APIVersions","versions":["v1"]}`)
	case "apis":
		answer(200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case "api/v1":
		answer(200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}`)
	case "api/v1/namespaces/default/pods":
		answer(200, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Status","type":"string"}],"rows":[
			{"cells":["web-1","Running"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-1"}}},
			{"cells":["<img src=x onerror=alert(1)>","Pending"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-2"}}}]}`)
	case "api/v1/namespaces/default/pods/web-1":
		answer(200, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}`)
	case "api/v1/namespaces/default/pods/web-1/log":
		for i := 1; r.Context().Err() == nil; i++ {
			_, _ = fmt.Fprintf(w, "line %d of web-1\n", i)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	default:
		answer(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"nothing"}`)
	}
}

// start listens where it did before, or anywhere.
func (s *served) start() {
	s.t.Helper()
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", s.address)
	must(s.t, err)
	s.address = listener.Addr().String()
	s.web = httptest.NewUnstartedServer(s.handler)
	s.web.Config.ErrorLog = stdlog.New(panics{s.t}, "", 0)
	_ = s.web.Listener.Close()
	s.web.Listener, s.web.TLS = listener, &tls.Config{MinVersion: tls.VersionTLS12}
	s.web.StartTLS()
}

// panics is a log that fails the test when a handler has panicked; browsers also leave in the middle of a handshake.
type panics struct{ t *testing.T }

// Write implements io.Writer.
func (p panics) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("panic")) {
		p.t.Errorf("%s", text)
	}
	return len(text), nil
}

// stop cuts all connections.
func (s *served) stop() {
	if s.web != nil {
		s.web.CloseClientConnections()
		s.web.Listener.Close()
		s.web.CloseClientConnections()
		s.web = nil
	}
}

// at is the address of a page.
func (s *served) at(path string) string { return "https://" + s.address + "/dashboard/" + path }

const password = "correct horse battery"

// user makes a user who can log in.
func (s *served) user(name string, admin bool, shape ...func(*records.User)) {
	s.t.Helper()
	hash, err := s.auth.HashNew(s.t.Context(), name, password, 12)
	must(s.t, err)
	u := records.User{ID: "u-" + name, Username: name, DisplayName: "Operator " + name, Admin: admin, PasswordHash: hash, Created: time.Now().Add(-72 * time.Hour)}
	for _, change := range shape {
		change(&u)
	}
	create(s.t, s.st.Users, u.ID, u)
}

func create[T any](t *testing.T, c *store.Collection[T], key string, v T) {
	t.Helper()
	if _, err := c.Create(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
}

// modify changes a document.
func modify[T any](t *testing.T, c *store.Collection[T], key string, change func(*T)) {
	t.Helper()
	_, err := c.Modify(t.Context(), key, func(v T) (T, error) { change(&v); return v, nil })
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
