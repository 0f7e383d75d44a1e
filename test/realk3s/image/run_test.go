// Package image holds run.sh of the installer image and its test: it runs for real in a directory of its own, with an
// installer.sh that records how it was called.
package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host is a directory that plays a host, and the unpacked image in it.
type host struct {
	*testing.T
	dir string
}

// newHost makes one whose installer.sh runs the given lines after it has recorded its call.
func newHost(t *testing.T, installer string) *host {
	t.Helper()
	h := &host{T: t, dir: t.TempDir()}
	run, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	h.write("work/run.sh", string(run))
	h.write("work/k3s", "binary one")
	h.write("work/installer.sh", `echo "force=${INSTALL_K3S_FORCE_RESTART:-} skip=$INSTALL_K3S_SKIP_DOWNLOAD,$INSTALL_K3S_SKIP_SELINUX_RPM,$INSTALL_K3S_SELINUX_WARN binary=$(tail -n 1 "$INSTALL_K3S_BIN_DIR/k3s") stamp=$(cat "$K3S_DATA_DIR/restart_stamp" 2>/dev/null)" >>"`+h.dir+`/calls"
`+installer)
	h.write("fake/journalctl", `cat "`+h.dir+`/journal"`)
	h.write("journal", "")
	return h
}

func (h *host) write(name, content string) {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+content), 0o755); err != nil {
		h.Fatal(err)
	}
}

// run runs run.sh and returns the calls of installer.sh.
func (h *host) run(env ...string) (calls []string, err error) {
	h.Helper()
	os.Remove(filepath.Join(h.dir, "calls"))
	cmd := exec.Command("sh", "-c", "run.sh")
	cmd.Env = append([]string{
		"PATH=" + h.dir + "/fake:" + h.dir + "/work:/usr/bin:/bin", "CATTLE_AGENT_EXECUTION_PWD=" + h.dir + "/work",
		"INSTALL_K3S_BIN_DIR=" + h.dir + "/bin", "K3S_DATA_DIR=" + h.dir + "/data", "RESTART_STAMP=one", "RETRY_SECONDS=0",
	}, env...)
	out, err := cmd.CombinedOutput()
	h.Logf("run.sh: %v\n%s", err, out)
	text, readErr := os.ReadFile(filepath.Join(h.dir, "calls"))
	if readErr == nil {
		calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return calls, err
}

func (h *host) stamp() string {
	text, _ := os.ReadFile(filepath.Join(h.dir, "data/restart_stamp"))
	return string(text)
}

func TestRunInstalls(t *testing.T) {
	h := newHost(t, "")
	calls, err := h.run()
	if err != nil || len(calls) != 1 {
		t.Fatalf("%v: %q", err, calls)
	}
	// The binary stands before the script compares it; the stamp is written after it.
	if want := "force=true skip=true,true,true binary=binary one stamp="; !strings.HasPrefix(calls[0], want) {
		t.Errorf("called with %q, want %q…", calls[0], want)
	}
	if strings.Contains(strings.Join(calls, "\n"), "stamp=one") || h.stamp() != "one" {
		t.Errorf("the stamp is %q, and during the call %q", h.stamp(), calls)
	}
	config, err := os.ReadFile(filepath.Join(h.dir, "data/agent/etc/kubelet.conf.d/50-test.conf"))
	if err != nil || !strings.HasPrefix(string(config), "apiVersion: ") || !strings.Contains(string(config), "\nevictionHard: {") {
		t.Errorf("the kubelet is told %q, %v", config, err)
	}
}

func TestRunRestartsForANewStampOnly(t *testing.T) {
	h := newHost(t, "")
	for _, step := range []struct{ stamp, want string }{{"one", "force=true "}, {"one", "force= "}, {"two", "force=true "}} {
		calls, err := h.run("RESTART_STAMP=" + step.stamp)
		if err != nil || len(calls) == 0 || !strings.HasPrefix(calls[0], step.want) {
			t.Errorf("stamp %s: %v, called with %q, want %q", step.stamp, err, calls, step.want)
		}
	}
}

func TestRunFails(t *testing.T) {
	h := newHost(t, "exit 7")
	if calls, err := h.run(); err == nil || len(calls) == 0 || h.stamp() != "" {
		t.Errorf("a failed installation: %v, stamp %q", err, h.stamp())
	}
}

func TestRunTriesAgainForALearner(t *testing.T) {
	const third = `test "$(wc -l <"$INSTALL_K3S_BIN_DIR/../calls")" -ge 3`
	h := newHost(t, third)
	h.write("journal", "etcdserver: too many learner members in cluster\n")
	calls, err := h.run()
	if err != nil || strings.Count(strings.Join(calls, "\n"), "force=") != 3 {
		t.Errorf("%v after %q, want the third try to succeed", err, calls)
	}
	agent := newHost(t, third)
	agent.write("journal", "etcdserver: too many learner members in cluster\n")
	if calls, err := agent.run("INSTALL_K3S_EXEC=agent"); err == nil {
		t.Errorf("an agent tried again: %q", calls)
	}
}
