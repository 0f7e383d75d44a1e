package packaging

// What holds for the scripts as texts: clean for shellcheck, harmless when cut off.

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShellcheck(t *testing.T) {
	shellcheck := requireTool(t, "shellcheck")
	for _, script := range []string{installScript, uninstallScript, "suc/run.sh"} {
		if out, err := exec.Command(shellcheck, "-s", "sh", script).CombinedOutput(); err != nil {
			t.Errorf("shellcheck -s sh %s: %v\n%s", script, err, out)
		}
	}
}

// A download that breaks off anywhere must do nothing at all: curl's exit code is lost in the pipe.
func TestTruncated(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	for _, path := range []string{installScript, uninstallScript} {
		script := bytes.TrimRight(readFile(path), "\n")
		last := script[bytes.LastIndexByte(script, '\n')+1:]
		if !bytes.Contains(last, []byte(`main "$@"`)) || bytes.Count(script, []byte("main \"$@\"")) != 1 {
			t.Fatalf("%s: the only call of main must be on the last line, which is: %s", path, last)
		}
		var cuts []int
		for at := range script {
			// Every place of the end, and many of the rest.
			if at >= len(script)-len(last)-20 || at%997 == 0 || bytes.HasPrefix(script[at:], []byte("\n}\n")) {
				cuts = append(cuts, at)
			}
		}
		t.Run(path[3:], func(t *testing.T) {
			eachShell(t, func(t *testing.T, sh shell) {
				h := newHost(t, sh)
				h.write(h.root+"/etc/systemd/system/rancher-system-agent.service", "old", 0o644)
				h.write(h.root+"/usr/local/bin/rancher-system-agent", "old", 0o755)
				var args []string
				before := ""
				if path == installScript {
					args = append(joinFlags(s), "--worker")
					// Everything a run without any flag needs.
					h.env = []string{"CATTLE_SERVER=" + s.URL, "CATTLE_CA_CHECKSUM=" + args[5], "CATTLE_ROLE_WORKER=true"}
					before = tokenLine // as drover's join command has it
				}
				found := h.snapshot()
				for _, at := range cuts {
					h.run([]byte(before+string(script[:at])), args...)
				}
				h.wantUntouched(found)
				if got := s.paths(); got != nil {
					t.Errorf("the server was asked for %q", got)
				}
			})
		})
	}
}

// The whole scripts act, so that the test above could fail.
func TestComplete(t *testing.T) {
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		h.write(h.root+"/usr/local/bin/rancher-system-agent", "old", 0o755)
		if res := h.run(bytes.TrimRight(readFile(uninstallScript), "\n")); res.code != 0 {
			t.Fatal(res.stderr)
		}
		want := []string{
			"stop rancher-system-agent.service", "disable rancher-system-agent.service",
			"daemon-reload", "reset-failed rancher-system-agent.service",
		}
		if diff := cmp.Diff(want, h.logged("systemctl")); diff != "" {
			t.Errorf("systemctl (-want +got):\n%s", diff)
		}
	})
}

func TestHelp(t *testing.T) {
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		res := h.install("--help")
		if res.code != 0 || res.stderr != "" {
			t.Fatalf("--help ended with %d: %s", res.code, res.stderr)
		}
		for _, word := range []string{
			"--server", "--token", "--ca-checksum", "--etcd", "--controlplane", "--worker", "--all-roles", "--no-roles",
			"--node-name", "--address", "--internal-address", "--label", "--taint", "CATTLE_AGENT_BINARY_BASE_URL",
		} {
			if !bytes.Contains([]byte(res.stdout), []byte(word)) {
				t.Errorf("--help does not mention %s", word)
			}
		}
		h.wantUntouched(map[string]string{})
	})
}
