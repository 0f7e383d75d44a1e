package decide

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// TestAHostThatJoinedAgainRestartsItsK3s: the node that it kept has the label of the machine that was removed.
func TestAHostThatJoinedAgainRestartsItsK3s(t *testing.T) {
	s := snapshot(t, minimal, nil)
	delivered(plans.StateSucceeded)(t, &s)
	outcome(healthy)(t, &s)
	before := stampOf(t, s)
	s.API = observed.API{Reachable: true, Version: "v1.34.4+k3s1", Nodes: map[string]records.NodeRef{"removed-uid": activeNode}}

	d := Decide(s)
	got := d.statusOfMachine(t)
	if !got.Relabelled || !strings.Contains(got.Cause, "node pier-1 has the label of a machine that was removed") {
		t.Errorf("the status is %+v", got)
	}
	if !of(d, machineName).Deliver {
		t.Fatal("no plan is delivered")
	}
	s = commit(s, d)
	after := stampOf(t, s)
	if after == before {
		t.Error("the plan does not restart k3s")
	}
	if again := Decide(s); of(again, machineName).Deliver {
		t.Error("it is delivered again and again")
	}

	// k3s has started with the label; nothing restarts any more.
	data := s.Machines[0].Secret.Data
	data[plans.KeyPlanState] = []byte(plans.StateSucceeded)
	outcome(healthy)(t, &s)
	node(activeNode)(t, &s)
	s = commit(s, Decide(s))
	if got := s.Machines[0].Status; got.State != records.Active || stampOf(t, s) != after {
		t.Errorf("it is %+v", got)
	}
	if d := Decide(s); !d.Empty() {
		t.Errorf("something is left to write: %+v", d)
	}
}

// TestANodeOfAnotherMachineIsLeftAlone: it is a member of the cluster, or there are several.
func TestANodeOfAnotherMachineIsLeftAlone(t *testing.T) {
	for name, nodes := range map[string]map[string]records.NodeRef{
		"none":    {},
		"own":     {"machine-uid": activeNode},
		"several": {"removed-uid": activeNode, "another": activeNode},
	} {
		s := snapshot(t, minimal, nil)
		delivered(plans.StateSucceeded)(t, &s)
		outcome(healthy)(t, &s)
		s.API = observed.API{Reachable: true, Nodes: nodes}
		if d := Decide(s); of(d, machineName).Deliver || d.statusOfMachine(t).Relabelled {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
