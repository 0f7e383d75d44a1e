//go:build e2e

package e2e

// Machines without a cluster: two hosts with a real systemd join a fleet by the printed line, and get plans.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/journey"
)

// Plans as an operator writes them.
const (
	greeting = `files:
  - path: /etc/greeting
    content: aGVsbG8K # hello
    permissions: "0644"
instructions:
  - name: greet
    command: sh
    args: ["-c", "sleep 3; cat /etc/greeting; hostname"]
probes:
  greeted:
    systemd: {unit: rancher-system-agent.service}
`
	// stubborn fails until a person has looked after its host.
	stubborn = `instructions:
  - name: look
    command: sh
    args: ["-c", "echo looking for a lamp; test -e /run/lamp"]
`
)

// edge is a fleet of hosts under test.
type edge struct {
	*walk
	hosts []*host.Host
}

func TestFleet(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		// Nothing is provisioned on these hosts: no k3s is built for them.
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Released: true, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	e := &edge{walk: &walk{T: t, Journey: j, ctx: ctx}}
	t.Cleanup(func() {
		if t.Failed() {
			for _, e.host = range e.hosts {
				e.evidence()
			}
		}
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, j.StartServer(ctx))
	for i := range 2 {
		h, err := j.Bed.Host(ctx, host.Options{Name: fmt.Sprintf("edge-%d", i+1)})
		must(t, err)
		e.hosts = append(e.hosts, h)
	}
	for _, step := range []struct {
		name string
		run  func(*edge)
	}{
		{"hosts join by the printed line", (*edge).join},
		{"a plan for all with a label", (*edge).byLabel},
		{"given again it changes nothing", (*edge).again},
		{"a plan that fails is tried again", (*edge).fails},
		{"what happened is kept", (*edge).history},
		{"machines and the fleet are removed", (*edge).remove},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			sub := *e
			w := *e.walk
			w.T, sub.walk = t, &w
			step.run(&sub)
		}) {
			return
		}
	}
}

// refused runs a command that has to fail with a text.
func (e *edge) refused(want string, args ...string) {
	e.Helper()
	if out, err := e.Drover(e.ctx, args...); err == nil || !strings.Contains(err.Error(), want) {
		e.Fatalf("%v: %v, want %q: %s", args, err, want, out)
	}
}

// await waits until a command prints what matches.
func (e *edge) await(what, pattern string, args ...string) {
	e.Helper()
	wanted := regexp.MustCompile(pattern)
	must(e.T, bed.Await(e.ctx, what, time.Second, func(ctx context.Context) error {
		out, err := e.Drover(ctx, args...)
		if !wanted.MatchString(out) { // of a command that fails too: why does when something is wrong
			return fmt.Errorf("%v: %w\n%s", args, err, out)
		}
		return nil
	}))
}

func (e *edge) plan(text string) string {
	e.Helper()
	file := filepath.Join(e.TempDir(), "plan.yaml")
	must(e.T, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (e *edge) join() {
	for i, h := range e.hosts {
		line := e.drover("fleets", "join-command", "edge", "--label", "site=north", "--node-name", fmt.Sprintf("edge-%d", i+1))
		line = strings.ReplaceAll(strings.TrimSpace(line), "| sudo ", "| ")
		if i == 0 {
			if out, err := h.Sh(e.ctx, strings.Replace(line, "--no-roles", "--worker", 1)); err == nil || !strings.Contains(out+err.Error(), "fleet edge is no cluster") {
				e.Errorf("a host with a role joins a fleet: %s", out)
			}
		}
		out, err := h.Sh(e.ctx, line)
		if err != nil {
			e.Fatalf("join: %v: %s", err, out)
		}
	}
	e.await("both hosts to wait for a plan", `edge +f-\w+ +2 +2 Waiting for plan`, "fleets", "ls")
	e.await("drover to say why", `no-plan[\s\S]*drover machines plan`, "why", "edge-1")
}

func (e *edge) byLabel() {
	file := e.plan(greeting)
	preview := e.drover("machines", "plan", "-l", "site=north", "-f", file, "--concurrency", "0", "--dry-run")
	for _, want := range []string{"plan ", "add file /etc/greeting", "+hello", "run instruction greet", "ask probe greeted", "edge-1", "edge-2"} {
		if !strings.Contains(preview, want) {
			e.Errorf("the preview does not say %q:\n%s", want, preview)
		}
	}
	out := e.drover("machines", "plan", "-l", "site=north", "-f", file, "--concurrency", "0", "--wait", "--timeout", "5m")
	e.T.Log(out)
	for i, h := range e.hosts {
		if text, err := h.Sh(e.ctx, "cat /etc/greeting"); err != nil || text != "hello\n" {
			e.Errorf("on host %d: %q, %v", i+1, text, err)
		}
	}
	if n := strings.Count(out, "greet[stdout]: hello"); n != 2 {
		e.Errorf("what the hosts print is seen %d times:\n%s", n, out)
	}
	e.await("both to be active", `edge +f-\w+ +2 +2 Active`, "fleets", "ls")
}

func (e *edge) again() {
	if out := e.drover("machines", "plan", "--fleet", "edge", "-f", e.plan(greeting)); !strings.Contains(out, "unchanged: 2 machines") {
		e.Errorf("given again: %s", out)
	}
	e.refused("plan.yaml:2: unknown field", "machines", "plan", "--fleet", "edge", "-f", e.plan("instructions:\n- {nmae: x}\n"))
	e.refused("no machine of a fleet has label site=south", "machines", "plan", "-l", "site=south", "-f", e.plan(greeting))
}

func (e *edge) fails() {
	out := e.drover("machines", "plan", "edge-1", "-f", e.plan(stubborn))
	id := regexp.MustCompile(`op-\w+`).FindString(out)
	e.await("the plan to fail, and its output to be seen", `plan-failed[\s\S]*looking for a lamp`, "why", "edge-1")
	if other := e.drover("machines", "ls", "--cluster", "edge"); !regexp.MustCompile(`edge-2 .*Active`).MatchString(other) {
		e.Errorf("the other machine:\n%s", other)
	}
	if _, err := e.hosts[0].Sh(e.ctx, "touch /run/lamp"); err != nil {
		e.Fatal(err)
	}
	if out, err := e.Drover(e.ctx, "operations", "retry", id); err != nil && !strings.Contains(err.Error(), "none of its tasks has failed") {
		e.Fatalf("retry: %v: %s", err, out) // the server may be trying again this moment by itself
	}
	e.drover("operations", "wait", id, "--timeout", "5m")
	e.await("the machine to be active", `2 Active`, "fleets", "ls")
}

func (e *edge) history() {
	list := e.drover("operations", "ls", "--cluster", "edge")
	if strings.Count(list, "succeeded") != 2 {
		e.Errorf("operations:\n%s", list)
	}
	events := e.drover("events", "--cluster", "edge")
	for _, want := range []string{"Error", "Active", "op-"} {
		if !strings.Contains(events, want) {
			e.Errorf("there is no event of %s:\n%s", want, events)
		}
	}
}

func (e *edge) remove() {
	e.refused("has 2 machines", "fleets", "rm", "edge", "--yes")
	e.drover("machines", "rm", "edge-1", "--yes")
	e.await("one machine to be left", `edge +f-\w+ +1 `, "fleets", "ls")
	e.drover("fleets", "rm", "edge", "--yes", "--force")
	must(e.T, bed.Await(e.ctx, "the fleet to be gone", time.Second, func(ctx context.Context) error {
		out, err := e.Drover(ctx, "machines", "ls")
		if err != nil || strings.Contains(out, "edge") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}))
	if left := slices.IndexFunc(e.hosts, func(h *host.Host) bool { _, err := h.Sh(e.ctx, "test -e /etc/greeting"); return err != nil }); left >= 0 {
		e.Errorf("host %d does not keep what the plan did", left+1)
	}
}
