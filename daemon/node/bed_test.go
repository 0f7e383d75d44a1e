package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/remotedialer"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/dockerstandin"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
	"github.com/drover-project/drover/tunnel/trust"
)

const (
	patience  = 60 * time.Second
	testToken = "bcdfghjklmnpqrstvwxz24567bcdfghjklmnpqrstvwxz24567bcdf"
)

// management is a small server: a bare tunnel endpoint of the library that original
// servers use, and handlers that answer what a test wants.
type management struct {
	*httptest.Server
	tunnels *remotedialer.Server
	ours    *tunnel.Server // set after newManagement: takes the tunnels instead
	ca      string

	mu    sync.Mutex
	paths []string // of tunnels that were opened
	asked []connect.Params
	// announced is what each tunnel's agent said of its cluster; nil for a host's.
	announced []*connect.Cluster
	answer    func(w http.ResponseWriter)
	setting   func(w http.ResponseWriter)
	conns     map[net.Conn]struct{}
	pair      *tls.Certificate // nil for the usual one
	prover    string           // the token that proofs are made with
}

func newManagement(t *testing.T) *management {
	t.Helper()
	m := &management{conns: map[net.Conn]struct{}{}, prover: testToken}
	m.tunnels = remotedialer.New(m.authorize, remotedialer.DefaultErrorWriter)
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong") })
	tunnels := func(w http.ResponseWriter, r *http.Request) {
		if m.ours != nil {
			m.ours.ServeHTTP(w, r)
			return
		}
		m.tunnels.ServeHTTP(w, r)
	}
	mux.HandleFunc(connect.Path, tunnels)
	mux.HandleFunc(connect.RegisterPath, tunnels)
	mux.HandleFunc("/v3/settings/cacerts", func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		f := m.setting
		m.mu.Unlock()
		if f != nil {
			f(w)
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"id": "cacerts", "type": "setting", "value": strings.TrimSpace(m.bundle())})
	})
	mux.HandleFunc("/cacerts", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.setting != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Cattle-Hash", trust.Proof(m.prover, r.Header.Get("X-Cattle-Nonce"), []byte(m.ca)))
		io.WriteString(w, m.ca)
	})
	mux.HandleFunc(connect.ConfigPath, m.config)
	m.Server = httptest.NewUnstartedServer(mux)
	m.Server.Listener = remembering{m.Server.Listener, m}
	m.Server.TLS = &tls.Config{GetConfigForClient: m.certified}
	m.Server.StartTLS()
	m.Server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	m.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}))
	t.Cleanup(m.stop)
	return m
}

// authorize says whose tunnel a request opens.
func (m *management) authorize(r *http.Request) (string, bool, error) {
	if r.Header.Get(connect.TokenHeader) != testToken {
		return "", false, nil
	}
	p, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
	if err != nil {
		return "", false, err
	}
	m.mu.Lock()
	m.paths = append(m.paths, r.URL.Path)
	m.announced = append(m.announced, p.Cluster)
	m.mu.Unlock()
	if p.Cluster != nil {
		return "c-abcde", true, nil
	}
	return "c-abcde:" + connect.MachineName(p.Node.RequestedHostname), true, nil
}

// stop ends the server, as far as an agent can see.
func (m *management) stop() {
	m.Listener.Close()
	m.drop()
}

// drop cuts all connections, tunnels included.
func (m *management) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.Close()
	}
	clear(m.conns)
}

// remembering is a listener whose connections can be cut, which httptest cannot do once
// they are websockets.
type remembering struct {
	net.Listener
	m *management
}

func (r remembering) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err == nil {
		r.m.mu.Lock()
		r.m.conns[c] = struct{}{}
		r.m.mu.Unlock()
	}
	return c, err
}

func (m *management) config(w http.ResponseWriter, r *http.Request) {
	p, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
	if err != nil || r.Header.Get(connect.TokenHeader) != testToken {
		http.Error(w, "bad token", http.StatusUnauthorized)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, p)
	f := m.answer
	m.mu.Unlock()
	if f == nil {
		http.Error(w, "not planned", http.StatusNotFound)
		return
	}
	f(w)
}

func (m *management) answerWith(f func(http.ResponseWriter)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = f
}

func (m *management) opened() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.paths...)
}

func (m *management) versions() (v []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.asked {
		v = append(v, p.NodeVersion)
	}
	return v
}

// ask sends a request to the host through its tunnel.
func (m *management) ask(t *testing.T, network, address, path string) (int, string, error) {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return m.dial(ctx, "c-abcde:"+connect.MachineName("n1"), network, address)
	}}}
	answer, err := client.Get("http://host" + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b), err
}

// dial opens a connection through the tunnel of an agent.
func (m *management) dial(ctx context.Context, key, network, address string) (net.Conn, error) {
	c, err := m.tunnels.Dialer(key)(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return lingering{c}, nil
}

// lingering closes a connection after the host has had time to: the library has a data
// race when both ends do it at once, which the race detector takes for ours.
type lingering struct{ net.Conn }

func (l lingering) Close() error {
	time.AfterFunc(250*time.Millisecond, func() { l.Conn.Close() })
	return nil
}

// anything stands for any cause.
const anything = "*"

// logged is a log that can be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// host is a Docker host with an agent.
type host struct {
	dir    string
	docker *dockerstandin.Engine
	log    *logged
	o      Options
}

func newHost(t *testing.T, m *management) *host {
	t.Helper()
	h := &host{dir: t.TempDir(), docker: dockerstandin.New(t), log: &logged{}}
	h.docker.AddImage("rancher/hyperkube:v1", dockerstandin.Image{Env: []string{"PATH=/bin"}})
	server, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	h.o = Options{
		Server: server, Token: testToken,
		Trust: Trust{CAChecksum: digest(m.ca), StrictVerify: true}, Host: Host{NodeName: "n1", Address: "203.0.113.7", Roles: []string{"worker"}},
		Places: Places{StateDir: filepath.Join(h.dir, "state"), DockerSocket: h.docker.Socket, Root: filepath.Join(h.dir, "root"), HealthSocket: filepath.Join(h.dir, "health")}, Logger: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})), UserAgent: "test",
	}
	t.Cleanup(func() {
		if strings.Contains(h.log.String(), testToken) {
			t.Error("the token is in the log")
		}
		if t.Failed() {
			t.Logf("the agent's log:\n%s", h.log)
		}
	})
	return h
}

// live runs the agent until the returned function is called.
func (h *host) live(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, h.o) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Run() = %v", err)
				}
			case <-time.After(patience):
				t.Error("the agent does not stop")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// cause waits until a condition is ill with a text in its cause, or well when there is no text.
func (h *host) cause(t *testing.T, name, text string) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("%s says %q", name, text), func() bool {
		health, err := AskHealth(t.Context(), h.o.HealthSocket, false)
		if err != nil {
			return false
		}
		for _, c := range health.Conditions {
			if c.Name == name && text == anything {
				return !c.OK
			}
			if c.Name == name {
				return c.OK == (text == "") && strings.Contains(c.Cause, text) && !c.Since.IsZero()
			}
		}
		return false
	})
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

func (h *host) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(h.dir, name))
	return err == nil
}

// planned answers with a node config of one kubelet.
func planned(w http.ResponseWriter) {
	json.NewEncoder(w).Encode(nodeconfig.NodeConfig{
		ClusterName: "c-abcde", NodeVersion: 4, AgentCheckInterval: 120,
		Certs: `{"kube-ca":{"certificatePEM":"secret-certificate","path":"/etc/kubernetes/ssl/kube-ca.pem"}}`,
		Processes: map[string]nodeconfig.Process{"kubelet": {Name: "kubelet", Image: "rancher/hyperkube:v1", Command: []string{"kubelet"},
			NetworkMode: "host", RestartPolicy: "always"}},
	})
}
