package hostservice

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/tunnel"
)

func start(t *testing.T, o Options) *Service {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	s := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
		if _, err := s.Dial(context.Background(), "tcp", Address); err == nil {
			t.Error("a stopped service can be dialled")
		}
	})
	return s
}

// ask is a request of the server through the tunnel.
func ask(t *testing.T, s *Service, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	answer, err := client.Get("http://drover-agent" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func TestPolicy(t *testing.T) {
	s := start(t, Options{})
	for _, tc := range []struct {
		network, address string
		allowed          bool
	}{
		{"tcp", "127.0.0.1:6443", true},
		{"tcp", "localhost:6443", true},
		{"tcp", "[::1]:6443", true},
		{"tcp", "127.0.0.1:9345", true},
		{"tcp", "drover-agent:80", true},
		{"tcp", "127.0.0.1:22", false},
		{"tcp", "127.0.0.1:10250", false},
		{"tcp", "10.0.0.1:6443", false},
		{"tcp", "169.254.169.254:80", false},
		{"tcp", "drover-agent:81", false},
		{"tcp", "LOCALHOST:6443", false},
		{"tcp", "localhost.:6443", false},
		{"tcp", "[::ffff:127.0.0.1]:6443", false},
		{"tcp", "[::1%lo]:6443", false},
		{"tcp", "0177.0.0.1:6443", false},
		{"tcp", "127.1:6443", false},
		{"tcp", "0.0.0.0:6443", false},
		{"tcp", "127.0.0.1:06443", false},
		{"tcp", "127.0.0.1:6443 ", false},
		{"tcp", "", false},
		{"unix", "/run/systemd/private", false},
		{"unix", "@abstract", false},
		{"unixgram", "/dev/log", false},
		{"tcp4", "127.0.0.1:6443", false},
		{"udp", "127.0.0.1:6443", false},
		{"unix", "/var/run/docker.sock", false},
		{"unix", "drover-agent:80", false},
	} {
		t.Run(tc.network+" "+tc.address, func(t *testing.T) {
			c, err := s.Dial(t.Context(), tc.network, tc.address)
			if c != nil {
				c.Close()
			}
			var refused *tunnel.RefusedError
			if errors.As(err, &refused) == tc.allowed {
				t.Errorf("err = %v, allowed %t", err, tc.allowed)
			}
		})
	}
}

func TestKubeconfig(t *testing.T) {
	const k3s = "/etc/rancher/k3s/k3s.yaml"
	put := func(t *testing.T, root, content string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(root, k3s)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, query string
		prepare     func(t *testing.T, root string)
		owner       int // besides ours
		code        int
		want        string
	}{
		{"handed out", "?runtime=k3s", func(t *testing.T, root string) { put(t, root, "apiVersion: v1\n", 0o600) }, 0, 200, "apiVersion: v1\n"},
		{"readable by others", "?runtime=k3s", func(t *testing.T, root string) { put(t, root, "x", 0o644) }, 0, 200, "x"},
		{"not there yet", "?runtime=k3s", func(*testing.T, string) {}, 0, 404, "/etc/rancher/k3s/k3s.yaml is not there yet"},
		{"the other distribution", "?runtime=rke2", func(t *testing.T, root string) { put(t, root, "x", 0o600) }, 0, 404, "/etc/rancher/rke2/rke2.yaml"},
		{"writable by others", "?runtime=k3s", func(t *testing.T, root string) { put(t, root, "x", 0o622) }, 0, 403, "mode 0622"},
		{"of another owner", "?runtime=k3s", func(t *testing.T, root string) { put(t, root, "x", 0o600) }, 1, 403, "does not belong to root"},
		{"a symbolic link", "?runtime=k3s", func(t *testing.T, root string) {
			if err := os.Symlink("/etc/hostname", filepath.Join(root, k3s)); err != nil {
				t.Fatal(err)
			}
		}, 0, 403, "symbolic link"},
		{"a FIFO", "?runtime=k3s", func(t *testing.T, root string) {
			if err := syscall.Mkfifo(filepath.Join(root, k3s), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0, 403, "regular file"},
		{"too large", "?runtime=k3s", func(t *testing.T, root string) { put(t, root, strings.Repeat("x", 2<<20), 0o600) }, 0, 403, "more than"},
		{"no runtime", "", func(*testing.T, string) {}, 0, 400, "runtime"},
		{"a path as runtime", "?runtime=../../shadow", func(*testing.T, string) {}, 0, 400, "runtime"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "etc/rancher/k3s"), 0o755); err != nil {
				t.Fatal(err)
			}
			tc.prepare(t, root)
			s := start(t, Options{Root: root, Owner: os.Getuid() + tc.owner})
			code, body := ask(t, s, "/v1/kubeconfig"+tc.query)
			if code != tc.code || !strings.Contains(body, tc.want) {
				t.Errorf("%d %.200q, want %d and %q", code, body, tc.code, tc.want)
			}
		})
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	s := start(t, Options{Root: t.TempDir()})
	if code, _ := ask(t, s, "/etc/passwd"); code != 404 {
		t.Errorf("unknown path: %d", code)
	}
	client := http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	answer, err := client.Post("http://drover-agent/v1/kubeconfig?runtime=k3s", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 405 {
		t.Errorf("POST: %d", answer.StatusCode)
	}
}

func TestDialEndsWithTheContext(t *testing.T) {
	s := New(Options{}) // no program serves
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Dial(ctx, "tcp", Address); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}
