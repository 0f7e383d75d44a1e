package packaging

// An agent that does not start, and an update that is under way when the installer comes.

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	agentPath    = "/usr/local/bin/rancher-system-agent"
	previousPath = agentPath + ".previous"
	updateUnit   = "/etc/systemd/system/rancher-system-agent-update.service"
)

func TestAnAgentThatDoesNotStartGoesBack(t *testing.T) {
	tests := []struct {
		name string
		// restarts fail as long as there are lines of this file
		fails   string
		before  map[string]string
		want    string
		agent   string // what is installed at the end; empty: the new one
		unit    string
		actions []string
	}{
		{
			name: "the previous one starts", fails: "x\n", before: map[string]string{agentPath: "old", unitFile: "[Service]\nType=simple\n"},
			want: "the previous one runs again", agent: "old", unit: "[Service]\nType=simple\n",
			actions: []string{"daemon-reload", "enable", "restart", "daemon-reload", "restart"},
		},
		{
			name: "neither does", fails: "x\nx\n", before: map[string]string{agentPath: "old", unitFile: "[Service]\nType=simple\n"},
			want: "neither does the previous one", agent: "old", unit: "[Service]\nType=simple\n",
			actions: []string{"daemon-reload", "enable", "restart", "daemon-reload", "restart"},
		},
		{
			name: "there was none", fails: "x\n", want: "does not start; see journalctl",
			actions: []string{"daemon-reload", "enable", "restart"},
		},
		{
			name: "it was installed already", fails: "x\n", before: map[string]string{agentPath: string(readFile(agentBinary)), unitFile: "[Service]\n"},
			want: "does not start; see journalctl", actions: []string{"daemon-reload", "enable", "restart"},
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				h := newHost(t, sh)
				h.write(h.log+"/failing", tt.fails, 0o600)
				h.tool("systemctl", `[ "$1" != is-active ] || { echo inactive; exit 3; }
[ "$1" != --version ] || exit 0
echo "$1" >>`+h.log+`/systemctl
[ "$1" != restart ] || [ ! -s `+h.log+`/failing ] || { sed -i 1d `+h.log+`/failing; exit 1; }`)
				for path, content := range tt.before {
					h.write(h.root+path, content, 0o755)
				}
				wantRefusal(t, h.installAlone(), tt.want)
				wantAgent := tt.agent
				if wantAgent == "" {
					wantAgent = string(readFile(agentBinary))
				}
				if h.read(agentPath) != wantAgent {
					t.Error("the wrong agent is installed")
				}
				if tt.unit != "" && h.read(unitFile) != tt.unit {
					t.Errorf("unit:\n%s", h.read(unitFile))
				}
				if _, ok := h.modes()[previousPath]; ok != (tt.agent != "") {
					t.Errorf("%s is there: %v", previousPath, ok)
				}
				if diff := cmp.Diff(tt.actions, h.logged("systemctl")); diff != "" {
					t.Errorf("systemctl (-want +got):\n%s", diff)
				}
				h.wantNoLeftovers()
			})
		})
	}
}

// What runs stays beside it, for the way back.
func TestTheReplacedAgentIsKept(t *testing.T) {
	h := newHost(t, shells(t)[0])
	h.write(h.root+agentPath, "old", 0o755)
	h.write(h.root+unitFile, "[Service]\n", 0o644)
	if res := h.installAlone(); res.code != 0 {
		t.Fatal(res.stderr)
	}
	if h.read(previousPath) != "old" || h.modes()[previousPath] != "-rwxr-xr-x" {
		t.Errorf("%s = %q, %s", previousPath, h.read(previousPath), h.modes()[previousPath])
	}
}

// A host that is removed and registered again within a minute keeps its new agent: what would take it away is ended after
// the server took the machine, and before anything of the agent is written.
func TestInstallEndsARemoval(t *testing.T) {
	const transient = "/run/systemd/transient/rancher-system-agent-removal"
	ca := newAuthority(t, "drover")
	for i, c := range []struct {
		name    string
		units   []string
		runs    string // what is-active says
		want    []string
		refused string
	}{
		{name: "armed", units: []string{".timer"}, want: []string{"stop rancher-system-agent-removal.timer", "is-active --quiet rancher-system-agent-removal.service", "stop rancher-system-agent-removal.service"}},
		{name: "under way", units: []string{".service"}, runs: "active", want: []string{"stop rancher-system-agent-removal.timer", "is-active --quiet rancher-system-agent-removal.service"}},
		{name: "cannot be stopped", units: []string{".timer"}, refused: "cannot stop rancher-system-agent-removal.timer"},
		{name: "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				s, h := newServer(t, ca), newHost(t, sh)
				if c.refused != "" {
					h.write(h.log+"/fails-stop", "", 0o644)
				}
				if c.runs != "" {
					h.write(h.log+"/active", c.runs, 0o644)
				}
				for _, unit := range c.units {
					h.write(h.root+transient+unit, "[Unit]\n", 0o644)
					h.write(h.root+"/run/rancher-system-agent-removal.sum", "old", 0o600)
				}
				res := h.join(s, "--worker")
				if c.refused != "" {
					if _, installed := h.modes()[agentPath]; res.code == 0 || !strings.Contains(res.stderr, c.refused) || installed {
						t.Errorf("code %d, installed %t: %s", res.code, installed, res.stderr)
					}
					return
				}
				if res.code != 0 {
					t.Fatal(res.stderr)
				}
				calls := h.logged("systemctl")
				if len(calls) < len(c.want) || !slices.Equal(calls[:len(c.want)], c.want) {
					t.Errorf("systemctl = %q, want first %q", calls, c.want)
				}
				if c.units == nil && slices.ContainsFunc(calls, func(call string) bool { return strings.Contains(call, "removal") }) {
					t.Errorf("it looks for a removal that was never ordered: %q", calls)
				}
				if _, ok := h.modes()["/run/rancher-system-agent-removal.sum"]; ok {
					t.Error("what the removal compares is still there")
				}
				if c.runs == "active" && len(h.logged("sleep")) == 0 {
					t.Error("a removal under way is not waited for")
				}
			})
		})
	}
}

// An installer and an update would each put back what the other replaced.
func TestInstallAndUninstallEndAnUpdate(t *testing.T) {
	prepare := func(t *testing.T) *host {
		h := newHost(t, shells(t)[0])
		h.write(h.root+agentPath, "old", 0o755)
		h.write(h.root+previousPath, "older", 0o755)
		h.write(h.root+unitFile, "[Service]\n", 0o644)
		h.write(h.root+updateUnit, "[Service]\n", 0o644)
		h.write(h.root+"/var/lib/rancher/agent/update/intent.json", "{}", 0o600)
		h.write(h.root+interlock+"/x", "", 0o600)
		return h
	}
	ended := func(t *testing.T, h *host, before string) {
		t.Helper()
		calls := h.logged("systemctl")
		end := slices.Index(calls, "disable --now rancher-system-agent-update.service")
		next := slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, before) })
		if end < 0 || next < end {
			t.Errorf("the update was not ended before %s: %q", before, calls)
		}
		for _, gone := range []string{updateUnit, "/var/lib/rancher/agent/update/intent.json"} {
			if _, ok := h.modes()[gone]; ok {
				t.Errorf("%s is still there", gone)
			}
		}
	}
	t.Run("install", func(t *testing.T) {
		h := prepare(t)
		if res := h.installAlone(); res.code != 0 {
			t.Fatal(res.stderr)
		}
		ended(t, h, "restart")
		if h.read(previousPath) != "old" {
			t.Error("the previous agent is not the one that was replaced")
		}
	})
	t.Run("uninstall", func(t *testing.T) {
		h := prepare(t)
		if res := h.run(readFile(uninstallScript)); res.code != 0 {
			t.Fatal(res.stderr)
		}
		ended(t, h, "stop")
		if _, ok := h.modes()[previousPath]; ok {
			t.Errorf("%s is still there", previousPath)
		}
	})
}
