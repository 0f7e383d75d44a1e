// Package decide is the planner. From one snapshot of a cluster (what is wanted, which
// machines registered, what their agents report, what the cluster's own API shows)
// it computes the plan of each machine, the state each machine is in and what holds
// it there. It is a function: no clock, no store, no network; equal snapshots give
// equal decisions, and what a preview prints is what is then performed.
//
// A decision is a row of stages, each a package, in the order of stages. All of them take the same value, pass.Pass:
//
//	report   what came back: the outcome of each machine's plan
//	elect    which machine begins the cluster, where others join, and whether anything may begin at all
//	desired  the plan that each machine should have (render makes it), and what it takes to get there
//	judge    how each machine is doing: its state, its cause, and what ends the wait
//	leave    who leaves, and what has to be done before
//	rollout  whose turn it is: joins, tiers, budget, drain, windows, and the jobs of operations
//	explain  what is said of the cluster, and how far the record of its operation is
//
// No stage reads what a later stage sets, but for what pass.Pass kept of the status before. Imported clusters, Docker hosts, RKE1 and
// machines without a cluster take a shorter way through the same stages (imported.go, docker.go, rke1.go, fleet.go).
//
// Rules and messages follow Rancher's planner (rancher/rancher pkg/capr/planner).
package decide

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/server/decide/desired"
	"github.com/drover-project/drover/server/decide/elect"
	"github.com/drover-project/drover/server/decide/explain"
	"github.com/drover-project/drover/server/decide/judge"
	"github.com/drover-project/drover/server/decide/leave"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/rollout"
	"github.com/drover-project/drover/server/operations/steps"
)

// Decide is the whole decision on a cluster. Once it is committed, the decision on the
// same snapshot with what was committed has nothing left to write, but for a machine that
// got a plan: what is shown of that follows from its Secret.
func Decide(s pass.Snapshot) Decision {
	s.Machines = slices.Clone(s.Machines)
	slices.SortFunc(s.Machines, func(a, b pass.Machine) int { return strings.Compare(a.Name, b.Name) })
	if s.Operation != nil {
		named := steps.Named(*s.Operation)
		s.Operation = &named
	}
	switch {
	case !s.Cluster.Deleting.IsZero() && !s.Cluster.Leave.Uninstall:
		return removal(s)
	case s.Cluster.Spec.Imported():
		return decideImported(s)
	case s.Cluster.Spec.RKE1():
		return decideRKE1(s)
	case s.Cluster.Spec.Docker():
		return decideDocker(s)
	}
	return decidePlans(s)
}

// removal takes the cluster out of the store with everything that belongs to it.
func removal(s pass.Snapshot) Decision {
	d := Decision{Cluster: ClusterDecision{Key: s.ClusterKey(), Remove: true}}
	for _, m := range s.Machines {
		d.Steps = append(d.Steps, Step{Machine: m.MachineKey(), NodeName: m.NodeName, Leave: true, Now: true})
		d.Machines = append(d.Machines, MachineDecision{Key: m.MachineKey(), Remove: true})
	}
	return d
}

// stages are what a decision on a cluster whose machines get plans goes through after what came back was read, in this order. Each sets
// fields of its own: TestStages.
var stages = []struct {
	name string
	run  func(*pass.Pass)
}{
	{"elect", elect.Run}, {"desired", desired.Run}, {"judge", judge.Run}, {"leave", leave.Run}, {"rollout", rollout.Run}, {"explain", explain.Run},
}

// decidePlans decides on a cluster whose machines get plans.
func decidePlans(s pass.Snapshot) Decision {
	if s.Operation != nil && s.Operation.Generation > s.Cluster.Generation {
		s.Operation = nil // the cluster was read before the change that the operation is for: nothing is to be done for it yet
	}
	p := pass.New(s)
	s.Memo.Forget(s)
	for _, stage := range stages {
		stage.run(p)
	}
	return decision(p)
}
