package downstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// host plays a control-plane host behind a tunnel: an API server that wants a client
// certificate, and the agent's own service. The real parts meet in the end-to-end test.
type host struct {
	*testing.T
	api        *httptest.Server
	agent      *httptest.Server
	kubeconfig string
	// address is where an agent of the cluster has the API, and ca its authority; token is who may ask there.
	address, ca, token string

	mu     sync.Mutex
	open   bool
	since  time.Time // since when it is open; zero is long ago
	down   bool      // the API server does not listen
	frozen bool      // the API server has no etcd any more, and serves watches all the same
	// stopped is closed when the API server goes on; nil is one that was not stopped. mute accepts in its place.
	stopped chan struct{}
	mute    net.Listener
	node    map[string]any
	change  chan struct{}
	// version counts the changes of the node.
	version int
	conns   []net.Conn
	asked   chan struct{} // closed with the next dial; nil closes nothing
	// lies may answer a request in the API server's place; looks counts how often the tunnel was looked for, dials
	// how often something was dialled through it.
	lies         func(w http.ResponseWriter, r *http.Request) bool
	looks, dials int
	// ahead is how far the server's clock is ahead, budget what answers may take.
	ahead  atomic.Int64
	budget *answers.Budget
}

func (h *host) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// askedFor is closed when the API server is dialled the next time.
func (h *host) askedFor() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = make(chan struct{})
	return h.asked
}

func newHost(t *testing.T) *host {
	h := &host{T: t, change: make(chan struct{})}
	caKey, caCert, caPEM := authority(t)
	h.api = httptest.NewUnstartedServer(http.HandlerFunc(h.serveAPI))
	h.api.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool(caCert), Certificates: []tls.Certificate{leaf(t, caKey, caCert, "server")}}
	h.api.StartTLS()
	t.Cleanup(h.api.Close)
	h.ca = string(caPEM)
	h.agent = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/v1/kubeconfig?runtime=k3s" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, h.kubeconfig)
	}))
	t.Cleanup(h.agent.Close)
	admin := leaf(t, caKey, caCert, "system:admin")
	key, err := x509.MarshalPKCS8PrivateKey(admin.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString
	h.kubeconfig = fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: d, contexts: [{name: d, context: {cluster: d, user: d}}],
clusters: [{name: d, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: %s}}],
users: [{name: d, user: {client-certificate-data: %s, client-key-data: %s}}]}`,
		b64(caPEM), b64(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: admin.Certificate[0]})), b64(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return h
}

// at is where the API is dialled.
func (h *host) at(usual string) string {
	if h.address != "" {
		return h.address
	}
	return usual
}

func (h *host) serveAPI(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	node, change, version, frozen, stopped, lies := h.node, h.change, fmt.Sprint(h.version), h.frozen, h.stopped, h.lies
	h.mu.Unlock()
	if lies != nil && lies(w, r) {
		return
	}
	if stopped != nil {
		<-stopped
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.Header.Get("Accept"), "protobuf") { // as a real API server takes it, and answers are read as JSON alone
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	}
	switch {
	case r.URL.Path == "/whoami":
		_, _ = io.WriteString(w, whoami(r))
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, " ")
			_, _ = io.Copy(w, r.Body)
		}
	case len(r.TLS.PeerCertificates) == 0 && (h.token == "" || r.Header.Get("Authorization") != "Bearer "+h.token):
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{"gitVersion":"v1.34.4+k3s1"}`)
	case frozen && r.URL.Query().Get("watch") == "":
		w.WriteHeader(http.StatusGatewayTimeout)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 504, "reason": "Timeout", "message": "etcd has no leader"}`)
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		_, _ = io.WriteString(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system"}}`)
	case r.URL.Path != "/api/v1/nodes":
		http.NotFound(w, r)
	case r.URL.Query().Get("watch") == "":
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "NodeList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": version}, "items": []any{node}})
	default:
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Get("resourceVersion") == version {
			select {
			case <-r.Context().Done():
				return
			case <-change:
			}
		}
		h.mu.Lock()
		node = h.node
		h.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": node})
	}
}

// whoami is who has sent a request, as an API server takes it: a certificate is believed before a token.
func whoami(r *http.Request) string {
	if len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	return r.Header.Get("Authorization")
}

// set changes the node and wakes the watches.
func (h *host) set(ready string, labels map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.node = map[string]any{
		"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "pier-1", "uid": "n1", "labels": labels, "resourceVersion": fmt.Sprint(h.version + 1)},
		"spec": map[string]any{"providerID": "k3s://pier-1"},
		"status": map[string]any{"nodeInfo": map[string]any{"kubeletVersion": "v1.34.4+k3s1"},
			"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": "R", "message": "m"}}},
	}
	h.version++
	close(h.change)
	h.change = make(chan struct{})
}

func (h *host) Connected(records.Subject) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	since := h.since
	if since.IsZero() {
		since = time.Unix(1, 0)
	}
	return since, h.open
}

func (h *host) Dial(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error) {
	target := map[string]string{h.at("127.0.0.1:6443"): h.api.Listener.Addr().String()}[to.Address]
	if _, open := h.Connected(subject); !open {
		return nil, errors.New("no tunnel is open")
	}
	if target == "" || to.Network != "tcp" || h.address == "" && subject.Machine().Namespace() != "fleet-default" {
		return nil, fmt.Errorf("dialled %s %s on %s", to.Network, to.Address, subject)
	}
	h.mu.Lock()
	h.dials++
	down := h.down
	if h.stopped != nil {
		target = h.mute.Addr().String()
	}
	if h.asked != nil {
		close(h.asked)
		h.asked = nil
	}
	h.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	c, err := new(net.Dialer).DialContext(ctx, to.Network, target)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, c)
	return c, nil
}

// OnTunnel is not needed here: the tests report changes themselves.
func (h *host) OnTunnel(func(records.Subject, bool)) {}

// Ask is the agent's answer without a tunnel.
func (h *host) Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error) {
	if _, open := h.Connected(subject); !open {
		return nil, errors.New("no tunnel is open")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.agent.URL+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// cut ends the tunnel with everything in it.
func (h *host) cut() {
	h.mu.Lock()
	h.open = false
	h.mu.Unlock()
	h.drop()
}

// reopen opens the tunnel again.
func (h *host) reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
}

// stop ends the API server, or starts it again.
func (h *host) stop(down bool) {
	h.mu.Lock()
	h.down = down
	h.mu.Unlock()
	h.drop()
}

// pause does to the API server what kill -STOP does: its connections stay and say nothing, and the kernel accepts further ones.
func (h *host) pause() {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	stopped := make(chan struct{})
	h.Cleanup(func() { _ = mute.Close(); close(stopped) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mute, h.stopped = mute, stopped
}

// drop ends all connections.
func (h *host) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}

func TestReadinessComesFromTheClustersAPI(t *testing.T) {
	h := newHost(t)
	h.set("False", map[string]any{})
	m, changed := start(t, h)

	api := await(t, m, changed, func(a observed.API) bool { return strings.Contains(a.Cause, "no tunnel") })
	if api.Reachable || !strings.Contains(api.Cause, "fleet-default/custom-1") {
		t.Errorf("without a tunnel: %+v", api)
	}
	if _, err := ask(t, m.Way("fleet-default/harbour", NoCredentials)); !errors.As(err, new(*UnavailableError)) {
		t.Errorf("asked without a tunnel: %v", err)
	}
	h.mu.Lock()
	h.open = true
	h.mu.Unlock()
	m.tunnelChanged("fleet-default/custom-1")
	api = await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	if len(api.Nodes) != 0 || len(api.Unlabelled) != 1 || api.Version != "v1.34.4+k3s1" {
		t.Errorf("a node without label: %+v", api)
	}
	h.set("False", map[string]any{machineLabel: "machine-uid"})
	api = await(t, m, changed, func(a observed.API) bool { return len(a.Nodes) == 1 })
	if n := api.Nodes["machine-uid"]; n.Ready || n.NotReady != "R: m" || n.ProviderID != "k3s://pier-1" {
		t.Errorf("node = %+v", n)
	}
	h.set("True", map[string]any{machineLabel: "machine-uid"})
	await(t, m, changed, func(a observed.API) bool { return a.Nodes["machine-uid"].Ready })

	for _, tc := range []struct {
		as   Credentials
		want string
	}{{NoCredentials, "Bearer mine"}, {AdminCredentials, "system:admin"}} {
		who, err := ask(t, m.Way("fleet-default/harbour", tc.as))
		if err != nil || who != tc.want {
			t.Errorf("asked as %q, want %q: %v", who, tc.want, err)
		}
	}

	h.cut()
	m.tunnelChanged("fleet-default/custom-1")
	api = await(t, m, changed, func(a observed.API) bool { return !a.Reachable })
	if api.Cause == "" {
		t.Error("an API out of reach without a cause")
	}
}

func TestABrokenKubeconfigIsNotQuoted(t *testing.T) {
	h := newHost(t)
	h.open = true
	h.kubeconfig = "client-key-data: SECRETKEY: broken: ["
	m, changed := start(t, h)
	api := await(t, m, changed, func(a observed.API) bool { return strings.Contains(a.Cause, "kubeconfig") })
	if strings.Contains(api.Cause, "SECRET") {
		t.Errorf("the cause quotes the key: %s", api.Cause)
	}
}

// start follows a cluster with those control planes; without any, with fleet-default/custom-1.
func start(t *testing.T, h Hosts, machines ...records.Machine) (*Clusters, chan struct{}) {
	t.Helper()
	if len(machines) == 0 {
		machines = append(machines, controlPlane("custom-1"))
	}
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	ops := []store.Op{st.Clusters.Creating("fleet-default/harbour", records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"}})}
	for _, m := range machines {
		ops = append(ops, st.Machines.Creating(m.Key(), m))
	}
	if _, err = st.Store.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 100)
	o := Options{State: st, Hosts: h, Logger: log, Now: time.Now}
	if one, ok := h.(*host); ok {
		o.Now, o.Budget = one.now, one.budget
	}
	m := New(o)
	m.OnChange(func(records.ClusterKey) { changed <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m, changed
}

func controlPlane(name string) records.Machine {
	return records.Machine{Object: records.Object{Namespace: "fleet-default", Name: name}, ClusterName: "harbour", Roles: records.Roles{ControlPlane: true}}
}

func await(t *testing.T, m *Clusters, changed chan struct{}, ok func(observed.API) bool) observed.API {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		if api := m.API("fleet-default/harbour"); ok(api) {
			return api
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			t.Fatalf("the API stays %+v", m.API("fleet-default/harbour"))
		}
	}
}

func authority(t *testing.T) (*ecdsa.PrivateKey, *x509.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func leaf(t *testing.T, caKey *ecdsa.PrivateKey, ca *x509.Certificate, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func pool(cert *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(cert)
	return p
}
