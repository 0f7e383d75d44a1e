package cleaner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mountinfo is a line of /proc/1/mountinfo, as the probe writes it.
func mountinfo(at string) string {
	return "mount 36 35 98:0 / " + strings.ReplaceAll(at, " ", `\040`) + " rw,noatime master:1 - ext4 /dev/root rw\n"
}

func TestWhatIsTheClusters(t *testing.T) {
	worker := Plan{Prefix: "/", Plugin: "canal"}
	for name, c := range map[string]struct {
		plan Plan
		text string
		want Found
	}{
		"a host without anything": {worker, mountinfo("/") + "link lo\nlink eth0\nlink docker0\nlink tunl0\nrules 0\nend\n", Found{}},
		"volumes, those below others first": {worker, mountinfo("/") + mountinfo("/var/lib/kubelet") + mountinfo("/var/lib/kubelet/pods/a/volumes/v") +
			mountinfo("/var/lib/kubelet/pods/a/volumes/v/sub path") + mountinfo("/var/lib/kubelet2/pods") + mountinfo("/run/calico/cgroup") + "end\n",
			Found{Mounts: []string{"/var/lib/kubelet/pods/a/volumes/v/sub path", "/var/lib/kubelet/pods/a/volumes/v", "/run/calico/cgroup"}}},
		"somebody else's": {Plan{Prefix: "/", Etcd: true}, mountinfo("/") + mountinfo("/var/lib/etcd") + mountinfo("/etc/kubernetes/vault") + "directory /etc/kubernetes\ndirectory /var/lib/etcd\nend\n",
			Found{Directories: []string{"/etc/kubernetes", "/var/lib/etcd"}, Kept: map[string]string{"/etc/kubernetes": "/etc/kubernetes/vault"}}},
		"devices and rules": {worker, mountinfo("/") + "link flannel.1\nlink flannel.7\nlink cni0\nlink cali1234\nlink vxlan.calico\nlink vethabc\nlink calm\nrules 12\nrules 30\nend\n",
			Found{Links: []string{"flannel.1", "flannel.7", "cni0", "cali1234", "vxlan.calico"}, Rules: 42}},
		"calico's tunnel": {Plan{Prefix: "/", Plugin: "calico"}, mountinfo("/") + "link tunl0\nend\n", Found{Links: []string{"tunl0"}}},
		"a prefix":        {Plan{Prefix: "/opt/rke"}, mountinfo("/") + mountinfo("/opt/rke/var/lib/kubelet/pods/a") + mountinfo("/var/lib/kubelet/volumeplugins/x") + "end\n", Found{Mounts: []string{"/opt/rke/var/lib/kubelet/pods/a", "/var/lib/kubelet/volumeplugins/x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.plan.read(c.text)
			if c.want.Kept == nil {
				c.want.Kept = map[string]string{}
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if got.Empty() != (len(got.Lines()) == 0) {
				t.Errorf("%q", got.Lines())
			}
		})
	}
	for _, text := range []string{"", "end\n", mountinfo("/"), "mount 1 2 3\nend\n", mountinfo("/") + "rules many\nend\n"} {
		if f, err := worker.read(text); err == nil {
			t.Errorf("%q is taken for all: %+v", text, f)
		}
	}
}

func TestDirectories(t *testing.T) {
	worker := Plan{Prefix: "/"}.Directories()
	all := Plan{Prefix: "/opt/rke", Etcd: true, Snapshots: true}.Directories()
	for dir, want := range map[string][2]bool{
		"/etc/kubernetes": {true, false}, "/opt/rke/etc/kubernetes": {false, true}, "/var/lib/etcd": {false, false}, "/opt/rke/var/lib/etcd": {false, true},
		"/opt/rke/etcd-snapshots": {false, true}, "/var/lib/kubelet": {true, true}, "/opt/rke/var/lib/kubelet": {false, true},
		"/opt/rke": {false, false}, "/var/lib/rancher": {false, false}, "/var/lib/docker": {false, false}, "/": {false, false},
	} {
		if got := [2]bool{slices.Contains(worker, dir), slices.Contains(all, dir)}; got != want {
			t.Errorf("%s: %v, want %v", dir, got, want)
		}
	}
}

// stub puts a program of a script into a directory.
func stub(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// sh runs a script as the cleaner's container does, with only the programs of dir before the machine's own.
func sh(t *testing.T, dir, script string, args ...string) {
	t.Helper()
	command := exec.Command("sh", append([]string{"-c", script, "clean"}, args...)...)
	command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "OUT=" + dir}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

const saved = `*nat
:PREROUTING ACCEPT [1:60]
:DOCKER - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 10.42.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE
COMMIT
`

// Rules and chains of the cluster go from every kind of table that has some; those of Docker and of people stay, and tables without
// any are not written at all.
func TestNetwork(t *testing.T) {
	for name, kinds := range map[string][]string{"kinds of their own": {"iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"}, "one kind": {"iptables", "ip6tables"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// Those of the machine that this runs on must be asked for nothing.
			for _, kind := range []string{"iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"} {
				if !slices.Contains(kinds, kind) && strings.Contains(kinds[0], "-") {
					stub(t, dir, kind+"-save", "echo wrong >$OUT/"+kind+"\n")
				}
			}
			for i, kind := range kinds {
				text := saved
				if i > 0 {
					text = "*filter\n:DOCKER - [0:0]\nCOMMIT\n"
				}
				stub(t, dir, kind+"-save", fmt.Sprintf("cat <<'END'\n%sEND\n", text))
				stub(t, dir, kind+"-restore", `cat >$OUT/`+kind+"\n")
			}
			stub(t, dir, "ip", `echo "$@" >>$OUT/links; case "$*" in *delete*tunl0) exit 1;; esac`+"\n")
			script := network
			if !strings.Contains(kinds[0], "-") { // an image without the others, which this machine may have
				script = strings.Replace(script, "iptables-legacy ip6tables-legacy iptables-nft ip6tables-nft", "none", 1)
			}
			sh(t, dir, script, rules, "flannel.1", "tunl0")
			want := "*nat\n:PREROUTING ACCEPT [1:60]\n:DOCKER - [0:0]\n-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\nCOMMIT\n"
			got, err := os.ReadFile(filepath.Join(dir, kinds[0]))
			if err != nil || string(got) != want {
				t.Errorf("%q, %v", got, err)
			}
			for _, kind := range []string{"ip6tables", "iptables-nft"} {
				if _, err := os.Stat(filepath.Join(dir, kind)); err == nil && kind != kinds[0] {
					t.Errorf("the tables of %s were written", kind)
				}
			}
			links, err := os.ReadFile(filepath.Join(dir, "links"))
			if want := "link delete flannel.1\nlink delete tunl0\naddress flush dev tunl0\nlink set tunl0 down\n"; err != nil || string(links) != want {
				t.Errorf("%q, %v", links, err)
			}
		})
	}
}

// The probe counts the cluster's rules alone, names directories that have something in them, and ends with a line that says so.
func TestProbe(t *testing.T) {
	dir, full, bare := t.TempDir(), t.TempDir(), t.TempDir()
	for _, kind := range []string{"iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"} {
		stub(t, dir, kind+"-save", fmt.Sprintf("cat <<'END'\n%sEND\n", saved))
	}
	if err := os.WriteFile(filepath.Join(full, ".hidden"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "found")
	// The first process of a host is this one here, whose root and mounts any user may read.
	sh(t, dir, strings.ReplaceAll(probe, "/proc/1/", "/proc/self/"), out, rules, full, bare, "/not/there")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Plan{Prefix: "/"}.read(string(text))
	if err != nil || f.Rules != 4*4 || !slices.Equal(f.Directories, []string{full}) || !strings.Contains(string(text), "\nlink lo\n") {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestEmpty(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", ".hidden", "..odd", "-r", "with space"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, t.TempDir(), empty, dir, t.TempDir())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error(err)
	}
}
