//go:build e2e && e2e_full

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// TestRKEServerFleet makes a cluster of three hosts over the tunnels of their node agents, upgrades it, loses one of the hosts
// twice and lets one go, by a server that is killed again and again.
func TestRKEServerFleet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Minute)
	defer cancel()
	s := newRKEServerOf(t, ctx, rke1images.Older, "rke-a", "rke-b", "rke-c")
	dice := rkeDice(t)
	a, c := s.yard.hosts[0], s.yard.hosts[2]
	kit, err := rke1images.Build(ctx, rke1images.Options{Module: "../..", Engine: s.yard.bed.Engine, Versions: []string{rke1images.Version}, Say: t.Logf})
	must(t, err)
	for _, h := range s.yard.hosts {
		must(t, h.LoadImage(ctx, kit.Archive(rke1images.Version)))
		must(t, h.LoadImage(ctx, s.archive))
	}
	s.yard.newestTools() // by which the snapshot before the upgrade is taken
	s.step("rke over the tunnel, three hosts, while the server is killed", func(*testing.T) {
		s.drover(s.server, "apply", "-f", s.document(upgradeStrategy))
		for _, h := range s.yard.hosts {
			if _, err := h.Sh(ctx, s.joinLine(s.server, "yard")); err != nil {
				t.Fatal(redact(err.Error()))
			}
		}
		s.strike(dice, 3)
		s.settled(15*time.Minute, 1)
		s.nodes(3)
		s.yard.voters(a, 3)
	})
	s.step("a second run changes nothing", func(*testing.T) { s.again() })
	s.step("an upgrade with drains while the server is killed", func(t *testing.T) {
		were := s.succeeded()
		s.yard.version = rke1images.Version
		s.drover(s.server, "apply", "-f", s.document(upgradeStrategy))
		s.strike(dice, 4)
		s.settled(15*time.Minute, were+1)
		s.nodes(3)
		s.yard.voters(a, 3)
		s.yard.images(rke1images.Version)
		var taken []struct{ Name string }
		must(t, json.Unmarshal([]byte(s.drover(s.server, "snapshots", "ls", "yard", "-o", "json")), &taken))
		if len(taken) != 1 {
			t.Errorf("the upgrade began with the snapshots %+v, want one", taken)
		}
	})
	s.step("a host is lost while it changes, and again when all is done", func(t *testing.T) {
		were := s.succeeded()
		s.drover(s.server, "apply", "-f", s.fewerPods(s.document(upgradeStrategy)))
		s.restart(dice, c)
		s.settled(10*time.Minute, were+1)
		before := s.ours()
		s.restart(dice, c)
		s.settled(10*time.Minute, were+1)
		s.nodes(3)
		for key := range before {
			id, _, _ := strings.Cut(before[key], " ")
			if is := s.ours()[key]; !strings.HasPrefix(is, id) {
				t.Errorf("%s was %s and is %s", key, before[key], is)
			}
		}
	})
	s.step("a host leaves while the server is killed", func(t *testing.T) {
		name := s.machine(c)
		s.drover(s.server, "machines", "rm", name, "--yes")
		s.strike(dice, 2)
		must(t, bed.Await(ctx, "the host to have left", time.Second, func(ctx context.Context) error {
			all, err := s.machines(ctx, s.server, "yard")
			if m, there := all[name]; there {
				err = fmt.Errorf("it is %s: %s", m.DroverState, m.Cause)
			}
			return err
		}))
		s.settled(5*time.Minute, 1)
		s.nodes(2)
		s.yard.voters(a, 2)
		out, err := c.Sh(ctx, `docker ps -a --format '{{.Names}}'; find /etc/kubernetes /var/lib/etcd -mindepth 1 | head`)
		if left := strings.TrimSpace(strings.Replace(strings.Join(withoutPods(out), ""), agentName+"\n", "", 1)); err != nil || left != "" {
			t.Errorf("left on the host: %v\n%s", err, left)
		}
	})
	s.step("a second run of the others changes nothing", func(t *testing.T) {
		before := s.ours()
		were := s.succeeded()
		s.drover(s.server, "apply", "-f", s.fewerPods(s.document(upgradeStrategy+"addon_job_timeout: 48\n")))
		s.settled(5*time.Minute, were+1)
		if diff := cmp.Diff(before, s.ours()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRKEServerLoss loses two of three hosts of a cluster of the server, restores a snapshot on the one that is left, has the
// lost ones join anew and rotates the certificates, by a server that is killed again and again.
func TestRKEServerLoss(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	s := newRKEServerOf(t, ctx, rke1images.Version, "rke-a", "rke-b", "rke-c")
	dice := rkeDice(t)
	a, lost := s.yard.hosts[0], s.yard.hosts[1:]
	s.yard.newestTools()
	join := func(hosts []*rke1bed.Host) {
		for _, h := range hosts {
			if _, err := h.Sh(ctx, s.joinLine(s.server, "yard")); err != nil {
				t.Fatal(redact(err.Error()))
			}
		}
	}
	s.step("three hosts over the tunnel", func(*testing.T) {
		for _, h := range s.yard.hosts {
			must(t, h.LoadImage(ctx, s.archive))
		}
		s.drover(s.server, "apply", "-f", s.document(""))
		join(s.yard.hosts)
		s.settled(15*time.Minute, 1)
		s.nodes(3)
	})
	s.step("the loss of two hosts, and a restore while the server is killed", func(t *testing.T) {
		for _, name := range []string{"kept", "later"} {
			if name == "later" {
				s.drover(s.server, "snapshots", "create", "yard", "--name", "fleet", "--wait")
			}
			if out, err := s.kubectl("create", "configmap", name, "--from-literal=word="+name); err != nil {
				t.Fatal(out, err)
			}
		}
		for _, h := range lost {
			name := s.machine(h)
			must(t, h.Kill(ctx))
			s.drover(s.server, "machines", "rm", name, "--force", "--yes")
		}
		were := s.succeeded()
		s.drover(s.server, "snapshots", "restore", "yard", "fleet", "--yes", "--replace")
		s.strike(dice, 2)
		s.settled(10*time.Minute, were+1)
		s.nodes(1)
		s.yard.voters(a, 1)
		if out, err := s.kubectl("get", "configmap", "kept", "later", "--ignore-not-found", "-o", "name"); err != nil || out != "configmap/kept\n" {
			t.Errorf("of the ConfigMaps before and after the snapshot there is: %s %v", out, err)
		}
	})
	s.step("the lost hosts join anew", func(t *testing.T) {
		for _, h := range lost {
			must(t, h.Boot(ctx))
			if _, err := h.Sh(ctx, "docker ps --all --quiet | xargs docker rm --force"); err != nil {
				t.Fatal(err)
			}
		}
		were := s.succeeded()
		join(lost)
		s.strike(dice, 2)
		s.settled(15*time.Minute, were+1)
		s.nodes(3)
		s.yard.voters(a, 3)
	})
	s.step("certificates are rotated while the server is killed", func(t *testing.T) {
		were := s.succeeded()
		s.drover(s.server, "clusters", "rotate", "certificates", "yard")
		s.strike(dice, 2)
		s.settled(10*time.Minute, were+1)
		s.nodes(3)
	})
}

// step is a part of the test.
func (s *rkeServer) step(name string, do func(*testing.T)) {
	s.Helper()
	s.yard.step(name, func(t *testing.T) {
		outer := s.T
		s.T = t
		defer func() { s.T = outer }()
		do(t)
	})
}

// fewerPods gives the kubelets of a document another flag.
func (s *rkeServer) fewerPods(file string) string {
	s.Helper()
	text, err := os.ReadFile(file)
	must(s.T, err)
	const before = "      kubelet:\n        extra_args:\n"
	changed := strings.Replace(string(text), before, before+"          max-pods: \"50\"\n", 1)
	if changed == string(text) {
		s.Fatalf("no kubelet in %s", text)
	}
	must(s.T, os.WriteFile(file, []byte(changed), 0o600))
	return file
}

// strike kills the server some times.
func (s *rkeServer) strike(dice *rand.Rand, times int) {
	s.Helper()
	for range times {
		after := time.Duration(500+dice.IntN(20000)) * time.Millisecond
		time.Sleep(after) // so that it is killed anywhere
		all, err := s.operations(s.ctx)
		s.kill(s.server)
		s.start(s.server)
		at := "no operation"
		for _, o := range all {
			if !o.State.Ended() {
				at = fmt.Sprintf("%s, task %d of %d", o.State, o.Done+1, o.Total)
			}
		}
		s.Logf("killed after %s at %s (%v)", after, at, err)
	}
}

// restart takes a host's power away somewhere, and gives it back.
func (s *rkeServer) restart(dice *rand.Rand, h *rke1bed.Host) {
	s.Helper()
	time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond) // so that it goes anywhere
	must(s.T, h.Kill(s.ctx))
	time.Sleep(time.Duration(dice.IntN(10000)) * time.Millisecond)
	must(s.T, h.Boot(s.ctx))
}

// machine is the name of a host's machine.
func (s *rkeServer) machine(h *rke1bed.Host) string {
	s.Helper()
	var all []apitypes.Machine
	must(s.T, json.Unmarshal([]byte(s.drover(s.server, "machines", "ls", "--cluster", "yard", "-o", "json")), &all))
	i := slices.IndexFunc(all, func(m apitypes.Machine) bool { return m.NodeName == h.Name() })
	if i < 0 {
		s.Fatalf("no machine of host %s in %+v", h.Name(), all)
	}
	return all[i].Name
}

// settled waits until so many operations have succeeded, none is under way, and the cluster is well.
func (s *rkeServer) settled(limit time.Duration, succeeded int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	must(s.T, bed.Await(ctx, "the cluster to be settled", time.Second, func(ctx context.Context) error {
		all, err := s.operations(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, o := range all {
			if o.State == operations.Succeeded {
				n++
			} else if !o.State.Ended() {
				return fmt.Errorf("operation %+v", o)
			}
		}
		c, err := s.cluster(ctx)
		if err == nil && (n < succeeded || c.State != "active" || !c.Ready || c.Message != "") {
			err = fmt.Errorf("%d operations have succeeded; it is %s, ready: %t: %s", n, c.State, c.Ready, c.Message)
		}
		return err
	}))
}

// nodes waits until so many nodes are ready, and no other is there, by the server's kubeconfig.
func (s *rkeServer) nodes(count int) {
	s.Helper()
	if out, err := s.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=4m"); err != nil {
		s.Fatalf("%v %s", err, out)
	}
	out, err := s.kubectl("get", "nodes", "--no-headers")
	if err != nil || strings.Count(out, "\n") != count || strings.Contains(out, "SchedulingDisabled") {
		s.Fatalf("want %d nodes that take pods: %v\n%s", count, err, out)
	}
}
