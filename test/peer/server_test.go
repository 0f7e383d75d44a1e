//go:build e2e

// A drover server, and what an administrator and a host ask of it over HTTPS.

package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/process"
)

const (
	namespace = "fleet-default"
	cluster   = "harbour"
	soon      = 30 * time.Second
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for something that happens soon.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	awaitFor(t, soon, what, check)
}

func awaitFor(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must(t, bed.Await(ctx, what, 50*time.Millisecond, func(context.Context) error { return check() }))
}

// binaries is a directory for what build makes.
var binaries string

func TestMain(m *testing.M) {
	code := 1
	var err error
	if binaries, err = os.MkdirTemp("", "drover-peer-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

// building keeps tests from building the same thing at once.
var building sync.Mutex

// build builds a command of this module, once for all tests.
func build(t *testing.T, name string) (path string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path = filepath.Join(binaries, name)
	if _, err := os.Stat(path); err != nil {
		run(t, "go", "build", "-o", path, "github.com/drover-project/drover/cmd/"+name)
	}
	return path
}

// original builds the original agent unless that is done.
func original(t *testing.T) (path string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	args := []string{}
	if cache := os.Getenv("DROVER_CACHE"); cache != "" {
		args = append(args, filepath.Join(cache, "peer"))
	}
	return strings.TrimSpace(run(t, "./build-agent.sh", args...))
}

// run runs a command that must succeed, and is its standard output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runWith(t, nil, name, args...)
}

func runWith(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// freeAddress is a loopback address that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// server is the real `drover server`.
type server struct {
	*testing.T
	bin, dataDir, url string
	address           string
	client            *http.Client
	admin             string // token
	registrationToken string
	process           *process.Process
}

// startServer starts a server with one cluster.
func startServer(t *testing.T) *server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the original agent refuses to run as anybody but root; run this test as root")
	}
	s := &server{T: t, bin: build(t, "drover"), dataDir: filepath.Join(t.TempDir(), "data"), address: freeAddress(t)}
	s.url = "https://" + s.address
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
	join := strings.Fields(s.drover("clusters", "join-command", cluster, "--worker"))
	for i, field := range join {
		if field == "--token" {
			s.registrationToken = join[i+1]
		}
	}
	if s.registrationToken == "" {
		t.Fatalf("no token in the join command %q", join)
	}
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
		Path: s.bin, Args: []string{"server", "--data-dir", s.dataDir, "--listen", s.address, "--server-url", s.url, "--log-level", "debug"},
		LogFile: filepath.Join(filepath.Dir(s.dataDir), "server.log"), ReadyURL: s.url + "/ping", Client: client,
	})
	must(s.T, err)
}

// kill ends the server as a power cut would.
func (s *server) kill() {
	s.Helper()
	must(s.T, s.process.Kill())
	s.client.CloseIdleConnections()
}

// trust is a pool of the server's own authority.
func (s *server) trust() *x509.CertPool {
	s.Helper()
	pem, err := os.ReadFile(filepath.Join(s.dataDir, "tls", "ca.crt"))
	must(s.T, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}

// drover runs a command of the command line as root on the server's host does.
func (s *server) drover(args ...string) string {
	s.Helper()
	return runWith(s.T, []string{"DROVER_DATA_DIR=" + s.dataDir, "DROVER_SERVER=", "DROVER_TOKEN=", "DROVER_CONFIG=" + s.dataDir + ".contexts"}, s.bin, args...)
}

// errStatus is an answer that is not 200.
type errStatus struct {
	code int
	body string
}

func (e *errStatus) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.body) }

func statusOf(err error) int {
	var status *errStatus
	if errors.As(err, &status) {
		return status.code
	}
	if err == nil {
		return http.StatusOK
	}
	return 0
}

// call asks the server; the answer goes into into unless that is nil.
func (s *server) call(method, path string, header map[string]string, body, into any) error {
	s.Helper()
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		must(s.T, err)
		reader = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, reader)
	must(s.T, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return &errStatus{response.StatusCode, string(text)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// secret is a plan Secret on the wire.
type secret struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Type string            `json:"type"`
	Data map[string][]byte `json:"data"`
}

func (s *secret) state() plans.State { return plans.State(s.Data[plans.KeyPlanState]) }

func (s *secret) outcome(t *testing.T) plans.Outcome {
	t.Helper()
	o, err := plans.ReadOutcome(s.Data)
	must(t, err)
	return o
}

func secretPath(name string) string { return "/api/v1/namespaces/" + namespace + "/secrets/" + name }

// secret is a plan Secret as an administrator sees it.
func (s *server) secret(name string) *secret {
	s.Helper()
	found := new(secret)
	must(s.T, s.call(http.MethodGet, secretPath(name), bearer(s.admin), nil, found))
	return found
}

// change writes a plan Secret as an administrator, again after a conflict.
func (s *server) change(name string, change func(*secret)) *secret {
	s.Helper()
	for {
		next := s.secret(name)
		change(next)
		stored := new(secret)
		err := s.call(http.MethodPut, secretPath(name), bearer(s.admin), next, stored)
		if statusOf(err) == http.StatusConflict {
			continue
		}
		must(s.T, err)
		return stored
	}
}

// deliver writes a plan as drover's own controllers do.
func (s *server) deliver(name string, plan []byte) {
	s.Helper()
	s.change(name, func(n *secret) { n.Data = plans.Deliver(n.Data, plan) })
}

// connection is the answer to a registration: the file that an agent connects with.
type connection struct {
	KubeConfig string `json:"kubeConfig"`
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	TunnelURL  string `json:"tunnelURL,omitempty"`
}

func (c connection) token(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(c.KubeConfig, "token: ")
	token, _, _ := strings.Cut(rest, "\n")
	if token == "" {
		t.Fatal("the connection has no token")
	}
	return token
}

// register asks as the original install.sh does. The only role is worker, so that no plan
// comes from the server itself.
func (s *server) register(id string) connection {
	s.Helper()
	var c connection
	must(s.T, s.call(http.MethodGet, "/v3/connect/agent", map[string]string{
		"Authorization": "Bearer " + s.registrationToken, "X-Cattle-Id": id, "X-Cattle-Role-Etcd": "false",
		"X-Cattle-Role-Control-Plane": "false", "X-Cattle-Role-Worker": "true", "X-Cattle-Node-Name": "node-" + id[:8],
		"X-Cattle-Labels": "cattle.io/os=linux",
	}, nil, &c))
	if c.Namespace != namespace || c.SecretName == "" {
		s.Fatalf("the registration answered %q %q", c.Namespace, c.SecretName)
	}
	return c
}

// tail is the end of a file.
func tail(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// in is the server as a subtest uses it.
func (s *server) in(t *testing.T) *server {
	next := *s
	next.T = t
	return &next
}
