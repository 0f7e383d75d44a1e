package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/rke1/adopt"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/controllers/clusters"
	groups "github.com/drover-project/drover/server/controllers/directories"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/controllers/rke1"
	"github.com/drover-project/drover/server/decide/pass"
	outsidedesk "github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/rketransfer"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

var rewrite = flag.Bool("update", false, "write the golden files anew")

// caPEM stands for the PEM of a CA: the API hands it on and never reads it.
const caPEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

// start is when a bench begins.
var start = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// bench is an API over a real store, with an administrator and a user without any right.
type bench struct {
	// dir is what the store has on disk.
	dir string
	// clusterCA are the CAs of clusters, awaited the tokens that were waited for, and lost why they did not arrive.
	clusterCA map[records.ClusterKey]string
	awaited   []string
	lost      error
	groups    *groups.Controller
	t         testing.TB
	st        *state.State
	auth      *auth.Auth
	set       *settings.Settings
	api       *API
	events    *events.Log
	audit     *audit.Log
	handler   http.Handler
	logs      *syncBuffer

	mu sync.Mutex
	at time.Time

	admin, user string // texts of tokens

	// presence is who is connected, and releases what the agents of tunnels are of, by their subjects.
	presence *hosts.Presence
	releases map[string]string
	leader   string

	// known are the versions that there are, and versionsChanged says that they are others.
	known           atomic.Pointer[versions.Data]
	versionsChanged func()

	// client and clusterAPI stand for the way to the clusters; nil reaches none.
	client     func(records.ClusterKey) (kubernetes.Interface, error)
	clusterAPI func(records.ClusterKey) observed.API

	// What stands for the way to the hosts; nil reaches none.
	askAgent func(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	dial     func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	askFor   func(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error)
	tunnels  func(context.Context) []hosts.HeldTunnels
	workers  []hosts.Said[[]reconcile.Status]

	// versionStatus is where the version data are from.
	versionStatus versions.Status
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

type benchOptions struct {
	serverURL string
	environ   map[string]string
	proxy     http.HandlerFunc
	// way is to the APIs of all clusters; nil reaches none.
	way  http.RoundTripper
	ping time.Duration
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchWith(t, benchOptions{serverURL: "https://drover.example", ping: time.Hour})
}

func newBenchWith(t testing.TB, o benchOptions) *bench {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel() // most of a test's time is etcd's waiting for its own election
	}
	b := &bench{t: t, dir: t.TempDir(), at: start, logs: &syncBuffer{}}
	b.open()
	t.Cleanup(b.close)
	st := b.st
	b.wire(o)
	for _, u := range []records.User{
		{ID: "user-admin", Username: "admin", DisplayName: "Default Admin", Admin: true, Created: start},
		{ID: "u-bob", Username: "bob", DisplayName: "Bob", Created: start},
	} {
		if _, err := st.Users.Create(t.Context(), u.ID, u); err != nil {
			t.Fatal(err)
		}
	}
	b.admin, b.user = b.token("user-admin", records.Token{Name: "token-admin"}), b.token("u-bob", records.Token{Name: "token-boblo"})
	return b
}

func (b *bench) open() {
	b.t.Helper()
	st, err := state.Open(b.t.Context(), store.Options{DataDir: b.dir, UnsafeNoFsync: true})
	if err != nil {
		b.t.Fatal(err)
	}
	b.st = st
}

func (b *bench) close() {
	b.t.Helper()
	if err := b.st.Close(); err != nil {
		b.t.Error(err)
	}
}

// restart has the server end and start again: what is not in the store is gone.
func (b *bench) restart(o benchOptions) {
	b.t.Helper()
	b.close()
	b.open()
	b.wire(o)
}

// wire makes everything above the store, as a start of the server does.
func (b *bench) wire(o benchOptions) {
	b.t.Helper()
	known, err := versions.Load("")
	if err != nil {
		b.t.Fatal(err)
	}
	b.known.Store(known)
	log := slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.set = settings.New(b.st.Settings, func(name string) string { return o.environ[name] }, settings.Defaults{ServerURL: o.serverURL, CACerts: caPEM, Version: "v0.1.0"})
	b.auth = auth.New(b.st, b.now, log)
	b.auth.UnsafeCheapPasswords()
	b.auth.MaxTokens = quotas.New(b.st, b.set).TokensPerPerson
	b.auth.Uses.Rest = func() time.Duration { return b.set.Minutes("auth-user-session-idle-ttl-minutes") }
	register := registration.New(registration.Options{State: b.st, Settings: b.set, Now: b.now})
	plans := planapi.New(planapi.Options{State: b.st, Machine: register.MachineByToken, User: b.auth.Authenticate, Discovery: Discovery(), Now: b.now})
	b.t.Cleanup(plans.Close)
	agents := http.NewServeMux()
	register.Routes(agents)
	plans.Routes(agents)
	agents.Handle("/v3/connect", room)
	agents.Handle("/v3/connect/", room)
	agents.Handle("/v1-drover/relay/", room)
	agents.Handle("/v1-drover/relay", room)
	control := clusters.New(clusters.Options{
		State: b.st, Versions: func() *versions.Data { return known }, InstallerImage: func() string { return "" }, Logger: log, Now: b.now,
		Nodes: noNodes{}, Hosts: noHosts{}, API: func(records.ClusterKey) observed.API { return observed.API{} },
	})
	b.events = events.New(events.Options{State: b.st, Now: b.now, Logger: log})
	if b.audit, err = audit.Open(audit.Options{
		Dir: b.t.TempDir(), Server: "bench:8443", Setting: func(name string) string { return b.set.Get(name).Value }, Now: b.now, Logger: log,
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.audit.Close)
	applier := &asked.Applier{State: b.st, Preview: control.Preview, Versions: func() *versions.Data { return known }, Now: b.now}
	desk := b.desk(applier)
	b.presence = hosts.NewPresence(hosts.PresenceOptions{
		State: b.st, Self: records.Replica{ID: "bench", URL: "https://bench:8443", Version: "v0.1.0", Started: start, Identity: "bench-1"}, Logger: log, Now: b.now,
		Agent: func(subject string) string { return b.releases[subject] },
	})
	options := Options{Now: b.now, Logger: log, Ping: o.ping, Metrics: room}
	options.Data = Data{
		State: b.st, Settings: b.set, Versions: b.known.Load, OnVersions: func(f func()) { b.versionsChanged = f }, RKE1Versions: desk.Versions, Events: b.events, Audit: b.audit,
		VersionStatus: func() versions.Status {
			if b.versionStatus == (versions.Status{}) {
				return versions.Status{Date: known.Date}
			}
			return b.versionStatus
		},
	}
	options.Auth = b.auth
	options.Ways = Ways{
		Registration: register, Agents: agents, Hosts: onHosts{b}, ClusterAPIs: inClusters{b}, Presence: b.presence, Leader: func() string { return b.leader },
		Servers: native.Servers{State: b.st, Workers: func() []reconcile.Status { return nil }, Peers: peersOf{b}},
	}
	options.Work = Work{
		Clusters: applier, Handover: desk, PreviewOperation: control.PreviewOperation, PreviewFleet: control.PreviewFleet,
	}
	options.People = &people.People{State: b.st, Auth: b.auth, Now: b.now, Log: log}
	if options.Directories, err = outsidedesk.New(outsidedesk.Options{
		State: b.st, Auth: b.auth, People: options.People, Settings: b.set, Secret: "a secret of all servers", Outgoing: new(outgoing.Outgoing), Now: b.now, Logger: log,
	}); err != nil {
		b.t.Fatal(err)
	}
	b.groups = &groups.Controller{Desk: options.Directories}
	options.Groups = b.groups
	options.RKE = rke1.NewClusters(rke1.Options{ // whose hosts are all away
		State: b.st, Versions: desk.Versions, Tunnel: func(records.Subject) observed.Tunnel { return observed.Tunnel{} }, Now: b.now, Logger: log,
	})
	options.Files = &etcdops.Files{
		State: b.st,
		Tunnel: func(records.Subject) observed.Tunnel {
			return observed.Tunnel{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		},
		Ask: func(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error) {
			return b.askFor(ctx, subject, path, header)
		},
	}
	options.Rehearsals = &rehearsals.Service{ // of whose fleets all agents are away
		State: b.st, Snapshots: &etcdops.Service{State: b.st, Now: b.now}, Watching: func(string) (time.Time, bool) { return time.Time{}, false }, Now: b.now,
		Server: func() (url, ca string) { return o.serverURL, caPEM }, Logger: log, InstallerImage: func() string { return "" }, DefaultRegistry: func() string { return "" },
	}
	ways := &kubeproxy.Proxy{State: b.st, Logger: log, Membership: &state.Membership{State: b.st, Now: b.now}, Refused: func(records.ClusterKey, string, string) {},
		Way: func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return o.way },
		Token: func(context.Context, records.ClusterKey, downstream.Person) (string, error) {
			if o.way == nil {
				return "", &downstream.UnavailableError{Cause: "the cluster is not there"}
			}
			return "of-the-account", nil
		}}
	options.KubeProxy = ways
	if o.proxy != nil {
		options.KubeProxy = standIn{ways, o.proxy}
	}
	options.TokenArrived = func(_ context.Context, key records.ClusterKey, token string) error {
		b.awaited = append(b.awaited, string(key)+" "+token)
		return b.lost
	}
	if b.api, err = New(options); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.api.Close)
	b.handler = b.api.Handler()
}

// onHosts leads to hosts as the bench has it, and inClusters to clusters' APIs.
type onHosts struct{ b *bench }

func (h onHosts) Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error) {
	if h.b.askAgent == nil {
		return nil, errors.New("no host is there")
	}
	return h.b.askAgent(ctx, subject, path)
}

func (h onHosts) Dial(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error) {
	if h.b.dial == nil {
		return nil, errors.New("no host is there")
	}
	return h.b.dial(ctx, subject, to)
}

type inClusters struct{ b *bench }

func (c inClusters) Client(key records.ClusterKey) (kubernetes.Interface, error) {
	if c.b.client == nil {
		return nil, &downstream.UnavailableError{Cause: "no tunnel is open"}
	}
	return c.b.client(key)
}

func (c inClusters) API(key records.ClusterKey) observed.API {
	if c.b.clusterAPI == nil {
		return observed.API{}
	}
	return c.b.clusterAPI(key)
}

func (c inClusters) CA(key records.ClusterKey) []byte { return []byte(c.b.clusterCA[key]) }

// desk gives clusters away whose own APIs cannot be asked, and on whose hosts nothing would change.
func (b *bench) desk(applier *asked.Applier) *rketransfer.Desk {
	b.t.Helper()
	known, err := rke1versions.Load(b.t.Context(), "", rke1versions.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	applier.CheckRKE1 = rke1.NewClusters(rke1.Options{State: b.st, Versions: known, Now: b.now}).Check
	return &rketransfer.Desk{
		State: b.st, Clusters: applier, Versions: known, Now: b.now,
		Client: func(records.ClusterKey) (kubernetes.Interface, error) {
			return nil, errors.New("the cluster is not there")
		},
		Compare: func(context.Context, records.Cluster) ([]string, bool, error) {
			return []string{"0 changes"}, true, nil
		},
		OnHosts: func(context.Context, records.Cluster) (*adopt.Found, error) {
			return nil, errors.New("no host answers")
		},
	}
}

// room stands for what is behind a route; its answer shows that it was reached.
var room = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

// standIn answers in place of the clusters' own APIs.
type standIn struct {
	Proxy
	serve http.HandlerFunc
}

func (s standIn) Serve(w http.ResponseWriter, r *http.Request, _ auth.Identity) { s.serve(w, r) }

func (b *bench) token(userID string, t records.Token) string {
	b.t.Helper()
	t.UserID = userID
	text, _, err := b.auth.IssueToken(b.t.Context(), t)
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// addCluster stores a cluster with a fixed id and its default token, as applying does.
func (b *bench) addCluster(name, id string, shape func(*records.Cluster)) records.Cluster {
	b.t.Helper()
	cl := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: name, UID: "uid-" + name, Generation: 1, Created: start},
		ID:     id, CreatorID: "user-admin", Projects: builtIn(id),
		Spec:   clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
		Status: records.ClusterStatus{State: "pending", Message: "waiting for at least one control plane, etcd, and worker node to be registered", Since: start},
	}
	if shape != nil {
		shape(&cl)
	}
	if _, err := b.st.Clusters.Create(b.t.Context(), cl.Key(), cl); err != nil {
		b.t.Fatal(err)
	}
	token := records.RegistrationToken{
		ClusterID: id, ClusterNamespace: cl.Namespace, ClusterName: name, Name: "default-token", Token: strings.Repeat("x7", 27), Created: start,
	}
	if _, err := b.st.RegistrationTokens.Create(b.t.Context(), token.Key(), token); err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// builtIn are the projects of a cluster with a fixed ID.
func builtIn(clusterID string) records.ClusterProjects {
	return records.ClusterProjects{Default: clusterID + ":p-8lsr5", System: clusterID + ":p-gmjjq", Adopted: start}
}

func active(cl *records.Cluster) {
	cl.Status = records.ClusterStatus{
		ObservedGeneration: 1, Initialized: true, Ready: true, Connected: true, State: "active", Since: start.Add(12 * time.Minute),
		Version: "v1.34.4+k3s1", APIEndpoint: "https://192.0.2.10:6443",
	}
}

// addMachine stores a machine of a cluster; short is 12 hex digits.
func (b *bench) addMachine(cl records.Cluster, short string, shape func(*records.Machine)) records.Machine {
	b.t.Helper()
	m := records.Machine{
		Object:      records.Object{Namespace: cl.Namespace, Name: "custom-" + short, UID: "uid-" + short, Created: start},
		ClusterName: cl.Name, ClusterID: cl.ID, MachineID: "machine-" + short, OS: "linux",
		Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, TokenHash: "c0ffee-token-hash", PreviousTokenHash: "c0ffee-previous-hash",
	}
	if shape != nil {
		shape(&m)
	}
	if _, err := b.st.Machines.Create(b.t.Context(), m.Key(), m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// addOperation stores an operation of the cluster harbour.
func (b *bench) addOperation(id string, shape func(*operations.Operation)) operations.Operation {
	b.t.Helper()
	o := operations.Operation{
		ID: id, Kind: "upgrade", Subject: "fleet-default/harbour", Title: "Upgrade harbour to v1.34.4+k3s1", By: "user-admin",
		State: operations.Running, Generation: 2, Params: json.RawMessage(`{"hidden":true}`), Created: start, Started: start,
	}
	if shape != nil {
		shape(&o)
	}
	if _, err := b.st.Operations.Create(b.t.Context(), o.Key(), o); err != nil {
		b.t.Fatal(err)
	}
	return o
}

// addMachines stores many machines, a hundred at a time.
func (b *bench) addMachines(cl records.Cluster, n int) {
	b.t.Helper()
	var ops []store.Op
	for i := range n {
		m := records.Machine{
			Object:      records.Object{Namespace: cl.Namespace, Name: fmt.Sprintf("custom-%012x", i), Created: start},
			ClusterName: cl.Name, ClusterID: cl.ID, OS: "linux", Roles: records.Roles{Worker: true},
		}
		ops = append(ops, b.st.Machines.Creating(m.Key(), m))
		if len(ops) == 100 || i == n-1 {
			if _, err := b.st.Store.Commit(b.t.Context(), ops...); err != nil {
				b.t.Fatal(err)
			}
			ops = nil
		}
	}
}

// result is an answer.
type result struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

func (r result) text(key string) string { s, _ := r.body[key].(string); return s }

func (r result) data() []map[string]any {
	list, _ := r.body["data"].([]any)
	data := make([]map[string]any, len(list))
	for i := range list {
		data[i], _ = list[i].(map[string]any)
	}
	return data
}

func (r result) ids() string {
	var ids []string
	for _, o := range r.data() {
		id, _ := o["id"].(string)
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

func (r result) has(m, key string) bool {
	inner, _ := r.body[m].(map[string]any)
	_, ok := inner[key]
	return ok
}

// request asks as the bearer of a token ("" for no login), with further headers as pairs.
func (b *bench) request(method, target, token, body string, header ...string) result {
	b.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host, r.TLS, r.RemoteAddr = "drover.example", &tls.ConnectionState{}, "192.0.2.1:4711"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	answer := result{status: w.Code, header: w.Header(), raw: w.Body.Bytes()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Header().Get("Content-Encoding") == "" && len(answer.raw) > 0 {
		if err := json.Unmarshal(answer.raw, &answer.body); err != nil {
			b.t.Fatalf("%s %s: %v: %s", method, target, err, answer.raw)
		}
	}
	return answer
}

func (b *bench) get(target string) result { b.t.Helper(); return b.request("GET", target, b.admin, "") }

// want asks as the administrator and insists on the status.
func (b *bench) want(status int, method, target, body string) result {
	b.t.Helper()
	r := b.request(method, target, b.admin, body)
	if r.status != status {
		b.t.Fatalf("%s %s: status %d, want %d: %s", method, target, r.status, status, r.raw)
	}
	return r
}

// golden compares the body with a file; texts that differ each time are replaced before.
func (r result) golden(t *testing.T, name string, replace ...string) {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, r.raw, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, r.raw)
	}
	got := strings.NewReplacer(replace...).Replace(out.String())
	path := filepath.Join("testdata", name+".json")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func discard(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body); _ = r.Body.Close() }

// noHosts has no host connected.
type noHosts struct{}

func (noHosts) Watching(string) (time.Time, bool)      { return time.Time{}, false }
func (noHosts) Tunnel(records.Subject) observed.Tunnel { return observed.Tunnel{} }

// noNodes performs no orders.
type noNodes struct{}

func (noNodes) Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }
func (noNodes) Want(records.ClusterKey, []pass.NodeOrder)                        {}

// peersOf answers what a bench says that servers say.
type peersOf struct{ *bench }

func (p peersOf) Workers(context.Context, []reconcile.Status) []hosts.Said[[]reconcile.Status] {
	return p.workers
}

func (p peersOf) OpenTunnels(ctx context.Context) []hosts.HeldTunnels {
	if p.tunnels == nil {
		return nil
	}
	return p.tunnels(ctx)
}
