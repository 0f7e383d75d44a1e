// The host the stand-in runs on.

package life

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// host has a configuration and a data directory, for a node called node-a.
type host struct {
	t                 *testing.T
	dir, data, binary string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), binary: os.Getenv(binaryPath)}
	h.data = filepath.Join(h.dir, "data")
	h.write("config.yaml", "write-kubeconfig: "+filepath.Join(h.dir, "k3s.yaml")+"\n")
	h.write("config.yaml.d/50-rancher.yaml", fmt.Sprintf(`{
  "agent-token": "agent-secret", "cluster-init": true, "data-dir": %q, "node-name": "Node-A", "node-ip": [%q],
  "node-external-ip": ["203.0.113.4"], "node-label": ["rke.cattle.io/machine=0c0f"], "token": "server-secret",
  "node-taint": ["example.com/dedicated=tests:PreferNoSchedule"], "private-registry": "/etc/rancher/k3s/registries.yaml",
  "kube-controller-manager-arg": ["cert-dir=%[1]s/server/tls/kube-controller-manager", "secure-port=10257"],
  "kube-scheduler-arg": ["cert-dir=%[1]s/server/tls/kube-scheduler", "secure-port=10259"]
}`, h.data, nodeIP))
	return h
}

func (h *host) write(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// move puts a written file in its place at once, as an agent does.
func (h *host) move(name, path string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(h.dir, name), path); err != nil {
		h.t.Fatal(err)
	}
}

// certificates reads every certificate and key of the data directory.
func (h *host) certificates() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"server/tls/*.*", "server/tls/etcd/*", "server/tls/kube-*/*", "agent/*.*"} {
		files, err := filepath.Glob(filepath.Join(h.data, pattern))
		if err != nil {
			h.t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				h.t.Fatal(err)
			}
			out[file] = string(content)
		}
	}
	return out
}

func (h *host) tryKubectl(args ...string) ([]byte, error) {
	cmd := exec.Command(h.binary, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(h.dir, "k3s.yaml"), "HOME="+h.dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

func (h *host) kubectl(args ...string) {
	h.t.Helper()
	if _, err := h.tryKubectl(args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) awaitOutput(want string, args ...string) {
	h.t.Helper()
	await(h.t, "kubectl "+strings.Join(args, " "), 4*time.Minute, func() error {
		out, err := h.tryKubectl(args...)
		if err == nil && string(out) != want {
			err = fmt.Errorf("%q, want %q", out, want)
		}
		return err
	})
}

// awaitProbes waits until every probe a planner sets for such a node passes, under both names of the loopback.
func (h *host) awaitProbes() {
	h.t.Helper()
	tlsDir := filepath.Join(h.data, "server/tls")
	probes := []struct{ url, ca, cert string }{
		{"https://%s:6443/readyz", "server-ca.crt", "client-kube-apiserver"},
		{"https://%s:10257/healthz", "kube-controller-manager/kube-controller-manager.crt", ""},
		{"https://%s:10259/healthz", "kube-scheduler/kube-scheduler.crt", ""},
		{"http://%s:10248/healthz", "", ""},
		{"http://%s:2381/health", "", ""},
	}
	for _, p := range probes {
		for _, name := range []string{"127.0.0.1", "localhost"} {
			url := fmt.Sprintf(p.url, name)
			await(h.t, url, 4*time.Minute, func() error { return probe(url, tlsDir, p.ca, p.cert) })
		}
	}
}

func probe(url, dir, ca, cert string) error {
	config := &tls.Config{}
	if ca != "" {
		content, err := os.ReadFile(filepath.Join(dir, ca))
		if err != nil {
			return err
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(content)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, cert+".crt"), filepath.Join(dir, cert+".key"))
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
