// A real server process with one cluster, and what an administrator and a host ask of it.

package main

import (
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
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/test/bed/process"
)

// The cluster that machines join. They have the worker role only, so that the planner, which
// waits for a control plane, writes no plans beside those of the bench.
const (
	clusterName = "bench"
	clusterYAML = "{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: " + clusterName +
		"}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}\n"
)

// server is a running `drover server`.
type server struct {
	process *process.Process
	port    int
	url     string
	debug   string // where its profiles are
	ca      []byte
	roots   *x509.CertPool
	admin   string // token
	http    *http.Client
	joining string // registration token
}

// startServer starts a server with a fresh data directory below dir and applies the cluster.
func (b *bench) startServer(ctx context.Context, dir string) (_ *server, err error) {
	s, err := b.launch(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, filepath.Join(b.module, "bin", "drover"), filepath.Join(dir, "data"), dir); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// launch starts a server on the data directory below dir, with more flags, and waits until it answers.
func (b *bench) launch(ctx context.Context, dir string, flags ...string) (_ *server, err error) {
	s := &server{}
	var debug int
	if s.port, err = freePort(ctx); err != nil {
		return nil, err
	}
	if debug, err = freePort(ctx); err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	s.url, s.debug = "https://"+address, net.JoinHostPort("127.0.0.1", strconv.Itoa(debug))
	ctxStart, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s.process, err = process.Start(ctxStart, process.Options{
		Path: filepath.Join(b.module, "bin", "drover"), LogFile: filepath.Join(dir, "server.log"),
		Args:     append([]string{"server", "--data-dir", filepath.Join(dir, "data"), "--listen", address, "--server-url", s.url, "--pprof", s.debug}, flags...),
		ReadyURL: s.url + "/ping",
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // whether it answers; whom to trust is only known once it does
		}}},
	})
	return s, err
}

// trust reads what its clients need from the server's data directory.
func (s *server) trust(data string) (err error) {
	if s.ca, err = os.ReadFile(filepath.Join(data, "tls", "ca.crt")); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		return err
	}
	s.admin, s.roots = strings.TrimSpace(string(token)), x509.NewCertPool()
	s.roots.AppendCertsFromPEM(s.ca)
	s.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 100,
	}}
	return nil
}

func (s *server) prepare(ctx context.Context, drover, data, dir string) error {
	if err := s.trust(data); err != nil {
		return err
	}
	file := filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(file, []byte(clusterYAML), 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, drover, "--data-dir", data, "apply", "-f", file).CombinedOutput(); err != nil {
		return fmt.Errorf("drover apply: %w\n%s", err, out)
	}
	tokens, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	if len(tokens) != 1 || tokens[0] == "" {
		return fmt.Errorf("/v3/clusterRegistrationTokens shows %d tokens, and one with its text is expected", len(tokens))
	}
	s.joining = tokens[0]
	return nil
}

// tokens are the registration tokens of all clusters.
func (s *server) tokens(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			Token string `json:"token"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/v3/clusterRegistrationTokens?limit=-1", &list); err != nil {
		return nil, err
	}
	var tokens []string
	for _, d := range list.Data {
		tokens = append(tokens, d.Token)
	}
	return tokens, nil
}

// stop ends the server; one that does not end by itself is a failure.
func (s *server) stop(ctx context.Context) error {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return s.process.Stop(ctx)
}

// get asks as the administrator.
func (s *server) get(ctx context.Context, path string, into any) error {
	answer, err := s.ask(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer to %s: %w", path, err)
	}
	return nil
}

func (s *server) ask(ctx context.Context, method, path, contentType string, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.admin)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return s.answer(request)
}

func (s *server) answer(request *http.Request) ([]byte, error) {
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", request.Method, request.URL.Path, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.500s", request.Method, request.URL.Path, response.Status, body)
	}
	return body, nil
}

// machine is a registered host.
type machine struct {
	file      []byte // the connection file, as the server answered it
	namespace string
	secret    string
	token     string
}

func (m machine) path() string { return "/api/v1/namespaces/" + m.namespace + "/secrets/" + m.secret }

// Roles of hosts that join.
const (
	workerRole = "X-Cattle-Role-Worker"
	etcdRole   = "X-Cattle-Role-Etcd"
	planeRole  = "X-Cattle-Role-Control-Plane"
)

// register lets a host join by a cluster's token.
func (s *server) register(ctx context.Context, token, id string, roles ...string) (m machine, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v3/connect/agent", nil)
	if err != nil {
		return m, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("X-Cattle-Id", id)
	for _, role := range roles {
		request.Header.Set(role, "true")
	}
	request.Header.Set("X-Cattle-Labels", "cattle.io/os=linux")
	if len(roles) > 1 {
		request.Header.Set("X-Cattle-Internal-Address", "10.0.0.1") // where others join
	}
	if m.file, err = s.answer(request); err != nil {
		return m, err
	}
	var connection struct {
		Namespace, SecretName, KubeConfig string
	}
	if err := json.Unmarshal(m.file, &connection); err != nil {
		return m, fmt.Errorf("read the answer to a registration: %w", err)
	}
	var config struct {
		Users []struct {
			User struct {
				Token string `yaml:"token"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	if err := yaml.Unmarshal([]byte(connection.KubeConfig), &config); err != nil || len(config.Users) != 1 {
		return m, errors.New("read the answer to a registration: its kubeConfig is not one with one user")
	}
	m.namespace, m.secret, m.token = connection.Namespace, connection.SecretName, config.Users[0].User.Token
	return m, nil
}

// heap is what the server's runtime has in use, in bytes, after a garbage collection.
type heap struct{ live, stacks int64 }

var heapFigure = regexp.MustCompile(`(?m)^# (HeapAlloc|Stack) = (\d+)`)

// collect makes the server collect its garbage, as it does by itself every two minutes.
func (s *server) collect(ctx context.Context) (h heap, err error) {
	text, err := s.profile(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return h, err
	}
	for _, m := range heapFigure.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseInt(string(m[2]), 10, 64)
		if err != nil {
			return h, err
		}
		if string(m[1]) == "Stack" {
			h.stacks = n
			continue
		}
		h.live = n
	}
	if h.live == 0 || h.stacks == 0 {
		return h, errors.New("the server's heap profile does not show its sizes")
	}
	return h, nil
}

func (s *server) profile(ctx context.Context, name string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.debug+"/debug/pprof/"+name, nil)
	if err != nil {
		return nil, err
	}
	return s.answer(request)
}

// settled is the server's memory once it has collected and given back what it will.
func (s *server) settled(ctx context.Context) (m memory, h heap, err error) {
	const quiet, longest = 4, 60 // seconds
	for still, before, i := 0, int64(0), 0; i < longest && still < quiet; i++ {
		if i < 2 { // the first one ends what finalizers hold, the second takes it
			if h, err = s.collect(ctx); err != nil {
				return m, h, err
			}
		}
		if m, err = memoryOf(s.process.PID()); err != nil {
			return m, h, err
		}
		if diff := m.resident - before; diff < before/200 && -diff < before/200 {
			still++
		} else {
			still = 0
		}
		before = m.resident
		if err := rest(ctx, time.Second); err != nil {
			return m, h, err
		}
	}
	return m, h, nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
