// Rehearsals: a snapshot of a cluster is restored on a machine of a fleet, looked at, and taken away again. The operation
// is the fleet's, whose machine is busy with it; the cluster goes on as it is.

package decide

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/explain"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/rollout"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// rehearse takes the next step of a rehearsal. Which plan the machine has says how far it is: that of the rehearsal, which
// ends on the host, or the one that cleans up after it.
func rehearse(p *pass.Pass, given *records.GivenPlan) {
	o := p.Operation
	if o == nil || o.Kind != operations.KindRehearse || given == nil || (o.State != operations.Running && o.State != operations.Stopping) {
		return
	}
	asked, err := steps.ReadRehearsal(*o)
	m := p.Named(asked.Machine)
	switch {
	case err != nil:
		end(p, *o, operations.Failed, err.Error())
		return
	case m == nil:
		end(p, *o, operations.Failed, fmt.Sprintf("machine %s has gone from its fleet", asked.Machine))
		return
	}
	next := *o
	work, _ := o.Task(steps.TaskRehearse)
	tidy, _ := o.Task(steps.TaskCleanUp)
	switch m.Report.Checksum {
	case plans.Checksum(given.After):
		next = cleaning(p, next, m, work, tidy)
	case plans.Checksum(given.Plan):
		next = performing(p, next, m, work, tidy, given)
	default:
		if p.Stopping() {
			end(p, next, operations.Aborted, "nothing had begun on "+pass.DescribeHost(m.Machine))
			return
		}
		next = hand(p, next, m, given.Plan, work)
	}
	if !next.State.Ended() {
		wait := m
		if m.State == records.Active {
			wait = nil
		}
		next = explain.WaitOn(p, next, wait)
	}
	p.Note(next)
}

// end has the operation end.
func end(p *pass.Pass, o operations.Operation, to operations.State, reason string) {
	if ended, err := o.To(to, reason, p.Now); err == nil {
		p.Note(ended)
	}
}

// hand delivers one of the plans to the machine, and has its task begin.
func hand(p *pass.Pass, o operations.Operation, m *pass.Member, plan []byte, t operations.Task) operations.Operation {
	m.Wanted, m.Next.GivenPlan = plan, ""
	rollout.Deliver(p, m)
	t.State, t.Progress, t.Message = operations.TaskRunning, string(records.ApplyingPlan), ""
	t.Attempts++
	return o.WithTask(t, p.Now)
}

// performing is the record while the machine has the plan of the rehearsal. However that ends, the plan that cleans up comes
// next; a rehearsal that is to stop does not wait for its end.
func performing(p *pass.Pass, o operations.Operation, m *pass.Member, work, tidy operations.Task, given *records.GivenPlan) operations.Operation {
	result := records.Rehearsal{Operation: o.ID, At: p.Now, Machine: pass.DescribeHost(m.Machine)}
	switch {
	case m.Report.InSync:
		is, err := rehearsalOutput(p, m)
		result.Objects, result.Counts, result.Unread, result.Seconds, result.Cause = is.Objects, is.Counts, is.Unread, is.Seconds, is.Cause
		switch {
		case err != nil:
			result.Cause = err.Error()
		case !is.OK && result.Cause == "":
			result.Cause = "the host reports no reason"
		}
	case m.Failure != nil:
		result.Cause = m.Cause
	case p.Stopping():
		work.State, work.Progress, work.Message = operations.TaskSkipped, "", "it was stopped before its end"
		return hand(p, o.WithTask(work, p.Now), m, given.After, tidy)
	default:
		work.State, work.Progress = operations.TaskRunning, string(m.State)
		return o.WithTask(work, p.Now)
	}
	work.State, work.Progress, work.Message = operations.TaskSucceeded, "", result.Counted()
	if result.Cause != "" {
		work.State, work.Message = operations.TaskFailed, result.Cause
	}
	if asked, err := steps.ReadRehearsal(o); err == nil && asked.Snapshot != "" {
		p.Rehearsed = &pass.Rehearsed{Snapshot: asked.Snapshot, Result: result}
	}
	return hand(p, o.WithTask(work, p.Now), m, given.After, tidy)
}

// rehearsalOutput is what the host printed of the rehearsal.
func rehearsalOutput(p *pass.Pass, m *pass.Member) (hostjob.Rehearsed, error) {
	outcome, err := plans.ReadOutcome(m.Data())
	if err != nil {
		return hostjob.Rehearsed{}, err
	}
	return hostjob.ReadRehearsed(outcome.AppliedOutput[hostjob.RehearseName])
}

// cleaning is the record while the machine has the plan that cleans up, with which it ends. That goes on to be delivered to a
// machine that is away, and is not waited for then when the operation is to stop.
func cleaning(p *pass.Pass, o operations.Operation, m *pass.Member, work, tidy operations.Task) operations.Operation {
	switch {
	case m.Report.InSync:
		tidy.State, tidy.Progress = operations.TaskSucceeded, ""
	case m.Failure != nil:
		tidy.State, tidy.Progress, tidy.Message = operations.TaskFailed, "", m.Cause
	case p.Stopping() && !m.Agent.Connected:
		tidy.State, tidy.Progress, tidy.Message = operations.TaskSkipped, "", "it is done when the agent on "+m.Name+" is there again"
	default:
		tidy.State, tidy.Progress = operations.TaskRunning, string(m.State)
		return o.WithTask(tidy, p.Now)
	}
	o = o.WithTask(tidy, p.Now)
	to, reason := operations.Succeeded, work.Message
	switch {
	case work.State == operations.TaskSkipped:
		to = operations.Aborted
	case work.State != operations.TaskSucceeded:
		to, reason = operations.Failed, cmp.Or(reason, "a retry was asked for before its end; ask for the rehearsal anew")
	case tidy.State == operations.TaskFailed:
		to, reason = operations.Failed, "the snapshot was restored ("+work.Message+"), and "+pass.DescribeHost(m.Machine)+" could not be cleaned up: "+tidy.Message
	}
	ended, err := o.To(to, reason, p.Now)
	if err != nil {
		return o
	}
	return ended
}
