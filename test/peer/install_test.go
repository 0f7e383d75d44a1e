//go:build e2e

// The original install.sh against drover's server, which hands out the original agent.

package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
)

// systemctl stands for the real one: it writes down what it is asked, and no unit is active.
const systemctl = `#!/bin/sh
echo "$*" >> "$SYSTEMCTL_LOG"
[ "$1" != is-active ]
`

// originalSource is the directory of the original's module, which has its install.sh.
func originalSource(t *testing.T) string {
	t.Helper()
	var module struct{ Dir string }
	must(t, json.Unmarshal([]byte(run(t, "go", "-C", "agent", "mod", "download", "-json", "github.com/rancher/system-agent")), &module))
	return module.Dir
}

// TestOriginalInstallScript joins a host by the original script. It runs in a mount namespace in
// which /etc/systemd/system is a directory of the test; its other directories are given to it.
func TestOriginalInstallScript(t *testing.T) {
	t.Parallel()
	agent, script := original(t), filepath.Join(originalSource(t), "install.sh")
	assets := t.TempDir()
	must(t, os.Symlink(agent, filepath.Join(assets, "rancher-system-agent-"+runtime.GOARCH)))
	s := startServer(t, "--assets", assets)
	ca, err := os.ReadFile(filepath.Join(s.dataDir, "tls", "ca.crt"))
	must(t, err)
	sum := sha256.Sum256(ca)

	dir := t.TempDir()
	for _, name := range []string{"units", "stub", "etc"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(dir, "stub", "systemctl"), []byte(systemctl), 0o700))
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", `mount --bind "$1" /etc/systemd/system && shift && exec sh "$@"`, "sh",
		filepath.Join(dir, "units"), script, "--server", s.url, "--ca-checksum", hex.EncodeToString(sum[:]), "--token", s.registrationToken,
		"--label", "cattle.io/os=linux", "--worker")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "stub")+":"+os.Getenv("PATH"), "SYSTEMCTL_LOG="+filepath.Join(dir, "systemctl.log"),
		"CATTLE_AGENT_CONFIG_DIR="+filepath.Join(dir, "etc"), "CATTLE_AGENT_VAR_DIR="+filepath.Join(dir, "var"), "CATTLE_AGENT_BIN_PREFIX="+dir,
		"CATTLE_AGENT_BINARY_BASE_URL="+s.url+"/assets", "CATTLE_AGENT_STRICT_VERIFY=true")
	must(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
	asked, err := os.ReadFile(filepath.Join(dir, "systemctl.log"))
	must(t, err)
	if !strings.Contains(string(asked), "restart rancher-system-agent") {
		t.Errorf("systemctl was asked:\n%s", asked)
	}
	unit, err := os.ReadFile(filepath.Join(dir, "units", "rancher-system-agent.service"))
	must(t, err)
	if want := "ExecStart=" + dir + "/bin/rancher-system-agent sentinel"; !strings.Contains(string(unit), want) {
		t.Errorf("the unit has no %q:\n%s", want, unit)
	}

	c := &scene{T: t, api: &s.api}
	var given connection
	text, err := os.ReadFile(filepath.Join(dir, "var", "rancher2_connection_info.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &given))
	c.given = given
	c.host = newHost(t, filepath.Join(dir, "bin", "rancher-system-agent"), given)
	c.host.start("CATTLE_AGENT_CONFIG=" + filepath.Join(dir, "etc", "config.yaml"))
	c.deliver(c.oneStep("step", ":"))
	c.awaitState(plans.StateSucceeded)
	c.ran("step", 1, 1)
	if status := statusOf(s.call(http.MethodGet, secretPath(given.SecretName), bearer(given.token(t)), nil, nil)); status != http.StatusOK {
		t.Errorf("the token of the connection info: status %d", status)
	}
}
