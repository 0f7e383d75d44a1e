package decide

import (
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// TestAnAbortEndsADrain that does not come to its end: the node takes pods again, and the machine is left as it is.
func TestAnAbortEndsADrain(t *testing.T) {
	w := grown(t, minimal, allInOne, workerOnly)
	w.limit = 1
	w.spec(changed)
	w.s.Cluster.Spec.RKEConfig.UpgradeStrategy = &clusterspec.UpgradeStrategy{WorkerDrainOptions: &clusterspec.DrainOptions{Enabled: true}}
	w.begin(operations.KindChange)
	for range 200 {
		if w.machine("m1").Status.Drain != nil {
			break
		}
		w.happens(1)
	}
	w.hosts["m1"].cordoned = true // the drain has begun, and a pod does not leave
	stopped, err := w.s.Operation.AbortBy("user-1", w.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.s.Operation = &stopped
	w.settle()
	w.active()
	if w.s.Operation.State != operations.Aborted || w.hosts["m1"].cordoned || w.hosts["m1"].restarts != 1 || w.machine("m1").Status.Drain != nil {
		w.fail("the operation is %s, the host %+v", w.s.Operation.State, w.hosts["m1"])
	}
}

// TestHooksAfterADrain are waited for also where another user's cordon stays, and the cordon stays.
func TestHooksAfterADrain(t *testing.T) {
	for name, cordoned := range map[string]bool{"free before": false, "cordoned before": true} {
		t.Run(name, func(t *testing.T) {
			s := active(t)
			options := pass.Canonical(clusterspec.DrainOptions{Enabled: true, PostDrainHooks: []clusterspec.DrainHook{{Annotation: "example.com/after"}}})
			changed := *s.Machines[0].Machine
			changed.Status.Drain = &records.Drain{ID: "drain-1", Since: noon, Options: options, Done: true, WasCordoned: cordoned}
			s.Machines[0].Machine = &changed
			d := Decide(s)
			if len(d.Orders) != 1 || d.Orders[0].Uncordon == cordoned || len(d.Orders[0].PostHooks) != 1 || d.Orders[0].Value != options {
				t.Fatalf("orders = %+v", d.Orders)
			}
			s = commit(s, d)
			if got := s.Machines[0].Secret.Annotations["rke.cattle.io/post-drain"]; got != options {
				t.Errorf("hooks are asked for %q", got)
			}
			s.Machines[0].Work = observed.NodeWork{Order: d.Orders[0].ID, Phase: observed.PhasePostHooks, Missing: "example.com/after", Since: noon}
			s.Now = noon.Add(time.Minute)
			d = Decide(s)
			if c := d.statusOfMachine(t).Condition; c.State != records.Uncordoning || c.Code != "uncordon-hook" || c.Cause != "waiting for post-drain hook example.com/after on pier-1 since 2026-11-21T12:00:00Z" {
				t.Errorf("the condition is %+v", c)
			}
			s.Machines[0].Work = observed.NodeWork{Order: d.Orders[0].ID, Done: true}
			s = commit(s, Decide(s))
			if m := s.Machines[0]; m.Status.Drain != nil || m.Status.State != records.Active || m.Secret.Annotations["rke.cattle.io/post-drain"] != "" {
				t.Errorf("the machine is %+v", m.Status)
			}
		})
	}
}

// TestAPauseEndsADrainOfAnotherChange: pods left for a change that is not wanted any more. While the cluster is paused
// that has not begun what is wanted now, and the node takes pods again.
func TestAPauseEndsADrainOfAnotherChange(t *testing.T) {
	for name, newer := range map[string]bool{"the change of the drain": false, "a newer change": true} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, workerOnly)
			w.limit = 1
			drains := func(text string) {
				w.spec(text)
				w.s.Cluster.Spec.RKEConfig.UpgradeStrategy = &clusterspec.UpgradeStrategy{WorkerDrainOptions: &clusterspec.DrainOptions{Enabled: true}}
			}
			drains(changed)
			for range 200 {
				if w.machine("m1").Status.Drain != nil {
					break
				}
				w.happens(1)
			}
			w.hosts["m1"].cordoned = true
			w.s.Cluster.Paused = &records.Pause{At: w.s.Now}
			want := 2 // the machine is brought through what has begun
			if newer {
				drains(wider)
				want = 1
			}
			w.settle()
			if h, m := w.hosts["m1"], w.machine("m1"); h.restarts != want || h.cordoned || m.Status.Drain != nil || newer && m.Status.Code != "paused" {
				w.fail("m1 restarted %d times and is %+v", h.restarts, m.Status)
			}
			w.s.Cluster.Paused = nil
			w.settle()
			w.active()
		})
	}
}
