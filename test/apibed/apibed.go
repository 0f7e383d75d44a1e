// Package apibed is a server's API over a real store, for the tests of the rooms that stand behind it: drover's own API, /v3, /v1, the objects
// of Kubernetes, the page and its people. Only the ways to hosts and to clusters are stand-ins, which a test gives.
package apibed

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
	"github.com/drover-project/drover/server/api"
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

// Rewriting says whether golden files are written anew: with the flag update of the program of tests, where it has one.
func Rewriting() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// CACerts stands for the PEM of a CA: the API hands it on and never reads it.
const CACerts = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

// Start is when a bed begins.
var Start = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// Bed is an API over a real store, with an administrator and a user without any right.
type Bed struct {
	// dir is what the store has on disk.
	dir string
	// ClusterCA are the CAs of clusters, Awaited the tokens that were waited for, and Lost why they did not arrive.
	ClusterCA map[records.ClusterKey]string
	Awaited   []string
	Lost      error
	groups    *groups.Controller
	T         testing.TB
	State     *state.State
	Auth      *auth.Auth
	Settings  *settings.Settings
	API       *api.API
	Events    *events.Log
	Audit     *audit.Log
	Handler   http.Handler
	Logs      *syncBuffer

	mu sync.Mutex
	at time.Time

	Admin, User string // texts of tokens

	// Presence is who is connected, and Releases what the agents of tunnels are of, by their subjects.
	Presence *hosts.Presence
	Releases map[string]string
	Leader   string

	// Known are the versions that there are, and VersionsChanged says that they are others.
	Known           atomic.Pointer[versions.Data]
	VersionsChanged func()

	// Client and ClusterAPI stand for the way to the clusters; nil reaches none.
	Client     func(records.ClusterKey) (kubernetes.Interface, error)
	ClusterAPI func(records.ClusterKey) observed.API

	// What stands for the way to the hosts; nil reaches none.
	AskAgent func(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	Dial     func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	AskFor   func(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error)
	Tunnels  func(context.Context) []hosts.HeldTunnels
	Workers  []hosts.Said[[]reconcile.Status]

	// VersionStatus is where the version data are from.
	VersionStatus versions.Status
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

// Now is the time of the bed, which passes by Pass alone.
func (b *Bed) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// Pass lets time pass.
func (b *Bed) Pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

// Options are what is other than usual.
type Options struct {
	ServerURL string
	Environ   map[string]string
	Proxy     http.HandlerFunc
	// Way is to the APIs of all clusters; nil reaches none.
	Way  http.RoundTripper
	Ping time.Duration
	// Verbs are what people do beside what the server has.
	Verbs []api.Verb
}

// New is a bed with a store of its own. Its test runs beside others.
func New(t testing.TB) *Bed {
	t.Helper()
	return NewWith(t, Options{ServerURL: "https://drover.example", Ping: time.Hour})
}

// NewWith is New with options.
func NewWith(t testing.TB, o Options) *Bed {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel() // most of a test's time is etcd's waiting for its own election
	}
	b := &Bed{T: t, dir: t.TempDir(), at: Start, Logs: &syncBuffer{}}
	b.open()
	t.Cleanup(b.close)
	st := b.State
	b.wire(o)
	for _, u := range []records.User{
		{ID: "user-admin", Username: "admin", DisplayName: "Default Admin", Admin: true, Created: Start},
		{ID: "u-bob", Username: "bob", DisplayName: "Bob", Created: Start},
	} {
		if _, err := st.Users.Create(t.Context(), u.ID, u); err != nil {
			t.Fatal(err)
		}
	}
	b.Admin, b.User = b.Token("user-admin", records.Token{Name: "token-admin"}), b.Token("u-bob", records.Token{Name: "token-boblo"})
	return b
}

func (b *Bed) open() {
	b.T.Helper()
	st, err := state.Open(b.T.Context(), store.Options{DataDir: b.dir, UnsafeNoFsync: true})
	if err != nil {
		b.T.Fatal(err)
	}
	b.State = st
}

func (b *Bed) close() {
	b.T.Helper()
	if err := b.State.Close(); err != nil {
		b.T.Error(err)
	}
}

// Restart has the server end and start again: what is not in the store is gone.
func (b *Bed) Restart(o Options) {
	b.T.Helper()
	b.close()
	b.open()
	b.wire(o)
}

// wire makes everything above the store, as a start of the server does.
func (b *Bed) wire(o Options) {
	b.T.Helper()
	known, err := versions.Load("")
	if err != nil {
		b.T.Fatal(err)
	}
	b.Known.Store(known)
	log := slog.New(slog.NewTextHandler(b.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.Settings = settings.New(b.State.Settings, func(name string) string { return o.Environ[name] }, settings.Defaults{ServerURL: o.ServerURL, CACerts: CACerts, Version: "v0.1.0"})
	b.Auth = auth.New(b.State, b.Now, log)
	b.Auth.UnsafeCheapPasswords()
	b.Auth.MaxTokens = quotas.New(b.State, b.Settings).TokensPerPerson
	b.Auth.Uses.Rest = func() time.Duration { return b.Settings.Minutes("auth-user-session-idle-ttl-minutes") }
	register := registration.New(registration.Options{State: b.State, Settings: b.Settings, Now: b.Now})
	plans := planapi.New(planapi.Options{State: b.State, Machine: register.MachineByToken, User: b.Auth.Authenticate, Discovery: api.Discovery(), Now: b.Now})
	b.T.Cleanup(plans.Close)
	agents := http.NewServeMux()
	register.Routes(agents)
	plans.Routes(agents)
	agents.Handle("/v3/connect", room)
	agents.Handle("/v3/connect/", room)
	agents.Handle("/v1-drover/relay/", room)
	agents.Handle("/v1-drover/relay", room)
	control := clusters.New(clusters.Options{
		State: b.State, Versions: func() *versions.Data { return known }, InstallerImage: func() string { return "" }, Logger: log, Now: b.Now,
		Nodes: noNodes{}, Hosts: noHosts{}, API: func(records.ClusterKey) observed.API { return observed.API{} },
	})
	b.Events = events.New(events.Options{State: b.State, Now: b.Now, Logger: log})
	if b.Audit, err = audit.Open(audit.Options{
		Dir: b.T.TempDir(), Server: "bench:8443", Setting: func(name string) string { return b.Settings.Get(name).Value }, Now: b.Now, Logger: log,
	}); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(b.Audit.Close)
	applier := &asked.Applier{State: b.State, Preview: control.Preview, Versions: func() *versions.Data { return known }, Now: b.Now}
	desk := b.desk(applier)
	b.Presence = hosts.NewPresence(hosts.PresenceOptions{
		State: b.State, Self: records.Replica{ID: "bench", URL: "https://bench:8443", Version: "v0.1.0", Started: Start, Identity: "bench-1"}, Logger: log, Now: b.Now,
		Agent: func(subject string) string { return b.Releases[subject] },
	})
	options := api.Options{Now: b.Now, Logger: log, Ping: o.Ping, Metrics: room}
	options.Data = api.Data{
		State: b.State, Settings: b.Settings, Versions: b.Known.Load, OnVersions: func(f func()) { b.VersionsChanged = f }, RKE1Versions: desk.Versions, Events: b.Events, Audit: b.Audit,
		VersionStatus: func() versions.Status {
			if b.VersionStatus == (versions.Status{}) {
				return versions.Status{Date: known.Date}
			}
			return b.VersionStatus
		},
	}
	options.Auth = b.Auth
	options.Ways = api.Ways{
		Registration: register, Agents: agents, Hosts: onHosts{b}, ClusterAPIs: inClusters{b}, Presence: b.Presence, Leader: func() string { return b.Leader },
		Servers: native.Servers{State: b.State, Workers: func() []reconcile.Status { return nil }, Peers: peersOf{b}},
	}
	options.Work = api.Work{
		Clusters: applier, Handover: desk, PreviewOperation: control.PreviewOperation, PreviewFleet: control.PreviewFleet, Verbs: o.Verbs,
	}
	options.People = &people.People{State: b.State, Auth: b.Auth, Now: b.Now, Log: log}
	if options.Directories, err = outsidedesk.New(outsidedesk.Options{
		State: b.State, Auth: b.Auth, People: options.People, Settings: b.Settings, Secret: "a secret of all servers", Outgoing: new(outgoing.Outgoing), Now: b.Now, Logger: log,
	}); err != nil {
		b.T.Fatal(err)
	}
	b.groups = &groups.Controller{Desk: options.Directories}
	options.Groups = b.groups
	options.RKE = rke1.NewClusters(rke1.Options{ // whose hosts are all away
		State: b.State, Versions: desk.Versions, Tunnel: func(records.Subject) observed.Tunnel { return observed.Tunnel{} }, Now: b.Now, Logger: log,
	})
	options.Files = &etcdops.Files{
		State: b.State,
		Tunnel: func(records.Subject) observed.Tunnel {
			return observed.Tunnel{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		},
		Ask: func(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error) {
			return b.AskFor(ctx, subject, path, header)
		},
	}
	options.Rehearsals = &rehearsals.Service{ // of whose fleets all agents are away
		State: b.State, Snapshots: &etcdops.Service{State: b.State, Now: b.Now}, Watching: func(string) (time.Time, bool) { return time.Time{}, false }, Now: b.Now,
		Server: func() (url, ca string) { return o.ServerURL, CACerts }, Logger: log, InstallerImage: func() string { return "" }, DefaultRegistry: func() string { return "" },
	}
	ways := &kubeproxy.Proxy{State: b.State, Logger: log, Membership: &state.Membership{State: b.State, Now: b.Now}, Refused: func(records.ClusterKey, string, string) {},
		Way: func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return o.Way },
		Token: func(context.Context, records.ClusterKey, downstream.Person) (string, error) {
			if o.Way == nil {
				return "", &downstream.UnavailableError{Cause: "the cluster is not there"}
			}
			return "of-the-account", nil
		}}
	options.KubeProxy = ways
	if o.Proxy != nil {
		options.KubeProxy = standIn{ways, o.Proxy}
	}
	options.TokenArrived = func(_ context.Context, key records.ClusterKey, token string) error {
		b.Awaited = append(b.Awaited, string(key)+" "+token)
		return b.Lost
	}
	if b.API, err = api.New(options); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(b.API.Close)
	b.Handler = b.API.Handler()
}

// onHosts leads to hosts as the bed has it, and inClusters to clusters' APIs.
type onHosts struct{ b *Bed }

func (h onHosts) Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error) {
	if h.b.AskAgent == nil {
		return nil, errors.New("no host is there")
	}
	return h.b.AskAgent(ctx, subject, path)
}

func (h onHosts) Dial(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error) {
	if h.b.Dial == nil {
		return nil, errors.New("no host is there")
	}
	return h.b.Dial(ctx, subject, to)
}

type inClusters struct{ b *Bed }

func (c inClusters) Client(key records.ClusterKey) (kubernetes.Interface, error) {
	if c.b.Client == nil {
		return nil, &downstream.UnavailableError{Cause: "no tunnel is open"}
	}
	return c.b.Client(key)
}

func (c inClusters) API(key records.ClusterKey) observed.API {
	if c.b.ClusterAPI == nil {
		return observed.API{}
	}
	return c.b.ClusterAPI(key)
}

func (c inClusters) CA(key records.ClusterKey) []byte { return []byte(c.b.ClusterCA[key]) }

// desk gives clusters away whose own APIs cannot be asked, and on whose hosts nothing would change.
func (b *Bed) desk(applier *asked.Applier) *rketransfer.Desk {
	b.T.Helper()
	known, err := rke1versions.Load(b.T.Context(), "", rke1versions.Options{})
	if err != nil {
		b.T.Fatal(err)
	}
	applier.CheckRKE1 = rke1.NewClusters(rke1.Options{State: b.State, Versions: known, Now: b.Now}).Check
	return &rketransfer.Desk{
		State: b.State, Clusters: applier, Versions: known, Now: b.Now,
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
	api.Proxy
	serve http.HandlerFunc
}

func (s standIn) Serve(w http.ResponseWriter, r *http.Request, _ auth.Identity) { s.serve(w, r) }

// Token is the text of a new token of a user.
func (b *Bed) Token(userID string, t records.Token) string {
	b.T.Helper()
	t.UserID = userID
	text, _, err := b.Auth.IssueToken(b.T.Context(), t)
	if err != nil {
		b.T.Fatal(err)
	}
	return text
}

// AddCluster stores a cluster with a fixed id and its default token, as applying does.
func (b *Bed) AddCluster(name, id string, shape func(*records.Cluster)) records.Cluster {
	b.T.Helper()
	cl := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: name, UID: "uid-" + name, Generation: 1, Created: Start},
		ID:     id, CreatorID: "user-admin", Projects: BuiltIn(id),
		Spec:   clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
		Status: records.ClusterStatus{State: "pending", Message: "waiting for at least one control plane, etcd, and worker node to be registered", Since: Start},
	}
	if shape != nil {
		shape(&cl)
	}
	if _, err := b.State.Clusters.Create(b.T.Context(), cl.Key(), cl); err != nil {
		b.T.Fatal(err)
	}
	token := records.RegistrationToken{
		ClusterID: id, ClusterNamespace: cl.Namespace, ClusterName: name, Name: "default-token", Token: strings.Repeat("x7", 27), Created: Start,
	}
	if _, err := b.State.RegistrationTokens.Create(b.T.Context(), token.Key(), token); err != nil {
		b.T.Fatal(err)
	}
	return cl
}

// BuiltIn are the projects of a cluster with a fixed ID.
func BuiltIn(clusterID string) records.ClusterProjects {
	return records.ClusterProjects{Default: clusterID + ":p-8lsr5", System: clusterID + ":p-gmjjq", Adopted: Start}
}

// Active shapes a cluster that is up.
func Active(cl *records.Cluster) {
	cl.Status = records.ClusterStatus{
		ObservedGeneration: 1, Initialized: true, Ready: true, Connected: true, State: "active", Since: Start.Add(12 * time.Minute),
		Version: "v1.34.4+k3s1", APIEndpoint: "https://192.0.2.10:6443",
	}
}

// AddMachine stores a machine of a cluster; short is 12 hex digits.
func (b *Bed) AddMachine(cl records.Cluster, short string, shape func(*records.Machine)) records.Machine {
	b.T.Helper()
	m := records.Machine{
		Object:      records.Object{Namespace: cl.Namespace, Name: "custom-" + short, UID: "uid-" + short, Created: Start},
		ClusterName: cl.Name, ClusterID: cl.ID, MachineID: "machine-" + short, OS: "linux",
		Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, TokenHash: "c0ffee-token-hash", PreviousTokenHash: "c0ffee-previous-hash",
	}
	if shape != nil {
		shape(&m)
	}
	if _, err := b.State.Machines.Create(b.T.Context(), m.Key(), m); err != nil {
		b.T.Fatal(err)
	}
	return m
}

// AddOperation stores an operation of the cluster harbour.
func (b *Bed) AddOperation(id string, shape func(*operations.Operation)) operations.Operation {
	b.T.Helper()
	o := operations.Operation{
		ID: id, Kind: "upgrade", Subject: "fleet-default/harbour", Title: "Upgrade harbour to v1.34.4+k3s1", By: "user-admin",
		State: operations.Running, Generation: 2, Params: json.RawMessage(`{"hidden":true}`), Created: Start, Started: Start,
	}
	if shape != nil {
		shape(&o)
	}
	if _, err := b.State.Operations.Create(b.T.Context(), o.Key(), o); err != nil {
		b.T.Fatal(err)
	}
	return o
}

// AddMachines stores many machines, a hundred at a time.
func (b *Bed) AddMachines(cl records.Cluster, n int) {
	b.T.Helper()
	var ops []store.Op
	for i := range n {
		m := records.Machine{
			Object:      records.Object{Namespace: cl.Namespace, Name: fmt.Sprintf("custom-%012x", i), Created: Start},
			ClusterName: cl.Name, ClusterID: cl.ID, OS: "linux", Roles: records.Roles{Worker: true},
		}
		ops = append(ops, b.State.Machines.Creating(m.Key(), m))
		if len(ops) == 100 || i == n-1 {
			if _, err := b.State.Store.Commit(b.T.Context(), ops...); err != nil {
				b.T.Fatal(err)
			}
			ops = nil
		}
	}
}

// Result is an answer.
type Result struct {
	Status int
	Header http.Header
	Raw    []byte
	Body   map[string]any
}

// Text, Data and IDs are a field, the list of a collection, and the IDs in it; Has says that a map of the answer has a key.
func (r Result) Text(key string) string { s, _ := r.Body[key].(string); return s }

func (r Result) Data() []map[string]any {
	list, _ := r.Body["data"].([]any)
	data := make([]map[string]any, len(list))
	for i := range list {
		data[i], _ = list[i].(map[string]any)
	}
	return data
}

func (r Result) IDs() string {
	var ids []string
	for _, o := range r.Data() {
		id, _ := o["id"].(string)
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

func (r Result) Has(m, key string) bool {
	inner, _ := r.Body[m].(map[string]any)
	_, ok := inner[key]
	return ok
}

// Request asks as the bearer of a token ("" for no login), with further headers as pairs.
func (b *Bed) Request(method, target, token, body string, header ...string) Result {
	b.T.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host, r.TLS, r.RemoteAddr = "drover.example", &tls.ConnectionState{}, "192.0.2.1:4711"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.Handler.ServeHTTP(w, r)
	answer := Result{Status: w.Code, Header: w.Header(), Raw: w.Body.Bytes()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Header().Get("Content-Encoding") == "" && len(answer.Raw) > 0 {
		if err := json.Unmarshal(answer.Raw, &answer.Body); err != nil {
			b.T.Fatalf("%s %s: %v: %s", method, target, err, answer.Raw)
		}
	}
	return answer
}

// Get asks as the administrator.
func (b *Bed) Get(target string) Result { b.T.Helper(); return b.Request("GET", target, b.Admin, "") }

// Want asks as the administrator and insists on the status.
func (b *Bed) Want(status int, method, target, body string) Result {
	b.T.Helper()
	r := b.Request(method, target, b.Admin, body)
	if r.Status != status {
		b.T.Fatalf("%s %s: status %d, want %d: %s", method, target, r.Status, status, r.Raw)
	}
	return r
}

// Golden compares the body with a file; texts that differ each time are replaced before.
func (r Result) Golden(t *testing.T, name string, replace ...string) {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, r.Raw, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, r.Raw)
	}
	got := strings.NewReplacer(replace...).Replace(out.String())
	path := filepath.Join("testdata", name+".json")
	if Rewriting() {
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

// Discard ends an answer of which the test reads no more.
func Discard(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body); _ = r.Body.Close() }

// noHosts has no host connected.
type noHosts struct{}

func (noHosts) Watching(string) (time.Time, bool) { return time.Time{}, false }

func (noHosts) Tunnel(records.Subject) observed.Tunnel { return observed.Tunnel{} }

// noNodes performs no orders.
type noNodes struct{}

func (noNodes) Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }

func (noNodes) Want(records.ClusterKey, []pass.NodeOrder) {}

// peersOf answers what a bed says that servers say.
type peersOf struct{ *Bed }

func (p peersOf) Workers(context.Context, []reconcile.Status) []hosts.Said[[]reconcile.Status] {
	return p.Bed.Workers
}

func (p peersOf) OpenTunnels(ctx context.Context) []hosts.HeldTunnels {
	if p.Tunnels == nil {
		return nil
	}
	return p.Tunnels(ctx)
}
