//go:build e2e

package e2e

// The node agent as it is shipped: its image on a real Docker engine, started with the
// command that a server prints, and its unit under a real systemd.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
	"github.com/drover-project/drover/tunnel/trust"
)

const (
	nodeToken = "bcdfghjklmnpqrstvwxz24567bcdfghjklmnpqrstvwxz24567bcdf"
	// nodeWaits is for what never comes.
	nodeWaits = 4 * time.Minute
)

// manager is the part of a management server that node agents speak with.
type manager struct {
	*tunnel.Server
	url, ca string
	wanted  *nodeconfig.NodeConfig

	mu      sync.Mutex
	opened  []string // paths, in order
	applied []int
}

// newManager listens on an address of this machine.
func newManager(t *testing.T, ip string, wanted *nodeconfig.NodeConfig) *manager {
	t.Helper()
	m := &manager{wanted: wanted}
	m.Server = tunnel.NewServer(tunnel.ServerOptions{
		Authorize: m.authorize, Allow: func(tunnel.Peer, string, string) error { return nil },
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong") })
	mux.HandleFunc("/v3/settings/cacerts", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"value": strings.TrimSpace(m.ca)})
	})
	mux.Handle(connect.Path, m.Server)
	mux.Handle(connect.RegisterPath, m.Server)
	mux.HandleFunc(connect.ConfigPath, m.config)
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	must(t, err)
	web := httptest.NewUnstartedServer(mux)
	web.Listener.Close()
	web.Listener = l
	pair, ca := certificateFor(t, ip)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	web.StartTLS()
	m.url, m.ca = web.URL, ca
	t.Cleanup(func() { m.Server.Close(); web.Close() })
	return m
}

func certificateFor(t *testing.T, ip string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.ParseIP(ip)}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func (m *manager) authorize(r *http.Request) (tunnel.Peer, error) {
	p, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
	if err != nil || r.Header.Get(connect.TokenHeader) != nodeToken || p.Node == nil {
		return tunnel.Peer{}, errors.Join(errors.New("not one of ours"), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened = append(m.opened, r.URL.Path)
	return tunnel.Peer{Subject: "c-abcde:" + connect.MachineName(p.Node.RequestedHostname), Kind: "node-agent"}, nil
}

func (m *manager) config(w http.ResponseWriter, r *http.Request) {
	p, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
	switch {
	case err != nil || r.Header.Get(connect.TokenHeader) != nodeToken:
		http.Error(w, "bad token", http.StatusUnauthorized)
	case m.wanted == nil:
		http.NotFound(w, r)
	default:
		m.mu.Lock()
		m.applied = append(m.applied, p.NodeVersion)
		m.mu.Unlock()
		json.NewEncoder(w).Encode(m.wanted)
	}
}

func (m *manager) paths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.opened)
}

// connects waits until the agent has opened a tunnel more often than before, and makes sure that it registered with the
// first one and no more. How often it connects is not its concern: a tunnel may break on a busy machine.
func (m *manager) connects(t *testing.T, before int, report func() string) {
	t.Helper()
	eventually(t, fmt.Sprintf("it connects once more than %d times", before), report, func() bool { return len(m.paths()) > before })
	for i, path := range m.paths() {
		if want := connect.Path; i > 0 && path != want || i == 0 && path != connect.RegisterPath {
			t.Errorf("it opened %q", m.paths())
			return
		}
	}
}

// get asks a target on a node through its tunnel.
func (m *manager) get(node, network, address, path string) (string, error) {
	client := http.Client{Timeout: nodeWaits, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return m.Dial(ctx, "c-abcde:"+connect.MachineName(node), tunnel.Target{Network: network, Address: address})
	}}}
	answer, err := client.Get("http://node" + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return string(b), err
}

// eventually asks until something is so; report is what there is to say if it never is.
func eventually(t *testing.T, what string, report func() string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(nodeWaits); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not true: %s\n%s", what, report())
		}
	}
}

func startEngine(t *testing.T, ctx context.Context) *engine.Engine {
	t.Helper()
	e, err := engine.Start(ctx, engine.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return e
}

// buildNodeAgent builds the agent as a release does and returns its path.
func buildNodeAgent(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rancher-agent-"+runtime.GOARCH)
	cmd := exec.Command("go", "build", "-ldflags", "-s -w -X github.com/drover-project/drover.Version=v9.9.9-test", "-o", path, "./cmd/rancher-agent")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// nodeAgentImage makes the image as `make images` does, with a version of its own.
func nodeAgentImage(t *testing.T, e *engine.Engine) (archive, image string) {
	t.Helper()
	dir, version := t.TempDir(), "v9.9.9-"+e.RunID()
	cmd := exec.Command("go", "run", "./packaging/images", "-version", version, "-bin", filepath.Dir(buildNodeAgent(t)), "-out", dir, "rancher-agent")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "image-rancher-agent-"+runtime.GOARCH+".tar"), "drover/rancher-agent:" + version
}

func TestNodeAgentInItsImage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	e := startEngine(t, ctx)
	archive, image := nodeAgentImage(t, e)
	_, err := e.Docker(ctx, "load", "--input", archive)
	must(t, err)
	t.Cleanup(func() { e.Docker(context.Background(), "rmi", "--force", image) })
	key, value, _ := strings.Cut(e.RunLabel(), "=")
	worker := "worker-" + e.RunID()
	m := newManager(t, "127.0.0.1", &nodeconfig.NodeConfig{
		ClusterName: "c-abcde", NodeVersion: 7,
		Certs: `{"kube-node":{"certificatePEM":"a certificate","path":"/etc/kubernetes/ssl/kube-node.pem"}}`,
		Processes: map[string]nodeconfig.Process{worker: {Name: worker, Image: busyboxImage(t, e), Command: []string{"/bin/busybox"}, Args: []string{"sleep", "1000"},
			NetworkMode: "none", RestartPolicy: "always", Labels: map[string]string{key: value}}},
	})
	kubernetes, name := t.TempDir(), "agent-"+e.RunID()
	run := []string{"run", "--detach", "--name", name, "--label", e.RunLabel(), "--privileged", "--restart=unless-stopped", "--net=host",
		"-v", kubernetes + ":/etc/kubernetes", "-v", filepath.Dir(e.Socket()) + ":/var/run", "-e", "DROVER_AGENT_DOCKER_SOCKET=/var/run/" + filepath.Base(e.Socket()),
		image, "--server", m.url, "--token", nodeToken, "--ca-checksum", trust.Checksum([]byte(m.ca)), "--worker", "--node-name", "n1"}
	_, err = e.Docker(ctx, run...)
	must(t, err)
	logs := func() string {
		out, _ := e.Command(context.WithoutCancel(ctx), "logs", name).CombinedOutput() // for a failure's text
		return string(out)
	}
	health := func(args ...string) error {
		_, err := e.Docker(ctx, append([]string{"exec", name, "/usr/bin/rancher-agent", "health"}, args...)...)
		return err
	}
	eventually(t, "it is ready", logs, func() bool { return health("--ready") == nil })
	eventually(t, "its container runs", logs, func() bool {
		is, err := e.Docker(ctx, "inspect", "--format", "{{.State.Running}}", worker)
		return err == nil && is == "true"
	})
	eventually(t, "the version is acknowledged", logs, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return slices.Contains(m.applied, 7) })
	if text, err := os.ReadFile(filepath.Join(kubernetes, "ssl/kube-node.pem")); err != nil || string(text) != "a certificate" {
		t.Errorf("the certificate: %q, %v", text, err)
	}
	version, err := e.Docker(ctx, "version", "--format", "{{.Server.Version}}")
	must(t, err)
	if info, err := m.get("n1", "unix", "/var/run/docker.sock", "/info"); err != nil || !strings.Contains(info, fmt.Sprintf(`"ServerVersion":%q`, version)) {
		t.Errorf("Docker through the tunnel: %.200s, %v", info, err)
	}
	if text, err := m.get("n1", "tcp", "drover-agent:80", "/v1/logs?container="+name+"&tail=1000"); err != nil || !strings.Contains(text, "INFO: Arguments: --server") || strings.Contains(text, nodeToken) {
		t.Errorf("the log through the tunnel: %s, %v", text, err)
	}
	m.connects(t, 0, logs)

	_, err = e.Docker(ctx, "kill", "--signal", "HUP", name)
	must(t, err)
	eventually(t, "it heeds SIGHUP", logs, func() bool { return strings.Contains(logs(), "the server's name is looked up") })
	tunnels := len(m.paths())
	_, err = e.Docker(ctx, "restart", name)
	must(t, err)
	m.connects(t, tunnels, logs)
	eventually(t, "it is ready again", logs, func() bool { return health("--ready") == nil })
}

// TestShareMntOnAHost starts the agent, and with its node config share-mnt, as Rancher's
// servers do, on a host whose mounts are private.
func TestShareMntOnAHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	e := startEngine(t, ctx)
	archive, image := nodeAgentImage(t, e)
	h, err := host.StartWithDocker(ctx, e, host.Options{Name: "worker"})
	must(t, err)
	must(t, h.LoadImage(ctx, archive))
	_, err = h.Sh(ctx, "mount --make-private / && mkdir -p /var/lib/rancher")
	must(t, err)
	m := newManager(t, h.Gateway(), nil)
	flags := fmt.Sprintf("--server %s --token %s --ca-checksum %s", m.url, nodeToken, trust.Checksum([]byte(m.ca)))
	const mounts = "-v /etc/kubernetes:/etc/kubernetes -v /var/run:/var/run"
	m.wanted = &nodeconfig.NodeConfig{
		Certs: `{"kube-node":{"certificatePEM":"a certificate","path":"/etc/kubernetes/ssl/kube-node.pem"}}`,
		Processes: map[string]nodeconfig.Process{nodeconfig.ShareMnt: {
			Name: nodeconfig.ShareMnt, Image: image, Binds: []string{"/var/run:/var/run"}, NetworkMode: "host", RestartPolicy: "always", PidMode: "host", Privileged: true,
			Args: []string{"--", "share-root.sh", fmt.Sprintf("docker run -d --privileged --restart=unless-stopped --net=host %s %s %s --no-register --only-write-certs --node-name worker", mounts, image, flags),
				"/var/lib/kubelet", "/var/lib/rancher"},
		}},
	}
	logs := func() string {
		out, _ := h.Sh(context.WithoutCancel(ctx), "docker ps -a; docker logs agent 2>&1; echo; docker logs share-mnt 2>&1; grep rancher /proc/1/mountinfo") // for a failure's text
		return out
	}
	run := "docker run -d --name agent --privileged --restart=unless-stopped --net=host " + mounts + " " + image + " " + flags + " --worker"
	if out, err := h.Sh(ctx, run); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "share-mnt has stopped itself", logs, func() bool {
		is, err := h.Docker(ctx, "inspect", "--format", "{{.State.Status}}", nodeconfig.ShareMnt)
		return err == nil && is == "exited"
	})
	table, err := h.ReadFile(ctx, "/proc/1/mountinfo")
	must(t, err)
	for _, path := range []string{"/var/lib/kubelet", "/var/lib/rancher"} {
		shared := false
		for line := range strings.Lines(string(table)) {
			shared = shared || strings.Contains(line, " "+path+" ") && strings.Contains(line, " shared:")
		}
		if !shared {
			t.Errorf("%s is on no shared mount\n%s", path, logs())
		}
	}
	// These come from the agents, which wait for no command.
	for _, file := range []string{"/etc/kubernetes/ssl/kube-node.pem", "/etc/kubernetes/ssl/certs/serverca"} {
		eventually(t, file+" is there", logs, func() bool { _, err := h.ReadFile(ctx, file); return err == nil })
	}
	if text := logs(); strings.Contains(text, "cannot stop itself") || strings.Contains(text, nodeToken) {
		t.Errorf("its log:\n%s", text)
	}
	// What the kubelet needs: Docker refuses this bind when the path is on no shared mount.
	if out, err := h.Sh(ctx, "docker run --rm -v /var/lib/kubelet:/var/lib/kubelet:shared "+image+" version"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNodeAgentUnderSystemd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	e := startEngine(t, ctx)
	h, err := host.Start(ctx, e, host.Options{Name: "node"})
	must(t, err)
	m := newManager(t, h.Gateway(), nil)
	must(t, h.Copy(ctx, buildNodeAgent(t), "/usr/local/bin/rancher-agent"))
	must(t, h.Copy(ctx, "../../packaging/systemd/rancher-agent.service", "/etc/systemd/system/rancher-agent.service"))
	env, err := os.ReadFile("../../packaging/systemd/rancher-agent.env")
	must(t, err)
	text := strings.NewReplacer("CATTLE_SERVER=https://drover.example.com", "CATTLE_SERVER="+m.url, "CATTLE_TOKEN=\n", "CATTLE_TOKEN="+nodeToken+"\n",
		"CATTLE_CA_CHECKSUM=\n", "CATTLE_CA_CHECKSUM="+trust.Checksum([]byte(m.ca))+"\n").Replace(string(env))
	must(t, h.WriteFile(ctx, "/etc/default/rancher-agent", []byte(text), 0o600))
	sh := func(script string) string {
		t.Helper()
		out, err := h.Sh(ctx, script)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	wantSoundUnit(t, "/etc/systemd/system/rancher-agent.service", func(script string) (string, error) { return h.Sh(ctx, script) })
	sh("systemctl daemon-reload && systemctl enable --now rancher-agent")
	journal := func() string {
		text, _ := h.Journal(context.WithoutCancel(ctx), "rancher-agent") // for a failure's text
		return text
	}
	const ask = "DROVER_AGENT_HEALTH_SOCKET=/run/rancher-agent/health.sock rancher-agent health"
	m.connects(t, 0, journal)
	eventually(t, "it says that Docker is missing", journal, func() bool {
		out, _ := h.Sh(ctx, ask)
		return strings.Contains(out, "/var/run/docker.sock is missing: start Docker")
	})
	if out, err := h.Sh(ctx, ask+" --ready"); err == nil {
		t.Errorf("it is ready without Docker: %s", out)
	}
	if out := sh("LOG_SOCKET_LOCATION=/run/rancher-agent/log.sock rancher-agent loglevel --set debug"); out != "OK" {
		t.Errorf("loglevel: %q", out)
	}
	var through string
	eventually(t, "the journal comes through the tunnel", func() string { return fmt.Sprintf("%s, %v\n%s", through, err, journal()) }, func() bool {
		through, err = m.get("node", "tcp", "drover-agent:80", "/v1/logs?unit=rancher-agent.service&tail=1000")
		return err == nil && strings.Contains(through, "tunnel is open")
	})
	pid := sh("systemctl show --property=MainPID --value rancher-agent")
	sh("systemctl reload rancher-agent")
	eventually(t, "it heeds a reload", journal, func() bool { return strings.Contains(journal(), "the server's name is looked up") })
	if now := sh("systemctl show --property=MainPID --value rancher-agent"); now != pid {
		t.Errorf("the reload was a restart: %s, then %s", pid, now)
	}
	tunnels := len(m.paths())
	must(t, h.Reboot(ctx))
	m.connects(t, tunnels, journal)
	if strings.Contains(journal(), nodeToken) {
		t.Error("the token is in the journal")
	}
}
