package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/tunnel"
)

// management is a server with one plan Secret and a tunnel endpoint.
type management struct {
	*httptest.Server
	t       *testing.T
	tunnels *tunnel.Server

	mu      sync.Mutex
	version int
	data    map[string][]byte
	changed chan struct{}
}

func newManagement(t *testing.T) *management {
	m := &management{t: t, version: 1, data: map[string][]byte{}, changed: make(chan struct{})}
	authorized := func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer machine-token" }
	m.tunnels = tunnel.NewServer(tunnel.ServerOptions{
		Authorize: func(r *http.Request) (tunnel.Peer, error) {
			if !authorized(r) {
				return tunnel.Peer{}, errors.New("no")
			}
			return tunnel.Peer{Subject: "m1"}, nil
		},
		Allow: func(tunnel.Peer, string, string) error { return nil },
	})
	mux := http.NewServeMux()
	mux.Handle("/v3/connect/machine", m.tunnels)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") })
	mux.HandleFunc("GET /api/v1/namespaces/fleet-default/secrets", m.watch)
	mux.HandleFunc("PUT /api/v1/namespaces/fleet-default/secrets/m1", m.put)
	mux.HandleFunc("GET /api/v1/namespaces/fleet-default/secrets/m1", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		io.WriteString(w, m.object())
	})
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !authorized(r) {
			t.Errorf("%s %s without the token", r.Method, r.URL)
			w.WriteHeader(401)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	m.Config.ErrorLog = log.New(io.Discard, "", 0)
	m.StartTLS()
	t.Cleanup(func() {
		m.tunnels.Close()
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

func (m *management) object() string {
	data, err := json.Marshal(m.data)
	if err != nil {
		m.t.Error(err)
	}
	return fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","type":"rke.cattle.io/machine-plan","metadata":{"name":"m1","namespace":"fleet-default","uid":"u1","resourceVersion":"%d"},"data":%s}`, m.version, data)
}

func (m *management) put(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Metadata struct{ ResourceVersion string }
		Data     map[string][]byte
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(400)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.Metadata.ResourceVersion != strconv.Itoa(m.version) {
		w.WriteHeader(409)
		return
	}
	m.replace(in.Data)
	io.WriteString(w, m.object())
}

func (m *management) replace(data map[string][]byte) {
	m.data = data
	m.version++
	close(m.changed)
	m.changed = make(chan struct{})
}

// deliver makes a plan pending.
func (m *management) deliver(plan string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string][]byte{}
	maps.Copy(next, m.data)
	next["plan"], next["plan-state"] = []byte(plan), []byte("pending")
	delete(next, "probe-statuses")
	m.replace(next)
}

func (m *management) value(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.data[key])
}

func (m *management) watch(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	kind := "ADDED"
	for {
		if len(m.data) > 0 {
			fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, m.object())
			kind = "MODIFIED"
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", m.version)
		w.(http.Flusher).Flush()
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		m.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}

// install puts an agent's configuration into a directory, as install.sh does.
func (m *management) install(t *testing.T, dir string) (config string) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw})
	kubeconfig := fmt.Sprintf(`{"clusters":[{"name":"agent","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"agent","user":{"token":"machine-token"}}],"contexts":[{"name":"agent","context":{"cluster":"agent","user":"agent"}}],"current-context":"agent"}`,
		m.URL, base64.StdEncoding.EncodeToString(ca))
	connection, err := json.Marshal(map[string]string{
		"kubeConfig": kubeconfig, "namespace": "fleet-default", "secretName": "m1",
		"tunnelURL": "wss" + strings.TrimPrefix(m.URL, "https") + "/v3/connect/machine",
	})
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(dir, "config.yaml")
	for path, content := range map[string]string{
		filepath.Join(dir, "connection.json"): string(connection),
		config:                                fmt.Sprintf("workDirectory: %[1]s/work\nremoteEnabled: true\nconnectionInfoFile: %[1]s/connection.json\ninterlockDirectory: %[1]s/interlock\nlocalEnabled: true\nlocalPlanDirectory: %[1]s/plans\n", dir),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// forget takes plan and outcome out of the Secret.
func (m *management) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(map[string][]byte{"probe-statuses": []byte("{}")})
}

// set writes one key, as the server does.
func (m *management) set(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string][]byte{}
	maps.Copy(next, m.data)
	next[key] = []byte(value)
	m.replace(next)
}
