package clusteragents

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
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// bed is the endpoints behind TLS, over a real store and a real tunnel server. It has two clusters: office, which is imported
// (token "good"), and harbour, which the server provisions (token "k3s").
type bed struct {
	*testing.T
	*Agents
	state   *state.State
	hosts   *hosts.Hosts
	web     *httptest.Server
	changes chan string
	let     chan struct{} // an agent was let in

	mu    sync.Mutex
	wrong int
}

const office, harbour = "fleet-default/office", "fleet-default/harbour"

// ClusterByToken knows the tokens of both clusters.
func (b *bed) ClusterByToken(token string) (records.Cluster, error) {
	key, ok := map[string]string{"good": office, "k3s": harbour}[token]
	d, there := b.state.Clusters.Get(key)
	if !ok || !there {
		return records.Cluster{}, errors.New("no such token")
	}
	return d.Value, nil
}

// WrongToken lets three pass.
func (b *bed) WrongToken(string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrong++; b.wrong > 3 {
		return 7 * time.Second
	}
	return 0
}

type noWatches struct{}

func (noWatches) Watching(string) (time.Time, bool) { return time.Time{}, false }
func (noWatches) OnPresence(func(string, bool))     {}

func newBed(t *testing.T) *bed {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	tunnel.LogTo(log)
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, state: st, changes: make(chan string, 100), let: make(chan struct{}, 100)}
	for key, c := range map[string]records.Cluster{
		office:  {Object: records.Object{Namespace: "fleet-default", Name: "office"}, ID: "c-abcde"},
		harbour: {Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-abcdefgh", Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}}},
	} {
		if _, err := st.Clusters.Create(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
	}
	b.hosts = hosts.New(hosts.Options{
		State: st, Machine: func(string) (records.MachineKey, bool) { return "", false }, Until: func(*http.Request, func()) func() { return func() {} }, Watches: noWatches{}, Alone: true,
		Logger: log, Now: time.Now,
	})
	b.hosts.OnTunnel(func(subject records.Subject, connected bool) { b.changes <- fmt.Sprint(subject, " ", connected) })
	set := settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: "https://drover.example.com", CACerts: "PEM\n", Version: "v1.0.0"})
	accept := func(ctx context.Context, w http.ResponseWriter, r *http.Request, peer tunnel.Peer) {
		b.let <- struct{}{}
		b.hosts.Accept(ctx, w, r, peer)
	}
	b.Agents = New(Options{State: st, Tokens: b, Settings: set, Accept: accept, Now: time.Now, Logger: log})
	mux := http.NewServeMux()
	b.Routes(mux)
	mux.HandleFunc("GET "+connect.Path, func(w http.ResponseWriter, r *http.Request) {
		if !b.Serve(w, r) {
			http.Error(w, "not of a cluster", http.StatusTeapot)
		}
	})
	b.web = httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		b.hosts.Close()
		b.web.Close()
		b.Agents.Close()
		_ = st.Close()
	})
	return b
}

func (b *bed) headers(token, address string, ca []byte) http.Header {
	b.Helper()
	return b.headersOf(token, address, "account-token", ca)
}

func (b *bed) headersOf(token, address, account string, ca []byte) http.Header {
	b.Helper()
	params, err := connect.EncodeCluster(*connect.NewCluster(address, account, ca))
	if err != nil {
		b.Fatal(err)
	}
	h := http.Header{}
	h.Set(connect.TokenHeader, token)
	h.Set(connect.ParamsHeader, params)
	return h
}

func (b *bed) get(path string, header http.Header) (int, string) {
	b.Helper()
	return b.send("", path, header)
}

func (b *bed) getAt(host, path string) (int, string) { b.Helper(); return b.send(host, path, nil) }

func (b *bed) send(host, path string, header http.Header) (int, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.web.URL+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header, r.Host = header, host
	answer, err := b.web.Client().Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// agent runs a tunnel client that dials whatever it is told.
func (b *bed) agent(header http.Header) (stop func()) {
	b.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(b.web.Certificate())
	client := tunnel.NewClient(tunnel.ClientOptions{
		URL: "wss" + strings.TrimPrefix(b.web.URL, "https") + connect.Path, Header: func() http.Header { return header }, TLS: &tls.Config{RootCAs: roots},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	b.Cleanup(stop)
	return stop
}

func (b *bed) await(want string) {
	b.Helper()
	select {
	case got := <-b.changes:
		if got != want {
			b.Fatalf("tunnels reported %s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		b.Fatalf("no tunnel reported, want %s", want)
	}
}

// TestAManifestAppliedToTwoClusters: the first one stays, also where its manifest is applied again; the second is told so.
func TestAManifestAppliedToTwoClusters(t *testing.T) {
	b := newBed(t)
	first, second := newCluster(t), newCluster(t)
	stop := b.agent(first.headers(b, "good"))
	b.await("c-abcde true")
	before, _ := b.state.ClusterAgents.Get(office)
	if is := before.Value; is.Address != first.address || is.Token != "account-token" || is.CA != string(first.root.pem) || is.Name != "127.0.0.1" || is.UID != first.uid || is.Spent().IsZero() {
		t.Errorf("kept: %+v", is)
	}
	<-b.let
	b.agent(first.headers(b, "good")) // the second replica, whose token is spent
	<-b.let
	status, text := b.get(connect.Path, second.headers(b, "good"))
	if status != http.StatusConflict || !strings.Contains(text, "its manifest was applied to two clusters") || !strings.Contains(text, "drover clusters import office --replace") {
		t.Errorf("another Kubernetes: %d %s", status, text)
	}
	after, _ := b.state.ClusterAgents.Get(office)
	if after.Value.CA != string(first.root.pem) || !strings.Contains(after.Value.Refused, "another Kubernetes") || strings.Contains(text+after.Value.Refused, "account-token") {
		t.Errorf("kept after that: %+v", after.Value)
	}
	if _, ok := b.hosts.Connected("c-abcde"); !ok {
		t.Error("the first one lost its tunnel")
	}
	stop()
	b.agent(first.headers(b, "good"))
	b.record("the refusal of before is not shown any more", func(is records.ClusterAgent) bool { return is.Refused == "" })
}

// TestTheServerDialsNothingElse: whatever an agent would let it.
func TestTheServerDialsNothingElse(t *testing.T) {
	b := newBed(t)
	api := newCluster(t)
	b.agent(api.headers(b, "good"))
	b.await("c-abcde true")
	if conn, err := b.hosts.Dial(t.Context(), "c-abcde", tunnel.Target{Network: "tcp", Address: api.address}); err != nil {
		t.Errorf("the API server: %v", err)
	} else {
		_ = conn.Close()
	}
	for _, to := range []tunnel.Target{{Network: "tcp", Address: b.web.Listener.Addr().String()}, {Network: "unix", Address: hosts.DockerSocket}, {Network: "tcp", Address: "169.254.169.254:80"}} {
		if _, err := b.hosts.Dial(t.Context(), "c-abcde", to); err == nil || !strings.Contains(err.Error(), "is not the Kubernetes API that the agent of cluster office announced") {
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestWhoIsRefused(t *testing.T) {
	b := newBed(t)
	ca := newCluster(t).root.pem
	if status, _ := b.get(connect.Path, http.Header{connect.TokenHeader: {"good"}}); status != http.StatusTeapot {
		t.Errorf("a node agent is served as a cluster's: %d", status)
	}
	malformed := b.headers("good", "10.43.0.1:443", ca)
	malformed.Set(connect.ParamsHeader, "eyJjbHVzdGVyIjp7fX0=")
	for _, tc := range []struct {
		name   string
		header http.Header
		status int
		text   string
	}{
		{"no token", b.headers("", "10.43.0.1:443", ca), http.StatusUnauthorized, "failed authentication"},
		{"a wrong token", b.headers("bad", "10.43.0.1:443", ca), http.StatusBadRequest, "cluster not found"},
		{"nothing in the params", malformed, http.StatusBadRequest, "invalid input, address|token|caCert empty"},
		{"a token by which hosts join", b.headers("k3s", "10.43.0.1:443", ca), http.StatusConflict, "a token by which hosts join is none"},
		{"the second tunnel before the first", http.Header{"Authorization": {"Bearer stv-cluster-good"}}, http.StatusConflict, "no agent of cluster office was let in yet"},
	} {
		status, text := b.get(connect.Path, tc.header)
		if status != tc.status || !strings.Contains(text, tc.text) {
			t.Errorf("%s: %d %s", tc.name, status, text)
		}
	}
}

// TestWrongTokensAreSlowedDown: after some, their sender is told to wait, and for how long; so with the second tunnel.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	b := newBed(t)
	ca := newCluster(t).root.pem
	for try := range 6 {
		header := b.headers("bad", "10.43.0.1:443", ca)
		if try%2 == 1 {
			header = http.Header{"Authorization": {"Bearer stv-cluster-bad"}}
		}
		r := httptest.NewRequest(http.MethodGet, connect.Path, nil)
		r.Header = header
		w := httptest.NewRecorder()
		if !b.Serve(w, r) {
			t.Fatal("not served")
		}
		want, wait := http.StatusBadRequest, ""
		if try >= 3 {
			want, wait = http.StatusTooManyRequests, "7"
		}
		if w.Code != want || w.Header().Get("Retry-After") != wait {
			t.Errorf("try %d: %d, Retry-After %q: %s", try, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	if status, text := b.get(connect.Path, b.headers("", "10.43.0.1:443", ca)); status != http.StatusUnauthorized || b.wrong != 6 {
		t.Errorf("no token at all: %d %s; %d wrong ones", status, text, b.wrong)
	}
}

// TestAgentsOfClustersThatGo: the agent of a cluster that is being removed is not let in, nor that of one without a Kubernetes, and an
// agent that has proved itself to a cluster that was removed meanwhile leaves no record.
func TestAgentsOfClustersThatGo(t *testing.T) {
	b := newBed(t)
	actual := newCluster(t)
	if _, err := b.state.ClusterAgents.Create(t.Context(), harbour, records.ClusterAgent{CA: string(actual.root.pem), Secret: "the-agents-own"}); err != nil {
		t.Fatal(err)
	}
	change := func(key string, f func(*records.Cluster)) {
		t.Helper()
		if _, err := b.state.Clusters.Modify(t.Context(), key, func(c records.Cluster) (records.Cluster, error) { f(&c); return c, nil }); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string, header http.Header) {
		t.Helper()
		if status, text := b.get(connect.Path, header); status != http.StatusConflict || !strings.Contains(text, want) {
			t.Errorf("%d %s, want %q", status, text, want)
		}
	}
	refused("no agent of cluster harbour was let in yet", http.Header{"Authorization": {"Bearer stv-cluster-the-agents-own"}})
	change(harbour, func(c *records.Cluster) { c.Deleting = time.Unix(1, 0) })
	refused("is being removed", actual.headers(b, "the-agents-own"))
	was, _ := b.state.Clusters.Get(office)
	change(office, func(c *records.Cluster) { c.ID = "c-other" })
	said := records.ClusterAgent{Address: actual.address, CA: string(actual.root.pem), Token: "account-token", Seen: time.Unix(2, 0).UTC()}
	err := b.judged(t.Context(), was.Value, said, func(records.ClusterAgent) *seen { return &seen{uid: "u"} })
	if _, kept := b.state.ClusterAgents.Get(office); kept || err == nil || !strings.Contains(err.Error(), "cluster not found") {
		t.Errorf("the agent of a removed cluster is that of another one of its name: %v", err)
	}
	change(office, func(c *records.Cluster) {
		c.Spec.RancherKubernetesEngineConfig = new(clusterspec.RancherKubernetesEngineConfig)
	})
	refused("cluster office has no Kubernetes", actual.headers(b, "good"))
}

// TestAnAgentIsJudgedByTheRecordThatIs: a record that another server changes, or makes, while an agent is looked at is judged anew.
func TestAnAgentIsJudgedByTheRecordThatIs(t *testing.T) {
	for name, there := range map[string]bool{"made": false, "changed": true} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			actual := newCluster(t)
			write := func(refused string) {
				t.Helper()
				_, err := b.state.ClusterAgents.Create(t.Context(), office, records.ClusterAgent{Refused: refused})
				if _, exists := errors.AsType[*store.ExistsError](err); exists {
					_, err = b.state.ClusterAgents.Modify(t.Context(), office, func(is records.ClusterAgent) (records.ClusterAgent, error) { is.Refused = refused; return is, nil })
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if there {
				write("one came")
			}
			cluster, _ := b.state.Clusters.Get(office)
			said := records.ClusterAgent{Address: actual.address, CA: string(actual.root.pem), Token: "account-token", Seen: time.Unix(2, 0).UTC()}
			looks := 0
			err := b.judged(t.Context(), cluster.Value, said, func(records.ClusterAgent) *seen {
				if looks++; looks == 1 {
					write("another came")
				}
				return &seen{fault: silent}
			})
			if d, _ := b.state.ClusterAgents.Get(office); looks != 2 || err == nil || !strings.Contains(err.Error(), "is not proven") || !strings.Contains(d.Value.Refused, "was refused") {
				t.Errorf("looked at %d times: %v, %+v", looks, err, d.Value)
			}
		})
	}
}

// TestOriginalsSecondTunnel is accepted, and leads nowhere.
func TestOriginalsSecondTunnel(t *testing.T) {
	b := newBed(t)
	b.agent(newCluster(t).headers(b, "good"))
	b.await("c-abcde true")
	b.agent(http.Header{"Authorization": {"Bearer stv-cluster-good"}})
	b.await("stv-cluster-c-abcde true")
	if _, err := b.hosts.Dial(t.Context(), "stv-cluster-c-abcde", tunnel.Target{Network: "tcp", Address: "10.43.0.1:443"}); err == nil || !strings.Contains(err.Error(), "nothing is dialled") {
		t.Errorf("dialled: %v", err)
	}
}

func TestTheTunnelOfAForgottenAgentEnds(t *testing.T) {
	b := newBed(t)
	stop := b.agent(newCluster(t).headers(b, "good"))
	b.await("c-abcde true")
	if err := b.state.ClusterAgents.Delete(t.Context(), office, 0); err != nil {
		t.Fatal(err)
	}
	b.await("c-abcde false")
	stop()
}

func TestManifestForKubectl(t *testing.T) {
	b := newBed(t)
	status, text := b.get("/v3/import/good_c-abcde.yaml", nil)
	if again, same := b.get("/v3/import/good_c-abcde.yaml", nil); status != http.StatusOK || again != status || same != text || !strings.Contains(text, "name: cattle-cluster-agent") || !strings.Contains(text, "https://drover.example.com") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := b.get("/v3/import/cleanup_c-abcde.yaml", nil); status != http.StatusOK || !strings.Contains(text, "cattle-admin-binding") {
		t.Errorf("clean-up: %d %s", status, text)
	}
	if status, text := b.get("/v3/import/k3s_c-m-abcdefgh.yaml", nil); status != http.StatusConflict || !strings.Contains(text, "nothing to import") {
		t.Errorf("a provisioned cluster: %d %s", status, text)
	}
	for _, path := range []string{"good_c-m-abcdefgh.yaml", "bad_c-abcde.yaml", "good_c-abcde"} {
		if status, text := b.get("/v3/import/"+path, nil); status != http.StatusNotFound || !strings.Contains(text, "there is no manifest at this address") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	b.Settings = settings.New(b.state.Settings, func(string) string { return "" }, settings.Defaults{CACerts: "PEM\n", Version: "v1.0.0"}) // which has no server-url
	for host, want := range map[string]string{"lan.example:8443": "https://lan.example:8443", "lan.example$(x)": "the Host header is not a valid host name"} {
		if _, text := b.getAt(host, "/v3/import/good_c-abcde.yaml"); !strings.Contains(text, want) {
			t.Errorf("asked by the name %s: %.100s", host, text)
		}
	}
	if status, _ := b.get("/v3/import/bad_c-abcde.yaml", nil); status != http.StatusTooManyRequests {
		t.Errorf("after many wrong tokens: %d", status)
	}
}
