//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/journey"
)

// walk is one journey under test.
type walk struct {
	*testing.T
	*journey.Journey
	ctx  context.Context
	host *host.Host
	join string
	// joined is when the join line was run.
	joined time.Time
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a script on the host and must succeed.
func (w *walk) sh(script string) string {
	w.Helper()
	out, err := w.host.Sh(w.ctx, script)
	if err != nil {
		w.Fatalf("on the host: %v", err)
	}
	return out
}

func (w *walk) drover(args ...string) string {
	w.Helper()
	out, err := w.Drover(w.ctx, args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func TestAHostJoinsAndBecomesActive(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	dir := t.TempDir()
	j, err := journey.Start(ctx, journey.Options{
		Dir: dir, CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	w := &walk{T: t, Journey: j, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			w.evidence()
		}
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, j.StartServer(ctx))
	for _, step := range []struct {
		name string
		run  func(*walk)
	}{
		{"a bad document stores nothing", (*walk).badDocuments},
		{"a good one is a cluster", (*walk).apply},
		{"a wrong join leaves the host as it was", (*walk).badJoins},
		{"the printed line joins", (*walk).joins},
		{"killed in the middle of the apply", (*walk).killedInTheMiddle},
		{"active by the word of the cluster's API", (*walk).active},
		{"kubectl works through the server", (*walk).kubectl},
		{"pods are reached through the tunnel", (*walk).pods},
		{"two people with different roles", (*walk).people},
		{"kubectl works on the plan's secret", (*walk).planSecrets},
		{"the config stands in both places", (*walk).bothPlaces},
		{"joining again changes nothing", (*walk).joinsAgain},
		{"other roles are refused", (*walk).otherRoles},
		{"a power cut is shown and changes nothing", (*walk).powerCut},
		{"each instruction ran once", (*walk).ranOnce},
		{"a changed config restarts k3s once", (*walk).changesConfig},
		{"an agent of the cluster's own is the first way in", (*walk).ownAgent},
		{"a dropped plan runs", (*walk).dropped},
		{"uninstalling leaves the cluster", (*walk).uninstall},
		{"which is imported, and left again", (*walk).imported},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			sub := *w
			sub.T = t
			step.run(&sub)
			w.host, w.join, w.joined = sub.host, sub.join, sub.joined
		})
		if !ok {
			return
		}
	}
}

// evidence prints what a person would look at first.
func (w *walk) evidence() {
	w.ctx = context.WithoutCancel(w.ctx) // the test's own has ended
	if log, err := os.ReadFile(w.ServerLog()); err == nil {
		w.T.Logf("the server's log:\n%s", tail(string(log), 60))
	}
	if w.host == nil {
		return
	}
	for _, unit := range []string{"rancher-system-agent", "k3s"} {
		if log, err := w.host.Journal(w.ctx, unit); err == nil {
			w.T.Logf("journal of %s:\n%s", unit, tail(log, 80))
		}
	}
	if out, err := w.Drover(w.ctx, "machines", "ls", "-o", "yaml"); err == nil {
		w.T.Log(out)
	}
}

func tail(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (w *walk) badDocuments() {
	file := filepath.Join(w.Dir, "bad.yaml")
	good, err := os.ReadFile(filepath.Join(w.Module, "examples/k3s.yaml"))
	must(w.T, err)
	for want, text := range map[string]string{
		"bad.yaml:10: spec.kubernetesversion: is not a field here":                     strings.Replace(string(good), "kubernetesVersion", "kubernetesversion", 1),
		"there is no data for \"v1.54.99+k3s1\"":                                       strings.Replace(string(good), "v1.34.4", "v1.54.99", 1),
		"\"harbour\" is described twice":                                               string(good) + "---\n" + string(good),
		"spec.rkeConfig.machineGlobalConfig.disabel: is not a setting of v1.34.4+k3s1": strings.Replace(string(good), "disable:", "disabel:", 1),
	} {
		must(w.T, os.WriteFile(file, []byte(text), 0o600))
		_, err := w.Drover(w.ctx, "apply", "-f", file)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "exit status 1") {
			w.Errorf("apply said %v, want %q and exit status 1", err, want)
		}
	}
	if out := w.drover("clusters", "ls", "-o", "json"); strings.TrimSpace(out) != "[]" {
		w.Errorf("a refused document stored %s", out)
	}
}

func (w *walk) apply() {
	file := w.document("")
	for i, step := range []struct{ args, want string }{
		{"--dry-run", "created (dry run)"}, {"--dry-run", "unchanged (dry run)"}, {"", "unchanged"},
	} {
		if i == 1 {
			w.kubectlApplies(file)
		}
		args := []string{"apply", "-f", file}
		if step.args != "" {
			args = append(args, step.args)
		}
		if out, _, _ := strings.Cut(w.drover(args...), "\n"); !strings.HasSuffix(out, step.want) {
			w.Errorf("apply %s said %q, want %s", step.args, out, step.want)
		}
	}
}

// inventory lists everything below the directories that joining may touch.
func (w *walk) inventory() string {
	return w.sh("find /etc /usr/local /var/lib/rancher /opt -newer /proc/1 2>/dev/null -printf '%p %T@ %s\n' | sort; ls /etc/systemd/system")
}

func (w *walk) badJoins() {
	var err error
	w.host, err = w.Host(w.ctx, "pier-1")
	must(w.T, err)
	w.join, err = w.JoinCommand(w.ctx, "harbour")
	must(w.T, err)
	before := w.inventory()
	replaceAfter := func(flag, value string) string {
		fields := strings.Fields(w.join)
		for i, f := range fields {
			if f == flag {
				fields[i+1] = value
			}
		}
		return strings.Join(fields, " ")
	}
	for _, tc := range []struct{ name, line, want string }{
		{"checksum", replaceAfter("--ca-checksum", strings.Repeat("0", 64)), strings.Repeat("0", 64)},
		{"token", regexp.MustCompile(`CATTLE_TOKEN=\w+`).ReplaceAllString(w.join, "CATTLE_TOKEN="+strings.Repeat("b", 54)), "token"},
		{"plain http", replaceAfter("--server", strings.Replace(w.URL, "https", "http", 1)), "http"},
	} {
		out, err := w.host.Sh(w.ctx, "("+tc.line+") 2>&1")
		if err == nil || !strings.Contains(out+err.Error(), tc.want) {
			w.Errorf("%s: %v %s", tc.name, err, out)
		}
		if after := w.inventory(); after != before {
			w.Errorf("%s: the host changed:\n%s", tc.name, after)
		}
	}
}

func (w *walk) joins() {
	w.carryEndpointImage()
	w.joined = time.Now()
	out := w.sh(w.join)
	w.T.Logf("joined in %s:\n%s", time.Since(w.joined).Round(time.Millisecond), tail(strings.TrimSpace(out), 3))
	list, err := w.Machines(w.ctx)
	must(w.T, err)
	if len(list) != 1 {
		w.Fatalf("machines = %+v", list)
	}
}

// killedInTheMiddle waits until the install script starts k3s, then kills the server and restarts the agent.
func (w *walk) killedInTheMiddle() {
	must(w.T, bed.Await(w.ctx, "k3s to be started", 50*time.Millisecond, func(ctx context.Context) error {
		_, err := w.host.Sh(ctx, "systemctl show -P ActiveState k3s | grep -x activating")
		return err
	}))
	must(w.T, w.KillServer(w.ctx))
	w.sh("systemctl restart rancher-system-agent")
	if state := strings.TrimSpace(w.sh("systemctl show -P ActiveState k3s; test -e /var/lib/rancher/k3s/restart_stamp && echo installed || true")); state != "activating" {
		w.Fatalf("the install script was over before anything was killed, so this shows nothing: k3s is %s", state)
	}
	must(w.T, w.StartServer(w.ctx))
	w.sh("systemctl restart rancher-system-agent")
}

func (w *walk) active() {
	m, err := w.Await(w.ctx, "Active", func(m journey.Machine) { w.T.Logf("%s: %s", m.DroverState, m.Cause) })
	must(w.T, err)
	var walked []string
	for _, h := range m.History {
		walked = append(walked, h.State)
	}
	w.T.Logf("walked %s", strings.Join(walked, " → "))
	for _, state := range []string{"Applying plan", "Waiting for probes", "Waiting to register with Kubernetes", "Active"} {
		if !strings.Contains(strings.Join(walked, ","), state) {
			w.Errorf("the machine was never %q", state)
		}
	}
	w.kubectlWaits()
	w.shares(m)
	show := w.drover("machines", "show", m.MachineName())
	for _, want := range []string{"state", "since", "Active", "history"} {
		if !strings.Contains(show, want) {
			w.Errorf("machines show has no %q:\n%s", want, show)
		}
	}
}

// shares logs how long the way to Active took, and which part of it was drover's: what lies before k3s was started, and
// after its node was Ready.
func (w *walk) shares(m journey.Machine) {
	w.Helper()
	times := strings.Split(strings.TrimSpace(w.sh(`systemctl show --timestamp=us+utc -P InactiveExitTimestamp k3s
k3s kubectl get nodes -o jsonpath='{.items[0].status.conditions[?(@.type=="Ready")].lastTransitionTime}'`)), "\n")
	started, err := time.Parse("Mon 2006-01-02 15:04:05.000000 MST", times[0])
	must(w.T, err)
	ready, err := time.Parse(time.RFC3339, times[1]) // whole seconds, cut off
	must(w.T, err)
	active := m.History[len(m.History)-1].At
	w.Logf("from the join line to Active: %s; drover's share: %s before k3s was started, at most %s after its node was Ready",
		active.Sub(w.joined).Round(10*time.Millisecond), started.Sub(w.joined).Round(10*time.Millisecond), active.Sub(ready).Round(10*time.Millisecond))
}

func (w *walk) kubeconfig() string {
	w.Helper()
	file := filepath.Join(w.Dir, "kc")
	must(w.T, os.WriteFile(file, []byte(w.drover("clusters", "kubeconfig", "harbour")), 0o600))
	return file
}

func (w *walk) kubectl() {
	out, err := w.Kubectl(w.ctx, "--kubeconfig", w.kubeconfig(), "get", "nodes", "-o", "wide")
	must(w.T, err)
	if !strings.Contains(out, " Ready ") || !strings.Contains(out, "v1.34.4+k3s1") {
		w.Errorf("nodes:\n%s", out)
	}
}

// planSecrets uses kubectl as an administrator would on a bad day.
func (w *walk) planSecrets() {
	token, err := os.ReadFile(filepath.Join(w.DataDir, "admin-token"))
	must(w.T, err)
	base := []string{"--server", w.URL, "--certificate-authority", filepath.Join(w.DataDir, "tls", "ca.crt"), "--token", strings.TrimSpace(string(token)), "-n", "fleet-default"}
	run := func(args ...string) string {
		w.Helper()
		out, err := w.Kubectl(w.ctx, append(base, args...)...)
		must(w.T, err)
		return out
	}
	name := strings.TrimSpace(run("get", "secrets", "-o", "name"))
	if !strings.HasPrefix(name, "secret/custom-") || !strings.HasSuffix(name, "-machine-plan") {
		w.Fatalf("secrets = %q", name)
	}
	run("patch", name, "-p", `{"data":{"probe-period-seconds":"Mg=="}}`)
	run("patch", name, "--type=merge", "-p", `{"metadata":{"annotations":{"seen":"yes"}}}`)
	run("patch", name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/annotations/seen"}]`)
	if got := run("get", name, "-o", "jsonpath={.data.probe-period-seconds}"); got != "Mg==" {
		w.Errorf("probe-period-seconds = %q", got)
	}
	watch, err := process.Start(w.ctx, process.Options{
		Path: w.K3s.Kubectl(), Args: append(base, "get", "secrets", "-w", "-o", "name"),
		Env: []string{"HOME=" + w.Dir}, LogFile: filepath.Join(w.Dir, "logs", "kubectl-watch.log"),
	})
	must(w.T, err)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	_, err = watch.WaitLine(ctx, regexp.MustCompile("^"+regexp.QuoteMeta(name)+"$"))
	must(w.T, errors.Join(err, watch.Kill()))
}

func (w *walk) bothPlaces() {
	link := strings.TrimSpace(w.sh("readlink /etc/rancher/k3s/config.yaml.d/50-rancher.yaml"))
	if want := "/var/lib/rancher/system-agent/etc/k3s/config.yaml.d/50-rancher.yaml"; link != want {
		w.Errorf("50-rancher.yaml links to %q, want %s", link, want)
	}
	if mode := strings.TrimSpace(w.sh("stat -L -c '%a %U' /etc/rancher/k3s/config.yaml.d/50-rancher.yaml")); mode != "600 root" {
		w.Errorf("mode and owner = %s", mode)
	}
}

// installed prints what another installation of k3s or of the agent would change.
const installed = `systemctl show -P ExecMainStartTimestamp -P NRestarts k3s; cat /var/lib/rancher/k3s/restart_stamp
stat -c %Y /etc/systemd/system/rancher-system-agent.service /usr/local/bin/k3s`

func (w *walk) joinsAgain() {
	before := w.sh(installed)
	w.sh(w.join)
	_, err := w.Await(w.ctx, "Active", nil)
	must(w.T, err)
	if after := w.sh(installed); after != before {
		w.Errorf("joining again changed\n%s\nto\n%s", before, after)
	}
}

func (w *walk) otherRoles() {
	out, err := w.host.Sh(w.ctx, "("+strings.Replace(w.join, " --etcd --controlplane --worker", " --worker", 1)+") 2>&1")
	if err == nil || !strings.Contains(out+err.Error(), "etcd") {
		w.Errorf("other roles: %v %s", err, out)
	}
	// Joining again has restarted the agent; without its tunnel the machine is not Active for a moment.
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	must(w.T, bed.Await(ctx, "the refused change to be shown of an active machine", 200*time.Millisecond, func(ctx context.Context) error {
		list, err := w.Machines(ctx)
		if err == nil && (list[0].Refused == "" || list[0].DroverState != "Active") {
			err = fmt.Errorf("it is %+v", list[0])
		}
		return err
	}))
}

// shows waits until the machine is in a state and its cause, or what to do next, has all of the texts in it.
func (w *walk) shows(within time.Duration, state string, texts ...string) journey.Machine {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, within)
	defer cancel()
	var last journey.Machine
	err := bed.Await(ctx, fmt.Sprintf("state %s with %q", state, texts), 300*time.Millisecond, func(ctx context.Context) error {
		list, err := w.Machines(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("no machine is registered")
		}
		last = list[0]
		said := last.Cause + "\n" + last.NextStep
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return fmt.Errorf("machine is %q: %s", last.DroverState, said)
			}
		}
		if last.DroverState != state {
			return fmt.Errorf("machine is %q: %s", last.DroverState, said)
		}
		return nil
	})
	must(w.T, err)
	w.Logf("%s: %s\n→ %s", last.DroverState, last.Cause, last.NextStep)
	return last
}

// active waits for Active and says how long that took.
func (w *walk) becomesActive(what string, since time.Time) {
	w.Helper()
	_, err := w.Await(w.ctx, "Active", nil)
	must(w.T, err)
	w.Logf("%s: Active after %s", what, time.Since(since).Round(100*time.Millisecond))
}

func (w *walk) powerCut() {
	must(w.T, w.host.Kill(w.ctx))
	cut := time.Now()
	w.shows(time.Minute, "Unavailable", "nothing is seen of", "since")
	w.Logf("shown as lost after %s", time.Since(cut).Round(100*time.Millisecond))
	must(w.T, w.host.Boot(w.ctx))
	w.becomesActive("back", time.Now())
	status := w.sh("rancher-system-agent status")
	for line := range strings.Lines(status) {
		if strings.Contains(line, "healthy since") && strings.Contains(line, "refused") && !strings.Contains(line, "NOT") || strings.HasPrefix(line, "failed") {
			w.Errorf("after the boot the status shows: %s", line)
		}
	}
}

func (w *walk) ranOnce() {
	if starts := w.k3sStarts(); starts != 2 {
		w.Errorf("k3s was started %d times, want once for the plan and once after the power cut", starts)
	}
}

// changesConfig applies the cluster with another setting of its API server.
func (w *walk) changesConfig() {
	file := w.document("      kube-apiserver-arg: [max-requests-inflight=401]\n")
	before, started := w.k3sStarts(), time.Now()
	w.drover("apply", "-f", file)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	must(w.T, bed.Await(ctx, "the changed config on the host", 100*time.Millisecond, func(ctx context.Context) error {
		_, err := w.host.Sh(ctx, "grep -q max-requests-inflight=401 /etc/rancher/k3s/config.yaml.d/50-rancher.yaml && test $(systemctl show -P ActiveState k3s) = active")
		return err
	}))
	_, err := w.Await(w.ctx, "Active", nil)
	must(w.T, err)
	w.Logf("from the changed config to Active: %s", time.Since(started).Round(100*time.Millisecond))
	if after := w.k3sStarts(); after != before+1 {
		w.Errorf("k3s was started %d times for one change", after-before)
	}
}

// k3sStarts is how often systemd has started k3s on the host, over all boots.
func (w *walk) k3sStarts() int {
	w.Helper()
	return strings.Count(w.sh("journalctl --no-pager -o cat -u k3s -t systemd"), "Starting k3s.service")
}

// dropped puts a plan file where an operator would.
func (w *walk) dropped() {
	w.sh(`sed -i 's/^localEnabled:.*/localEnabled: true/' /var/lib/rancher/system-agent/etc/config.yaml && systemctl restart rancher-system-agent
umask 077
mkdir -p /var/lib/rancher/agent/plans
cat > /var/lib/rancher/agent/plans/.hello.tmp <<'PLAN'
{"files":[{"path":"/etc/drover-hello","content":"aGVsbG8K","permissions":"0640"}],
 "instructions":[{"name":"count","command":"sh","args":["-c","echo ran >> /var/lib/drover-hello"],"saveOutput":true}]}
PLAN
mv /var/lib/rancher/agent/plans/.hello.tmp /var/lib/rancher/agent/plans/hello.plan`)
	must(w.T, bed.Await(w.ctx, "the dropped plan", 200*time.Millisecond, func(ctx context.Context) error {
		_, err := w.host.Sh(ctx, "test -s /var/lib/drover-hello && test -f /var/lib/rancher/agent/plans/hello.pos")
		return err
	}))
	w.sh("systemctl restart rancher-system-agent; sleep 2")
	if out := w.sh("cat /var/lib/drover-hello; stat -c %a /etc/drover-hello"); out != "ran\n640\n" {
		w.Errorf("the dropped plan left %q", out)
	}
}

func (w *walk) uninstall() {
	w.sh("system-agent-uninstall.sh || rancher-system-agent-uninstall.sh")
	if out := w.sh("systemctl is-active k3s; test -f /etc/rancher/k3s/config.yaml.d/50-rancher.yaml && ! test -L /etc/rancher/k3s/config.yaml.d/50-rancher.yaml && echo plain; test -e /var/lib/rancher/system-agent/etc || echo gone"); out != "active\nplain\ngone\n" {
		w.Errorf("after the uninstall: %q", out)
	}
	m, err := w.Machines(w.ctx)
	must(w.T, err)
	w.drover("machines", "rm", m[0].MachineName(), "--yes", "--force")
	w.drover("clusters", "rm", "harbour", "--yes")
	must(w.T, bed.Await(w.ctx, "an empty server", 200*time.Millisecond, func(ctx context.Context) error {
		out, err := w.Drover(ctx, "clusters", "ls", "-o", "json")
		if err != nil {
			return err
		}
		if strings.TrimSpace(out) != "[]" {
			return fmt.Errorf("clusters: %s", out)
		}
		return nil
	}))
}
