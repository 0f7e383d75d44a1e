package packaging

// What the uninstall script removes, what it keeps, and what it refuses to touch.

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files lists what is not a directory.
func (h *host) files() []string {
	h.t.Helper()
	modes := h.modes()
	maps.DeleteFunc(modes, func(_, mode string) bool { return strings.HasPrefix(mode, "d") })
	return slices.Sorted(maps.Keys(modes))
}

func (h *host) link(target, path string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.root+path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Symlink(target, h.root+path); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) uninstall() result {
	h.t.Helper()
	return h.run(readFile(uninstallScript))
}

func TestUninstall(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		h.mustJoin(s, "--worker")
		if err := os.Remove(h.log + "/systemctl"); err != nil {
			t.Fatal(err)
		}
		const config = "/var/lib/rancher/system-agent/etc"
		h.write(h.root+config+"/k3s/config.yaml.d/50-rancher.yaml", "token: secret\n", 0o600)
		h.write(h.root+config+"/k3s/a b.yaml", "a b\n", 0o644)
		h.write(h.root+config+"/rke2/dir/one.yaml", "one\n", 0o755)
		h.write(h.root+"/srv/elsewhere", "elsewhere\n", 0o644)
		h.link(h.root+config+"/k3s/config.yaml.d/50-rancher.yaml", "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml")
		h.link("../../../"+config+"/k3s/a b.yaml", "/etc/rancher/k3s/a b.yaml")
		h.link(h.root+config+"/rke2/dir", "/etc/rancher/rke2/dir")
		h.link(h.root+config+"/k3s/gone", "/etc/rancher/k3s/gone")
		h.link(h.root+"/srv/elsewhere", "/etc/rancher/k3s/elsewhere")
		h.write(h.root+"/etc/rancher/k3s/k3s.yaml", "kubeconfig\n", 0o600)
		h.write(h.root+"/etc/rancher/agent/registries.yaml", "configs: {mirror.lan: {auth: {password: secret}}}\n", 0o600)
		h.write(h.root+"/etc/default/rancher-system-agent", "A=b\n", 0o644)
		h.write(h.root+"/var/lib/rancher/k3s/server/token", "x", 0o600)

		res := h.uninstall()
		if res.code != 0 {
			t.Fatal(res.stderr)
		}
		want := []string{
			"/etc/default/rancher-system-agent",
			"/etc/rancher/k3s/a b.yaml", "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "/etc/rancher/k3s/elsewhere",
			"/etc/rancher/k3s/k3s.yaml", "/etc/rancher/rke2/dir/one.yaml",
			"/srv/elsewhere", "/var/lib/rancher/k3s/server/token",
		}
		if diff := cmp.Diff(want, h.files()); diff != "" {
			t.Errorf("files that are left (-want +got):\n%s", diff)
		}
		modes := h.modes()
		for path, content := range map[string]string{
			"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml": "token: secret\n",
			"/etc/rancher/k3s/a b.yaml":                      "a b\n",
			"/etc/rancher/rke2/dir/one.yaml":                 "one\n",
		} {
			if h.read(path) != content || modes[path] != "-rw-------" {
				t.Errorf("%s has mode %s and content %q", path, modes[path], h.read(path))
			}
		}
		if !strings.HasPrefix(modes["/etc/rancher/k3s/elsewhere"], "L") {
			t.Error("a link to elsewhere was changed")
		}
		for _, path := range []string{"/var/lib/rancher/agent", "/var/lib/rancher/system-agent"} {
			if _, ok := modes[path]; ok {
				t.Errorf("%s is left", path)
			}
		}
		wantActions := []string{
			"stop rancher-system-agent.service", "disable rancher-system-agent.service",
			"daemon-reload", "reset-failed rancher-system-agent.service",
		}
		if diff := cmp.Diff(wantActions, h.logged("systemctl")); diff != "" {
			t.Errorf("systemctl (-want +got):\n%s", diff)
		}
		if !strings.Contains(res.stdout, "left as they are") {
			t.Errorf("the output does not say what is left: %s", res.stdout)
		}

		if again := h.uninstall(); again.code != 0 {
			t.Errorf("a second run fails: %s", again.stderr)
		}
	})
}

// An original installation goes the same way; its instructions for other services stay.
func TestUninstallOriginal(t *testing.T) {
	h := newHost(t, shells(t)[0])
	h.write(h.root+"/etc/rancher/agent/config.yaml", "interlockDirectory: /var/lib/rancher/agent/interlock\n", 0o600)
	h.write(h.root+interlock+"/x", "", 0o600)
	h.write(h.root+"/opt/rancher-system-agent/bin/rancher-system-agent", "", 0o755)
	h.write(h.root+unitFile, "[Service]\nEnvironment=CATTLE_AGENT_CONFIG=/etc/rancher/agent/config.yaml\n"+
		"ExecStart=/opt/rancher-system-agent/bin/rancher-system-agent sentinel\n", 0o644)
	h.write(h.root+"/etc/systemd/system/other.service", "", 0o644)
	if res := h.uninstall(); res.code != 0 {
		t.Fatal(res.stderr)
	}
	if diff := cmp.Diff([]string{"/etc/systemd/system/other.service"}, h.files()); diff != "" {
		t.Errorf("files that are left (-want +got):\n%s", diff)
	}
}

func TestUninstallRefuses(t *testing.T) {
	tests := []struct {
		name    string
		env     []string
		prepare func(h *host)
		want    string
	}{
		{name: "not root", prepare: func(h *host) { h.tool("id", "echo 1000") }, want: "root"},
		{name: "the root", env: []string{"CATTLE_AGENT_VAR_DIR=/"}, want: "CATTLE_AGENT_VAR_DIR"},
		{name: "a directory of all", env: []string{"CATTLE_AGENT_VAR_DIR=/var/lib/rancher/"}, want: "/var/lib/rancher "},
		{name: "a cluster's configuration", env: []string{"CATTLE_AGENT_CONFIG_DIR=/etc/rancher/k3s"}, want: "/etc/rancher/k3s"},
		{name: "a cluster's data", env: []string{"CATTLE_AGENT_VAR_DIR=/var/lib/rancher/rke2/agent"}, want: "CATTLE_AGENT_VAR_DIR"},
		{name: "upwards", env: []string{"CATTLE_AGENT_VAR_DIR=/srv/agent/../.."}, want: "CATTLE_AGENT_VAR_DIR"},
		{name: "without a mark of the agent", env: []string{"CATTLE_AGENT_CONFIG_DIR=/srv/photos"}, prepare: func(h *host) {
			h.write(h.root+"/srv/photos/1.jpg", "", 0o644)
		}, want: "/srv/photos"},
		{name: "unit that does not stop", prepare: func(h *host) { h.write(h.log+"/fails-stop", "", 0o644) }, want: "cannot stop"},
		{name: "disk full while keeping a link", prepare: func(h *host) {
			h.tool("cp", "exit 1")
			h.link(h.root+"/var/lib/rancher/system-agent/etc/config.yaml", "/etc/rancher/k3s/config.yaml")
		}, want: "cannot copy the target of /etc/rancher/k3s/config.yaml"},
		{name: "argument", want: "unknown argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, shells(t)[0])
			h.write(h.root+unitFile, "[Service]\n", 0o644)
			h.write(h.root+"/var/lib/rancher/system-agent/etc/config.yaml", "", 0o600)
			h.write(h.root+interlock+"/x", "", 0o600)
			h.write(h.root+"/etc/rancher/k3s/k3s.yaml", "", 0o600)
			h.write(h.root+"/var/lib/rancher/k3s/x", "", 0o600)
			h.write(h.root+"/usr/local/bin/rancher-system-agent", "", 0o755)
			if tt.prepare != nil {
				tt.prepare(h)
			}
			h.env = tt.env
			before := h.snapshot()
			var args []string
			if tt.name == "argument" {
				args = []string{"--force"}
			}
			wantRefusal(t, h.run(readFile(uninstallScript), args...), tt.want)
			if diff := cmp.Diff(before, h.snapshot()); diff != "" {
				t.Errorf("the host was changed (-before +after):\n%s", diff)
			}
			for _, action := range h.logged("systemctl") {
				if !strings.HasPrefix(action, "stop ") {
					t.Errorf("systemctl %s", action)
				}
			}
		})
	}
}
