//go:build e2e && e2e_full

package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

const everyRole = "controlplane, etcd, worker"

// TestRKEHostsComeAndGo grows a cluster from one host to three with etcd and a worker, changes
// its config, takes the first host away, and kills the command again and again on the way.
func TestRKEHostsComeAndGo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	y := newRKEYard(t, ctx, rke1images.Version, "rke-a", "rke-b", "rke-c", "rke-d")
	a, b, c, d := y.hosts[0], y.hosts[1], y.hosts[2], y.hosts[3]
	dice := rkeDice(t)
	y.step("one host", func(*testing.T) {
		y.write(map[*rke1bed.Host]string{a: everyRole}, "")
		y.must("up")
	})
	y.step("two more with etcd and a worker join while the command is killed", func(*testing.T) {
		y.write(map[*rke1bed.Host]string{a: everyRole, b: everyRole, c: everyRole, d: "worker"}, "")
		y.strike(dice, 4, "up")
		y.must("up")
		y.ready(4)
		y.voters(a, 3)
	})
	y.step("a second run changes nothing", func(t *testing.T) {
		before := y.containers()
		if out := y.must("up", "--dry-run"); !strings.HasPrefix(strings.TrimSpace(out), "0 changes") {
			t.Errorf("the preview: %s", out)
		}
		y.must("up")
		if diff := cmp.Diff(before, y.containers()); diff != "" {
			t.Error(diff)
		}
	})
	y.step("a host that is down is said, and kept", func(t *testing.T) {
		if err := d.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := y.rke("up")
		if err == nil || !strings.Contains(err.Error(), "Provisioning incomplete, host(s) ["+d.Address()+"] skipped") {
			t.Errorf("got %v", err)
		}
		if err := d.Boot(ctx); err != nil {
			t.Fatal(err)
		}
		y.must("up")
		y.ready(4)
	})
	y.step("a flag of the API servers and kubelets changes while the command is killed", func(t *testing.T) {
		path := filepath.Join(y.dir, "cluster.yml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "  kubelet:\n    extra_args:\n", "  kube-api:\n    extra_args: {max-requests-inflight: \"500\"}\n  kubelet:\n    extra_args:\n      max-pods: \"50\"\n", 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		before := y.containers()
		if out := y.must("up", "--dry-run"); !strings.Contains(out, "kube-apiserver: replace (flag --max-requests-inflight)") || strings.Contains(out, " etcd: ") {
			t.Errorf("the preview: %s", out)
		}
		y.strike(dice, 4, "up")
		y.must("up")
		for name, is := range y.containers() {
			_, container, _ := strings.Cut(name, " ")
			replaced := container == "kube-apiserver" || container == "kubelet"
			// Who leads ends when its API server goes, and Docker starts it again: the container stays the same.
			id, _, _ := strings.Cut(is, " ")
			if same := strings.HasPrefix(before[name], id); same == replaced {
				t.Errorf("%s was %s and is %s", name, before[name], is)
			}
		}
		y.ready(4)
	})
	y.step("the first host leaves", func(t *testing.T) {
		y.write(map[*rke1bed.Host]string{b: everyRole, c: everyRole, d: "worker"}, "")
		y.strike(dice, 2, "up")
		y.must("up")
		y.ready(3)
		y.voters(b, 2)
		out, err := a.Sh(ctx, `docker ps -a --format '{{.Names}}'; find /etc/kubernetes /var/lib/etcd -mindepth 1 | head`)
		if err != nil || strings.TrimSpace(strings.Join(withoutPods(out), "")) != "" {
			t.Errorf("left on the host: %v\n%s", err, out)
		}
	})
	y.step("the cluster is removed", func(t *testing.T) {
		y.must("remove", "--force")
		for _, h := range []*rke1bed.Host{b, c, d} {
			out, err := h.Sh(ctx, `docker ps -a --format '{{.Names}}'; find /etc/kubernetes /var/lib/etcd -mindepth 1 | head`)
			if err != nil || strings.TrimSpace(strings.Join(withoutPods(out), "")) != "" {
				t.Errorf("left on %s: %v\n%s", h.Name(), err, out)
			}
		}
	})
}

// withoutPods are lines without the containers of pods, which end with their kubelet's cluster.
func withoutPods(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "k8s_") {
			lines = append(lines, line)
		}
	}
	return lines
}

// strike runs a command several times and kills it after a while.
func (y *rkeYard) strike(dice *rand.Rand, times int, args ...string) {
	y.Helper()
	for range times {
		after := time.Duration(500+dice.IntN(15000)) * time.Millisecond
		cmd := exec.CommandContext(y.ctx, y.program, append([]string{"rke"}, append(args, "--known-hosts", filepath.Join(y.dir, "known_hosts"))...)...)
		cmd.Dir = y.dir
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			y.Fatal(err)
		}
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		y.Logf("killed after %s (%v) at: %s", after, err, lines[len(lines)-1])
	}
}

// ready waits until so many nodes are ready, and no other is there.
func (y *rkeYard) ready(nodes int) {
	y.Helper()
	if out, err := y.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=4m"); err != nil {
		y.Fatalf("%v %s", err, out)
	}
	out, err := y.kubectl("get", "nodes", "--no-headers")
	if err != nil || strings.Count(out, "\n") != nodes || strings.Contains(out, "SchedulingDisabled") {
		y.Fatalf("want %d nodes that take pods: %v\n%s", nodes, err, out)
	}
}

// voters counts the members of etcd that vote.
func (y *rkeYard) voters(h *rke1bed.Host, want int) {
	y.Helper()
	out, err := h.Sh(y.ctx, `docker exec etcd etcdctl member list`)
	if err != nil || strings.Count(out, "started") != want || strings.Count(out, ", false") != want {
		y.Fatalf("want %d members that vote: %v\n%s", want, err, out)
	}
}
