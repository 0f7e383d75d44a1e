package packaging

// What a run does to a host that has an agent already, or is unlike the others.

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	unitFile = "/etc/systemd/system/rancher-system-agent.service"
	envFile  = "/etc/systemd/system/rancher-system-agent.env"
)

func TestSecondRunChangesNothing(t *testing.T) {
	ca := newAuthority(t, "drover")
	eachShell(t, func(t *testing.T, sh shell) {
		s, h := newServer(t, ca), newHost(t, sh)
		h.env = []string{"HTTP_PROXY=http://proxy.example:3128"}
		h.mustJoin(s, "--worker", "--label", "a=b")
		before := h.snapshot()
		h.mustJoin(s, "--worker", "--label", "a=b")
		if diff := cmp.Diff(before, h.snapshot()); diff != "" {
			t.Errorf("the second run changed (-first +second):\n%s", diff)
		}
		restarts := slices.DeleteFunc(h.logged("systemctl"), func(l string) bool { return !strings.HasPrefix(l, "restart") })
		if len(restarts) != 2 {
			t.Errorf("restarts: %q, want two", restarts)
		}

		h.env = append(h.env, "CATTLE_AGENT_LOGLEVEL=Debug")
		h.mustJoin(s, "--worker")
		after := h.snapshot()
		var changed []string
		for path := range after {
			if after[path] != before[path] {
				changed = append(changed, path)
			}
		}
		if !slices.Equal(changed, []string{unitFile}) {
			t.Errorf("another log level changed %q, want only %s", changed, unitFile)
		}
		if !strings.Contains(h.read(unitFile), "Environment=CATTLE_LOGLEVEL=debug\n") {
			t.Errorf("unit:\n%s", h.read(unitFile))
		}
	})
}

// Modes that were opened are closed again, also where the content is the same.
func TestModesAreRepaired(t *testing.T) {
	s, h := newServer(t, newAuthority(t, "drover")), newHost(t, shells(t)[0])
	h.mustJoin(s, "--worker")
	want := h.modes()
	for path := range want {
		if strings.Contains(path, "rancher") {
			if err := os.Chmod(h.root+path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.mustJoin(s, "--worker")
	if diff := cmp.Diff(want, h.modes()); diff != "" {
		t.Errorf("modes (-first +repaired):\n%s", diff)
	}
}

func TestUpgradeOfOriginal(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		h.write(h.root+"/etc/rancher/agent/config.yaml", "workDirectory: /var/lib/rancher/agent/work\nremoteEnabled: true\n"+
			"imagesDirectory: /srv/images\nagentRegistriesFile: /etc/rancher/agent/registries.yaml\n", 0o644)
		h.write(h.root+"/etc/rancher/agent/cattle-id", "an-old-id\n", 0o644)
		h.write(h.root+"/etc/rancher/agent/registries.yaml", "mirrors: {}\n", 0o644)
		h.write(h.root+"/usr/local/bin/rancher-system-agent", "old", 0o755)
		h.write(h.root+unitFile, "[Service]\nType=simple\n", 0o644)
		h.mustJoin(s, "--worker")

		modes := h.modes()
		for path, mode := range map[string]string{
			"/etc/rancher/agent": "drwx------", "/etc/rancher/agent/config.yaml": "-rw-------",
			"/etc/rancher/agent/cattle-id": "-rw-------", "/etc/rancher/agent/registries.yaml": "-rw-r--r--",
		} {
			if modes[path] != mode {
				t.Errorf("%s has mode %s, want %s", path, modes[path], mode)
			}
		}
		if _, ok := modes["/var/lib/rancher/system-agent"]; ok {
			t.Error("there is a second configuration directory")
		}
		config := h.read("/etc/rancher/agent/config.yaml")
		if !strings.HasSuffix(config, "preserveWorkDirectory: false\nimagesDirectory: /srv/images\nagentRegistriesFile: /etc/rancher/agent/registries.yaml\n") {
			t.Errorf("config.yaml lost the operator's keys:\n%s", config)
		}
		for _, line := range []string{
			"Type=notify\n", "Environment=CATTLE_AGENT_CONFIG=/etc/rancher/agent/config.yaml\n",
			"Environment=RANCHER_SYSTEM_AGENT_CONFIG_DIR=/etc/rancher/agent\n",
		} {
			if !strings.Contains(h.read(unitFile), line) {
				t.Errorf("the unit has no %q:\n%s", line, h.read(unitFile))
			}
		}
		if h.read("/usr/local/bin/rancher-system-agent") == "old" {
			t.Error("the agent was not replaced")
		}
		if got := s.last("/v3/connect/agent").Get("X-Cattle-Id"); got != "an-old-id" {
			t.Errorf("registered as %q", got)
		}
	})
}

func TestEnvironmentFile(t *testing.T) {
	tests := []struct {
		name, before string
		env          []string
		want         string
	}{
		{name: "nothing set", want: "NO_PROXY=127.0.0.1\nno_proxy=127.0.0.1\n"},
		{
			name:   "foreign lines stay",
			before: "# by hand\nKUBE_X=a=b\n\nHTTP_PROXY=http://old:1\nMY_HTTP_PROXY=x\nLAST=1",
			env:    []string{"HTTP_PROXY=http://new:2"},
			want:   "# by hand\nKUBE_X=a=b\n\nMY_HTTP_PROXY=x\nLAST=1\nHTTP_PROXY=http://new:2\nNO_PROXY=127.0.0.1\nno_proxy=127.0.0.1\n",
		},
		{
			name:   "what is not set now stays",
			before: "HTTP_PROXY=http://old:1\nPATH=/opt/x\n",
			want:   "HTTP_PROXY=http://old:1\nPATH=/opt/x\nNO_PROXY=127.0.0.1\nno_proxy=127.0.0.1\n",
		},
		{
			name:   "what is set to nothing goes",
			before: "HTTP_PROXY=http://old:1\n",
			env:    []string{"HTTP_PROXY="},
			want:   "NO_PROXY=127.0.0.1\nno_proxy=127.0.0.1\n",
		},
		{
			name: "values in the syntax of systemd",
			env:  []string{`HTTP_PROXY=http://u:p%40"\$x@h:1`, "NO_PROXY=127.0.0.1, 10.0.0.0/8"},
			want: `HTTP_PROXY="http://u:p%40\"\\\$x@h:1"` + "\nNO_PROXY=\"127.0.0.1, 10.0.0.0/8\"\nno_proxy=127.0.0.1\n",
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				h := newHost(t, sh)
				if tt.before != "" {
					h.write(h.root+envFile, tt.before, 0o644)
				}
				h.env = tt.env
				if res := h.installAlone(); res.code != 0 {
					t.Fatal(res.stderr)
				}
				if diff := cmp.Diff(tt.want, h.read(envFile)); diff != "" {
					t.Errorf("environment file (-want +got):\n%s", diff)
				}
				if mode := h.modes()[envFile]; mode != "-rw-------" {
					t.Errorf("mode %s", mode)
				}
			})
		})
	}
}

func TestDirectories(t *testing.T) {
	transactional := func(h *host) { h.write(h.root+"/usr/sbin/transactional-update", "", 0o755) }
	mounts := func(lines string) func(h *host) {
		return func(h *host) { h.write(h.root+"/proc/self/mounts", lines, 0o644) }
	}
	tests := []struct {
		name                 string
		prepare              []func(h *host)
		env                  []string
		prefix, config, vars string
		fallbackPath         string // how PATH in the environment file ends
	}{
		{name: "given", env: []string{
			"CATTLE_AGENT_BIN_PREFIX=/opt/a/", "CATTLE_AGENT_CONFIG_DIR=/etc/b", "CATTLE_AGENT_VAR_DIR=/srv/c",
		}, prefix: "/opt/a", config: "/etc/b", vars: "/srv/c"},
		{name: "drover's own variable", env: []string{"RANCHER_SYSTEM_AGENT_CONFIG_DIR=/etc/b"}, prefix: "/usr/local", config: "/etc/b", vars: "/var/lib/rancher/agent"},
		{
			name: "writable root", prepare: []func(h *host){mounts("/dev/sda / ext4 rw,relatime 0 0\n")},
			prefix: "/usr/local", config: "/var/lib/rancher/system-agent/etc", vars: "/var/lib/rancher/agent",
		},
		{
			name: "read-only /usr", prepare: []func(h *host){mounts("/dev/sda / ext4 rw 0 0\n/dev/sdb /usr ext4 ro,relatime 0 0\n")},
			prefix: "/opt/rancher-system-agent", config: "/var/lib/rancher/system-agent/etc", vars: "/var/lib/rancher/agent",
			fallbackPath: ":/opt/rke2/bin:/opt/bin\n",
		},
		{
			name: "/usr/local is a mount", prepare: []func(h *host){mounts("/dev/sda / ext4 rw 0 0\n/dev/sdb /usr/local ext4 rw 0 0\n/dev/sdc /usr/local/share ext4 rw 0 0\n")},
			env:    []string{"CATTLE_AGENT_FALLBACK_PATH=/opt/here"},
			prefix: "/opt/rancher-system-agent", config: "/var/lib/rancher/system-agent/etc", vars: "/var/lib/rancher/agent",
			fallbackPath: ":/opt/here\n",
		},
		{
			name: "transactional and writable", prepare: []func(h *host){transactional, mounts("/dev/sda / btrfs rw 0 0\n/dev/sda /usr/local btrfs rw 0 0\n")},
			prefix: "/usr", config: "/etc/rancher/agent", vars: "/etc/rancher/agent/var", fallbackPath: ":/opt/rke2/bin:/opt/bin\n",
		},
		{
			name: "transactional and running", prepare: []func(h *host){transactional, mounts("/dev/sda / btrfs ro 0 0\n/dev/sda /usr/local btrfs rw 0 0\n")},
			prefix: "/opt/rancher-system-agent", config: "/var/lib/rancher/system-agent/etc", vars: "/var/lib/rancher/agent",
			fallbackPath: ":/opt/rke2/bin:/opt/bin\n",
		},
		{
			name: "transactional with a given prefix", prepare: []func(h *host){transactional},
			env:    []string{"CATTLE_AGENT_BIN_PREFIX=/opt/a"},
			prefix: "/opt/a", config: "/var/lib/rancher/system-agent/etc", vars: "/var/lib/rancher/agent",
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				h := newHost(t, sh)
				for _, prepare := range tt.prepare {
					prepare(h)
				}
				h.env = tt.env
				if res := h.installAlone(); res.code != 0 {
					t.Fatal(res.stderr)
				}
				for path, mode := range map[string]string{
					tt.prefix + "/bin/rancher-system-agent": "-rwxr-xr-x", tt.prefix + "/bin/rancher-system-agent-uninstall.sh": "-rwxr-xr-x",
					tt.config: "drwx------", tt.config + "/config.yaml": "-rw-------",
					tt.vars: "drwx------", tt.vars + "/interlock": "drwx------",
				} {
					if got := h.modes()[path]; got != mode {
						t.Errorf("%s has mode %q, want %s", path, got, mode)
					}
				}
				for _, line := range []string{"Environment=CATTLE_AGENT_CONFIG=" + tt.config + "/config.yaml\n", "ExecStart=" + tt.prefix + "/bin/rancher-system-agent sentinel\n"} {
					if !strings.Contains(h.read(unitFile), line) {
						t.Errorf("the unit has no %q:\n%s", line, h.read(unitFile))
					}
				}
				if !strings.Contains(h.read(tt.config+"/config.yaml"), "interlockDirectory: "+tt.vars+"/interlock\n") {
					t.Errorf("config.yaml:\n%s", h.read(tt.config+"/config.yaml"))
				}
				env := h.read(envFile)
				if has := strings.Contains(env, "PATH="); has != (tt.fallbackPath != "") || !strings.HasSuffix(env, tt.fallbackPath) {
					t.Errorf("want a PATH that ends in %q:\n%s", tt.fallbackPath, env)
				}
				// The uninstaller finds the same places without being configured.
				h.env = nil
				if res := h.run(readFile(uninstallScript)); res.code != 0 {
					t.Fatal(res.stderr)
				}
				for path, mode := range h.modes() {
					if !strings.HasPrefix(mode, "d") && !strings.HasPrefix(path, "/proc/") && !strings.HasPrefix(path, "/usr/sbin/") {
						t.Errorf("the uninstaller left %s", path)
					}
				}
			})
		})
	}
}

// A full disk, or a directory that is none: found before the first file is replaced.
func TestNothingIsHalfReplaced(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	tests := []struct {
		name    string
		prepare func(h *host)
		want    string
	}{
		{"unit directory is a file", func(h *host) { h.write(h.root+"/etc/systemd", "", 0o644) }, "/etc/systemd/system"},
		{"unit is a directory", func(h *host) { h.write(h.root+unitFile+"/x", "", 0o644) }, unitFile + " is a directory"},
		{"no space", func(h *host) {
			h.tool("cat", `case $1 in */environment) echo "No space left on device"; exit 1 ;; esac; exec /bin/cat "$@"`)
		}, "cannot write " + envFile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, shells(t)[0])
			for path, content := range map[string]string{"/usr/local/bin/rancher-system-agent": "old", "/var/lib/rancher/agent/rancher2_connection_info.json": "old"} {
				h.write(h.root+path, content, 0o700)
			}
			tt.prepare(h)
			res := h.join(s, "--worker")
			if res.code == 0 || !strings.Contains(res.stderr, tt.want) {
				t.Errorf("ended with %d, want the sentence to say %q: %s", res.code, tt.want, res.stderr)
			}
			if h.read("/usr/local/bin/rancher-system-agent") != "old" || h.read("/var/lib/rancher/agent/rancher2_connection_info.json") != "old" {
				t.Error("something was replaced")
			}
			if got := h.logged("systemctl"); got != nil {
				t.Errorf("systemctl was called: %q", got)
			}
			h.wantNoLeftovers()
		})
	}
}
