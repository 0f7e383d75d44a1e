// Package image holds what the installer image of RKE2's stand-in is made of, and the test of its run.sh: it and
// installer.sh run for real in a directory that plays a host's root, with a systemctl that records how it was called.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	unitPath  = "usr/local/lib/systemd/system/rke2-server.service"
	stampPath = "var/lib/rancher/rke2/system-agent-installer/rke2_restart_stamp"
)

// host is a directory that plays a host: its root, the unpacked image, and programs that play others.
type host struct {
	*testing.T
	dir string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, dir: t.TempDir()}
	for _, script := range []string{"run.sh", "installer.sh"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		h.write("work/"+script, string(text))
	}
	h.release("one")
	// A call is recorded with the stamp of its moment; a unit is active when there is a file of its name.
	h.write("fake/systemctl", `#!/bin/sh
echo "$* stamp=$(cat "$STANDIN_ROOT/`+stampPath+`" 2>/dev/null)" >>"`+h.dir+`/calls"
case $1 in is-active) test -e "`+h.dir+`/active-$3" ;; esac
`)
	h.write("fake/mountpoint", "#!/bin/sh\ntest -e \""+h.dir+"/mounted\"\n")
	if err := os.MkdirAll(filepath.Join(h.dir, "root/usr/local"), 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// release puts a release whose program has the given text into the image.
func (h *host) release(program string) {
	h.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	files := map[string]string{"bin/rke2": program, "bin/rke2-killall.sh": "", "bin/rke2-uninstall.sh": ""}
	for _, unit := range []string{"rke2-server.service", "rke2-agent.service"} {
		text, err := os.ReadFile(unit)
		if err != nil {
			h.Fatal(err)
		}
		files["lib/systemd/system/"+unit] = string(text)
	}
	for name, text := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			h.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			h.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		h.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		h.Fatal(err)
	}
	h.write("work/rke2.linux-amd64.tar.gz", packed.String())
	h.write("work/rke2-images-core.linux-amd64.tar", "images of "+program)
	var sums strings.Builder
	for _, name := range []string{"rke2.linux-amd64.tar.gz", "rke2-images-core.linux-amd64.tar"} {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(h.read("work/"+name))), name)
	}
	h.write("work/sha256sum-amd64.txt", sums.String())
}

func (h *host) write(name, content string) {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		h.Fatal(err)
	}
}

// read returns a file's content, or nothing.
func (h *host) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.dir, name))
	return string(text)
}

// run runs run.sh and returns the calls of systemctl.
func (h *host) run(env ...string) (calls []string, err error) {
	h.Helper()
	os.Remove(filepath.Join(h.dir, "calls"))
	cmd := exec.Command("sh", "-c", "run.sh")
	cmd.Env = append([]string{
		"PATH=" + h.dir + "/fake:" + h.dir + "/work:/usr/bin:/bin", "CATTLE_AGENT_EXECUTION_PWD=" + h.dir + "/work",
		"STANDIN_ROOT=" + h.dir + "/root", "RESTART_STAMP=one", "RKE2_DATA_DIR=/var/lib/rancher/rke2", "SECRET_OF_THE_AGENT=no",
	}, env...)
	out, err := cmd.CombinedOutput()
	h.Logf("run.sh: %v\n%s", err, out)
	return strings.Split(strings.TrimSpace(h.read("calls")), "\n"), err
}

func (h *host) mustRun(env ...string) []string {
	h.Helper()
	calls, err := h.run(env...)
	if err != nil {
		h.Fatal(err)
	}
	return calls
}

// called says whether one of the calls begins so.
func called(calls []string, prefix string) bool {
	return slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(call, prefix) })
}

func TestRunInstalls(t *testing.T) {
	h := newHost(t)
	calls := h.mustRun("HTTPS_PROXY=http://proxy:3128")
	for name, want := range map[string]string{
		"root/usr/local/bin/rke2": "one", "root/" + stampPath: "one",
		"root/var/lib/rancher/rke2/agent/images/rke2-images-core.linux-amd64.tar": "images of one",
		"root/usr/local/lib/systemd/system/rke2-sa.env":                           "HTTPS_PROXY=http://proxy:3128\nRKE2_DATA_DIR=/var/lib/rancher/rke2\n",
	} {
		if got := h.read(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(h.dir, "root/usr/local/lib/systemd/system/rke2-sa.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("rke2-sa.env: %v, %v", info, err)
	}
	h.mustRun() // once more, over what is there
	if unit := h.read("root/" + unitPath); strings.Count(unit, "EnvironmentFile=-/usr/local/lib/systemd/system/rke2-sa.env\n") != 1 {
		t.Errorf("the unit is\n%s", unit)
	}
	// The stamp is written before the restart, and that is not waited for, as with the real one.
	want := []string{"daemon-reload stamp=", "daemon-reload stamp=one", "is-active --quiet rke2-agent stamp=one", "enable rke2-server stamp=one", "--no-block restart rke2-server stamp=one"}
	if !slices.Equal(calls, want) {
		t.Errorf("systemctl was called with %q, want %q", calls, want)
	}
}

func TestRunRestartsWhenSomethingIsNew(t *testing.T) {
	h := newHost(t)
	h.mustRun()
	for _, step := range []struct {
		name, env string
		restarts  bool
	}{
		{"nothing is new", "DRAIN_HASH=two", false},
		{"the stamp", "RESTART_STAMP=two", true},
		{"the same stamp", "RESTART_STAMP=two", false},
		{"no stamp", "RESTART_STAMP=", false},
		{"a variable of the service", "RKE2_DEBUG=true", true},
	} {
		if calls := h.mustRun(step.env); called(calls, "--no-block restart") != step.restarts {
			t.Errorf("%s: systemctl was called with %q", step.name, calls)
		}
	}
}

func TestRunReplacesTheProgram(t *testing.T) {
	h := newHost(t)
	h.mustRun()
	h.release("two")
	h.mustRun("RESTART_STAMP=two")
	if got := h.read("root/usr/local/bin/rke2") + ", " + h.read("root/var/lib/rancher/rke2/agent/images/rke2-images-core.linux-amd64.tar"); got != "two, images of two" {
		t.Errorf("installed is %q", got)
	}
}

func TestRunHeedsWhatIsAsked(t *testing.T) {
	for _, test := range []struct {
		name           string
		env            []string
		want, unwanted []string
	}{
		{"an agent", []string{"INSTALL_RKE2_EXEC=agent"}, []string{"enable rke2-agent", "--no-block restart rke2-agent"}, []string{"is-active", "enable rke2-server"}},
		{"the type counts more", []string{"INSTALL_RKE2_EXEC=agent", "INSTALL_RKE2_TYPE=server"}, []string{"enable rke2-server"}, []string{"enable rke2-agent"}},
		{"not to enable", []string{"INSTALL_RKE2_SKIP_ENABLE=true"}, []string{"daemon-reload"}, []string{"enable", "--no-block"}},
		{"not to start", []string{"INSTALL_RKE2_SKIP_START=true"}, []string{"enable rke2-server"}, []string{"--no-block"}},
	} {
		h := newHost(t)
		calls := h.mustRun(test.env...)
		for _, prefix := range test.want {
			if !called(calls, prefix) {
				t.Errorf("%s: %q is not among the calls %q", test.name, prefix, calls)
			}
		}
		for _, prefix := range test.unwanted {
			if called(calls, prefix) {
				t.Errorf("%s: %q is among the calls %q", test.name, prefix, calls)
			}
		}
	}
}

func TestRunMakesAServerOfAnAgent(t *testing.T) {
	h := newHost(t)
	h.write("active-rke2-agent", "")
	calls := h.mustRun()
	for _, prefix := range []string{"stop rke2-agent", "disable rke2-agent", "reset-failed rke2-agent"} {
		if !called(calls, prefix) {
			t.Errorf("%q is not among the calls %q", prefix, calls)
		}
	}
}

func TestRunLeavesAMountedPrefixAlone(t *testing.T) {
	h := newHost(t)
	h.write("mounted", "")
	h.mustRun()
	unit := h.read("root/etc/systemd/system/rke2-server.service")
	for _, line := range []string{"ExecStart=/opt/rke2/bin/rke2 server\n", "EnvironmentFile=-/etc/systemd/system/rke2-sa.env\n"} {
		if !strings.Contains(unit, line) {
			t.Errorf("%q is not in the unit\n%s", line, unit)
		}
	}
	if h.read("root/opt/rke2/bin/rke2") != "one" {
		t.Error("the program is not below /opt/rke2")
	}
	if err := filepath.WalkDir(filepath.Join(h.dir, "root/usr/local"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			t.Errorf("%s was written", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestRunRefusesADamagedRelease(t *testing.T) {
	h := newHost(t)
	h.write("work/rke2-images-core.linux-amd64.tar", "something else")
	if calls, err := h.run(); err == nil || h.read("root/"+stampPath) != "" || h.read("root/usr/local/bin/rke2") != "" {
		t.Errorf("%v, systemctl was called with %q", err, calls)
	}
}
