package node

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/dockerstandin"
	"github.com/drover-project/drover/tunnel/connect"
)

func TestLife(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	h.live(t)

	waitUntil(t, "the kubelet runs", func() bool { return h.docker.Containers()["kubelet"].Running })
	waitUntil(t, "its version is acknowledged", func() bool { return slices.Contains(m.versions(), 4) })
	h.cause(t, onContainers, "")
	for _, file := range []string{"state/connected", "state/node-config.json", "root/etc/kubernetes/ssl/kube-ca.pem", "root" + caFile} {
		info, err := os.Stat(filepath.Join(h.dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", file, info, err)
		}
	}
	t.Run("Docker through the tunnel", func(t *testing.T) {
		if code, text, err := m.ask(t, "unix", "/var/run/docker.sock", "/_ping"); code != 200 || text != "OK" {
			t.Errorf("%d %q %v", code, text, err)
		}
	})
	t.Run("refused targets", func(t *testing.T) {
		for _, target := range []string{"169.254.169.254:80", "127.0.0.1:22", "8.8.8.8:6443"} {
			if code, _, err := m.ask(t, "tcp", target, "/"); err == nil {
				t.Errorf("%s answers %d", target, code)
			}
		}
		if code, text, err := m.ask(t, "unix", "/var/run/docker.sock", "/_ping"); code != 200 {
			t.Errorf("after the refusals: %d %q %v", code, text, err)
		}
	})
	t.Run("logs through the tunnel", func(t *testing.T) {
		h.docker.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Log = "first\nsecond\n" })
		if code, text, err := m.ask(t, "tcp", serviceAddress, "/v1/logs?container=kubelet&tail=2"); code != 200 || text != "first\nsecond\n" {
			t.Errorf("%d %q %v", code, text, err)
		}
		if code, text, err := m.ask(t, "tcp", serviceAddress, "/v1/logs?container=none"); code != 404 {
			t.Errorf("%d %q %v", code, text, err)
		}
	})
	t.Run("containers through the tunnel", func(t *testing.T) {
		code, text, err := m.ask(t, "tcp", serviceAddress, "/v1/containers")
		var answer struct{ Data []hostContainer }
		if bad := json.Unmarshal([]byte(text), &answer); code != 200 || err != nil || bad != nil || !slices.ContainsFunc(answer.Data, func(c hostContainer) bool { return c.Name == "kubelet" && c.Image != "" }) {
			t.Errorf("%d %q %v", code, text, err)
		}
	})
	t.Run("readiness", func(t *testing.T) {
		waitUntil(t, "it is ready", func() bool {
			health, err := AskHealth(t.Context(), h.o.HealthSocket, true)
			return err == nil && health.OK
		})
	})
	t.Run("after a loss it connects and does not register", func(t *testing.T) {
		if paths := m.opened(); !slices.Equal(paths, []string{connect.RegisterPath}) {
			t.Fatalf("opened %v", paths)
		}
		m.drop()
		waitUntil(t, "there is a second tunnel", func() bool { return len(m.opened()) > 1 })
		if paths := m.opened(); paths[1] != connect.Path {
			t.Errorf("opened %v", paths)
		}
	})
	if strings.Contains(h.log.String(), "secret-certificate") {
		t.Error("a certificate is in the log")
	}
}

// TestWorkerMendsItself kills a container while the server is away, under the same agent
// and under one that has never seen the server.
func TestWorkerMendsItself(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	stop := h.live(t)
	waitUntil(t, "the kubelet runs", func() bool { return h.docker.Containers()["kubelet"].Running })
	h.cause(t, onContainers, "")
	m.stop()
	h.cause(t, onTunnel, anything)
	kill := func() {
		before := h.docker.Containers()["kubelet"].ID
		h.docker.Kill("kubelet")
		waitUntil(t, "the kubelet is back", func() bool {
			c := h.docker.Containers()["kubelet"]
			return c.Running && c.ID != before
		})
	}
	kill()
	stop()
	h.docker.Kill("kubelet")
	h.live(t)
	waitUntil(t, "a new agent brings it back", func() bool { return h.docker.Containers()["kubelet"].Running })
	h.cause(t, onContainers, "")
	kill()
}

func TestDockerComesAndGoes(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	h.docker.Stop()
	h.live(t)
	h.cause(t, onDocker, "start Docker")
	h.cause(t, onTunnel, "") // the tunnel is open all the same
	h.cause(t, onContainers, "Cannot connect")
	if health, err := AskHealth(t.Context(), h.o.HealthSocket, true); err != nil || health.OK {
		t.Errorf("ready without Docker: %+v %v", health, err)
	}
	if live, err := AskHealth(t.Context(), h.o.HealthSocket, false); err != nil || !live.OK {
		t.Errorf("not alive without Docker: %+v %v", live, err)
	}
	h.docker.Listen(t)
	h.cause(t, onDocker, "")
	waitUntil(t, "the kubelet runs", func() bool { return h.docker.Containers()["kubelet"].Running })
	if n := strings.Count(h.log.String(), "condition=docker"); n != 2 { // gone, and back
		t.Errorf("Docker's state was logged %d times", n)
	}
}

// TestBadServers holds that whatever a server does wrong is reported and ends nothing.
func TestBadServers(t *testing.T) {
	page := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>please log in</html>")
	}
	for _, tc := range []struct {
		name        string
		change      func(*management, *host)
		on, want    string
		andThenGood bool
	}{
		{"wrong token", func(m *management, h *host) { h.o.Token = strings.Repeat("b", 54) }, onTunnel, "registration token is not valid", false},
		{"a page for a node config", func(m *management, _ *host) { m.answerWith(page) }, onConfig, "web page", true},
		{"a page for the CA", func(m *management, _ *host) { m.setting = page }, onCA, "is not a setting", false},
		{"an empty CA", func(m *management, _ *host) {
			m.setting = func(w http.ResponseWriter) { io.WriteString(w, `{"value":""}`) }
		}, onCA, "is empty, but --ca-checksum was given", false},
		{"no certificate", func(m *management, _ *host) {
			m.setting = func(w http.ResponseWriter) { io.WriteString(w, `{"value":"hello"}`) }
		}, onCA, "does not look like an x509 certificate", false},
		{"another CA", func(m *management, h *host) { h.o.CAChecksum = strings.Repeat("0", 64) }, onCA, "does not match given --ca-checksum", false},
		{"a clock that is a day late", func(_ *management, h *host) {
			h.o.Now = func() time.Time { return time.Now().Add(-24 * time.Hour) }
		}, onClock, "behind the server's", false},
		{"not planned yet", func(m *management, _ *host) {
			m.answerWith(func(w http.ResponseWriter) { http.Error(w, "driver is empty", http.StatusServiceUnavailable) })
		}, onConfig, "not planned this node yet: driver is empty", true},
		{"a broken server", func(m *management, _ *host) {
			m.answerWith(func(w http.ResponseWriter) { http.Error(w, "cluster is confused", http.StatusInternalServerError) })
		}, onConfig, "500 Internal Server Error: cluster is confused", true},
		{"half a node config", func(m *management, _ *host) {
			m.answerWith(func(w http.ResponseWriter) { io.WriteString(w, `{"processes":`) })
		}, onConfig, "not JSON", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newManagement(t)
			h := newHost(t, m)
			tc.change(m, h)
			h.live(t)
			h.cause(t, tc.on, tc.want)
			if !tc.andThenGood {
				return
			}
			m.answerWith(planned)
			waitUntil(t, "the kubelet runs", func() bool { return h.docker.Containers()["kubelet"].Running })
			h.cause(t, onConfig, "")
		})
	}
}

func TestServerComesLate(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	good := *h.o.Server
	h.o.Server.Host = "127.0.0.1:1"
	stop := h.live(t)
	h.cause(t, onServer, "refused")
	h.cause(t, onTunnel, "CA is not known yet")
	stop()
	if !strings.Contains(h.log.String(), "ERROR: https://127.0.0.1:1/ping is not accessible (") {
		t.Error("the log lacks the marker that people look for")
	}
	h.o.Server = &good
	h.live(t)
	h.cause(t, onTunnel, "")
	waitUntil(t, "the marker", func() bool { return strings.Contains(h.log.String(), "INFO: "+m.URL+"/ping is accessible") })
}

func TestWriteCertsOnly(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	h.o.OnlyWriteCerts = true
	h.docker.Run(t, "kubelet", "rancher/hyperkube:v1", nil)
	h.docker.Run(t, "share-mnt", "rancher/hyperkube:v1", map[string]string{nodeconfig.Label: nodeconfig.ShareMnt})
	h.docker.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Running = false })
	if err := Run(t.Context(), h.o); err != nil {
		t.Fatal(err)
	}
	if is := h.docker.Containers(); !is["kubelet"].Running || is["share-mnt"].Running {
		t.Errorf("the kubelet runs: %t; share-mnt runs: %t", is["kubelet"].Running, is["share-mnt"].Running)
	}
	starts := h.docker.Containers()["kubelet"].Starts
	if err := Run(t.Context(), h.o); err != nil {
		t.Fatal(err)
	}
	if n := h.docker.Containers()["kubelet"].Starts; n != starts {
		t.Errorf("the kubelet was restarted though nothing had changed")
	}
	if !h.exists("root/etc/kubernetes/ssl/kube-ca.pem") {
		t.Error("the certificate is missing")
	}
	if n := len(h.docker.Containers()); n != 2 || h.exists("state/connected") {
		t.Errorf("%d containers were made, or the host was registered", n)
	}
}

func TestBadInput(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"interface", func(o *Options) { o.Address = "eth77" }, "--address \"eth77\" is neither an IP address nor an interface"},
		{"internal", func(o *Options) { o.InternalAddress = "no such" }, "--internal-address"},
		{"name", func(o *Options) { o.NodeName = "" }, "requestedHostname is empty"},
		{"taint", func(o *Options) { o.Taints = []string{"a"} }, "taints[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newManagement(t)
			h := newHost(t, m)
			tc.change(&h.o)
			if err := Run(t.Context(), h.o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestHostileStart has files of the agent that others spoilt.
func TestSpoiltState(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	if err := os.MkdirAll(h.o.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-config.json", "node-config-applied.json", "connected"} {
		if err := os.WriteFile(filepath.Join(h.o.StateDir, name), []byte("{half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.live(t)
	waitUntil(t, "the kubelet runs", func() bool { return h.docker.Containers()["kubelet"].Running })
	var kept struct{ ClusterName string }
	b, err := os.ReadFile(filepath.Join(h.o.StateDir, "node-config.json"))
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err != nil || kept.ClusterName != "c-abcde" {
		t.Errorf("kept %q, %v", kept.ClusterName, err)
	}
}
