package packaging

// The image's run.sh, in a chroot that is laid out as the image is, with a host mounted below it that is a
// directory: both made of busybox. kubectl and systemctl there are stand-ins.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/skips"
)

const nodeYAML = `apiVersion: v1
kind: Node
metadata:
  annotations:
    node-role.kubernetes.io/worker: "true"
  labels:
    kubernetes.io/hostname: node-1
    node-role.kubernetes.io/control-plane: "true"
    node-role.kubernetes.io/etcd: "true"
    node-role.kubernetes.io/worker: "false"
  name: node-1
`

// pod is the file system of a Job's container; host is that of its host.
type pod struct {
	t          *testing.T
	root, host string
}

func newPod(t *testing.T) *pod {
	t.Helper()
	if os.Geteuid() != 0 {
		skips.Skip(t, "chroot needs root")
	}
	busybox := requireTool(t, "busybox")
	if out, err := exec.Command("chroot", "/", "true").CombinedOutput(); err != nil {
		skips.Skipf(t, "chroot does not work here: %v: %s", err, out)
	}
	root := t.TempDir()
	p := &pod{t: t, root: root, host: root + "/host"}
	for _, at := range []string{p.root, p.host} {
		for _, dir := range []string{"bin", "tmp", "dev", "etc/systemd/system", "proc", "usr/local"} {
			if err := os.MkdirAll(at+"/"+dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p.copy(busybox, at+"/bin/busybox")
		for applet := range strings.FieldsSeq("sh cat chmod chown chroot cp cut dirname env grep head id ln ls mkdir mktemp mv od printf rm sed sha256sum sleep sync tail touch tr uname wc") {
			if err := os.Symlink("busybox", at+"/bin/"+applet); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mknod(at+"/dev/null", syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			p.write(at+"/dev/null", "", 0o666)
		}
	}
	p.write(p.host+"/proc/uptime", "100.0 1.0\n", 0o644)
	p.write(p.host+"/bin/curl", "#!/bin/sh\nexit 2\n", 0o755)
	p.write(p.host+"/bin/systemctl", `#!/bin/sh
case $1 in is-active) echo inactive; exit 3 ;; --version) echo "systemd 252" ;; *) echo "$*" >>/systemctl.log; env >/environment ;; esac
`, 0o755)
	suc := p.root + "/opt/rancher-system-agent-suc/"
	for file, source := range map[string]string{
		"run.sh": "suc/run.sh", "install.sh": installScript, "system-agent-uninstall.sh": uninstallScript, "rancher-system-agent": agentBinary,
	} {
		p.copy(source, suc+file)
	}
	return p
}

func (p *pod) write(path, content string, mode os.FileMode) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pod) copy(from, to string) {
	p.t.Helper()
	p.write(to, string(readFile(from)), 0o755)
}

// run runs the Job's command without a server, which needs no network.
func (p *pod) run(env ...string) (out string, err error) {
	p.t.Helper()
	cmd := exec.Command("chroot", p.root, "/opt/rancher-system-agent-suc/run.sh")
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "CATTLE_REMOTE_ENABLED=false", "CATTLE_LOCAL_ENABLED=true"}, env...)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

func (p *pod) mustRun(env ...string) {
	p.t.Helper()
	if out, err := p.run(env...); err != nil {
		p.t.Fatalf("run.sh: %v\n%s", err, out)
	}
}

// saw are the variables of some names that the host's side saw.
func (p *pod) saw(names ...string) map[string]string {
	p.t.Helper()
	seen := map[string]string{}
	for line := range strings.Lines(string(readFile(p.host + "/environment"))) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		for _, wanted := range names {
			if name == wanted {
				seen[name] = value
			}
		}
	}
	return seen
}

func TestUpgradeControllerInstallsAndRemoves(t *testing.T) {
	p := newPod(t)
	p.mustRun()
	if string(readFile(p.host+agentPath)) != string(readFile(agentBinary)) {
		t.Error("another agent than the image's is installed")
	}
	for _, file := range []string{unitFile, agentPath + "-uninstall.sh", "/var/lib/rancher/system-agent/etc/config.yaml"} {
		if _, err := os.Stat(p.host + file); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(p.host + "/var/lib/rancher/agent/tmp")
	if err != nil || len(left) > 0 {
		t.Errorf("left in the host's temporary directory: %v, %v", left, err)
	}
	p.mustRun("UNINSTALL=true")
	for _, file := range []string{agentPath, unitFile, "/var/lib/rancher/agent"} {
		if _, err := os.Lstat(p.host + file); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", file, err)
		}
	}
	// Again, as a controller may.
	p.mustRun("UNINSTALL=true")
}

func TestUpgradeControllerReadsTheRolesOfTheNode(t *testing.T) {
	all := []string{"CATTLE_NODE_NAME", "CATTLE_ROLE_ETCD", "CATTLE_ROLE_CONTROLPLANE", "CATTLE_ROLE_WORKER"}
	tests := []struct {
		name string
		env  []string
		want map[string]string
	}{
		{"not asked", nil, map[string]string{}},
		{"asked", []string{"SYSTEM_UPGRADE_NODE_NAME=node-1"}, map[string]string{
			"CATTLE_NODE_NAME": "node-1", "CATTLE_ROLE_ETCD": "true", "CATTLE_ROLE_CONTROLPLANE": "true",
		}},
		{"set already", []string{"SYSTEM_UPGRADE_NODE_NAME=node-1", "CATTLE_ROLE_ETCD=false", "CATTLE_ROLE_WORKER=true"}, map[string]string{
			"CATTLE_NODE_NAME": "node-1", "CATTLE_ROLE_ETCD": "false", "CATTLE_ROLE_CONTROLPLANE": "true", "CATTLE_ROLE_WORKER": "true",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPod(t)
			p.write(p.root+"/bin/kubectl", "#!/bin/sh\n# stand-in of kubectl\n[ \"$*\" = 'get node node-1 -o yaml' ] || exit 1\ncat <<'Y'\n"+nodeYAML+"Y\n", 0o755)
			p.mustRun(tt.env...)
			if diff := cmp.Diff(tt.want, p.saw(all...)); diff != "" {
				t.Errorf("the host's side saw (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the cluster does not say", func(t *testing.T) {
		p := newPod(t)
		p.write(p.root+"/bin/kubectl", "#!/bin/sh\n# stand-in of kubectl\nexit 1\n", 0o755)
		if out, err := p.run("SYSTEM_UPGRADE_NODE_NAME=node-1"); err == nil || !strings.Contains(out, "cannot read the node node-1") {
			t.Errorf("%v: %s", err, out)
		}
		if _, err := os.Stat(p.host + agentPath); err == nil {
			t.Error("something was installed")
		}
	})
}

func TestUpgradeControllerKeepsTheHostsEnvironment(t *testing.T) {
	p := newPod(t)
	p.write(p.host+envFile, `# HTTP_PROXY=http://comment:1
HTTP_PROXY=http://user:a=b=c@proxy:3128
NO_PROXY="127.0.0.1, 10.0.0.0/8"
HTTPS_PROXY=http://host:1
QUOTED="a \"b\" \\ \$c"
SINGLE='a "b" $c'
BLANKS=  two words
EMPTY=
no name=x
1ST=x
PATH=/elsewhere
LAST=$(touch /touched)`, 0o600)
	p.mustRun("HTTPS_PROXY=http://mine:2", "NO_SUCH=")
	want := map[string]string{
		"HTTP_PROXY": "http://user:a=b=c@proxy:3128", "NO_PROXY": "127.0.0.1, 10.0.0.0/8", "HTTPS_PROXY": "http://mine:2",
		"QUOTED": `a "b" \ $c`, "SINGLE": `a "b" $c`, "BLANKS": "  two words", "EMPTY": "", "LAST": "$(touch /touched)",
	}
	names := []string{"1ST"}
	for name := range want {
		names = append(names, name)
	}
	if diff := cmp.Diff(want, p.saw(names...)); diff != "" {
		t.Errorf("the host's side saw (-want +got):\n%s", diff)
	}
	for _, touched := range []string{p.root + "/touched", p.host + "/touched"} {
		if _, err := os.Stat(touched); err == nil {
			t.Error("a value was executed")
		}
	}
}

func TestUpgradeControllerWithoutAHost(t *testing.T) {
	p := newPod(t)
	if err := os.RemoveAll(p.host + "/etc"); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run(); err == nil || !strings.Contains(out, "/host is not the root of a host") {
		t.Errorf("%v: %s", err, out)
	}
}
