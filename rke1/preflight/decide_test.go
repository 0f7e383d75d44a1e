package preflight

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

func node(address string, roles ...string) config.Node {
	return config.Node{Address: address, InternalAddress: "10." + address, Role: roles}
}

func TestPortsThatHostsNeedOfEachOther(t *testing.T) {
	etcd, control, worker, all := node("e", "etcd"), node("c", "controlplane"), node("w", "worker"), node("a", "etcd", "controlplane", "worker")
	for name, c := range map[string]struct {
		from, to config.Node
		want     string
	}{
		"etcd to etcd":             {etcd, all, "2379 2380 6443"},
		"control plane to etcd":    {control, etcd, "2379"},
		"control plane to worker":  {control, worker, "10250"},
		"worker to control plane":  {worker, control, "6443"},
		"worker to etcd":           {worker, etcd, ""},
		"control plane to another": {control, control, ""},
		"all to all":               {all, all, "2379 2380 10250"},
	} {
		if got := strings.Join(needed(c.from, c.to), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOverlay(t *testing.T) {
	for name, c := range map[string]struct {
		network config.Network
		want    string
	}{
		"canal":                      {config.Network{Plugin: "canal"}, "8472"},
		"canal with another port":    {config.Network{Plugin: "canal", Options: map[string]string{"canal_flannel_backend_port": "4789"}}, "4789"},
		"flannel, vxlan":             {config.Network{Plugin: "flannel", Options: map[string]string{"flannel_backend_type": "vxlan"}}, "8472"},
		"flannel without an overlay": {config.Network{Plugin: "flannel", Options: map[string]string{"flannel_backend_type": "host-gw"}}, ""},
		"calico":                     {config.Network{Plugin: "calico"}, ""},
		"none":                       {config.Network{Plugin: "none"}, ""},
	} {
		if got := overlay(c.network); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// kubelet is a host whose kubelet should have some binds.
func kubelet(root string, binds ...string) *Host {
	return &Host{
		Host: &onhost.Host{Info: system.Info{DockerRootDir: root}}, Node: node("1", "worker"),
		Wanted: desired.Host{Containers: []desired.Container{{Process: nodeconfig.Process{Name: desired.Kubelet, Binds: binds}, Plane: config.RoleWorker}}},
	}
}

func TestMountsThatAStartingKubeletWouldTakeFromItsHost(t *testing.T) {
	for name, c := range map[string]struct {
		host *Host
		want []string
	}{
		"as RKE1 has them":            {kubelet("/var/lib/docker", "/var/lib/docker:/var/lib/docker:rw,rslave", "/var/lib/kubelet:/var/lib/kubelet:shared", "/run:/run:rprivate"), nil},
		"shared below Docker's root":  {kubelet("/data/docker", "/data/docker/csi:/data/docker/csi:rw,rshared"), []string{"/data/docker/csi:/data/docker/csi:rw,rshared"}},
		"a neighbour of Docker's":     {kubelet("/data/docker", "/data/docker2:/data/docker2:shared"), nil},
		"shared below /run":           {kubelet("/var/lib/docker", "/run/csi:/run/csi:shared"), []string{"/run/csi:/run/csi:shared"}},
		"at another place inside":     {kubelet("/var/lib/docker", "/run/csi:/csi:shared"), nil},
		"Docker's root around it all": {kubelet("/data", "/data/var/lib/kubelet:/data/var/lib/kubelet:shared"), []string{"/data/var/lib/kubelet:/data/var/lib/kubelet:shared"}},
	} {
		if diff := cmp.Diff(c.want, unmounted(c.host)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	var said []string
	check := Check{Config: &config.Cluster{}, Warn: func(text string) { said = append(said, text) }}
	bad := kubelet("/var/lib/docker", "/run/csi:/run/csi:shared")
	check.Hosts = []*Host{bad}
	if err := check.Settings(); err != nil || len(said) != 1 || !strings.Contains(said[0], "host 1: ") || !strings.Contains(said[0], "extra_binds") {
		t.Errorf("a host that has it already: %v, %q", err, said)
	}
	bad.New = true
	if err := check.Settings(); err == nil || !strings.Contains(err.Error(), "/run/csi:/run/csi:shared") {
		t.Errorf("a new host: %v", err)
	}
}

func TestAKubeletThatWouldLoseItsDirectory(t *testing.T) {
	yes, no := true, false
	label := map[string]string{nodeconfig.Label: desired.Kubelet}
	words := func(dir string) []string {
		return []string{"/opt/rke-tools/entrypoint.sh", "kubelet", "--root-dir=" + dir}
	}
	for name, c := range map[string]struct {
		found nodeconfig.Container
		will  string
		drain *bool
		want  bool // refused
	}{
		"the same":         {nodeconfig.Container{Entrypoint: words("/var/lib/kubelet"), Labels: label}, "/var/lib/kubelet", nil, false},
		"the same, but /":  {nodeconfig.Container{Entrypoint: words("/var/lib/kubelet/"), Labels: label}, "/var/lib/kubelet", nil, false},
		"another":          {nodeconfig.Container{Entrypoint: words("/var/lib/kubelet"), Labels: label}, "/opt/rke/var/lib/kubelet", nil, true},
		"not drained":      {nodeconfig.Container{Entrypoint: words("/var/lib/kubelet"), Labels: label}, "/opt/rke/var/lib/kubelet", &no, true},
		"drained before":   {nodeconfig.Container{Entrypoint: words("/var/lib/kubelet"), Labels: label}, "/opt/rke/var/lib/kubelet", &yes, false},
		"an agent's":       {nodeconfig.Container{Cmd: words("/srv/kubelet"), Labels: label}, "/var/lib/kubelet", nil, true},
		"somebody else's":  {nodeconfig.Container{Entrypoint: words("/srv/kubelet")}, "/var/lib/kubelet", nil, false},
		"one without":      {nodeconfig.Container{Labels: label}, "/var/lib/kubelet", nil, false},
		"not there at all": {nodeconfig.Container{Name: "other"}, "/var/lib/kubelet", nil, false},
	} {
		h := kubelet("/var/lib/docker")
		h.Wanted.Containers[0].Command = words(c.will)
		if c.found.Name == "" {
			c.found.Name = desired.Kubelet
		}
		h.Found = []nodeconfig.Container{c.found}
		check := Check{Config: &config.Cluster{UpgradeStrategy: &config.UpgradeStrategy{Drain: c.drain}}, Hosts: []*Host{h}}
		err := check.Settings()
		if (err != nil) != c.want || err != nil && (!strings.Contains(err.Error(), c.will) || !strings.Contains(err.Error(), "root-dir")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStream(t *testing.T) {
	h := kubelet("/var/lib/docker")
	env := &h.Wanted.Containers[0].Env
	for _, c := range []struct{ env, want string }{
		{"", ""}, {"RKE_KUBELET_CRIDOCKERD=true", "127.0.0.1:10010"},
		{"RKE_KUBELET_CRIDOCKERD=true CRIDOCKERD_STREAM_SERVER_PORT=10011", "127.0.0.1:10011"},
		{"RKE_KUBELET_CRIDOCKERD=true CRIDOCKERD_STREAM_SERVER_ADDRESS=::1 CRIDOCKERD_STREAM_SERVER_PORT=7", net.JoinHostPort("::1", "7")},
	} {
		*env = strings.Fields(c.env)
		if got := stream(h); got != c.want {
			t.Errorf("%s: %s, want %s", c.env, got, c.want)
		}
	}
}

// The scripts run in shells of images; here they run in this machine's, with an nc that answers for some hosts.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	const nc = "#!/bin/sh\ncase \"$*\" in *good*) cat; exit 0;; esac\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "nc"), []byte(nc), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script string
		args   []string
		want   string
	}{
		"connections": {knock, []string{"good", "1", "bad", "2", "bad", "3", "good", "4"}, "bad:2\nbad:3\n"},
		"datagrams":   {call, []string{"0", "good", "1", "bad", "2", "good", "4"}, "bad:2/udp\n"},
		"nobody":      {bound, []string{"0001", "1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command("sh", append([]string{"-c", c.script, name}, c.args...)...)
			command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			out, err := command.Output()
			if err != nil || string(out) != c.want {
				t.Errorf("%q, %v, want %q", out, err, c.want)
			}
		})
	}
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	out, err := exec.Command("sh", "-c", bound, "bound", hexadecimal(port), port).Output()
	if err != nil || !strings.HasPrefix(string(out), "taken\n") {
		t.Errorf("a port that is bound: %q, %v", out, err)
	}
}
