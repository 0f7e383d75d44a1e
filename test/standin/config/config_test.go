package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// host is a machine called Host-A at 192.0.2.7, with a configuration directory of the given files.
func host(t *testing.T, files map[string]string, env map[string]string, args ...string) (Options, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Options{
		Args:     append([]string{"--config", filepath.Join(dir, "config.yaml")}, args...),
		Getenv:   func(name string) string { return env[name] },
		Hostname: func() (string, error) { return "Host-A", nil },
		HostIP:   func() (netip.Addr, error) { return netip.MustParseAddr("192.0.2.7"), nil },
	}, dir
}

func want(change func(*Server)) *Server {
	s := defaults()
	s.NodeName = "host-a"
	s.NodeIPs = []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	s.AdvertiseAddress = s.NodeIPs[0]
	change(s)
	return s
}

func TestLoad(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		env   map[string]string
		args  []string
		want  func(*Server)
	}{
		{name: "nothing given", want: func(*Server) {}},
		{
			name: "the planner's JSON in a .yaml file",
			files: map[string]string{"config.yaml.d/50-rancher.yaml": `{
  "agent-token": "aa", "cluster-init": true,
  "kube-controller-manager-arg": ["cert-dir=/d/kcm", "secure-port=10257"],
  "node-external-ip": ["203.0.113.4"], "node-ip": ["10.0.4.11", "fd00::1"],
  "node-label": ["rke.cattle.io/machine=0c0f"], "private-registry": "/etc/rancher/k3s/registries.yaml", "token": "tt"
}`},
			want: func(s *Server) {
				s.Token, s.AgentToken, s.ClusterInit = "tt", "aa", true
				s.ControllerManagerArgs = []string{"cert-dir=/d/kcm", "secure-port=10257"}
				s.NodeIPs = []netip.Addr{netip.MustParseAddr("10.0.4.11"), netip.MustParseAddr("fd00::1")}
				s.NodeExternalIPs = []netip.Addr{netip.MustParseAddr("203.0.113.4")}
				s.AdvertiseAddress = s.NodeIPs[0]
				s.NodeLabels = []string{"rke.cattle.io/machine=0c0f"}
				s.Inert = []string{"private-registry"}
			},
		},
		{
			name: "the last file wins, whole lists too; name order, not time",
			files: map[string]string{
				"config.yaml": "token: one\nnode-label: [a=1, b=2]\n", "config.yaml.d/90-z.yaml": "token: three",
				"config.yaml.d/10-a.yml": "token: two\nnode-label: [c=3]\n", "config.yaml.d/95-not-read.txt": "token: four",
			},
			want: func(s *Server) { s.Token, s.NodeLabels = "three", []string{"c=3"} },
		},
		{
			name: "key+ adds to what was given before",
			files: map[string]string{
				"config.yaml": "tls-san: a.example\n", "config.yaml.d/1.yaml": "tls-san+: [b.example, \"c.example,d.example\"]\n",
				"config.yaml.d/2.yaml": "node-taint+: [\"k=v:NoSchedule\"]\n",
			},
			want: func(s *Server) {
				s.TLSSANs = []string{"a.example", "b.example", "c.example", "d.example"}
				s.NodeTaints = []string{"k=v:NoSchedule"}
			},
		},
		{
			name:  "the command line replaces the files, the environment only fills gaps",
			files: map[string]string{"config.yaml": "token: file\nnode-label: [a=1]\ndisable-scheduler: false\n"},
			env:   map[string]string{"K3S_TOKEN": "env", "K3S_DATA_DIR": "/srv/k3s"},
			args:  []string{"--node-label", "b=2", "--node-label=c=3", "--disable-scheduler", "--write-kubeconfig-mode=0644"},
			want: func(s *Server) {
				s.Token, s.DataDir, s.DisableScheduler, s.KubeconfigMode = "file", "/srv/k3s", true, 0o644
				s.NodeLabels = []string{"b=2", "c=3"}
			},
		},
		{
			name:  "null and empty documents give nothing; off switches are no refusals",
			files: map[string]string{"config.yaml": "", "config.yaml.d/1.yaml": "token: null\ndisable-etcd: false\nserver: \"\"\n"},
			want:  func(*Server) {},
		},
		{
			name:  "keys of the real one that mean nothing here are listed",
			files: map[string]string{"config.yaml": "flannel-backend: none\ndisable: [traefik]\nselinux: true\n"},
			want:  func(s *Server) { s.Inert = []string{"disable", "flannel-backend", "selinux"} },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := host(t, tt.files, tt.env, tt.args...)
			got, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			opts := []cmp.Option{cmpopts.IgnoreUnexported(Server{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
			if diff := cmp.Diff(want(tt.want), got, opts...); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadFollowsSymlinks(t *testing.T) {
	o, dir := host(t, map[string]string{"elsewhere/50-rancher.yaml": "token: linked", "config.yaml.d/10.yaml": "token: plain"}, nil)
	if err := os.Symlink(filepath.Join(dir, "elsewhere/50-rancher.yaml"), filepath.Join(dir, "config.yaml.d/50-rancher.yaml")); err != nil {
		t.Fatal(err)
	}
	s, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if s.Token != "linked" {
		t.Errorf("token = %q, want that of the linked file", s.Token)
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		args  []string
		env   map[string]string
		want  string // DIR stands for the configuration directory
	}{
		{"unknown key", map[string]string{"config.yaml.d/50-rancher.yaml": "token: a\nnode-lable: [a=b]\n"}, nil, nil,
			`DIR/config.yaml.d/50-rancher.yaml line 2: unknown key "node-lable": k3s server has no such setting; correct or remove it`},
		{"unknown flag", nil, []string{"--frobnicate=1"}, nil,
			`command line: unknown key "frobnicate": k3s server has no such setting; correct or remove it`},
		{"joining", map[string]string{"config.yaml": "server: https://10.0.0.1:6443"}, nil, nil,
			`DIR/config.yaml line 1: key "server" is refused by the k3s stand-in: it runs a cluster of one server with all roles and cannot join another server`},
		{"joining by environment", nil, nil, map[string]string{"K3S_URL": "https://10.0.0.1:6443"},
			`environment variable K3S_URL: key "server" is refused by the k3s stand-in: it runs a cluster of one server with all roles and cannot join another server`},
		{"etcd only", map[string]string{"config.yaml": "disable-apiserver: true"}, nil, nil,
			`DIR/config.yaml line 1: key "disable-apiserver" is refused by the k3s stand-in: it runs a cluster of one server with all roles`},
		{"list for one value", map[string]string{"config.yaml": "token: [a, b]"}, nil, nil,
			`DIR/config.yaml line 1: key "token": one value was expected, found a list of 2`},
		{"mapping", map[string]string{"config.yaml": "node-label: {a: b}"}, nil, nil,
			`DIR/config.yaml line 1: key "node-label": a plain value or a list of them was expected, found a mapping`},
		{"bad switch", map[string]string{"config.yaml": "cluster-init: maybe"}, nil, nil,
			`DIR/config.yaml line 1: key "cluster-init": true or false was expected, found "maybe"`},
		{"bad address", map[string]string{"config.yaml": "node-ip: 10.0.0.256"}, nil, nil,
			`DIR/config.yaml line 1: key "node-ip": "10.0.0.256" is not an IP address`},
		{"bad mode", map[string]string{"config.yaml": "write-kubeconfig-mode: \"999\""}, nil, nil,
			`DIR/config.yaml line 1: key "write-kubeconfig-mode": "999" is not an octal file mode such as 0644`},
		{"relative data directory", map[string]string{"config.yaml": "data-dir: var"}, nil, nil,
			`DIR/config.yaml line 1: key "data-dir": an absolute path was expected, found "var"`},
		{"twice in one file", map[string]string{"config.yaml": "token: a\ntoken: b\n"}, nil, nil,
			`DIR/config.yaml line 2: key "token" is given twice in one file`},
		{"not a mapping", map[string]string{"config.yaml": "[1, 2]"}, nil, nil,
			`DIR/config.yaml line 1: a mapping of keys to values was expected`},
		{"two documents", map[string]string{"config.yaml": "token: a\n---\ntoken: b\n"}, nil, nil,
			`DIR/config.yaml: one document was expected, found more`},
		{"flag without value", nil, []string{"--token"}, nil, `command line: flag --token needs a value`},
		{"bad node name", map[string]string{"config.yaml": "node-name: a_b"}, nil, nil,
			`node name "a_b" is not a lower-case DNS name; set node-name`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, dir := host(t, tt.files, tt.env, tt.args...)
			_, err := Load(o)
			if err == nil {
				t.Fatal("no error")
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != tt.want {
				t.Errorf("error\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestLoadReportsADanglingDropIn(t *testing.T) {
	o, dir := host(t, map[string]string{"config.yaml.d/10.yaml": ""}, nil)
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "config.yaml.d/50.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want not exist", err)
	}
}

func TestArgs(t *testing.T) {
	own := map[string]string{"cert-dir": "/own", "secure-port": "10257", "controllers": "*"}
	got := Args(own, []string{"cert-dir=/user", "--v=4", "feature", "controllers+=tokencleaner", "x=1", "x=2"})
	want := []string{"--cert-dir=/user", "--controllers=*,tokencleaner", "--feature=true", "--secure-port=10257", "--v=4", "--x=1", "--x=2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}
