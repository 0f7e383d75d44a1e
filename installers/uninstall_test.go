package installers_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/runtimes"
)

// absolute matches the beginning of each path of the host that a script names.
var absolute = regexp.MustCompile(`([\s"<=]|^)(/(?:etc|opt|proc|run|sys|usr|var)/)`)

// host is a directory that scripts take for the root of a host, with programs of its own.
type host struct {
	*testing.T
	root string
}

// programs are what the host has on its PATH. A file of its name in state/ says what is the case: active/UNIT that a unit
// runs, busy/NAME that a mount point cannot be unmounted. What is mounted is in proc/self/mounts; unmounting puts it
// into gone/, where its content is seen to be whole.
var programs = map[string]string{
	"systemctl": `echo "systemctl $*" >>$ROOT/calls
case $1 in
is-active) [ -e "$ROOT/active/$3" ] ;;
show) cat "$ROOT/show/$3" 2>/dev/null ;;
esac`,
	// Its last word is in armed/, to be run when the time has come; systemd replaces what stands behind a $.
	"systemd-run": `echo "systemd-run $*" >>$ROOT/calls
for word; do last=$word; done
mkdir -p $ROOT/armed
printf '%s' "$last" | sed 's/[$][A-Za-z0-9_{][A-Za-z0-9_}]*//g' >$ROOT/armed/removal`,
	"umount": `[ "$1" = -l ] && shift
echo "umount $1" >>$ROOT/calls
[ ! -e "$ROOT/busy/$(basename "$1")" ] || exit 1
mkdir -p $ROOT/gone "$1"
mv "$1" "$ROOT/gone/$(basename "$1")" && mkdir "$1"
escaped=$(printf '%s' "$1" | sed 's/ /\\040/g')
grep -vF " $escaped " $ROOT/proc/self/mounts >$ROOT/mounts.new
mv $ROOT/mounts.new $ROOT/proc/self/mounts`,
	"ip": `[ "$1 $2" = "link delete" ] && rm $ROOT/sys/class/net/$3`,
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t, t.TempDir()}
	h.write("proc/self/mounts", "proc /proc proc rw 0 0\n", 0o644)
	h.write("proc/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n", 0o644)
	h.write("etc/hostname", "pier-1\n", 0o644)
	h.write("var/log/syslog", "a line\n", 0o644)
	for name, text := range programs {
		h.write("path/"+name, "#!/bin/sh\nROOT="+h.root+"\n"+text+"\n", 0o755)
	}
	return h
}

func (h *host) write(name, content string, mode fs.FileMode) {
	h.Helper()
	name = filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		h.Fatal(err)
	}
}

// script puts a script of the distribution on the host.
func (h *host) script(name, text string) {
	h.Helper()
	h.write(name, h.rooted("#!/bin/sh\n"+text+"\n"), 0o755)
}

func (h *host) rooted(text string) string {
	return absolute.ReplaceAllString(text, "${1}"+h.root+"${2}")
}

// mount makes a mount point with a file in it.
func (h *host) mount(at string) {
	h.Helper()
	h.write(at+"/theirs", "keep this", 0o644)
	mounts := h.read("proc/self/mounts")
	h.write("proc/self/mounts", mounts+"/dev/sdx "+strings.ReplaceAll(filepath.Join(h.root, at), " ", `\040`)+" ext4 rw 0 0\n", 0o644)
}

func (h *host) read(name string) string {
	h.Helper()
	b, err := os.ReadFile(filepath.Join(h.root, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.Fatal(err)
	}
	return string(b)
}

func (h *host) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(h.root, name))
	return err == nil
}

// run performs the command of an instruction on the host.
func (h *host) run(command string, args []string) (string, error) {
	rooted := make([]string, len(args))
	for i, arg := range args {
		rooted[i] = h.rooted(arg)
	}
	cmd := exec.CommandContext(h.Context(), command, rooted...)
	cmd.Env = []string{"PATH=" + filepath.Join(h.root, "path") + ":/usr/sbin:/usr/bin:/sbin:/bin", "TZ=UTC", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// uninstall performs the instruction.
func (h *host) uninstall(d installers.Distribution, server, agent bool) (string, error) {
	in := d.Uninstall(d.DefaultDataDir(), server, agent)[0]
	return h.run(in.Command, in.Args)
}

// install puts on the host what an installed distribution leaves there. Its uninstaller removes what it knows of, and
// /var/lib/kubelet without looking for mounts.
func (h *host) install(d installers.Distribution, server bool) {
	h.Helper()
	uninstaller := d.AgentUninstall
	if server {
		uninstaller = d.ServerUninstall
	}
	h.script("usr/local/bin/"+d.KillAll, "rm -rf /run/k3s")
	h.script("usr/local/bin/"+uninstaller, "/usr/local/bin/"+d.KillAll+"\nrm -rf /etc/rancher/"+d.Name+" /var/lib/kubelet\nrm -f /usr/local/bin/"+d.Name+" /usr/local/bin/"+d.KillAll+" \"$0\"")
	for _, name := range []string{
		"usr/local/bin/" + d.Name, "etc/rancher/" + d.Name + "/config.yaml.d/50-rancher.yaml", "etc/rancher/node/password", "etc/rancher/agent/registries.yaml",
		"var/lib/rancher/" + d.Name + "/server/token", "var/lib/rancher/capr/idempotence/x", "var/lib/kubelet/config.yaml", "var/lib/cni/results/x",
		"run/k3s/containerd/containerd.sock", "run/nri/nri.sock", "run/containerd/s/a", "run/containerd/runc/k8s.io/a/state.json", "run/flannel/subnet.env", "var/log/pods/a/0.log", "var/log/containers/a.log", "sys/class/net/cni0", "sys/class/net/flannel.1", "sys/class/net/eth0",
	} {
		h.write(name, "x", 0o644)
	}
}

// leftovers are what is on the host and is not the host's own.
func (h *host) leftovers() []string {
	h.Helper()
	var left []string
	for _, top := range []string{"etc", "opt", "run", "sys", "usr", "var"} {
		err := filepath.WalkDir(filepath.Join(h.root, top), func(name string, d fs.DirEntry, err error) error {
			name = strings.TrimPrefix(name, h.root+"/")
			if err == nil && !d.IsDir() && name != "etc/hostname" && name != "var/log/syslog" && name != "sys/class/net/eth0" {
				left = append(left, name)
			}
			return nil
		})
		if err != nil {
			h.Fatal(err)
		}
	}
	return left
}

func TestUninstallLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      installers.Distribution
		server bool
	}{
		{"a k3s server", runtimes.K3s(), true}, {"a k3s agent", runtimes.K3s(), false},
		{"an RKE2 server", runtimes.RKE2(), true}, {"an RKE2 agent", runtimes.RKE2(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.install(c.d, c.server)
			for again := range 2 {
				if out, err := h.uninstall(c.d, c.server, false); err != nil {
					t.Fatalf("run %d: %v\n%s", again, err, out)
				}
				if left := h.leftovers(); len(left) > 0 {
					t.Errorf("run %d leaves %q", again, left)
				}
			}
			if h.exists("var/lib/rancher") || h.exists("etc/rancher") || h.exists("run/containerd") || h.exists("run/nri") || !h.exists("sys/class/net/eth0") {
				t.Error("an empty directory stays, or too much is gone")
			}
		})
	}
}

// TestUninstallNeverRemovesWhatIsMounted: not by itself, and not by the distribution's uninstaller.
func TestUninstallNeverRemovesWhatIsMounted(t *testing.T) {
	h := newHost(t)
	h.install(runtimes.K3s(), true)
	h.mount("var/lib/kubelet/plugins/their volume")
	h.mount("var/lib/rancher/k3s/storage/disk")
	h.mount("var/lib/rancher/k3s/storage/disk/inner")
	if out, err := h.uninstall(runtimes.K3s(), true, false); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"their volume", "disk", "inner"} {
		if got := h.read("gone/" + name + "/theirs"); got != "keep this" {
			t.Errorf("of what was mounted at %s there is %q", name, got)
		}
	}
	if left := h.leftovers(); len(left) > 0 {
		t.Errorf("it leaves %q", left)
	}
}

func TestUninstallFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		says   string
		stays  string
	}{
		{"an uninstaller that fails", func(h *host) { h.script("usr/local/bin/k3s-uninstall.sh", "exit 7") }, "k3s-uninstall.sh failed with 7", "var/lib/rancher/k3s/server/token"},
		{"a service that still runs", func(h *host) { h.write("active/k3s", "", 0o644) }, "k3s still runs", "var/lib/rancher/k3s/server/token"},
		{"a mount of a pod that cannot be unmounted", func(h *host) { h.mount("var/lib/kubelet/pods/vol"); h.write("busy/vol", "", 0o644) }, "/var/lib/kubelet stays", "var/lib/kubelet/pods/vol/theirs"},
		{"a disk that cannot be unmounted", func(h *host) { h.mount("var/lib/rancher/k3s/disk"); h.write("busy/disk", "", 0o644) }, "/var/lib/rancher/k3s stays", "var/lib/rancher/k3s/disk/theirs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.install(runtimes.K3s(), true)
			c.change(h)
			out, err := h.uninstall(runtimes.K3s(), true, false)
			if err == nil || !strings.Contains(out, c.says) || !h.exists(c.stays) {
				t.Errorf("err = %v, %s there: %v; it says %s", err, c.stays, h.exists(c.stays), out)
			}
		})
	}
}

// TestUninstallKeepsAnothersContainerd: of another containerd the sockets stay on which a program listens, and the state
// of its containers while they run; of other namespaces in any case.
func TestUninstallKeepsAnothersContainerd(t *testing.T) {
	for _, running := range []bool{true, false} {
		h := newHost(t)
		h.install(runtimes.RKE2(), true)
		h.write("run/containerd/s/theirs", "", 0o644)
		h.write("run/containerd/runc/moby/b/state.json", "{}", 0o644)
		h.write("proc/net/unix", h.rooted("Num Path\n0: 2 0 10000 1 1 7 /run/nri/nri.sock\n1: 2 0 10000 1 1 8 /run/containerd/s/theirs\n"), 0o644)
		h.write("proc/7/cmdline", "containerd-shim-runc-v2\x00-namespace\x00moby\x00", 0o644)
		want := []string{"run/containerd/runc/moby/b/state.json", "run/containerd/s/theirs", "run/nri/nri.sock"}
		if running {
			h.write("proc/8/cmdline", "containerd-shim-runc-v2\x00-namespace\x00k8s.io\x00-id\x00c\x00", 0o644)
			want = slices.Insert(want, 0, "run/containerd/runc/k8s.io/a/state.json")
		}
		if out, err := h.uninstall(runtimes.RKE2(), true, false); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if diff := cmp.Diff(want, h.leftovers()); diff != "" {
			t.Errorf("while containers of Kubernetes run = %t: %s", running, diff)
		}
	}
}

// TestUninstallRemovesEmptyDirectories that came with the distribution, and no other's.
func TestUninstallRemovesEmptyDirectories(t *testing.T) {
	h := newHost(t)
	h.install(runtimes.RKE2(), true)
	for _, dir := range []string{"usr/local/lib/systemd/system", "usr/local/lib/theirs", "opt/rke2/lib/systemd/system", "opt/theirs"} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.write("usr/lib/systemd/system/theirs.service", "", 0o644)
	h.write("opt/rke2/bin/theirs", "", 0o644)
	if out, err := h.uninstall(runtimes.RKE2(), true, false); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]bool{
		"usr/local/lib/systemd": false, "usr/local/lib/theirs": true, "opt/rke2/lib": false, "opt/rke2/bin/theirs": true, "opt/theirs": true,
		"usr/lib/systemd/system/theirs.service": true,
	} {
		if h.exists(name) != want {
			t.Errorf("%s is there: %t", name, !want)
		}
	}
}

// TestUninstallOfWhatWasNeverInstalled leaves another's kubelet alone.
func TestUninstallOfWhatWasNeverInstalled(t *testing.T) {
	h := newHost(t)
	h.write("var/lib/kubelet/config.yaml", "another's", 0o644)
	h.write("sys/class/net/cni0", "another's", 0o644)
	h.write("etc/rancher/rke2/config.yaml.d/50-rancher.yaml", "ours", 0o644)
	if out, err := h.uninstall(runtimes.RKE2(), true, false); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !h.exists("var/lib/kubelet/config.yaml") || !h.exists("sys/class/net/cni0") || h.exists("etc/rancher/rke2") {
		t.Error("it removes what is not its own, or leaves what is")
	}
}

func TestUninstallWithTheAgent(t *testing.T) {
	h := newHost(t)
	const own = "usr/local/bin/rancher-system-agent-uninstall.sh"
	if out, err := h.uninstall(runtimes.K3s(), false, true); err != nil || !strings.Contains(out, "the agent stays") {
		t.Errorf("without its uninstaller: %v %s", err, out)
	}
	h.script(own, "")
	if out, err := h.uninstall(runtimes.K3s(), false, true); err != nil || !strings.Contains(out, "removed in a minute") {
		t.Errorf("%v %s", err, out)
	}
	if calls := h.read("calls"); !strings.Contains(calls, "systemd-run --collect --unit=rancher-system-agent-removal --on-active=60s "+h.root+"/"+own) {
		t.Error(calls)
	}
}

// TestRemovalOfTheAgentIsStillMeant: a minute later the agent goes if it is registered as it was, and stays where the host
// was registered again.
func TestRemovalOfTheAgentIsStillMeant(t *testing.T) {
	const (
		info = "var/lib/rancher/elsewhere/rancher2_connection_info.json"
		sum  = "run/rancher-system-agent-removal.sum"
	)
	for _, c := range []struct {
		name    string
		change  func(*host)
		removed bool
	}{
		{"nothing happened", func(*host) {}, true},
		{"registered again", func(h *host) { h.write(info, `{"token":"of the new machine"}`, 0o600) }, false},
		{"install.sh ended the removal", func(h *host) {
			if err := os.Remove(filepath.Join(h.root, sum)); err != nil {
				h.Fatal(err)
			}
		}, false},
		{"ordered twice", func(h *host) {
			if out, err := h.uninstall(runtimes.RKE2(), true, true); err != nil {
				h.Fatalf("%v\n%s", err, out)
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.script("usr/local/bin/rancher-system-agent-uninstall.sh", "echo removed >>"+h.root+"/removed")
			h.write("etc/systemd/system/rancher-system-agent.service", h.rooted("[Service]\nEnvironment=CATTLE_AGENT_CONFIG=/var/lib/rancher/system-agent/etc/config.yaml\n"), 0o644)
			h.write("var/lib/rancher/system-agent/etc/config.yaml", h.rooted("connectionInfoFile: /"+info+"\n"), 0o600)
			h.write(info, `{"token":"of the old machine"}`, 0o600)
			h.write("run/utmp", "", 0o644)
			if out, err := h.uninstall(runtimes.RKE2(), true, true); err != nil || !strings.Contains(out, "removed in a minute") {
				t.Fatalf("%v\n%s", err, out)
			}
			c.change(h)
			out, err := h.run("/bin/sh", []string{"-c", strings.ReplaceAll(h.read("armed/removal"), h.root, "")})
			if removed := h.exists("removed"); err != nil || removed != c.removed {
				t.Errorf("removed = %t, %v: %s", removed, err, out)
			}
			if !c.removed && !strings.Contains(out, "registered again, so the agent stays") {
				t.Errorf("it says %s", out)
			}
			if h.exists(sum) {
				t.Error(sum + " stays")
			}
			if calls := h.read("calls"); !strings.Contains(calls, "systemctl stop rancher-system-agent-removal.timer") {
				t.Error(calls)
			}
		})
	}
}

func TestRestartCheckRestartsWhatIsOlderThanItsInstallation(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, state string
		started     time.Time // zero is one that systemd does not know
		stamp       bool
		restart     bool
	}{
		{"no installation", "active", noon.Add(-time.Hour), false, false},
		{"started before", "active", noon.Add(-time.Second), true, true},
		{"started after", "active", noon.Add(time.Second), true, false},
		{"in the same second", "active", noon, true, false},
		{"starting", "activating", noon.Add(-time.Hour), true, false},
		{"without a time", "active", time.Time{}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			check := runtimes.RKE2().Install("image", "stamp", "hash", "/var/lib/rancher/rke2", true, nil)[1]
			if c.stamp {
				const file = "var/lib/rancher/rke2/system-agent-installer/rke2_restart_stamp"
				h.write(file, "stamp", 0o600)
				if err := os.Chtimes(filepath.Join(h.root, file), noon, noon); err != nil {
					t.Fatal(err)
				}
			}
			h.write("show/ActiveState", c.state+"\n", 0o644)
			if !c.started.IsZero() {
				h.write("show/ExecMainStartTimestamp", c.started.Format("Mon 2006-01-02 15:04:05 MST")+"\n", 0o644)
			}
			if out, err := h.run(check.Command, check.Args); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := strings.Contains(h.read("calls"), "systemctl --no-block restart rke2-server"); got != c.restart {
				t.Errorf("restart = %v, want %v", got, c.restart)
			}
		})
	}
}
