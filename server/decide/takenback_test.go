package decide

import (
	"testing"

	"github.com/drover-project/drover/plans"
)

// TestAPlanThatIsTakenBackRestartsTheRuntime: the installer on the host compares stamps of runs that came to their end.
// It does not know of one that failed or was ended, with whose configuration k3s may hang for ever.
func TestAPlanThatIsTakenBackRestartsTheRuntime(t *testing.T) {
	const changed = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour},
		spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {machineGlobalConfig: {disable: [traefik]}}}}`
	for _, tc := range []struct {
		name     string
		state    plans.State // of the plan between
		applied  bool        // it came to its end
		restarts int
	}{
		{"one that was ended", plans.StateInProgress, false, 1},
		{"one that failed", plans.StateFailed, false, 1},
		{"one that nobody has begun with", plans.StatePending, false, 0},
		{"one that was applied", plans.StateSucceeded, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := snapshot(t, minimal, nil)
			first := stampOf(t, s)
			delivered(plans.StateSucceeded)(t, &s)
			s.Machines[0].Secret.Data[plans.KeyAppliedPlan] = s.Machines[0].Plan()
			outcome(healthy)(t, &s)

			s.Cluster.Spec = snapshot(t, changed, nil).Cluster.Spec
			s = commit(s, Decide(s))
			data := s.Machines[0].Secret.Data
			data[plans.KeyPlanState] = []byte(tc.state)
			if tc.applied {
				data[plans.KeyAppliedPlan] = data[plans.KeyPlan]
			}

			s.Cluster.Spec = snapshot(t, minimal, nil).Cluster.Spec
			back := Decide(s)
			if !of(back, machineName).Deliver {
				t.Fatal("the plan is not taken back")
			}
			s = commit(s, back)
			if got := s.Machines[0].Status.Restarts; got != tc.restarts {
				t.Errorf("%d restarts are counted, want %d", got, tc.restarts)
			}
			if after := stampOf(t, s); (after != first) != (tc.restarts > 0) {
				t.Errorf("the stamp was %.8s and is %.8s", first, after)
			}
			settles(t, s)

			// It stays so once the plan is applied.
			data = s.Machines[0].Secret.Data
			data[plans.KeyPlanState], data[plans.KeyAppliedPlan] = []byte(plans.StateSucceeded), data[plans.KeyPlan]
			outcome(healthy)(t, &s)
			if again := of(Decide(s), machineName); again.Deliver {
				t.Error("another plan is delivered")
			}
		})
	}
}
