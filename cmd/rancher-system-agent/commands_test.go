package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const connection = `{"namespace":"n","secretName":"s","kubeConfig":"{clusters: [{name: c, cluster: {server: 'https://h'}}], users: [{name: u, user: {token: t}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}"}`
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no command", nil, 0, "usage:"},
		{"help", []string{"help"}, 0, "usage:"},
		{"--help", []string{"--help"}, 0, "usage:"},
		{"version", []string{"version"}, 0, "rancher-system-agent version v9.9.9-test\n"},
		{"--version", []string{"--version"}, 0, "v9.9.9-test"},
		{"-v", []string{"-v"}, 0, "v9.9.9-test"},
		{"unknown command", []string{"watch"}, 1, `"watch"`},
		{"unknown flag", []string{"--fast"}, 1, "-fast; see rancher-system-agent help"},
		{"help for a command", []string{"status", "-h"}, 0, "usage:"},
		{"help for a command that takes a file", []string{"validate-config", "--help"}, 0, "usage:"},
		{"config", []string{"validate-config", file("ok.yaml", "localEnabled: true\nlocalPlanDirectory: /nowhere\n", 0o600)}, 0, ""},
		{"open config", []string{"validate-config", file("open.yaml", "localEnabled: true\n", 0o666)}, 1, "mode 0666"},
		{"config without source", []string{"validate-config", file("none.yaml", "", 0o600)}, 1, "neither"},
		{"missing config", []string{"validate-config", dir + "/missing.yaml"}, 1, "is missing"},
		{"config without file", []string{"validate-config"}, 1, "needs one file"},
		{"connection", []string{"validate-connection", file("ok.json.tmp", connection, 0o600)}, 0, ""},
		{"connection without Secret", []string{"validate-connection", file("none.json", strings.Replace(connection, "secretName", "x", 1), 0o600)}, 1, "secretName is missing"},
		{"connection by http", []string{"validate-connection", file("http.json", strings.Replace(connection, "https:", "http:", 1), 0o600)}, 1, "not https"},
		{"a web page", []string{"validate-connection", file("page.json", "<html>", 0o600)}, 1, "not JSON"},
		{"connection without file", []string{"validate-connection", "a", "b"}, 1, "needs one file"},
		{"self-update, help", []string{"self-update", "-h"}, 0, "--checksum SHA256"},
		{"self-update without a source", []string{"self-update"}, 1, "--from"},
		{"self-update with an unknown flag", []string{"self-update", "--force"}, 1, "-force"},
		{"the judge of an update without a directory", []string{"self-update-watch"}, 1, "needs one directory"},
		{"sentinel with arguments", []string{"sentinel", "now"}, 1, "no arguments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(binary, tc.args...)
			out, _ := cmd.CombinedOutput() // the code is looked at
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.Contains(string(out), tc.want) {
				t.Errorf("said %q, want %q in it", out, tc.want)
			}
			if tc.code == 1 && bytes.Count(out, []byte("\n")) != 1 {
				t.Errorf("said %q, want one line", out)
			}
			if tc.code == 0 && tc.want == "" && len(out) > 0 {
				t.Errorf("said %q, want nothing", out)
			}
		})
	}
}

func TestSentinelRefuses(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	for _, tc := range []struct {
		name string
		env  []string
		uid  uint32
		want string
	}{
		{"an unknown log level", []string{"CATTLE_LOGLEVEL=loud", "CATTLE_AGENT_CONFIG=" + config}, 0, `CATTLE_LOGLEVEL \"loud\"`},
		{"a missing configuration", []string{"CATTLE_AGENT_CONFIG=" + config}, 0, config + " is missing"},
		{"to run for another user", []string{"CATTLE_AGENT_CONFIG=" + config}, 65534, "has to run as root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				skips.Skip(t, "only root can be another user")
			}
			cmd := exec.Command(binary, "sentinel")
			cmd.Env = tc.env
			if tc.uid != 0 {
				// The directory of the binary is closed to others.
				open := filepath.Join(t.TempDir(), name)
				if err := exec.Command("cp", binary, open).Run(); err != nil {
					t.Fatal(err)
				}
				for dir := filepath.Dir(open); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
					os.Chmod(dir, 0o755)
				}
				cmd.Path, cmd.Args[0] = open, open
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tc.uid, Gid: tc.uid}}
			}
			out, _ := cmd.CombinedOutput()
			said := strings.ReplaceAll(string(out), `\"`, `"`)
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, strings.ReplaceAll(tc.want, `\"`, `"`)) {
				t.Errorf("%v: said %q, want %q", cmd.ProcessState, out, tc.want)
			}
			if strings.Count(string(out), "\n") > 2 {
				t.Errorf("said %q, want a line or two", out)
			}
		})
	}
}
