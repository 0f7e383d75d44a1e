//go:build e2e

package e2e

// Probes of systemd units, asked of a real systemd: what the stand-ins of the unit tests cannot know is what a real one
// answers, and that a connection to it outlives its own restart.

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
)

// probed is a plan that looks at a unit that should run, at one that should not, and at one that does not exist.
const probed = `{"probes":{
  "runs":{"systemd":{"unit":"cargo.service"},"failureThreshold":1,"timeoutSeconds":60},
  "rests":{"systemd":{"unit":"ballast.service","state":"inactive"},"failureThreshold":1,"timeoutSeconds":60},
  "missing":{"systemd":{"unit":"nowhere.service"},"failureThreshold":1,"timeoutSeconds":60}}}`

// sleeps is a unit that is active until it is stopped or killed.
const sleeps = "[Service]\nExecStart=/bin/sleep infinity\n"

func TestUnitsAreProbed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	u := &updates{T: t, ctx: ctx, bin: t.TempDir(), sums: map[string]string{}}
	u.build("v1")
	b, err := bed.Start(ctx, bed.Options{Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() && u.host != nil {
			log, _ := u.host.Sh(context.WithoutCancel(ctx), "rancher-system-agent status; journalctl --no-pager -n 100")
			t.Logf("the host:\n%s", log)
		}
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	u.host, err = b.Host(ctx, host.Options{Name: "units"})
	must(t, err)
	u.install()
	for _, unit := range []string{"cargo", "ballast"} {
		must(t, u.host.WriteFile(ctx, "/etc/systemd/system/"+unit+".service", []byte(sleeps), 0o644))
	}
	u.sh("systemctl daemon-reload; systemctl start cargo; umask 077; mkdir -p /var/lib/rancher/agent/plans")
	must(t, u.host.WriteFile(ctx, "/var/lib/rancher/agent/plans/.units.tmp", []byte(probed), 0o600))
	u.sh("mv /var/lib/rancher/agent/plans/.units.tmp /var/lib/rancher/agent/plans/units.plan")
	pid := u.sh("systemctl show -P MainPID rancher-system-agent")

	// Each step names what the three probes say after it: the reason, or nothing when they are healthy.
	const missing = "nowhere.service is inactive (dead), not active"
	for _, step := range []struct{ name, do, runs, rests string }{
		{"the unit runs", "true", "", ""},
		{"it is stopped", "systemctl stop cargo", "cargo.service is inactive (dead), not active", ""},
		{"it is started again", "systemctl start cargo", "", ""},
		{"it is killed", "systemctl kill --signal KILL cargo", "cargo.service is failed (failed), not active", ""},
		{"systemd executes itself anew, and then it is started", "systemctl daemon-reexec; systemctl start cargo", "", ""},
		{"one that should not run is started", "systemctl start ballast", "", "ballast.service is active (running), not inactive"},
		{"and stopped", "systemctl stop ballast", "", ""},
	} {
		u.sh(step.do)
		u.await(step.name, func() error {
			return u.wantProbes(map[string]string{"runs": step.runs, "rests": step.rests, "missing": missing})
		})
	}
	if now := u.sh("systemctl show -P MainPID rancher-system-agent"); now != pid {
		t.Errorf("the agent was restarted: process %s, then %s", strings.TrimSpace(pid), strings.TrimSpace(now))
	}
}

// wantProbes looks whether the agent's own word on each probe is the wanted one.
func (u *updates) wantProbes(want map[string]string) error {
	text, err := u.host.Sh(u.ctx, "rancher-system-agent status -o json")
	if err != nil {
		return err
	}
	var now status.Status
	if err := json.Unmarshal([]byte(text), &now); err != nil {
		return fmt.Errorf("read the status: %w: %s", err, text)
	}
	if len(now.Probes) != len(want) {
		return fmt.Errorf("there are %d probes: %+v", len(now.Probes), now.Probes)
	}
	for _, p := range now.Probes {
		if reason, known := want[p.Name]; !known || p.Healthy != (reason == "") || !strings.Contains(p.Reason, reason) {
			return fmt.Errorf("probe %s is healthy: %t, %q; want %q", p.Name, p.Healthy, p.Reason, reason)
		}
	}
	return nil
}
