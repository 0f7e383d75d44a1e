//go:build e2e

package e2e

// An agent replaces itself under a real systemd: well, and with new agents that crash, hang or are no programs, while the
// one that decides is killed and the host loses its power.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
)

const (
	agentOnHost = "/usr/local/bin/rancher-system-agent"
	updateDir   = "/var/lib/rancher/agent/update"
)

// updates is a host with an agent that takes dropped plans, and other agents to update it to.
type updates struct {
	*testing.T
	ctx  context.Context
	host *host.Host
	bin  string            // of this machine
	sums map[string]string // by name
}

func TestTheAgentReplacesItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	u := &updates{T: t, ctx: ctx, bin: t.TempDir(), sums: map[string]string{}}
	u.build("v1", "v2", "crashes", "hangs")
	b, err := bed.Start(ctx, bed.Options{Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() && u.host != nil {
			log, _ := u.host.Sh(context.WithoutCancel(ctx), "journalctl --no-pager -u 'rancher-system-agent*' | tail -n 150")
			t.Logf("journal:\n%s", log)
		}
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	u.host, err = b.Host(ctx, host.Options{Name: "updates"})
	must(t, err)
	for _, step := range []struct {
		name string
		run  func(*updates)
	}{
		{"installed", (*updates).install},
		{"a running instruction goes on and runs once", (*updates).wellWhileWorking},
		{"a file that is not a program is refused", (*updates).refused},
		{"one that crashes goes back", (*updates).crashes},
		{"one that hangs goes back", (*updates).hangs},
		{"one that cannot be executed goes back", (*updates).noProgram},
		{"the judge is killed", (*updates).judgeKilled},
		{"the power fails before it goes back", (*updates).powerBeforeBack},
		{"the power fails during a good update", (*updates).powerDuringGood},
		{"uninstalled in the middle", (*updates).uninstalled},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			sub := *u
			sub.T = t
			step.run(&sub)
		}) {
			return
		}
	}
}

// build makes agents, good ones (v1, v2 …) and bad ones.
func (u *updates) build(names ...string) {
	u.Helper()
	module, err := filepath.Abs("../..")
	must(u.T, err)
	for _, name := range names {
		path, variable, source := filepath.Join(u.bin, name), "main.kind", "./test/e2e/testdata/badagent"
		if strings.HasPrefix(name, "v") {
			variable, source = "github.com/drover-project/drover.Version", "./cmd/rancher-system-agent"
		}
		cmd := exec.CommandContext(u.ctx, "go", "build", "-ldflags=-s -w -X "+variable+"="+name, "-o", path, source)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			u.Fatalf("build %s: %v\n%s", name, err, out)
		}
		program, err := os.ReadFile(path)
		must(u.T, err)
		sum := sha256.Sum256(program)
		u.sums[name] = hex.EncodeToString(sum[:])
	}
	for _, script := range []string{"install.sh", "system-agent-uninstall.sh"} {
		text, err := os.ReadFile(filepath.Join(module, script))
		must(u.T, err)
		must(u.T, os.WriteFile(filepath.Join(u.bin, script), text, 0o755))
	}
}

func (u *updates) sh(script string) string {
	u.Helper()
	out, err := u.host.Sh(u.ctx, script)
	if err != nil {
		u.Fatalf("on the host: %v", err)
	}
	return out
}

func (u *updates) await(what string, check func() error) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.ctx, 3*time.Minute)
	defer cancel()
	must(u.T, bed.Await(ctx, what, 200*time.Millisecond, func(context.Context) error { return check() }))
}

func (u *updates) awaitSh(what, script string) {
	u.Helper()
	u.await(what, func() error { _, err := u.host.Sh(u.ctx, script); return err })
}

func (u *updates) install() {
	must(u.T, u.host.Copy(u.ctx, u.bin, "/srv/agents"))
	u.sh(`cd /srv/agents; CATTLE_REMOTE_ENABLED=false CATTLE_LOCAL_ENABLED=true CATTLE_AGENT_BINARY_LOCAL=true \
CATTLE_AGENT_BINARY_LOCAL_LOCATION=/srv/agents/v1 CATTLE_AGENT_UNINSTALL_LOCAL=true \
CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION=/srv/agents/system-agent-uninstall.sh sh install.sh`)
	u.wantRunning("v1")
	wantSoundUnit(u, "/etc/systemd/system/rancher-system-agent.service", func(script string) (string, error) { return u.host.Sh(u.ctx, script) })
}

// wantRunning looks whether an agent is what is installed and what runs, and that nothing of an update is left.
func (u *updates) wantRunning(name string) {
	u.Helper()
	u.awaitSh("agent "+name, fmt.Sprintf(`test "$(systemctl is-active rancher-system-agent)" = active
pid=$(systemctl show -P MainPID rancher-system-agent)
for file in %s /proc/$pid/exe; do echo "%s  $file" | sha256sum --check --quiet; done
test ! -e /etc/systemd/system/rancher-system-agent-update.service
test ! -e %s/intent.json
test ! -e %s.new`, agentOnHost, u.sums[name], updateDir, agentOnHost))
}

func (u *updates) command(name, flags string) string {
	return fmt.Sprintf("%s self-update --from /srv/agents/%s --checksum %s %s", agentOnHost, name, u.sums[name], flags)
}

// last is how the last update ended.
func (u *updates) last() (last selfupdate.Last) {
	u.Helper()
	text, err := u.host.ReadFile(u.ctx, updateDir+"/last.json")
	must(u.T, err)
	must(u.T, json.Unmarshal(text, &last))
	return last
}

// failing begins an update that has to fail with a reason, and looks whether everybody says so.
func (u *updates) failing(name, flags, reason string) {
	u.Helper()
	_, err := u.host.Sh(u.ctx, u.command(name, flags))
	exit, ok := errors.AsType[*host.ExitError](err)
	if !ok || exit.Code != 1 || !strings.Contains(exit.Stderr, reason) {
		u.Errorf("self-update said %v, want exit code 1 and %q", err, reason)
	}
	u.wantRunning("v2")
	u.wantReported(reason)
}

// wantReported looks whether the journal and the status report the update that was taken back.
func (u *updates) wantReported(reason string) {
	u.Helper()
	if last := u.last(); last.Updated || !strings.Contains(last.Reason, reason) {
		u.Errorf("last = %+v, want the reason %q", last, reason)
	}
	u.awaitSh("the status line", "systemctl show -P StatusText rancher-system-agent | grep 'was taken back'")
	for _, unit := range []string{"rancher-system-agent", "rancher-system-agent-update"} {
		u.awaitSh("the journal of "+unit, "journalctl -u "+unit+" | grep 'was taken back'")
	}
}

func (u *updates) wellWhileWorking() {
	u.sh(`umask 077; mkdir -p /var/lib/rancher/agent/plans; cat >/var/lib/rancher/agent/plans/.work.tmp <<'PLAN'
{"instructions":[{"name":"work","command":"sh","args":["-c","echo began >>/srv/runs; while ! test -e /srv/release; do sleep 0.1; done; echo ended >>/srv/runs"]}]}
PLAN
mv /var/lib/rancher/agent/plans/.work.tmp /var/lib/rancher/agent/plans/work.plan`)
	u.awaitSh("the instruction", "grep began /srv/runs")
	out := u.sh(u.command("v2", "--within 5m"))
	if !strings.Contains(out, "updated from v1 to v2") {
		u.Errorf("self-update said %q", out)
	}
	u.wantRunning("v2")
	if last := u.last(); !last.Updated || last.OldVersion != "v1" || last.NewVersion != "v2" {
		u.Errorf("last = %+v", last)
	}
	if out := u.sh("cat /srv/runs; touch /srv/release"); out != "began\n" {
		u.Errorf("while the agent was replaced: %q", out)
	}
	u.awaitSh("the end of the plan", "test -f /var/lib/rancher/agent/plans/work.pos && grep ended /srv/runs")
	u.sh("systemctl restart rancher-system-agent; sleep 2")
	if out := u.sh("cat /srv/runs"); out != "began\nended\n" {
		u.Errorf("the instruction ran more or less than once: %q", out)
	}
	if out := u.sh(u.command("v2", "")); !strings.Contains(out, "installed already") {
		u.Errorf("the same program again: %q", out)
	}
}

func (u *updates) refused() {
	before := u.sh("cat " + updateDir + "/last.json")
	for want, from := range map[string]string{
		"was expected":     "/srv/agents/v1 --checksum " + strings.Repeat("0", 64),
		"not a program":    "/srv/agents/install.sh --checksum $(sha256sum </srv/agents/install.sh | cut -d ' ' -f 1)",
		"no such file":     "/srv/agents/none --checksum " + u.sums["v1"],
		"fails at version": "/bin/false --checksum $(sha256sum </bin/false | cut -d ' ' -f 1)",
	} {
		_, err := u.host.Sh(u.ctx, agentOnHost+" self-update --from "+from)
		if err == nil || !strings.Contains(err.Error(), want) {
			u.Errorf("self-update said %v, want %q", err, want)
		}
	}
	u.wantRunning("v2")
	if after := u.sh("cat " + updateDir + "/last.json"); after != before {
		u.Errorf("a refused update is reported as one: %s", after)
	}
}

func (u *updates) crashes() { u.failing("crashes", "--within 5m", "in a row: exit code 3") }

func (u *updates) hangs() {
	u.failing("hangs", "--within 8s", "it has not told systemd that it is ready")
}

// noProgram is an update to what passed no check, as if the disk had damaged it afterwards.
func (u *updates) noProgram() {
	garbage := []byte(strings.Repeat("no program\n", 50))
	sum := sha256.Sum256(garbage)
	intent, err := json.Marshal(selfupdate.Intent{
		Schema: 1, ID: "damaged", Program: agentOnHost, Staged: agentOnHost + ".new", Previous: agentOnHost + ".previous",
		Old: u.sums["v2"], New: hex.EncodeToString(sum[:]), OldVersion: "v2", NewVersion: "v3", Within: 300,
	})
	must(u.T, err)
	u.sh("cp " + agentOnHost + " " + agentOnHost + ".previous")
	must(u.T, u.host.WriteFile(u.ctx, agentOnHost+".new", garbage, 0o755))
	must(u.T, u.host.WriteFile(u.ctx, updateDir+"/intent.json", intent, 0o600))
	must(u.T, u.host.WriteFile(u.ctx, "/etc/systemd/system/"+selfupdate.WatchService, []byte(
		"[Service]\nRestart=on-failure\nExecStart="+agentOnHost+".previous "+selfupdate.WatchCommand+" "+updateDir+"\n"), 0o644))
	u.sh("systemctl daemon-reload; systemctl start " + selfupdate.WatchService)
	u.await("the damaged program to go back", func() error {
		if last := u.last(); last.ID != "damaged" {
			return fmt.Errorf("last = %+v", last)
		}
		return nil
	})
	u.wantRunning("v2")
	u.wantReported("in a row: exit code 203")
}

// begun begins an update to one that hangs and returns when that is in place.
func (u *updates) begun(within string) {
	u.Helper()
	u.sh(u.command("hangs", "--no-wait --within "+within))
	u.awaitSh("the new program", fmt.Sprintf("echo '%s  %s' | sha256sum --check --quiet", u.sums["hangs"], agentOnHost))
}

func (u *updates) judgeKilled() {
	u.begun("30s")
	u.awaitSh("the judge", "test $(systemctl show -P MainPID rancher-system-agent-update) != 0")
	// The journal keeps what a look at the processes may come too late for.
	const again = "journalctl -u rancher-system-agent-update | grep -c 'Scheduled restart job' || true"
	before := strings.TrimSpace(u.sh(again))
	u.sh("systemctl kill --signal KILL rancher-system-agent-update")
	u.awaitSh("another judge", fmt.Sprintf("test $(%s) -gt %s", again, before))
	u.wantRunning("v2")
	u.wantReported("has not told systemd")
}

func (u *updates) powerBeforeBack() {
	u.begun("15s")
	must(u.T, u.host.Kill(u.ctx))
	must(u.T, u.host.Boot(u.ctx))
	u.wantRunning("v2")
	u.wantReported("has not told systemd")
}

func (u *updates) powerDuringGood() {
	u.sh(u.command("v1", "--no-wait --within 5m"))
	must(u.T, u.host.Kill(u.ctx))
	must(u.T, u.host.Boot(u.ctx))
	u.wantRunning("v1")
	if last := u.last(); !last.Updated {
		u.Errorf("last = %+v", last)
	}
	if out := u.sh("systemctl show -P StatusText rancher-system-agent; cat /srv/runs"); strings.Contains(out, "taken back") || !strings.HasSuffix(out, "began\nended\n") {
		u.Errorf("after the good update: %q", out)
	}
}

func (u *updates) uninstalled() {
	u.begun("10m")
	u.sh("rancher-system-agent-uninstall.sh")
	left := u.sh("ls /etc/systemd/system | grep rancher || true; ls /usr/local/bin; test ! -e /var/lib/rancher/agent || echo state; systemctl is-active rancher-system-agent rancher-system-agent-update || true")
	if left != "inactive\ninactive\n" {
		u.Errorf("after the uninstall: %q", left)
	}
}
