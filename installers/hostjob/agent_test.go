package hostjob_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
)

// withEnv is run with the environment of the instruction.
func (h *host) withEnv(in plans.OneTimeInstruction) (string, error) {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), in.Command, in.Args...)
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH")), in.Env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestUpdateOfTheAgent by the agent that runs, for the host's architecture, once.
func TestUpdateOfTheAgent(t *testing.T) {
	sums := map[string]string{"amd64": "aaaa", "arm64": "bbbb"}
	for _, c := range []struct {
		name, uname, does string
		unit              string // says what runs
		want              string // is printed
		call              string // of the agent
		fails             bool
	}{
		{name: "amd64", uname: "x86_64", does: "echo updated from v0.2.0 to v0.3.0", want: "updated from v0.2.0 to v0.3.0", call: "self-update --from https://drover/assets/a-amd64 --checksum aaaa"},
		{name: "arm64", uname: "aarch64", does: "echo updated from v0.2.0 to v0.3.0", want: "updated from v0.2.0 to v0.3.0", call: "self-update --from https://drover/assets/a-arm64 --checksum bbbb"},
		{name: "a bad one", uname: "x86_64", does: "echo the update was taken back; exit 1", want: "the update was taken back", call: "self-update --from https://drover/assets/a-amd64 --checksum aaaa", fails: true},
		{name: "another architecture", uname: "riscv64", want: "the server has no agent for riscv64", fails: true},
		{name: "no service", uname: "x86_64", unit: "nothing", want: "systemd runs no rancher-system-agent", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.program("agent", c.does)
			h.write("bin/uname", "#!/bin/sh\necho "+c.uname+"\n")
			runs := "{ path=" + filepath.Join(h.dir, "bin", "agent") + " ; argv[]=agent sentinel ; ignore_errors=no }"
			if c.unit != "" {
				runs = c.unit
			}
			h.program("systemctl", `case "$1" in is-active) exit 3 ;; show) echo "`+runs+`" ;; esac`)
			in := h.UpdateAgent("op-1-agent-1", "https://drover/assets/a", "", sums)
			for range 2 { // delivered again it says the same, and does nothing
				out, err := h.withEnv(in)
				if (err != nil) != c.fails || !strings.Contains(out, c.want) {
					t.Errorf("%v: %s", err, out)
				}
			}
			var calls []string
			if c.call != "" {
				calls = []string{"agent " + c.call}
			}
			if got := h.calls(); strings.Join(got, "\n") != strings.Join(calls, "\n") {
				t.Errorf("the calls are %q, want %q", got, calls)
			}
		})
	}
}

// TestUpdateOfTheAgentTrusts the server's authority alone, and leaves no copy of it.
func TestUpdateOfTheAgentTrusts(t *testing.T) {
	h := newHost(t)
	h.program("agent", `shift 5; [ "$1" = --ca-file ] && cat "$2"`)
	h.write("bin/uname", "#!/bin/sh\necho x86_64\n")
	h.program("systemctl", `case "$1" in is-active) exit 3 ;; show) echo "{ path=`+filepath.Join(h.dir, "bin", "agent")+` ; argv[]=agent }" ;; esac`)
	out, err := h.withEnv(h.UpdateAgent("op-1-agent-1", "https://drover/assets/a", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n", map[string]string{"amd64": "aaaa"}))
	if err != nil || !strings.Contains(out, "BEGIN CERTIFICATE-----\nMII") {
		t.Errorf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(h.DataDir, "drover/errands/*.ca")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestUpdated(t *testing.T) {
	for output, want := range map[string]string{
		"the new agent is put in place\nupdated from v0.2.0 to v0.3.0-rc.1\n": "updated from v0.2.0 to v0.3.0-rc.1",
		"rancher-system-agent: this is the program that is installed":         "it had this agent already",
		"updated from <b>v0.2.0</b> to v0.3.0":                                "it had this agent already",
	} {
		if got := hostjob.Updated([]byte(output)); got != want {
			t.Errorf("%q is %q, want %q", output, got, want)
		}
	}
}
