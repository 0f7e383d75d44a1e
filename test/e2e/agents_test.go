//go:build e2e && e2e_full

package e2e

// The agents of a cluster of three hosts, and of a fleet of two, are updated by the server: a bad one stops at one host, and a good one comes to all
// though the server and a host are killed meanwhile.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/journey"
	"github.com/drover-project/drover/test/realk3s"
)

// agents is a cluster or a fleet of that name, whose server hands out what is in a directory.
type agents struct {
	name string
	*testing.T
	*journey.Journey
	ctx    context.Context
	made   *updates
	assets string
	hosts  []*host.Host
}

func TestAgentsOfAClusterAreUpdated(t *testing.T) {
	a := newAgents(t, "harbour", false)
	a.join()
	a.badOne()
	a.goodOne(0) // the server comes last
	a.pinned()
}

// TestAgentsOfAFleetAreUpdated: what people gave its hosts stays there, and is not done again.
func TestAgentsOfAFleetAreUpdated(t *testing.T) {
	a := newAgents(t, "edge", true) // no k3s is made for these hosts
	for i := range 2 {
		h, err := a.Bed.Host(a.ctx, host.Options{Name: fmt.Sprint("pier-", i+1)})
		must(t, err)
		a.hosts = append(a.hosts, h)
		_, err = h.Sh(a.ctx, strings.ReplaceAll(a.drover("fleets", "join-command", "edge", "--node-name", h.Name()), "| sudo ", "| ")) // hosts have none
		must(t, err)
	}
	plan := filepath.Join(a.Dir, "plan.yaml")
	must(t, os.WriteFile(plan, []byte(`{files: [{path: /etc/greeting, content: aGVsbG8K}], instructions: [{name: greet, command: sh, args: ["-c", "cat /etc/greeting >>/var/greeted"]}]}`), 0o600))
	a.have("v1", "v1")
	a.drover("machines", "plan", "--fleet", "edge", "-f", plan, "--concurrency", "0", "--wait")
	a.badOne()
	a.goodOne(1)
	a.pinned()
	if out := a.drover("machines", "plan", "--fleet", "edge", "-f", plan, "--wait"); !strings.Contains(out, "unchanged") {
		t.Errorf("given again the plan is\n%s", out)
	}
	for _, h := range a.hosts {
		if out, err := h.Sh(a.ctx, "cat /etc/greeting /var/greeted"); err != nil || strings.TrimSpace(out) != "hello\nhello" {
			t.Errorf("%s: %v %q", h.Name(), err, out)
		}
	}
}

func newAgents(t *testing.T, name string, released bool) *agents {
	t.Helper()
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	a := &agents{name: name, T: t, ctx: ctx, assets: t.TempDir(), made: &updates{T: t, ctx: ctx, bin: t.TempDir(), sums: map[string]string{}}}
	a.made.build("v1", "v2", "crashes")
	a.hands("v1")
	a.Journey, err = journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Released: released, Flags: []string{"--assets", a.assets}, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := a.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, a.StartServer(ctx))
	return a
}

// hands has the server hand out one of the programs that were made.
func (a *agents) hands(name string) {
	a.Helper()
	place := filepath.Join(a.assets, "rancher-system-agent-amd64")
	program, err := os.ReadFile(filepath.Join(a.made.bin, name))
	must(a.T, err)
	must(a.T, os.WriteFile(place+".new", program, 0o755))
	must(a.T, os.Rename(place+".new", place))
}

func (a *agents) drover(args ...string) string {
	a.Helper()
	out, err := a.Drover(a.ctx, args...)
	must(a.T, err)
	return out
}

func (a *agents) join() {
	a.Helper()
	file := filepath.Join(a.Dir, "harbour.yaml")
	must(a.T, os.WriteFile(file, []byte("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec: {kubernetesVersion: "+realk3s.Version+", rkeConfig: {}}\n"), 0o600))
	a.drover("apply", "-f", file)
	var joining sync.WaitGroup
	for i := range 3 {
		roles := []string{"--worker"}
		if i == 0 {
			roles = nil
		}
		line, err := a.JoinCommand(a.ctx, "harbour", roles...)
		must(a.T, err)
		h, err := a.Host(a.ctx, fmt.Sprint("pier-", i+1))
		must(a.T, err)
		a.hosts = append(a.hosts, h)
		joining.Go(func() {
			if _, err := h.Sh(a.ctx, line); err != nil {
				a.Error(err)
			}
		})
	}
	joining.Wait()
	a.await("all to be Active", 10*time.Minute, func() error {
		all, err := a.Machines(a.ctx)
		for _, m := range all {
			if m.DroverState != "Active" {
				err = errors.Join(err, fmt.Errorf("%s is %s: %s", m.MachineName(), m.DroverState, m.Cause))
			}
		}
		if len(all) != 3 {
			err = errors.Join(err, fmt.Errorf("there are %d machines", len(all)))
		}
		return err
	})
	a.have("v1", "v1", "v1")
}

func (a *agents) await(what string, limit time.Duration, is func() error) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.ctx, limit)
	defer cancel()
	must(a.T, bed.Await(ctx, what, 500*time.Millisecond, func(context.Context) error { return is() }))
}

// have waits until the servers hears of these releases, and looks whether the hosts have those programs.
func (a *agents) have(releases ...string) {
	a.Helper()
	a.await("agents of "+strings.Join(releases, ", "), 2*time.Minute, func() error {
		out, err := a.Drover(a.ctx, "agents", "ls", "--cluster", a.name)
		if err != nil {
			return err
		}
		for i, release := range releases {
			if !regexp.MustCompile(fmt.Sprintf(`(?m) pier-%d +%s +%s +\S+ +behind`, i+1, a.name, release)).MatchString(out) {
				err = errors.Join(err, fmt.Errorf("pier-%d has no %s:\n%s", i+1, release, out))
			}
		}
		return err
	})
	for i, h := range a.hosts {
		_, err := h.Sh(a.ctx, fmt.Sprintf(`echo "%s  %s" | sha256sum --check --quiet`, a.made.sums[releases[i]], agentOnHost))
		must(a.T, err)
	}
}

// badOne crashes on the first host, which takes it back, and comes to no other.
func (a *agents) badOne() {
	a.Helper()
	a.hands("crashes")
	_, err := a.Drover(a.ctx, "agents", "update", a.name, "--wait")
	if err == nil || !strings.Contains(err.Error(), "which is the first") || !strings.Contains(err.Error(), "taken back") {
		a.Fatalf("the bad update says %v", err)
	}
	tried := 0
	for _, h := range a.hosts {
		if _, err := h.Sh(a.ctx, "test -e "+updateDir+"/last.json"); err == nil {
			tried++
		}
	}
	if tried != 1 {
		a.Errorf("the bad agent came to %d hosts", tried)
	}
	a.have(slices.Repeat([]string{"v1"}, len(a.hosts))...)
}

// goodOne comes to all though the server is killed when it has begun, and the host that comes last when its turn has come.
func (a *agents) goodOne(last int) {
	a.Helper()
	a.hands("v2")
	begun := regexp.MustCompile(`operation (op-\w+):`).FindStringSubmatch(a.drover("agents", "update", a.name))
	if begun == nil {
		a.Fatal("the update has no operation")
	}
	must(a.T, a.KillServer(a.ctx))
	must(a.T, a.StartServer(a.ctx))
	killed := a.hosts[last]
	a.await("its turn", 5*time.Minute, func() error {
		out, err := killed.Sh(a.ctx, "test ! -e /etc/systemd/system/rancher-system-agent-update.service || echo yes")
		if err == nil && out == "" {
			err = errors.New("no update has begun there")
		}
		return err
	})
	must(a.T, killed.Kill(a.ctx))
	must(a.T, killed.Boot(a.ctx))
	_, err := a.Drover(a.ctx, "operations", "wait", begun[1], "--timeout", "10m")
	if err != nil && strings.Contains(err.Error(), "nothing was changed") {
		// systemd ends first when a host is killed, and its agent may still say that the update could not begin.
		a.drover("operations", "retry", begun[1])
		_, err = a.Drover(a.ctx, "operations", "wait", begun[1], "--timeout", "10m")
	}
	must(a.T, err)
	a.have(slices.Repeat([]string{"v2"}, len(a.hosts))...)
	a.T.Log(a.drover("operations", "show", begun[1]))
}

// pinned agents are not updated, but for one that is named.
func (a *agents) pinned() {
	a.Helper()
	a.drover("agents", "pin", a.name)
	if _, err := a.Drover(a.ctx, "agents", "update", a.name); err == nil || !strings.Contains(err.Error(), "are pinned: drover agents unpin "+a.name) {
		a.Errorf("pinned agents: %v", err)
	}
	if out := a.drover("agents", "ls"); strings.Count(out, "pinned") != len(a.hosts) {
		a.Errorf("agents ls says\n%s", out)
	}
	a.drover("agents", "unpin", a.name)
}
