//go:build e2e

// A drover server, and what an administrator and a host ask of it over HTTPS.

package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/test/bed/process"
)

const cluster = "harbour"

// server is the real `drover server`.
type server struct {
	api
	bin, dataDir, address string
	registrationToken     string
	args                  []string
	process               *process.Process
}

// startServer starts a server with one cluster.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the original agent refuses to run as anybody but root; run this test as root")
	}
	s := &server{bin: build(t, "drover"), dataDir: filepath.Join(t.TempDir(), "data"), address: freeAddress(t), args: args}
	s.TB, s.url = t, "https://"+s.address
	t.Cleanup(func() {
		if t.Failed() && s.process != nil {
			t.Logf("the server's log:\n%s", tail(s.process.LogFile(), 60))
		}
		if s.process != nil {
			// A test may have killed it already.
			_ = s.process.Kill()
		}
	})
	s.start()
	token, err := os.ReadFile(filepath.Join(s.dataDir, "admin-token"))
	must(t, err)
	s.admin = strings.TrimSpace(string(token))
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trust()}}, Timeout: soon}
	s.drover("apply", "-f", "../../examples/k3s.yaml")
	join := s.drover("clusters", "join-command", cluster, "--worker")
	given := regexp.MustCompile(`CATTLE_TOKEN=(\w+)`).FindStringSubmatch(join)
	if given == nil {
		t.Fatalf("no token in the join command %q", join)
	}
	s.registrationToken = given[1]
	return s
}

// start starts the server on its data directory, again after a kill.
func (s *server) start() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), soon)
	defer cancel()
	// Readiness only: who answers on an address that this process just chose is not in doubt.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var err error
	s.process, err = process.Start(ctx, process.Options{
		Path: s.bin, Args: append([]string{"server", "--data-dir", s.dataDir, "--listen", s.address, "--server-url", s.url, "--log-level", "debug"}, s.args...),
		LogFile: filepath.Join(filepath.Dir(s.dataDir), "server.log"), ReadyURL: s.url + "/ping", Client: client,
	})
	must(s.TB, err)
}

// kill ends the server as a power cut would.
func (s *server) kill() {
	s.Helper()
	must(s.TB, s.process.Kill())
	s.client.CloseIdleConnections()
}

// trust is a pool of the server's own authority.
func (s *server) trust() *x509.CertPool {
	s.Helper()
	pem, err := os.ReadFile(filepath.Join(s.dataDir, "tls", "ca.crt"))
	must(s.TB, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}

// drover runs a command of the command line as root on the server's host does.
func (s *server) drover(args ...string) string {
	s.Helper()
	return runWith(s.TB, []string{"DROVER_DATA_DIR=" + s.dataDir, "DROVER_SERVER=", "DROVER_TOKEN=", "DROVER_CONFIG=" + s.dataDir + ".contexts"}, s.bin, args...)
}

// connection is the answer to a registration: the file that an agent connects with.
type connection struct {
	KubeConfig string `json:"kubeConfig"`
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	TunnelURL  string `json:"tunnelURL,omitempty"`
}

func (c connection) token(t testing.TB) string {
	t.Helper()
	_, rest, _ := strings.Cut(c.KubeConfig, "token: ")
	token, _, _ := strings.Cut(rest, "\n")
	if token == "" {
		t.Fatal("the connection has no token")
	}
	return token
}

// register asks as the original install.sh does. The only role is worker, so that no plan
// comes from the server itself. A host that registers again has a connection already, which
// drover's install.sh proves.
func (s *server) register(id string, had ...connection) connection {
	s.Helper()
	var c connection
	header := map[string]string{
		"Authorization": "Bearer " + s.registrationToken, "X-Cattle-Id": id, "X-Cattle-Role-Etcd": "false",
		"X-Cattle-Role-Control-Plane": "false", "X-Cattle-Role-Worker": "true", "X-Cattle-Node-Name": "node-" + id[:8],
		"X-Cattle-Labels": "cattle.io/os=linux",
	}
	for _, one := range had {
		header[registration.ProofHeader] = registration.Proof(randomid.Hash(one.token(s.TB)), s.registrationToken)
	}
	must(s.TB, s.call(http.MethodGet, "/v3/connect/agent", header, nil, &c))
	if c.Namespace != namespace || c.SecretName == "" {
		s.Fatalf("the registration answered %q %q", c.Namespace, c.SecretName)
	}
	return c
}

// in is the server as a subtest uses it.
func (s *server) in(t *testing.T) *server {
	next := *s
	next.TB = t
	return &next
}
