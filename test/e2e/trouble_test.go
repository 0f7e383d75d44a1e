//go:build e2e && e2e_full

package e2e

// What operators do to a cluster and what happens to its hosts, on the real k3s: settings that break it and are mended, a
// version that is not published, an upgrade, a reboot, an uninstalled k3s, a removed host that joins again.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/journey"
	"github.com/drover-project/drover/test/realk3s"
)

func TestAHostInTrouble(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Versions: []string{realk3s.Older, realk3s.Version},
		LateVersions: []string{realk3s.Version}, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
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
		{"active", (*walk).joinsOlder},
		{"a setting that crashes the kubelet", (*walk).crashLoop},
		{"a setting with which k3s never gets ready", (*walk).neverReady},
		{"a version without an image is taken back", (*walk).missingImage},
		{"an upgrade", (*walk).upgrades},
		{"pods are reached through the tunnel", (*walk).pods},
		{"a reboot changes nothing", (*walk).reboot},
		{"the only member of etcd is forgotten, and the cluster is made anew", (*walk).madeAnew},
		{"k3s is uninstalled", (*walk).uninstalledK3s},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			sub := *w
			sub.T = t
			step.run(&sub)
			w.host, w.join = sub.host, sub.join
		}) {
			return
		}
	}
}

// applies gives the cluster a version and more lines of its config, with flags of apply.
func (w *walk) applies(version, config string, flags ...string) error {
	text := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  kubernetesVersion: " + version +
		"\n  rkeConfig:\n    machineGlobalConfig:\n      write-kubeconfig-mode: \"0600\"\n"
	if config != "" {
		text += "      " + config + "\n"
	}
	file := filepath.Join(w.Dir, "harbour.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := w.Drover(w.ctx, append([]string{"apply", "-f", file}, flags...)...)
	return err
}

func (w *walk) joinsOlder() {
	must(w.T, w.applies(realk3s.Older, ""))
	var err error
	w.host, err = w.Host(w.ctx, "pier-1")
	must(w.T, err)
	w.join, err = w.JoinCommand(w.ctx, "harbour")
	must(w.T, err)
	started := time.Now()
	w.sh(w.join)
	w.becomesActive("joined", started)
	m, err := w.Machines(w.ctx)
	must(w.T, err)
	w.joined = started
	w.shares(m[0])
}

func (w *walk) crashLoop() {
	must(w.T, w.applies(realk3s.Older, "kubelet-arg: [no-such-flag=1]"))
	// Whichever comes first: systemd reports that the start failed, or k3s was ready for a moment.
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	must(w.T, bed.Await(ctx, "the cause", 300*time.Millisecond, func(ctx context.Context) error {
		list, err := w.Machines(ctx)
		if err != nil {
			return err
		}
		said := list[0].Cause + "\n" + list[0].NextStep
		for _, want := range []string{"k3s.service", "restarted", "no-such-flag", "journalctl -u k3s"} {
			if !strings.Contains(said, want) {
				return fmt.Errorf("machine is %q: %s", list[0].DroverState, said)
			}
		}
		w.Logf("%s: %s", list[0].DroverState, said)
		return nil
	}))
	mended := time.Now()
	must(w.T, w.applies(realk3s.Older, ""))
	w.becomesActive("mended", mended)
}

func (w *walk) neverReady() {
	w.sh("mkfifo /run/nobody-writes") // its reader waits, here k3s' API server
	must(w.T, w.applies(realk3s.Older, "kube-apiserver-arg: [audit-policy-file=/run/nobody-writes]"))
	w.shows(patience, "Applying plan", "k3s.service is activating (start)", "printed last", "journalctl -u k3s", "--replace")
	if err := w.applies(realk3s.Older, ""); err == nil || !strings.Contains(err.Error(), "has been running") {
		w.Errorf("nothing has failed, and another change was taken: %v", err)
	}
	mended := time.Now()
	must(w.T, w.applies(realk3s.Older, "", "--replace"))
	w.becomesActive("mended", mended)
}

func (w *walk) missingImage() {
	must(w.T, w.applies(realk3s.Version, ""))
	w.shows(patience, "Error", "system-agent-installer-k3s:v1.34.4-k3s1")
	started := time.Now()
	must(w.T, w.applies(realk3s.Older, ""))
	w.becomesActive("taken back", started)
}

func (w *walk) upgrades() {
	must(w.T, w.ServeVersion(w.ctx, realk3s.Version))
	started := time.Now()
	must(w.T, w.applies(realk3s.Version, ""))
	w.becomesActive("upgraded", started)
	if out := w.drover("clusters", "ls"); !strings.Contains(out, realk3s.Version) || strings.Contains(out, realk3s.Older) {
		w.Errorf("clusters ls shows\n%s", out)
	}
	if err := w.applies(realk3s.Older, ""); err == nil || !strings.Contains(err.Error(), "cannot go back from v1.34.4+k3s1, which runs") {
		w.Errorf("to go back: %v", err)
	}
}

func (w *walk) reboot() {
	must(w.T, w.host.Reboot(w.ctx))
	// The server sees the tunnel go; wait until the node is seen through a new one.
	must(w.T, bed.Await(w.ctx, "the node to be Ready after the reboot", time.Second, func(ctx context.Context) error {
		out, err := w.Kubectl(ctx, "--kubeconfig", filepath.Join(w.Dir, "kc"), "get", "nodes")
		if err != nil {
			return err
		}
		if !strings.Contains(out, " Ready ") {
			return fmt.Errorf("nodes: %s", out)
		}
		return nil
	}))
	_, err := w.Await(w.ctx, "Active", nil)
	must(w.T, err)
}

// madeAnew has the only machine forgotten while k3s stays on its host: who joins then would begin an empty etcd, which is said
// and not done. What is said to do is done.
func (w *walk) madeAnew() {
	m, err := w.Machines(w.ctx)
	must(w.T, err)
	out := w.drover("machines", "rm", m[0].MachineName(), "--yes", "--force")
	// It names the scripts of all distributions; these are the ones of this host.
	for _, script := range []string{"rancher-system-agent-uninstall.sh", "k3s-uninstall.sh"} {
		if !strings.Contains(out, script) {
			w.Errorf("it does not name %s: %s", script, out)
		}
		w.sh("command -v " + script)
	}
	w.sh("rancher-system-agent-uninstall.sh")
	w.sh("! test -e /etc/rancher/agent/registries.yaml")
	must(w.T, w.Mirror(w.ctx, w.host))
	w.sh(w.join)
	w.shows(2*time.Minute, "Error", "the etcd plane has been entirely replaced", "remove the cluster and create it anew")
	w.drover("clusters", "rm", "harbour", "--yes", "--wait")
	w.sh("rancher-system-agent-uninstall.sh; k3s-uninstall.sh")
	must(w.T, w.applies(realk3s.Version, ""))
	w.join, err = w.JoinCommand(w.ctx, "harbour")
	must(w.T, err)
	must(w.T, w.Mirror(w.ctx, w.host))
	started := time.Now()
	w.sh(w.join)
	w.becomesActive("made anew", started)
}

func (w *walk) uninstalledK3s() {
	w.sh("k3s-uninstall.sh >/dev/null 2>&1 || true; ! systemctl is-active k3s")
	gone := time.Now()
	w.shows(time.Minute, "Unavailable", "since")
	w.Logf("shown after %s", time.Since(gone).Round(100*time.Millisecond))
}
