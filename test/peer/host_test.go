//go:build e2e

// A host's agent: its files below one directory, and what systemd does for it.

package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed/process"
)

// host is a directory that stands for a host: the agent's configuration and state in it,
// and what plans make.
type host struct {
	testing.TB
	dir, binary string
	env         []string

	mu      sync.Mutex
	process *process.Process
	starts  int
	stop    func()
}

// newHost makes a host whose agent would connect as c says; it does not start it.
func newHost(t testing.TB, binary string, c connection) *host {
	t.Helper()
	h := &host{TB: t, dir: t.TempDir(), binary: binary, stop: func() {}}
	for _, dir := range []string{"interlock", "images", "made"} {
		must(t, os.Mkdir(h.path(dir), 0o700))
	}
	config := fmt.Sprintf(`workDirectory: %[1]s/work
appliedPlanDirectory: %[1]s/applied
remoteEnabled: true
connectionInfoFile: %[1]s/rancher2_connection_info.json
interlockDirectory: %[1]s/interlock
imagesDirectory: %[1]s/images
agentRegistriesFile: %[1]s/registries.yaml
`, h.dir)
	must(t, os.WriteFile(h.path("config.yaml"), []byte(config), 0o600))
	h.connect(c)
	t.Cleanup(func() {
		h.stop()
		if t.Failed() {
			t.Logf("the agent's log, started %d times:\n%s", h.starts, tail(h.log(), 60))
		}
	})
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

func (h *host) log() string { return h.path("agent.log") }

// connect writes the connection info, as registering does.
func (h *host) connect(c connection) {
	h.Helper()
	text, err := json.MarshalIndent(c, "", "  ")
	must(h.TB, err)
	must(h.TB, os.WriteFile(h.path("rancher2_connection_info.json"), text, 0o600))
}

// environment is what the unit gives the agent; the rest of the variables keeps either
// make away from this machine's own directories.
func (h *host) environment() []string {
	return append([]string{
		"CATTLE_AGENT_CONFIG=" + h.path("config.yaml"), "CATTLE_LOGLEVEL=debug", "CATTLE_AGENT_STRICT_VERIFY=true", "HOME=" + h.dir,
		"CATTLE_AGENT_CONFIG_DIR=" + h.dir, "CATTLE_AGENT_VAR_DIR=" + h.dir, "NOTIFY_SOCKET=", "WATCHDOG_USEC=",
	}, h.env...)
}

// restartAfter stands for RestartSec=5s of the unit.
const restartAfter = 200 * time.Millisecond

// start starts the agent, and starts it again whenever it ends, until stop.
func (h *host) start(env ...string) {
	h.Helper()
	h.env = env
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.Context()))
	over := make(chan struct{})
	h.stop = func() {
		h.stop = func() {}
		cancel()
		<-over
	}
	begin := func() (*process.Process, error) {
		p, err := process.Start(ctx, process.Options{Path: h.binary, Args: []string{"sentinel"}, Env: h.environment(), Dir: h.dir, LogFile: h.log()})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.process = p
		h.starts++
		return p, err
	}
	p, err := begin()
	must(h.TB, err)
	go func() {
		defer close(over)
		for err == nil {
			select {
			case <-p.Done():
			case <-ctx.Done():
				// Killed as nothing of it is wanted any more.
				_ = p.Kill()
				return
			}
			select {
			case <-time.After(restartAfter):
			case <-ctx.Done():
				return
			}
			p, err = begin()
		}
	}()
}

// restart ends the agent's process, as `systemctl restart` does; it comes up again.
func (h *host) restart() {
	h.Helper()
	h.mu.Lock()
	p := h.process
	h.mu.Unlock()
	must(h.TB, p.Kill())
}

// started is how often the agent's process was started.
func (h *host) started() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starts
}

// made is the content of a file that a plan made, "" when there is none.
func (h *host) made(name string) string {
	h.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "made", name))
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	return string(text)
}

// lines is how many lines a plan has added to a file.
func (h *host) lines(name string) int {
	h.Helper()
	return bytes.Count([]byte(h.made(name)), []byte("\n"))
}

// sh is an instruction whose script finds the directory of the plan's files in $MADE.
func (h *host) sh(name, script string) plans.Instruction {
	return plans.Instruction{Name: name, Command: "sh", Args: []string{"-c", script}, Env: []string{"MADE=" + h.path("made")}}
}

// once is a one-time instruction that counts its runs in the file of its name, with its attempt's number.
func (h *host) once(name, script string) plans.OneTimeInstruction {
	count := `echo "attempt $CATTLE_AGENT_ATTEMPT_NUMBER" >> "$MADE/` + name + `"; `
	return plans.OneTimeInstruction{Instruction: h.sh(name, count+script), SaveOutput: true}
}

// file is a file that a plan makes.
func (h *host) file(name, content, mode string) plans.File {
	return plans.File{Path: filepath.Join(h.dir, "made", name), Content: plans.EncodeContent([]byte(content)), Permissions: mode}
}

func encode(t testing.TB, p plans.Plan) []byte {
	t.Helper()
	b, err := p.Marshal()
	must(t, err)
	return b
}

// id is a machine id of the form that install.sh makes.
func id(t *testing.T, n int) string {
	t.Helper()
	return plans.Checksum(fmt.Appendf(nil, "%s %d", t.Name(), n))[:63]
}

// through is the connection info by way of another address.
func (c connection) through(t testing.TB, from, to string) connection {
	t.Helper()
	next := c
	next.KubeConfig = strings.ReplaceAll(c.KubeConfig, from, to)
	if next.KubeConfig == c.KubeConfig {
		t.Fatalf("the kubeconfig does not name %s:\n%s", from, c.KubeConfig)
	}
	return next
}
