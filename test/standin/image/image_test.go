// Package image holds the scripts of the installer image and their test: they run for real in a directory of their
// own, with a systemctl that writes down how it was called.
package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// host is a directory that plays a host, and the unpacked image in it.
type host struct {
	t   *testing.T
	dir string
	env []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	scripts, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		content, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		h.write("work/"+script, string(content), 0o755)
	}
	h.write("work/k3s", "binary one", 0o755)
	h.write("fake/systemctl", `#!/bin/sh
echo "$*" >>"`+h.dir+`/calls"
[ "$1" != restart ] || [ ! -e "`+h.dir+`/restart-fails" ]
`, 0o755)
	h.env = []string{
		"PATH=" + h.dir + "/fake:" + h.dir + "/work:/usr/bin:/bin", "CATTLE_AGENT_EXECUTION_PWD=" + h.dir + "/work",
		"INSTALL_K3S_BIN_DIR=" + h.dir + "/bin", "INSTALL_K3S_SYSTEMD_DIR=" + h.dir + "/units", "STANDIN_RUNS_DIR=" + h.dir + "/runs",
		"K3S_DATA_DIR=" + h.dir + "/data", "RESTART_STAMP=stamp-1", "CATTLE_AGENT_ATTEMPT_NUMBER=1",
	}
	return h
}

func (h *host) write(name, content string, mode os.FileMode) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) read(name string) string {
	h.t.Helper()
	content, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(content)
}

// run performs the install instruction and returns the calls of systemctl.
func (h *host) run(env ...string) (calls []string, err error) {
	h.t.Helper()
	os.Remove(filepath.Join(h.dir, "calls"))
	cmd := exec.Command("sh", "-c", "run.sh")
	cmd.Env = append(h.env[:len(h.env):len(h.env)], env...)
	out, err := cmd.CombinedOutput()
	h.t.Logf("run.sh: %v\n%s", err, out)
	if content, readErr := os.ReadFile(filepath.Join(h.dir, "calls")); readErr == nil {
		calls = strings.Split(strings.TrimSpace(string(content)), "\n")
	}
	return calls, err
}

func (h *host) mustRun(env ...string) []string {
	h.t.Helper()
	calls, err := h.run(env...)
	if err != nil {
		h.t.Fatal(err)
	}
	return calls
}

func TestFirstRun(t *testing.T) {
	h := newHost(t)
	calls := h.mustRun(`K3S_TOKEN=a "b" \c`, "HTTPS_PROXY=http://proxy:3128", "OTHER=x")
	if diff := cmp.Diff([]string{"enable k3s.service", "daemon-reload", "restart k3s.service"}, calls); diff != "" {
		t.Errorf("systemctl (-want +got):\n%s", diff)
	}
	wantEnv := "HTTPS_PROXY=\"http://proxy:3128\"\nK3S_DATA_DIR=\"" + h.dir + "/data\"\nK3S_TOKEN=\"a \\\"b\\\" \\\\c\"\n"
	if diff := cmp.Diff(wantEnv, h.read("units/k3s.service.env")); diff != "" {
		t.Errorf("environment file (-want +got):\n%s", diff)
	}
	for name, mode := range map[string]os.FileMode{
		"units/k3s.service.env": 0o600, "units/k3s.service": 0o644, "bin/k3s": 0o755, "bin/k3s-killall.sh": 0o755, "bin/k3s-uninstall.sh": 0o755,
	} {
		info, err := os.Stat(filepath.Join(h.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), mode)
		}
	}
	unit := h.read("units/k3s.service")
	for _, line := range []string{"Type=notify", "Restart=always", "RestartSec=5s", "ExecStart=" + h.dir + "/bin/k3s server", "WantedBy=multi-user.target"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %q:\n%s", line, unit)
		}
	}
	if got := h.read("data/restart_stamp"); got != "stamp-1" {
		t.Errorf("stamp %q, want stamp-1", got)
	}
	lines := regexp.MustCompile(`\d{4}-\S+Z pid=\d+`).ReplaceAllString(h.read("runs/runs.log"), "TIME")
	if diff := cmp.Diff("start TIME stamp=stamp-1 attempt=1\nend TIME stamp=stamp-1 attempt=1 exit=0\n", lines); diff != "" {
		t.Errorf("runs.log (-want +got):\n%s", diff)
	}
}

func TestLaterRuns(t *testing.T) {
	quiet := []string{"enable k3s.service", "daemon-reload"}
	restart := append(quiet[:2:2], "restart k3s.service")
	tests := []struct {
		name   string
		change func(*host)
		env    []string
		want   []string
	}{
		{name: "nothing changed", want: quiet},
		{name: "another stamp", env: []string{"RESTART_STAMP=stamp-2"}, want: restart},
		{name: "no stamp, as operations have it", env: []string{"RESTART_STAMP="}, want: quiet},
		{name: "another binary", change: func(h *host) { h.write("work/k3s", "binary two", 0o755) }, want: restart},
		{name: "another environment", env: []string{"K3S_TOKEN=other"}, want: restart},
		{name: "other flags", env: []string{"INSTALL_K3S_EXEC=server --debug"}, want: restart},
		{name: "the unit was edited", change: func(h *host) { h.write("units/k3s.service", "[Service]\n", 0o644) }, want: restart},
		{name: "the last run was cut off before the stamp", change: func(h *host) { os.Remove(h.dir + "/data/restart_stamp") }, want: restart},
		{name: "start is skipped", env: []string{"RESTART_STAMP=stamp-2", "INSTALL_K3S_SKIP_START=true"}, want: quiet},
		{name: "enable is skipped", env: []string{"INSTALL_K3S_SKIP_ENABLE=true"}, want: quiet[1:]},
		{name: "an agent", env: []string{"INSTALL_K3S_EXEC=agent"}, want: []string{"enable k3s-agent.service", "daemon-reload", "restart k3s-agent.service"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.mustRun()
			if tt.change != nil {
				tt.change(h)
			}
			if diff := cmp.Diff(tt.want, h.mustRun(tt.env...)); diff != "" {
				t.Errorf("systemctl (-want +got):\n%s", diff)
			}
			if got := strings.Count(h.read("runs/runs.log"), "\n"); got != 4 {
				t.Errorf("runs.log has %d lines, want 4", got)
			}
		})
	}
}

func TestFailedRestart(t *testing.T) {
	h := newHost(t)
	h.write("restart-fails", "", 0o644)
	if _, err := h.run(); err == nil {
		t.Error("run.sh succeeded though the service did not start")
	}
	if _, err := os.Stat(filepath.Join(h.dir, "data/restart_stamp")); err == nil {
		t.Error("the stamp was written though the service did not start")
	}
	if log := h.read("runs/runs.log"); !strings.HasSuffix(log, "exit=1\n") {
		t.Errorf("runs.log does not end with the failure:\n%s", log)
	}
	if err := os.Remove(filepath.Join(h.dir, "restart-fails")); err != nil {
		t.Fatal(err)
	}
	want := []string{"enable k3s.service", "daemon-reload", "restart k3s.service"}
	if diff := cmp.Diff(want, h.mustRun("CATTLE_AGENT_ATTEMPT_NUMBER=2")); diff != "" {
		t.Errorf("systemctl after the second try (-want +got):\n%s", diff)
	}
}
