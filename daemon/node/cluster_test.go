package node

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel/connect"
)

const accountToken = "header.payload.signature"

// api is an API server that knows one service account, without TLS: the library at the other end has a data race when that
// is closed. Server/downstream has it with TLS.
func api(t *testing.T) (server *httptest.Server, ca []byte) {
	t.Helper()
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accountToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, "as "+r.Header.Get("Impersonate-User"))
	}))
	t.Cleanup(server.Close)
	bundle, _ := newCA(t)
	return server, []byte(bundle)
}

// newPod is a cluster agent in the cluster of an API server, whose service account is not mounted yet.
func newPod(t *testing.T, m *management, api *httptest.Server) (h *host, account string) {
	t.Helper()
	h = newHost(t, m)
	h.o.Cluster = &InCluster{API: api.Listener.Addr().String(), Accounts: []string{"/account", "/projected"}}
	return h, filepath.Join(h.o.Root, "account")
}

func mountAccount(t *testing.T, dir, token string, ca []byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"ca.crt": ca, "token": []byte(token)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *management) lastAnnounced() *connect.Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.announced) == 0 {
		return nil
	}
	return m.announced[len(m.announced)-1]
}

// TestAPersonsRequestArrivesThroughTheClustersAgent has the server of the original protocol at the other end, which uses the API by
// what the agent announced.
func TestAPersonsRequestArrivesThroughTheClustersAgent(t *testing.T) {
	m := newManagement(t)
	server, ca := api(t)
	h, account := newPod(t, m, server)
	h.live(t)
	h.cause(t, onAccount, "none of /account and /projected is mounted")
	mountAccount(t, account, "", ca)
	h.cause(t, onAccount, "cannot be used")
	if len(m.opened()) > 0 {
		t.Error("a tunnel was opened without a service account")
	}
	mountAccount(t, account, accountToken, ca)
	h.cause(t, onTunnel, "")
	if health, err := AskHealth(t.Context(), h.o.HealthSocket, true); err != nil || !health.OK {
		t.Errorf("ready: %+v, %v", health, err)
	}
	said := m.lastAnnounced()
	if said == nil || said.Address != server.Listener.Addr().String() || said.Token != accountToken || said.CA() != string(ca) {
		t.Fatalf("announced: %+v", said)
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return m.dial(ctx, "c-abcde", network, said.Address)
		},
	}}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/api/v1/namespaces", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+said.Token)
	q.Header.Set("Impersonate-User", "u-abcde")
	answer, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err != nil || string(b) != "as u-abcde" {
		t.Errorf("the API answers %q, %v", b, err)
	}
	if strings.Contains(h.log.String(), accountToken) {
		t.Error("the token of the service account is in the log")
	}
}

func TestAClusterAgentOffersNothingElse(t *testing.T) {
	m := newManagement(t)
	server, ca := api(t)
	other, _ := api(t)
	h, account := newPod(t, m, server)
	mountAccount(t, account, accountToken, ca)
	h.live(t)
	h.cause(t, onTunnel, "")
	waitUntil(t, "the server knows of the tunnel", func() bool { return m.tunnels.HasSession("c-abcde") })
	for _, target := range []string{"tcp " + other.Listener.Addr().String(), "unix /var/run/docker.sock", "tcp 169.254.169.254:80", "tcp drover-agent:80"} {
		network, address, _ := strings.Cut(target, " ")
		conn, err := m.dial(t.Context(), "c-abcde", network, address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "Kubernetes API alone") {
			t.Errorf("%s: %v", target, err)
		}
		conn.Close()
	}
	h.cause(t, onTunnel, "")
}

// TestTheMountedSecretCountsBeforeTheProjectedToken: a token that ends with the pod is announced only where there is no other.
func TestTheMountedSecretCountsBeforeTheProjectedToken(t *testing.T) {
	server, ca := api(t)
	m := newManagement(t)
	h, account := newPod(t, m, server)
	c := &inCluster{line: &line{agent: &agent{Options: h.o}}, cluster: *h.o.Cluster}
	mountAccount(t, filepath.Join(h.o.Root, "projected"), "projected", ca)
	if said, err := c.account(); err != nil || said.Token != "projected" {
		t.Errorf("without the Secret: %+v, %v", said, err)
	}
	if err := os.MkdirAll(account, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := c.account(); err == nil || !strings.Contains(err.Error(), "not there yet") {
		t.Errorf("while Kubernetes has not filled the Secret: %v", err)
	}
	mountAccount(t, account, accountToken, ca)
	if said, err := c.account(); err != nil || said.Token != accountToken {
		t.Errorf("with the Secret: %+v, %v", said, err)
	}
}
