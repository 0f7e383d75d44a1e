// Fleets: machines without a cluster. Their plans come from people, an operation each; states, probes, failures
// and retries are judged as those of a cluster's machines are, and what differs is here.

package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/explain"
	"github.com/drover-project/drover/server/decide/judge"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/rollout"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// FleetSnapshot is everything that a decision on a fleet depends on. The tasks of an operation that gives a plan are the machines, by
// name, in the order in which they were named. The values that it points to are never changed.
type FleetSnapshot struct {
	// Now and Leading are as in Snapshot.
	Now, Leading time.Time
	Fleet        records.Fleet
	Machines     []pass.Machine
	// Operation is what is under way, nil when nothing is, and Given the plan that it gives.
	Operation *operations.Operation
	Given     *records.GivenPlan
	// Memo is as in Snapshot.
	Memo *pass.Memo
}

// DecideFleet is the whole decision on a fleet. As with Decide, nothing is left to write once it is committed.
func DecideFleet(s FleetSnapshot) Decision {
	if !s.Fleet.Deleting.IsZero() {
		return removal(s.snapshot())
	}
	return decision(fleetPass(s))
}

// PreviewFleet shows the decision on a fleet: what its operation is still to do, in that order.
func PreviewFleet(s FleetSnapshot) Preview {
	p := fleetPass(s)
	return decision(p).Preview(p.Snapshot)
}

// snapshot is the fleet as those parts of a pass take it that it shares with clusters.
func (s FleetSnapshot) snapshot() pass.Snapshot {
	machines := slices.Clone(s.Machines)
	slices.SortFunc(machines, func(a, b pass.Machine) int { return strings.Compare(a.Name, b.Name) })
	return pass.Snapshot{
		Now: s.Now, Leading: s.Leading, Cluster: s.Fleet.AsCluster(), Machines: machines, Operation: s.Operation, Memo: s.Memo,
	}
}

// fleetPass is a pass over a fleet with all that is decided of it.
func fleetPass(s FleetSnapshot) *pass.Pass {
	p := pass.New(s.snapshot())
	p.Fleet = &pass.Fleet{}
	if o := s.Operation; o != nil && o.Kind != operations.KindRehearse && s.Given != nil && (o.State == operations.Running || o.State == operations.Stopping) {
		p.Fleet.Plan = &pass.Gift{Bytes: s.Given.Plan, Checksum: plans.Checksum(s.Given.Plan), Limit: pass.Concurrency(s.Given.Concurrency, len(o.Tasks)), Tasks: map[string]operations.Task{}}
		for _, t := range o.Tasks {
			p.Fleet.Plan.Tasks[t.ID] = t
		}
	}
	s.Memo.Forget(p.Snapshot)
	for _, m := range p.Members {
		if m.Remove = m.Leaving; !m.Remove {
			judgeGiven(p, m)
		}
	}
	give(p)
	giving(p)
	rehearse(p, s.Given)
	rollout.Fleet(p)
	return p
}

// judgeGiven finds how a machine is doing with the plan that it was given.
func judgeGiven(p *pass.Pass, m *pass.Member) {
	switch absent, again := p.Absent(m, pass.UnseenLimit); {
	case m.HasPlan() && !(m.Report.InSync && m.Next.GivenPlan == records.NoPlan):
		m.Finding, m.Text = judge.Found(p, m)
		m.Nodeless = true
		if m.Failure != nil {
			m.WaitingFor = "another plan"
			if p.Fleet.Under(m) {
				m.WaitingFor = "the next try, or another plan"
			}
		}
	case m.Status.State == records.Registering && !m.Agent.Connected:
		m.Condition = m.Status.Condition
	default:
		m.Finding = pass.Finding{Again: again, Condition: records.Condition{
			State: records.WaitingForPlan, Code: string(catalogue.NoPlan), Cause: pass.DescribeHost(m.Machine) + " was given no plan", WaitingFor: "a plan",
			NextStep: "drover machines plan " + m.Name + " -f plan.yaml",
		}}
		if absent {
			m.Code, m.Cause, m.NextStep = string(catalogue.AgentAbsent), m.Cause+", and "+pass.Presence(m.Agent), p.LookAtHost(m.Machine)
		}
	}
}

// give has those machines get the plan whose turn it is: those that fail first, as that may mend them, and those whose
// agents are away last. A machine is on its way until it is Active: one that fails keeps its place, and is tried
// again, so that a plan that does not work stops at as many machines as may be on their way.
func give(p *pass.Pass) {
	given := p.Fleet.Plan
	if given == nil {
		return
	}
	var failing, there, away []*pass.Member
	begun := 0
	for _, m := range p.Staying {
		t, known := given.Tasks[m.Name]
		switch {
		case !known || t.State == operations.TaskSucceeded || t.State == operations.TaskSkipped:
		case p.Fleet.Under(m) && t.State == operations.TaskPending && m.Failure != nil, !p.Fleet.Under(m) && m.State == records.Failed:
			failing = append(failing, m)
		case p.Fleet.Under(m) && m.Report.Healthy():
		case p.Fleet.Under(m):
			begun++
			if m.Failure != nil && !p.Stopping() {
				m.Retry = pass.NextRetry(m.Machine)
			}
		case m.Agent.Connected:
			there = append(there, m)
		default:
			away = append(away, m)
		}
	}
	p.Fleet.Due = append(append(failing, there...), away...)
	for _, m := range p.Fleet.Due {
		switch {
		case p.Stopping():
		case begun >= given.Limit:
			rollout.Wait(p, m, catalogue.WaitGiven, "its turn in operation "+p.Operation.ID, "drover operations show "+p.Operation.ID, "a plan for %s waits: operation %s gives it to %d at a time", pass.DescribeHost(m.Machine), p.Operation.ID, given.Limit)
		case p.Fleet.Under(m):
			begun++
			m.Retry = pass.NextRetry(m.Machine)
			m.Retry.Now = true
		default:
			begun++
			m.Wanted, m.Next.GivenPlan = given.Bytes, ""
			rollout.Deliver(p, m)
		}
	}
}

// giving carries the record of the operation on.
func giving(p *pass.Pass) {
	if p.Fleet.Plan == nil {
		return
	}
	there := map[string]*pass.Member{}
	for _, m := range p.Staying {
		there[m.Name] = m
	}
	o := *p.Operation
	var first *pass.Member // that is not through: one that fails, or is on its way, or waits for its turn
	order := []operations.TaskState{operations.TaskPending, operations.TaskRunning, operations.TaskFailed}
	rank := -1
	for _, t := range o.Tasks {
		m := there[t.ID]
		if m != nil {
			t = task(p.Fleet, m, t)
		} else if t.State != operations.TaskSucceeded {
			t.State, t.Progress, t.Message = operations.TaskSkipped, "", "the machine has gone"
		}
		o = o.WithTask(t, p.Now)
		if its := slices.Index(order, t.State); its > rank {
			first, rank = m, its
		}
	}
	p.Note(explain.Ended(p, explain.WaitOn(p, o, first)))
}

// task is the task of a machine after this pass.
func task(f *pass.Fleet, m *pass.Member, t operations.Task) operations.Task {
	before := t.State
	if before == operations.TaskSucceeded || before == operations.TaskSkipped {
		return t
	}
	t.Progress, t.Message = "", ""
	switch {
	case m.Deliver != nil || m.Retry != nil && m.Retry.Now:
		t.State, t.Progress = operations.TaskRunning, string(records.ApplyingPlan)
		t.Attempts++
	case !f.Under(m), before == operations.TaskPending && m.Failure != nil:
		t.State = operations.TaskPending
	case m.Report.Healthy():
		t.State = operations.TaskSucceeded
	case m.State == records.Failed:
		t.State, t.Message = operations.TaskFailed, m.Cause
	default:
		t.State, t.Progress = operations.TaskRunning, string(m.State)
	}
	return t
}

// fleetSteps are what is left to do on a fleet, in order.
func fleetSteps(f *pass.Fleet) []Step {
	var all []Step
	for _, m := range f.Due {
		all = append(all, Step{
			Machine: m.MachineKey(), NodeName: m.NodeName, From: m.Plan(), To: f.Plan.Bytes, Given: true, Again: f.Under(m), Now: m.Deliver != nil || m.Retry != nil && m.Retry.Now,
		})
	}
	return all
}
