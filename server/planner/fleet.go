// Fleets: machines without a cluster. Their plans come from people, an operation each; states, probes, failures
// and retries are judged as those of a cluster's machines are, and what differs is here.

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// FleetSnapshot is everything that a decision on a fleet depends on. The tasks of an operation that gives a plan are the machines, by
// name, in the order in which they were named. The values that it points to are never changed.
type FleetSnapshot struct {
	// Now and Leading are as in Snapshot.
	Now, Leading time.Time
	Fleet        records.Fleet
	Machines     []Machine
	// Operation is what is under way, nil when nothing is, and Given the plan that it gives.
	Operation *operations.Operation
	Given     *records.GivenPlan
	// Memo is as in Snapshot.
	Memo *Memo
}

// gift is the plan that an operation gives.
type gift struct {
	bytes    []byte
	checksum string
	limit    int // how many machines may be on their way at a time
	tasks    map[string]operations.Task
}

// fleet is what a round over a fleet has in the place of a cluster.
type fleet struct {
	// plan is nil while none is given.
	plan *gift
	// due are the machines to which something is still to be done, in the order in which it will be.
	due []*member
}

// DecideFleet is the whole decision on a fleet. As with Decide, nothing is left to write once it is committed.
func DecideFleet(s FleetSnapshot) Decision {
	if !s.Fleet.Deleting.IsZero() {
		return removal(s.snapshot())
	}
	return fleetRound(s).decision()
}

// PreviewFleet shows the decision on a fleet: what its operation is still to do, in that order.
func PreviewFleet(s FleetSnapshot) Preview {
	r := fleetRound(s)
	return r.decision().Preview(r.Snapshot)
}

// snapshot is the fleet as those parts of a round take it that it shares with clusters.
func (s FleetSnapshot) snapshot() Snapshot {
	machines := slices.Clone(s.Machines)
	slices.SortFunc(machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return Snapshot{
		Now: s.Now, Leading: s.Leading, Cluster: records.Cluster{Object: s.Fleet.Object, ID: s.Fleet.ID}, Machines: machines, Operation: s.Operation, Memo: s.Memo,
	}
}

// fleetRound is a round over a fleet with all that is decided of it.
func fleetRound(s FleetSnapshot) *round {
	r := newRound(s.snapshot())
	r.fleet = &fleet{}
	if o := s.Operation; o != nil && o.Kind != operations.KindRehearse && s.Given != nil && (o.State == operations.Running || o.State == operations.Stopping) {
		r.fleet.plan = &gift{bytes: s.Given.Plan, checksum: plans.Checksum(s.Given.Plan), limit: concurrency(s.Given.Concurrency, len(o.Tasks)), tasks: map[string]operations.Task{}}
		for _, t := range o.Tasks {
			r.fleet.plan.tasks[t.ID] = t
		}
	}
	s.Memo.forget(r.Snapshot)
	for _, m := range r.members {
		if m.remove = m.leaving; !m.remove {
			r.judgeGiven(m)
		}
	}
	r.give()
	r.giving()
	r.rehearse(s.Given)
	return r
}

// judgeGiven finds how a machine is doing with the plan that it was given.
func (r *round) judgeGiven(m *member) {
	switch absent, again := r.absent(m, unseenLimit); {
	case m.hasPlan():
		m.finding, m.status = r.found(m)
		m.nodeless = true
		if m.failure != nil {
			m.WaitingFor = "another plan"
			if r.fleet.under(m) {
				m.WaitingFor = "the next try, or another plan"
			}
		}
	case m.Status.State == records.Registering && !m.Agent.Connected:
		m.Condition = m.Status.Condition
	default:
		m.finding = finding{again: again, Condition: records.Condition{
			State: records.WaitingForPlan, Code: string(verdict.NoPlan), Cause: "nobody has given " + describeHost(m.Machine) + " a plan", WaitingFor: "a plan",
			NextStep: "drover machines plan " + m.Name + " -f plan.yaml",
		}}
		if absent {
			m.Code, m.Cause, m.NextStep = string(verdict.AgentAbsent), m.Cause+", and "+presence(m.Agent), r.lookAtHost(m.Machine)
		}
	}
}

// absent says that a machine's agent is away for longer than a limit; until then, after which time it will be.
func (s Snapshot) absent(m *member, limit time.Duration) (absent bool, again time.Duration) {
	if m.Agent.Connected {
		return false, 0
	}
	since := m.Agent.Since
	if since.Before(s.Leading) {
		since, limit = s.Leading, max(limit, gathering) // agents come to a new leader one after the other
	}
	left := since.Add(limit).Sub(s.Now)
	return left <= 0, max(left, 0)
}

// present takes the last step of a machine without a cluster: there is no node, so its agent's being there decides.
func (r *round) present(m *member) finding {
	absent, again := r.absent(m, unseenLimit)
	if !absent {
		return finding{again: again, Condition: records.Condition{State: records.Active}}
	}
	return finding{Condition: records.Condition{
		State: records.Unavailable, Code: string(verdict.AgentAbsent), Cause: fmt.Sprintf("%s was active, and %s", describeHost(m.Machine), presence(m.Agent)),
		WaitingFor: "the agent on " + m.Name + " to connect", NextStep: "switch the host on; " + r.lookAtHost(m.Machine),
	}}
}

// under says that a machine has the plan of the operation under way, as one of its tasks.
func (f *fleet) under(m *member) bool {
	p := f.plan
	if p == nil || m.report.checksum != p.checksum {
		return false
	}
	t, known := p.tasks[m.Name]
	return known && t.State != operations.TaskSucceeded && t.State != operations.TaskSkipped
}

// give has those machines get the plan whose turn it is: those that fail first, as that may mend them, and those whose
// agents are away last. A machine is on its way until it is Active: one that fails keeps its place, and is tried
// again, so that a plan that does not work stops at as many machines as may be on their way.
func (r *round) give() {
	p := r.fleet.plan
	if p == nil {
		return
	}
	var failing, there, away []*member
	begun := 0
	for _, m := range r.staying {
		t, known := p.tasks[m.Name]
		switch {
		case !known || t.State == operations.TaskSucceeded || t.State == operations.TaskSkipped:
		case r.fleet.under(m) && t.State == operations.TaskPending && m.failure != nil, !r.fleet.under(m) && m.State == records.Failed:
			failing = append(failing, m)
		case r.fleet.under(m) && m.report.healthy():
		case r.fleet.under(m):
			begun++
			if m.failure != nil && !r.stopping() {
				m.retry = nextRetry(m.Machine)
			}
		case m.Agent.Connected:
			there = append(there, m)
		default:
			away = append(away, m)
		}
	}
	r.fleet.due = append(append(failing, there...), away...)
	for _, m := range r.fleet.due {
		switch {
		case r.stopping():
		case begun >= p.limit:
			r.wait(m, verdict.WaitGiven, "its turn in operation "+r.Operation.ID, "drover operations show "+r.Operation.ID, "a plan for %s waits: operation %s gives it to %d at a time", describeHost(m.Machine), r.Operation.ID, p.limit)
		case r.fleet.under(m):
			begun++
			m.retry = nextRetry(m.Machine)
			m.retry.now = true
		default:
			begun++
			m.bytes = p.bytes
			r.deliver(m)
		}
	}
}

// giving carries the record of the operation on.
func (r *round) giving() {
	if r.fleet.plan == nil {
		return
	}
	there := map[string]*member{}
	for _, m := range r.staying {
		there[m.Name] = m
	}
	o := *r.Operation
	var first *member // that is not through: one that fails, or is on its way, or waits for its turn
	order := []operations.TaskState{operations.TaskPending, operations.TaskRunning, operations.TaskFailed}
	rank := -1
	for _, t := range o.Tasks {
		m := there[t.ID]
		if m != nil {
			t = r.fleet.task(m, t)
		} else if t.State != operations.TaskSucceeded {
			t.State, t.Progress, t.Message = operations.TaskSkipped, "", "the machine has gone"
		}
		o = o.WithTask(t, r.Now)
		if its := slices.Index(order, t.State); its > rank {
			first, rank = m, its
		}
	}
	r.note(r.ended(r.waitOn(o, first)))
}

// task is the task of a machine after this round.
func (f *fleet) task(m *member, t operations.Task) operations.Task {
	before := t.State
	if before == operations.TaskSucceeded || before == operations.TaskSkipped {
		return t
	}
	t.Progress, t.Message = "", ""
	switch {
	case m.deliver != nil || m.retry != nil && m.retry.now:
		t.State, t.Progress = operations.TaskRunning, string(records.ApplyingPlan)
		t.Attempts++
	case !f.under(m), before == operations.TaskPending && m.failure != nil:
		t.State = operations.TaskPending
	case m.report.healthy():
		t.State = operations.TaskSucceeded
	case m.State == records.Failed:
		t.State, t.Message = operations.TaskFailed, m.Cause
	default:
		t.State, t.Progress = operations.TaskRunning, string(m.State)
	}
	return t
}

// steps are what is left to do on a fleet, in order.
func (f *fleet) steps() []Step {
	var all []Step
	for _, m := range f.due {
		all = append(all, Step{
			Machine: m.key(), NodeName: m.NodeName, From: m.plan(), To: f.plan.bytes, Given: true, Again: f.under(m), Now: m.deliver != nil || m.retry != nil && m.retry.now,
		})
	}
	return all
}
