// Rehearsals: a snapshot of a cluster is restored on a machine of a fleet, looked at, and taken away again. The operation
// is the fleet's, whose machine is busy with it; the cluster goes on as it is.

package planner

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// The tasks of a rehearsal, an operation of the kind operations.KindRehearse.
const (
	TaskRehearse = "rehearse"
	TaskCleanUp  = "clean up"
)

// Rehearsal is what is rehearsed: the field rehearsal of the parameters of such an operation.
type Rehearsal struct {
	Cluster records.ClusterKey `json:"cluster"`
	// Snapshot is the key of its record; empty for a file that the server has no record of.
	Snapshot string `json:"snapshot,omitempty"`
	// Machine is the name of the one on which it is done.
	Machine string `json:"machine"`
	// Link is random.Hash of the secret that opens the snapshot to that machine; empty when it does not come through the server.
	Link string `json:"link,omitempty"`
}

// Rehearsed is the result of a rehearsal, of the snapshot whose record has the key.
type Rehearsed struct {
	Snapshot string
	Result   records.Rehearsal
}

// ReadRehearsal reads what a rehearsal is of.
func ReadRehearsal(o operations.Operation) (Rehearsal, error) {
	var p struct {
		Rehearsal *Rehearsal `json:"rehearsal"`
	}
	if err := json.Unmarshal(o.Params, &p); err != nil || p.Rehearsal == nil {
		return Rehearsal{}, fmt.Errorf("what operation %s was to rehearse cannot be read, as a server of another version may have written it; ask for it anew", o.ID)
	}
	return *p.Rehearsal, nil
}

// rehearse takes the next step of a rehearsal. Which plan the machine has says how far it is: that of the rehearsal, which
// ends on the host, or the one that cleans up after it.
func (r *round) rehearse(given *records.GivenPlan) {
	o := r.Operation
	if o == nil || o.Kind != operations.KindRehearse || given == nil || (o.State != operations.Running && o.State != operations.Stopping) {
		return
	}
	asked, err := ReadRehearsal(*o)
	m := r.named(asked.Machine)
	switch {
	case err != nil:
		r.end(*o, operations.Failed, err.Error())
		return
	case m == nil:
		r.end(*o, operations.Failed, fmt.Sprintf("machine %s has gone from its fleet", asked.Machine))
		return
	}
	next := *o
	work, _ := o.Task(TaskRehearse)
	tidy, _ := o.Task(TaskCleanUp)
	switch m.report.checksum {
	case plans.Checksum(given.After):
		next = r.cleaning(next, m, work, tidy)
	case plans.Checksum(given.Plan):
		next = r.performing(next, m, work, tidy, given)
	default:
		if r.stopping() {
			r.end(next, operations.Aborted, "nothing had begun on "+describeHost(m.Machine))
			return
		}
		next = r.hand(next, m, given.Plan, work)
	}
	if !next.State.Ended() {
		wait := m
		if m.State == records.Active {
			wait = nil
		}
		next = r.waitOn(next, wait)
	}
	r.note(next)
}

// end has the operation end.
func (r *round) end(o operations.Operation, to operations.State, reason string) {
	if ended, err := o.To(to, reason, r.Now); err == nil {
		r.note(ended)
	}
}

// hand delivers one of the plans to the machine, and has its task begin.
func (r *round) hand(o operations.Operation, m *member, plan []byte, t operations.Task) operations.Operation {
	m.bytes = plan
	r.deliver(m)
	t.State, t.Progress, t.Message = operations.TaskRunning, string(records.ApplyingPlan), ""
	t.Attempts++
	return o.WithTask(t, r.Now)
}

// performing is the record while the machine has the plan of the rehearsal. However that ends, the plan that cleans up comes
// next; a rehearsal that is to stop does not wait for its end.
func (r *round) performing(o operations.Operation, m *member, work, tidy operations.Task, given *records.GivenPlan) operations.Operation {
	result := records.Rehearsal{Operation: o.ID, At: r.Now, Machine: describeHost(m.Machine)}
	switch {
	case m.report.inSync:
		is, err := r.rehearsalOutput(m)
		result.Objects, result.Counts, result.Unread, result.Seconds, result.Cause = is.Objects, is.Counts, is.Unread, is.Seconds, is.Cause
		switch {
		case err != nil:
			result.Cause = err.Error()
		case !is.OK && result.Cause == "":
			result.Cause = "the host reports no reason"
		}
	case m.failure != nil:
		result.Cause = m.Cause
	case r.stopping():
		work.State, work.Progress, work.Message = operations.TaskSkipped, "", "it was stopped before its end"
		return r.hand(o.WithTask(work, r.Now), m, given.After, tidy)
	default:
		work.State, work.Progress = operations.TaskRunning, string(m.State)
		return o.WithTask(work, r.Now)
	}
	work.State, work.Progress, work.Message = operations.TaskSucceeded, "", Counted(result)
	if result.Cause != "" {
		work.State, work.Message = operations.TaskFailed, result.Cause
	}
	if asked, err := ReadRehearsal(o); err == nil && asked.Snapshot != "" {
		r.rehearsed = &Rehearsed{Snapshot: asked.Snapshot, Result: result}
	}
	return r.hand(o.WithTask(work, r.Now), m, given.After, tidy)
}

// rehearsalOutput is what the host printed of the rehearsal.
func (r *round) rehearsalOutput(m *member) (errand.Rehearsed, error) {
	outcome, err := plans.ReadOutcome(m.data())
	if err != nil {
		return errand.Rehearsed{}, err
	}
	return errand.ReadRehearsed(outcome.AppliedOutput[errand.RehearseName])
}

// cleaning is the record while the machine has the plan that cleans up, with which it ends. That goes on to be delivered to a
// machine that is away, and is not waited for then when the operation is to stop.
func (r *round) cleaning(o operations.Operation, m *member, work, tidy operations.Task) operations.Operation {
	switch {
	case m.report.inSync:
		tidy.State, tidy.Progress = operations.TaskSucceeded, ""
	case m.failure != nil:
		tidy.State, tidy.Progress, tidy.Message = operations.TaskFailed, "", m.Cause
	case r.stopping() && !m.Agent.Connected:
		tidy.State, tidy.Progress, tidy.Message = operations.TaskSkipped, "", "it is done when the agent on "+m.Name+" is there again"
	default:
		tidy.State, tidy.Progress = operations.TaskRunning, string(m.State)
		return o.WithTask(tidy, r.Now)
	}
	o = o.WithTask(tidy, r.Now)
	to, reason := operations.Succeeded, work.Message
	switch {
	case work.State == operations.TaskSkipped:
		to = operations.Aborted
	case work.State != operations.TaskSucceeded:
		to, reason = operations.Failed, cmp.Or(reason, "a retry was asked for before its end; ask for the rehearsal anew")
	case tidy.State == operations.TaskFailed:
		to, reason = operations.Failed, "the snapshot was restored ("+work.Message+"), and "+describeHost(m.Machine)+" could not be cleaned up: "+tidy.Message
	}
	ended, err := o.To(to, reason, r.Now)
	if err != nil {
		return o
	}
	return ended
}

// Counted is what a rehearsal that did not fail counted: "3 nodes, 412 objects".
func Counted(r records.Rehearsal) string {
	plural := func(n int, what string) string {
		if n == 1 {
			return fmt.Sprintf("%d %s", n, what)
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return plural(r.Counts["nodes"], "node") + ", " + plural(r.Objects, "object")
}
