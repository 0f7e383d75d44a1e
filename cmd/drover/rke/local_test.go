package rke

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/state"
)

// up runs `drover rke` in a directory of its own, with a cluster.yml unless that is "".
func up(t *testing.T, yml string, args ...string) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	t.Chdir(dir)
	if yml != "" {
		if err := os.WriteFile("cluster.yml", []byte(yml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd := (&App{Out: &out, Err: &out, Environ: func(string) string { return "" }}).Command()
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return dir, cmd.ExecuteContext(t.Context())
}

// With --local the cluster is this host, with all roles, whatever nodes the config has, and also without a config.
func TestLocal(t *testing.T) {
	for name, yml := range map[string]string{"no config": "", "a config": "cluster_name: mine\nnodes: [{address: 10.0.0.9, user: u, role: [etcd]}]\n"} {
		t.Run(name, func(t *testing.T) {
			dir, err := up(t, yml, "up", "--local", "--init")
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "cluster.rkestate"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := state.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			c := s.Desired.Config
			want := config.Node{Address: "127.0.0.1", InternalAddress: "127.0.0.1", Port: "22", HostnameOverride: "localhost", User: "root", Role: []string{"controlplane", "worker", "etcd"}, SSHKeyPath: "~/.ssh/id_rsa"}
			if diff := cmp.Diff([]config.Node{want}, c.Nodes); diff != "" || (c.ClusterName == "mine") != (yml != "") {
				t.Errorf("%s: %s", c.ClusterName, diff)
			}
		})
	}
}

// Its Docker is reached by the socket itself: neither keys nor known hosts are needed.
func TestLocalDials(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	a := &App{Out: &out, Err: &out, Environ: func(string) string { return "" }}
	c, err := a.open(t.Context(), flags{config: "cluster.yml", local: true, Login: Login{knownHosts: "/not/there"}})
	if err != nil {
		t.Fatal(err)
	}
	o, done, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := o.Dial(c.config.Nodes[0])(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, _, err := c.options(); err == nil || !strings.Contains(err.Error(), "another command works on") {
		t.Errorf("a second command at the same time: %v", err)
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	const one = "nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n"
	for name, c := range map[string]struct {
		yml  string
		args []string
		want string
	}{
		"hosts of containers":            {one, []string{"up", "--dind"}, "--dind is not done here"},
		"the removal of such":            {one, []string{"remove", "--dind"}, "--dind is not done here"},
		"no config without --local":      {"", []string{"up"}, "cluster.yml is not there"},
		"a local cluster that is no one": {"", []string{"remove", "--local", "--force"}, "there is no cluster to remove"},
		"--cert-dir without anything":    {one, []string{"up", "--init", "--custom-certs", "--cert-dir", "none"}, "certificates in none"},
		"a flag that there is not":       {one, []string{"up", "--skip-everything"}, "unknown flag: --skip-everything"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := up(t, c.yml, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// --cert-dir alone issues nothing from there: --custom-certs says whose certificates are used.
func TestFlagsReachTheEngine(t *testing.T) {
	c := &cluster{App: &App{}, flags: flags{certDir: "mine", ignoreDockerVersion: true}, files: state.FilesOf("cluster.yml")}
	if c.certificates() != "mine" || !c.work().IgnoreDockerVersion {
		t.Errorf("%s, %+v", c.certificates(), c.work())
	}
	c.certDir = ""
	if c.certificates() != "cluster_certs" && c.certificates() != "./cluster_certs" {
		t.Errorf("the default is %s", c.certificates())
	}
}
