package packaging

// The unit: what systemd itself says of it, and that no change tightens it until installers break.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/packaging/systemd"
)

const packagedUnit = "systemd/rancher-system-agent.service"

// Only a systemd that knows the back-off of restarts is configured for it.
func TestRestartsBackOffWhereSystemdKnowsHow(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	packaged := string(readFile(packagedUnit))
	backOff := strings.Replace(packaged, "RestartSec=5s\n", "RestartSec=5s\nRestartSteps=5\nRestartMaxDelaySec=60s\n", 1)
	for version, want := range map[string]string{"239": packaged, "253": packaged, "254": backOff, "257": backOff} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, shells(t)[0])
			h.env = []string{"FAKE_SYSTEMD=" + version}
			h.mustJoin(s, "--worker")
			if diff := cmp.Diff(want, h.read(unitFile)); diff != "" {
				t.Errorf("unit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSystemdAcceptsTheUnit(t *testing.T) {
	analyze := requireTool(t, "systemd-analyze")
	unit := strings.ReplaceAll(string(readFile(packagedUnit)), "/usr/local/bin/rancher-system-agent", "/bin/true")
	verify := func(unit string) string {
		file := filepath.Join(t.TempDir(), "rancher-system-agent.service")
		if err := os.WriteFile(file, []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput()
		if err != nil {
			t.Logf("systemd-analyze: %v", err)
		}
		var about []string // others' units are not our business
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "rancher-system-agent.service") {
				about = append(about, line)
			}
		}
		return strings.Join(about, "")
	}
	if out := verify(unit); out != "" {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
	if out := verify(unit + "NoSuchKey=1\n"); !strings.Contains(out, "NoSuchKey") {
		t.Errorf("systemd-analyze verify does not see an unknown key: %q", out)
	}
}

// TestUnitIsExplained holds docs/reference/system-agent-unit.md to the unit, and the unit to what installers live with.
func TestUnitIsExplained(t *testing.T) {
	page := string(readFile("../docs/reference/system-agent-unit.md"))
	for line := range strings.Lines(string(readFile(packagedUnit)) + "RestartSteps=5\nRestartMaxDelaySec=60s\n") {
		key, _, setting := strings.Cut(strings.TrimSpace(line), "=")
		if !setting || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.Contains(page, "`"+key) {
			t.Errorf("docs/reference/system-agent-unit.md does not explain %s", key)
		}
	}
	for _, key := range []string{
		"ProtectSystem", "ProtectHome", "PrivateTmp", "NoNewPrivileges", "CapabilityBoundingSet", "PrivateDevices",
		"ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "RestrictNamespaces", "SystemCallFilter",
		"ReadOnlyPaths", "MemoryMax", "User", "WorkingDirectory",
	} {
		if strings.Contains(string(readFile(packagedUnit)), "\n"+key+"=") {
			t.Errorf("%s in the unit would hold for installers too", key)
		}
		if !strings.Contains(page, "`"+key) {
			t.Errorf("docs/reference/system-agent-unit.md does not say why %s is left out", key)
		}
	}
}

// TestSystemdAcceptsTheServersUnit, and finds little exposed.
func TestSystemdAcceptsTheServersUnit(t *testing.T) {
	analyze := requireTool(t, "systemd-analyze")
	unit := systemd.Unit
	at := func(text string) string {
		file := filepath.Join(t.TempDir(), "drover.service")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	out, err := exec.Command(analyze, "verify", "--man=no", at(strings.ReplaceAll(unit, "/usr/local/bin/drover", "/bin/true"))).CombinedOutput()
	if strings.Contains(string(out), "drover.service") {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
	exposed := func(unit string) ([]byte, error) {
		return exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=20", at(unit)).CombinedOutput()
	}
	if out, err := exposed(unit); err != nil {
		t.Errorf("more than 2.0 is exposed: %v: %s", err, out)
	}
	if _, err := exposed("[Service]\nExecStart=/bin/true\n"); err == nil {
		t.Error("the bound lets a unit through that has no sandbox")
	}
}

// TestTheServersUnitIsExplained holds docs/reference/server-unit.md to it.
func TestTheServersUnitIsExplained(t *testing.T) {
	page := string(readFile("../docs/reference/server-unit.md"))
	for line := range strings.Lines(systemd.Unit) {
		key, _, setting := strings.Cut(strings.TrimSpace(line), "=")
		if setting && !strings.HasPrefix(line, "#") && !strings.Contains(page, "`"+key) {
			t.Errorf("docs/reference/server-unit.md does not explain %s", key)
		}
	}
}
