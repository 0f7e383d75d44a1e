package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// TestLabelsThatChangeRestartNobody: the node gets them through the API, and loses those that are taken away; what people
// changed on the node by themselves stays.
func TestLabelsThatChangeRestartNobody(t *testing.T) {
	s := active(t)
	details := observed.NodeDetails{Labels: map[string]string{"cattle.io/os": "linux", "mine": "x"}, Taints: []records.Taint{{Key: "mine", Effect: "NoSchedule"}}}
	s.API.Details = map[string]observed.NodeDetails{"machine-uid": details}
	s = commit(s, Decide(s))
	if d := Decide(s); !d.Empty() || len(d.Orders) != 0 {
		t.Fatalf("nothing was changed, and it decides %+v", d)
	}
	change := func(labels map[string]string, taints []records.Taint) Decision {
		t.Helper()
		changed := *s.Machines[0].Machine
		changed.NodeLabels, changed.NodeTaints = labels, taints
		s.Machines[0].Machine = &changed
		d := Decide(s) // the file
		if !of(d, machineName).Deliver {
			t.Fatal("the settings of the next start have the old labels")
		}
		if before, after := stampOf(t, s), stampOf(t, commit(s, d)); before != after {
			t.Error("it restarts")
		}
		s = commit(s, d)
		data := s.Machines[0].Secret.Data
		data[plans.KeyPlanState], data[plans.KeyAppliedPlan] = []byte(plans.StateSucceeded), data[plans.KeyPlan]
		outcome(healthy)(t, &s)
		d = Decide(s)
		s = commit(s, d)
		return d
	}
	d := change(map[string]string{"cattle.io/os": "linux", "rack": "r1"}, []records.Taint{{Key: "gpu", Effect: "NoSchedule"}})
	want := pass.NodeOrder{
		ID: d.Orders[0].ID, Machine: "fleet-default/" + machineName, UID: "machine-uid", Node: "pier-1",
		Labels: map[string]string{"cattle.io/os": "linux", "rack": "r1"}, Taints: []records.Taint{{Key: "gpu", Effect: "NoSchedule"}},
	}
	if diff := cmp.Diff([]pass.NodeOrder{want}, d.Orders); diff != "" {
		t.Errorf("orders: %s", diff)
	}
	s.Machines[0].Work = observed.NodeWork{Order: want.ID, Done: true}
	s = commit(s, Decide(s))
	if d := Decide(s); len(d.Orders) != 0 || !d.Empty() {
		t.Errorf("it is done, and it decides %+v", d)
	}
	d = change(map[string]string{"cattle.io/os": "linux"}, nil)
	want = pass.NodeOrder{
		ID: d.Orders[0].ID, Machine: want.Machine, UID: want.UID, Node: want.Node,
		Labels: map[string]string{"cattle.io/os": "linux"}, Unlabel: []string{"rack"}, Untaint: []records.Taint{{Key: "gpu", Effect: "NoSchedule"}},
	}
	if diff := cmp.Diff([]pass.NodeOrder{want}, d.Orders); diff != "" {
		t.Errorf("orders: %s", diff)
	}
}
