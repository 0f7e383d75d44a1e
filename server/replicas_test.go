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
}

func startWhole(t *testing.T, endpoint, keys string) *whole {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	s := &whole{T: t, url: "https://" + address, dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			DataDir: s.dir, Listen: address, ServerURL: s.url, PeerURL: s.url, AssetsDir: t.TempDir(), BootstrapPassword: "a long first password",
			Store:   store.Options{Endpoints: []string{endpoint}, KeyFile: keys},
			Environ: func(string) string { return "" }, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		})
	}()
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

func TestAHostOfOneServerIsReachedThroughAnother(t *testing.T) {
	tunnel.LogTo(slog.New(slog.DiscardHandler))
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := startWhole(t, endpoint, keys)
	raw, err := os.ReadFile(filepath.Join(a.dir, AdminTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(raw))
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
	if status, text := b.ask(admin, http.MethodGet, machine+"/dial?target=docker", ""); status != http.StatusOK || !strings.Contains(text, `"apiVersion":"1.41"`) {
		t.Errorf("docker through the other server: %d %s", status, text)
	}
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
