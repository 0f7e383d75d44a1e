package nodeagents

import (
	"bufio"
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

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

const clusterID = "c-abcde"

// bed is the endpoints behind TLS, over a real store and a real tunnel server.
type bed struct {
	*testing.T
	*Agents
	state   *state.State
	hosts   *hosts.Hosts
	web     *httptest.Server
	changes chan string

	mu    sync.Mutex
	now   time.Time
	wrong int
	full  bool // no further host is taken
}

func (b *bed) clock() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now }

func (b *bed) advance(d time.Duration) { b.mu.Lock(); defer b.mu.Unlock(); b.now = b.now.Add(d) }

// ClusterByToken knows the tokens "good" and "k3s".
func (b *bed) ClusterByToken(token string) (records.Cluster, error) {
	name, spec := "dockyard", clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
	switch token {
	case "good":
	case "k3s":
		name, spec = "harbour", clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"}
	default:
		return records.Cluster{}, errors.New("no such token")
	}
	return records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: name}, ID: clusterID, Spec: spec}, nil
}

// Room is there until b.full is set.
func (b *bed) Room(token, remote string) (records.Origin, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		e := norman.Errorf(http.StatusTooManyRequests, norman.TooManyRequests, "no room")
		e.RetryAfter = 9 * time.Second
		return records.Origin{}, e
	}
	return records.Origin{Token: token, Source: "here"}, nil
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

// noWatches is a server without system agents.
type noWatches struct{}

func (noWatches) Watching(string) (time.Time, bool) { return time.Time{}, false }
func (noWatches) OnPresence(func(string, bool))     {}

func newBed(t *testing.T) *bed {
	t.Helper()
	tunnel.LogTo(slog.New(slog.DiscardHandler))
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, state: st, changes: make(chan string, 100), now: time.Now()}
	b.hosts = hosts.New(hosts.Options{
		State: st, Machine: func(string) (records.MachineKey, bool) { return "", false }, Until: func(*http.Request, func()) func() { return func() {} }, Watches: noWatches{}, Alone: true,
		Logger: slog.New(slog.DiscardHandler), Now: b.clock,
	})
	b.hosts.OnTunnel(func(subject records.Subject, connected bool) { b.changes <- fmt.Sprint(subject, " ", connected) })
	b.Agents = New(Options{State: st, Tokens: b, Tunnel: b.hosts.Tunnel, Accept: b.hosts.Accept, Cluster: func(http.ResponseWriter, *http.Request) bool { return false }, Now: b.clock, Logger: slog.New(slog.DiscardHandler)})
	mux := http.NewServeMux()
	b.Routes(mux)
	b.web = httptest.NewUnstartedServer(mux)
	b.web.Config.MaxHeaderBytes = 64 << 10
	b.web.StartTLS()
	t.Cleanup(func() {
		b.hosts.Close()
		b.web.Close()
		b.Agents.Close()
		_ = st.Close()
	})
	return b
}

// node is a host as its agent describes it.
func node(name, address, engine string) *connect.Node {
	return &connect.Node{
		RequestedHostname: name, Etcd: true, Worker: true,
		CustomConfig: &connect.CustomConfig{
			Address: address, Roles: []string{"etcd", "worker"}, Label: map[string]string{"rack": "a1"}, Taints: []string{"dedicated=infra:NoSchedule"},
		},
		DockerInfo: &connect.DockerInfo{ID: engine, ServerVersion: "20.10.24", OperatingSystem: "Debian", KernelVersion: "6.1", CgroupDriver: "systemd", Driver: "overlay2"},
	}
}

func (b *bed) headers(token string, p connect.Params) http.Header {
	b.Helper()
	text, err := connect.Encode(p)
	if err != nil {
		b.Fatal(err)
	}
	return http.Header{connect.TokenHeader: {token}, connect.ParamsHeader: {text}}
}

// ask sends a request that opens no tunnel, and is its answer.
func (b *bed) ask(path string, header http.Header) (int, string, http.Header) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.web.URL+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header = header
	answer, err := b.web.Client().Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(body)), answer.Header
}

// agent runs a tunnel client with the contract's headers until the test ends, or stop.
func (b *bed) agent(path string, n *connect.Node, dial tunnel.DialFunc) (stop func(), status <-chan tunnel.Status) {
	b.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(b.web.Certificate())
	statuses := make(chan tunnel.Status, 1000)
	client := tunnel.NewClient(tunnel.ClientOptions{
		URL: "wss" + strings.TrimPrefix(b.web.URL, "https") + path, Header: func() http.Header { return b.headers("good", connect.Params{Node: n}) },
		TLS: &tls.Config{RootCAs: roots}, Dial: dial, Changed: func(s tunnel.Status) { statuses <- s },
	})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	b.Cleanup(stop)
	return stop, statuses
}

// await waits for one change of a tunnel.
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

func (b *bed) machine(name string) records.Machine {
	b.Helper()
	d, ok := b.state.Machines.Get(clusterID + "/" + connect.MachineName(name))
	if !ok {
		b.Fatalf("no machine of %s", name)
	}
	return d.Value
}

// docker is a target that answers one line with another.
func docker(_ context.Context, network, address string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		line, err := bufio.NewReader(there).ReadString('\n')
		if err == nil {
			fmt.Fprintf(there, "%s %s says %s", network, address, line)
		}
	}()
	return here, nil
}
