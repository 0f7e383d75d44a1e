package decide

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// settled is a cluster of three servers and many workers in which nothing is left to do.
func settled(b *testing.B, machines int) pass.Snapshot {
	b.Helper()
	s := snapshot(b, minimal, nil)
	s.Machines = nil
	s.API = observed.API{Reachable: true, Nodes: map[string]records.NodeRef{}, Details: map[string]observed.NodeDetails{}}
	for i := range machines {
		name, roles := fmt.Sprintf("m%04d", i), workerOnly
		if i < 3 {
			roles = etcdControl
		}
		address := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		s.Machines = append(s.Machines, pass.Machine{
			Machine: &records.Machine{
				Object: records.Object{Namespace: "fleet-default", Name: name, UID: "uid-" + name}, ClusterName: "harbour", Roles: roles, InternalAddress: []string{address},
				NodeLabels: map[string]string{"cattle.io/os": "linux"}, Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}},
			},
			Secret: &records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: name + "-machine-plan"}},
			Agent:  observed.Presence{Connected: true},
		})
		s.API.Nodes["uid-"+name] = records.NodeRef{Name: name, ProviderID: "k3s://" + name, KubeletVersion: "v1.34.4+k3s1", Ready: true, Addresses: []string{address}}
		if i < 3 {
			s.API.Details["uid-"+name] = observed.NodeDetails{Voter: observed.VoterYes}
		}
	}
	for range 50 {
		d := Decide(s)
		if d.Empty() {
			return s
		}
		s = commit(s, d)
		for i := range s.Machines {
			m := &s.Machines[i]
			if plans.State(m.Data()[plans.KeyPlanState]) != plans.StatePending {
				continue
			}
			m.Secret.Data[plans.KeyPlanState], m.Secret.Data[plans.KeyAppliedPlan] = []byte(plans.StateSucceeded), m.Plan()
			p, _ := pass.Delivered(m.Data())
			o, err := plans.ReadOutcome(m.Data())
			if err != nil {
				b.Fatal(err)
			}
			o.ProbeStatuses = map[string]plans.ProbeStatus{}
			for name := range p.Probes {
				o.ProbeStatuses[name] = plans.ProbeStatus{Healthy: true}
			}
			if err := o.Write(m.Secret.Data); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Fatal("it does not settle")
	return s
}

// BenchmarkDecide is a decision on a cluster in which nothing is left to do, as each report of a
// machine makes one necessary.
func BenchmarkDecide(b *testing.B) {
	for _, machines := range []int{5, 500, 5000} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			s := settled(b, machines)
			s.Memo = pass.NewMemo()
			for i := range s.Machines {
				s.Machines[i].SecretRevision = 1
			}
			Decide(s)
			b.ReportAllocs()
			for b.Loop() {
				s.Machines[0].SecretRevision++ // one machine has reported
				if d := Decide(s); !d.Empty() {
					b.Fatal("something is left to do")
				}
			}
		})
	}
}
