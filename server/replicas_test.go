package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/options"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/sharedetcd"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// whole is a whole server in this process.
type whole struct {
	*testing.T
	url, dir string
	stop     func()
	logged   *logged
	// traceparent is what requests have of a trace; empty for nothing.
	traceparent string
}

// startWhole starts a server on the etcd of an endpoint, or on one of its own.
func startWhole(t *testing.T, endpoint, keys string, more ...func(*options.Options)) *whole {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	s := &whole{T: t, url: "https://" + address, dir: t.TempDir(), logged: &logged{}}
	kept := store.Options{UnsafeNoFsync: true}
	if endpoint != "" {
		kept = store.Options{Endpoints: []string{endpoint}, KeyFile: keys}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	o := options.Options{
		DataDir: s.dir, Listen: address, ServerURL: s.url, PeerURL: s.url, AssetsDir: t.TempDir(), BootstrapPassword: "a long first password",
		Store: kept,
		Process: options.Process{
			Environ: func(string) string { return "" }, Out: io.Discard, Logger: slog.New(slog.NewTextHandler(s.logged, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: time.Now,
		},
	}
	for _, f := range more {
		f(&o)
	}
	s.dir = o.DataDir
	go func() { ended <- Run(ctx, o) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	s.until("it serves", func() bool {
		r, err := s.client().Get(s.url + "/ping")
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
	return s
}

func (s *whole) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	if pem, err := os.ReadFile(filepath.Join(s.dir, "tls", "ca.crt")); err == nil {
		pool.AppendCertsFromPEM(pem)
	}
	return pool
}

func (s *whole) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots()}, DisableKeepAlives: true}}
}

// until waits for something that comes from another goroutine, as long as a slow machine may need.
func (s *whole) until(what string, ok func() bool) {
	s.Helper()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-limit:
			s.Fatalf("waiting in vain: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask is a request of the administrator.
func (s *whole) ask(token, method, path, body string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if s.traceparent != "" {
		r.Header.Set("traceparent", s.traceparent)
	}
	answer, err := s.client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// dockerOnly is a host whose Docker answers pings.
func dockerOnly(_ context.Context, network, address string) (net.Conn, error) {
	if network+" "+address != "unix /var/run/docker.sock" {
		return nil, &tunnel.RefusedError{Network: network, Address: address, Reason: "not offered"}
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		if _, err := there.Read(make([]byte, 1<<10)); err == nil {
			fmt.Fprint(there, "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK")
		}
	}()
	return here, nil
}

// administrator is the token of the first administrator, which the first server made.
func (s *whole) administrator() string {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, AdminTokenFile))
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

const harbour = "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour, namespace: fleet-default}\nspec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}\n"

// apply is the administrator's drover apply.
func (s *whole) apply(admin, document string) {
	s.Helper()
	if status, text := s.ask(admin, http.MethodPost, "/v1-drover/apply", document); status != http.StatusOK {
		s.Fatal(status, text)
	}
}

// register joins a host of its own to the only cluster, as an agent does, and returns its
// token and the path of its plan Secret. A host that joins again has the tokens it had.
func (s *whole) register(admin string, had ...string) (token, namespace, secret string) {
	s.Helper()
	_, text := s.ask(admin, http.MethodGet, "/v3/clusterRegistrationTokens", "")
	var tokens struct{ Data []struct{ Token string } }
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || len(tokens.Data) != 1 {
		s.Fatal(err, text)
	}
	headers := map[string]string{"X-Cattle-Role-Etcd": "true", "X-Cattle-Role-Control-Plane": "true", "X-Cattle-Role-Worker": "true"}
	for _, token := range had {
		headers[registration.ProofHeader] = registration.Proof(randomid.Hash(token), tokens.Data[0].Token)
	}
	return s.join(tokens.Data[0].Token, headers)
}

// join joins a host by a registration token.
func (s *whole) join(by string, headers map[string]string) (token, namespace, secret string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+"/v3/connect/agent", nil)
	if err != nil {
		s.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + by, "X-Cattle-Id": strings.Repeat("a1", 31), "X-Cattle-Address": "192.0.2.7"} {
		r.Header.Set(name, value)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := s.client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	var got struct {
		KubeConfig            string
		Namespace, SecretName string
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != http.StatusOK {
		s.Fatal(answer.Status, err)
	}
	_, rest, _ := strings.Cut(got.KubeConfig, "token: ")
	token, _, _ = strings.Cut(rest, "\n")
	return token, got.Namespace, got.SecretName
}

// watch opens an agent's watch on its plan Secret. ended is closed when the server ends it.
func (s *whole) watch(token, namespace, secret string) (stop func(), ended <-chan struct{}) {
	return s.follow(token, "/api/v1/namespaces/"+namespace+"/secrets?watch=true&fieldSelector=metadata.name%3D"+secret)
}

// follow opens a stream. ended is closed when it has ended.
func (s *whole) follow(token, path string) (stop func(), ended <-chan struct{}) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.client().Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.Fatal(answer, err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, answer.Body)
	}()
	return func() { cancel(); <-over; answer.Body.Close() }, over
}

// The leader is not the server that the agent watches.
func TestAnAgentOfOneServerIsSeenByTheLeader(t *testing.T) {
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := startWhole(t, endpoint, keys)
	admin := a.administrator()
	b := startWhole(t, endpoint, keys)
	a.apply(admin, harbour)
	token, namespace, secret := b.register(admin)
	stop, _ := b.watch(token, namespace, secret)
	defer stop()
	machine := "/v1-drover/machines/" + namespace + "/" + strings.TrimSuffix(secret, "-machine-plan")
	says := func(what string) func() bool {
		return func() bool {
			_, text := a.ask(admin, http.MethodGet, machine, "")
			return strings.Contains(text, what)
		}
	}
	a.until("the leader sees the agent of the other server", says("its agent is connected"))
	stop()
	a.until("the leader sees it go", says("its agent is gone since "))
}

func TestAHostOfOneServerIsReachedThroughAnother(t *testing.T) {
	tunnel.LogTo(slog.New(slog.DiscardHandler))
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := startWhole(t, endpoint, keys)
	admin := a.administrator()
	b := startWhole(t, endpoint, keys)
	const document = "apiVersion: management.cattle.io/v3\nkind: Cluster\nmetadata: {name: dockyard}\nspec: {rancherKubernetesEngineConfig: {}}\n"
	if status, text := a.ask(admin, http.MethodPost, "/v1-drover/apply", document); status != http.StatusOK {
		t.Fatal(status, text)
	}
	_, text := a.ask(admin, http.MethodGet, "/v3/clusterRegistrationTokens", "")
	var tokens struct {
		Data []struct{ ClusterID, Token string }
	}
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || len(tokens.Data) != 1 {
		t.Fatal(err, text)
	}
	params, err := connect.Encode(connect.Params{Node: &connect.Node{RequestedHostname: "n1", CustomConfig: &connect.CustomConfig{Address: "10.0.0.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = tunnel.NewClient(tunnel.ClientOptions{
			URL: "wss" + strings.TrimPrefix(a.url, "https") + connect.RegisterPath,
			Header: func() http.Header {
				return http.Header{connect.TokenHeader: {tokens.Data[0].Token}, connect.ParamsHeader: {params}}
			},
			TLS: &tls.Config{RootCAs: a.roots()}, Dial: dockerOnly,
		}).Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-gone })
	machine := "/v1-drover/machines/" + tokens.Data[0].ClusterID + "/" + connect.MachineName("n1")
	state := func(want string) func() bool {
		return func() bool {
			_, text := b.ask(admin, http.MethodGet, machine, "")
			return strings.Contains(text, `"state":"`+want+`"`)
		}
	}
	b.until("the host is connected", state("Connected"))
	// The state is the leader's word and may be read an instant before who holds the tunnel.
	b.until("docker answers through the other server", func() bool {
		status, text := b.ask(admin, http.MethodGet, machine+"/dial?target=docker", "")
		return status == http.StatusOK && strings.Contains(text, `"apiVersion":"1.41"`)
	})
	if status, text := b.ask("nobody", http.MethodGet, machine+"/dial?target=docker", ""); status != http.StatusUnauthorized {
		t.Errorf("docker for nobody: %d %s", status, text)
	}
	if status, text := b.ask(admin, http.MethodGet, "/v1-drover/tunnels", ""); status != http.StatusOK || !strings.Contains(text, `"server":"`+a.url+`"`) || !strings.Contains(text, `"host":"n1"`) {
		t.Errorf("tunnels: %d %s", status, text)
	}
	a.stop()
	b.until("the host is shown as lost with its server", state("Disconnected"))
	if status, text := b.ask(admin, http.MethodGet, machine+"/dial?target=docker", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "no tunnel from") {
		t.Errorf("docker of a lost host: %d %s", status, text)
	}
}

// line is a TCP connection that can be cut.
type line struct {
	address string
	mu      sync.Mutex
	cut     bool
	conns   []net.Conn
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{address: listener.Addr().String()}
	t.Cleanup(func() { listener.Close(); l.set(true) })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, near, far)
			cut := l.cut
			l.mu.Unlock()
			if cut {
				l.set(true)
				continue
			}
			go func() { _, _ = io.Copy(near, far); near.Close() }()
			go func() { _, _ = io.Copy(far, near); far.Close() }()
		}
	}()
	return l
}

func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// A server that does not hear of revocations must not go on as if there were none.
func TestAServerCutOffFromItsStoreIsNotReady(t *testing.T) {
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	etcd := newLine(t, strings.TrimPrefix(endpoint, "http://"))
	a := startWhole(t, endpoint, keys)
	admin := a.administrator()
	b := startWhole(t, "http://"+etcd.address, keys)
	health := func() int { status, _ := b.ask(admin, http.MethodGet, "/healthz", ""); return status }
	token, revoke := a.newToken(admin, `{"type":"token"}`)
	b.until("the other server knows the token", func() bool {
		status, _ := b.ask(token, http.MethodGet, "/v3/clusters", "")
		return status == http.StatusOK
	})
	_, ended := b.follow(token, "/api/v1/secrets?watch=true")
	if status := health(); status != http.StatusOK {
		t.Fatalf("healthy: %d", status)
	}
	etcd.set(true)
	revoke()
	b.until("the server is not ready", func() bool { return health() == http.StatusServiceUnavailable })
	if status, text := b.ask(token, http.MethodGet, "/v3/clusters", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "lost the connection to its store") {
		t.Errorf("a revoked token: %d %s", status, text)
	}
	alsoEnds(t, "an administrator's watch at a server that is cut off", ended)
	etcd.set(false)
	b.until("the server is ready again", func() bool { return health() == http.StatusOK })
	b.until("the token is refused", func() bool {
		status, _ := b.ask(token, http.MethodGet, "/v3/clusters", "")
		return status == http.StatusUnauthorized
	})
	if status, text := b.ask(admin, http.MethodGet, "/v3/clusters", ""); status != http.StatusOK {
		t.Errorf("afterwards: %d %s", status, text)
	}
}
