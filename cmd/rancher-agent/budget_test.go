package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rancher/remotedialer"

	"github.com/drover-project/drover/test/bed/dockerstandin"
	"github.com/drover-project/drover/tunnel/connect"
)

// What the agent may cost a host.
const (
	maxPackages = 350
	maxBinary   = 16 << 20
	maxResident = 20 << 20
	patience    = 60 * time.Second
)

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/drover-project/drover.Version=v9.9.9-test", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	t.Logf("%d packages are linked, of %d allowed", len(packages), maxPackages)
	if len(packages) > maxPackages {
		t.Errorf("%d packages are linked, more than %d: each runs as root on every host", len(packages), maxPackages)
	}
	for _, p := range packages {
		for _, heavy := range []string{"k8s.io/", "sigs.k8s.io/", "github.com/spf13/", "github.com/minio/", "google.golang.org/grpc", "github.com/drover-project/drover/server"} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("%s is linked: the agent has to do without %s", p, heavy)
			}
		}
	}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestProgram runs the agent as it is released, with a tunnel open and Docker connected.
func TestProgram(t *testing.T) {
	binary := build(t)
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MiB stripped, of %d allowed", float64(info.Size())/(1<<20), maxBinary>>20)
	if info.Size() > maxBinary {
		t.Errorf("the binary has %d bytes, more than %d", info.Size(), maxBinary)
	}
	tunnels := remotedialer.New(func(r *http.Request) (string, bool, error) {
		return "node", r.Header.Get(connect.TokenHeader) == "secret-token", nil
	}, remotedialer.DefaultErrorWriter)
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong") })
	mux.Handle(connect.RegisterPath, tunnels)
	mux.HandleFunc(connect.ConfigPath, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"processes":{"share-mnt":{"image":"agent:v1"}}}`)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	docker := dockerstandin.New(t)
	docker.AddImage("agent:v1", dockerstandin.Image{})
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "CATTLE_TOKEN=secret-token", "SSL_CERT_FILE=" + ca, "DROVER_AGENT_DOCKER_SOCKET=" + docker.Socket,
		"DROVER_AGENT_STATE_DIR=" + dir + "/state", "LOG_SOCKET_LOCATION=" + dir + "/log", "DROVER_AGENT_HEALTH_SOCKET=" + dir + "/health"}
	out := &output{}
	cmd := exec.Command(binary, "--server", server.URL, "--worker", "--address", "192.0.2.1", "--node-name", "n1", "--debug")
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the agent's log:\n%s", out)
		}
	})
	ask := func(args ...string) (string, int) {
		c := exec.Command(binary, args...)
		c.Env = env
		b, _ := c.CombinedOutput() // the code is looked at
		return string(b), c.ProcessState.ExitCode()
	}
	waitUntil(t, "it is ready", func() bool { _, code := ask("health", "--ready"); return code == 0 })
	waitUntil(t, "the container is there", func() bool { return docker.Containers()["share-mnt"].Running })

	if text, code := ask("health"); code != 0 || !strings.Contains(text, `"name": "docker"`) {
		t.Errorf("health: %d %s", code, text)
	}
	if text, code := ask("loglevel"); code != 0 || text != "debug\n" {
		t.Errorf("loglevel: %d %s", code, text)
	}
	if text, code := ask("loglevel", "--set", "info"); code != 0 || text != "OK\n" {
		t.Errorf("loglevel --set: %d %s", code, text)
	}
	if text, code := ask("--", "echo", "hello"); code != 0 || text != "hello\n" {
		t.Errorf("--: %d %s", code, text)
	}
	if text, code := ask("--fast"); code != 1 || strings.Count(text, "\n") != 1 {
		t.Errorf("an unknown flag: %d %s", code, text)
	}
	kib := resident(t, cmd.Process.Pid)
	t.Logf("%.1f MiB resident with the tunnel open and Docker connected, of %d allowed", float64(kib)/1024, maxResident>>20)
	if kib > maxResident>>10 {
		t.Errorf("%d KiB are resident", kib)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the agent does not stop")
	}
	if log := out.String(); strings.Contains(log, "secret-token") || !strings.Contains(log, "INFO: Arguments: --server") || !strings.Contains(log, "CATTLE_TOKEN=REDACTED") {
		t.Error("the log has the token, or lacks what people look for")
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

func resident(t *testing.T, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if kib, err = strconv.Atoi(strings.Fields(rest)[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib
}
