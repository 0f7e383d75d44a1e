// The walk over the tasks of an operation: what is done, what is begun now, and what is waited for.

package steps

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/server/operations"
)

// Decide is the next step of an operation that runs or stops, of the form of Named. On what it gave, once that is stored, it gives nothing more.
func Decide(in Input) Output {
	d := deciding(in)
	var err error
	if d.request, err = ReadRequest(in.Operation); err != nil {
		return d.ended(operations.Failed, err.Error())
	}
	if len(in.Operation.Tasks) == 0 {
		if !d.halts() && d.awaits() {
			d.out.Operation = d.out.Operation.WithWait(d.wait, d.Now)
			return d.out
		}
		to, err := d.plan()
		if err != nil {
			return d.ended(operations.Failed, err.Error())
		}
		for _, o := range to {
			d.write(o.task())
		}
	}
	d.walk()
	return d.out
}

// awaits says that the steps cannot be chosen yet, as they depend on which agents are there and whether the cluster answers, and the server
// has led for some seconds only, in which they come back to it.
func (d *decider) awaits() bool {
	for _, m := range d.Machines {
		if m.Plan && !m.Connected && !d.waited(m.Awaited) {
			d.waits(m, m.Absent, onHost)
		}
	}
	if d.wait == nil && !d.Answers && !d.waited(d.Awaited) {
		d.wait = &operations.Wait{Object: "cluster " + path.Base(d.Operation.Subject), Cause: "its API has not been reached since this server leads"}
	}
	return d.wait != nil
}

// onHost is what a person looks at where an agent is not connected.
const onHost = "on the host: systemctl status rancher-system-agent"

// decider is one decision on its way.
type decider struct {
	planning
	out Output
	// wait is what is waited for; the first one counts.
	wait *operations.Wait
}

// Named is the record of an operation whose tasks say what they are. Servers before v0.2 wrote the step and the machine into the ID
// alone; this goes once no operation that such a server began can be under way.
func Named(o operations.Operation) operations.Operation {
	o.Tasks = slices.Clone(o.Tasks)
	for i, t := range o.Tasks {
		if name, machine, both := strings.Cut(t.ID, " "); t.Step == "" && both && all[name].Name != "" {
			o.Tasks[i].Step, o.Tasks[i].Machine = name, machine
		}
	}
	return o
}

// deciding is a decision that begins.
func deciding(in Input) *decider {
	return &decider{planning: planning{Input: in}, out: Output{Operation: in.Operation}}
}

// tasks are those of the next record.
func (d *decider) tasks() []operations.Task { return d.out.Operation.Tasks }

func (d *decider) write(t operations.Task) {
	d.out.Operation = d.out.Operation.WithTask(t, d.Now)
}

// walk goes through the tasks until one is not done.
func (d *decider) walk() {
	d.out.Begun = d.firm()
	tasks := d.tasks()
	for first := 0; first < len(tasks); {
		name, next := tasks[first].Step, first
		for next < len(tasks) && tasks[next].Step == name {
			next++
		}
		s, known := all[name]
		if !known { // and so what a machine would get for it
			d.ended(operations.Failed, fmt.Sprintf("the step of task %.80q is not known to this server, as a server of another version may have written it; ask for the operation anew", tasks[first].ID))
			return
		}
		if d.together(s, first, next) {
			d.out.Operation = d.out.Operation.WithWait(d.wait, d.Now)
			d.out.Begun = d.firm()
			return
		}
		if d.out.Operation.State.Ended() {
			return
		}
		first = next
	}
	d.finish()
}

// firm says that the operation has begun something that has no way back.
func (d *decider) firm() bool {
	for _, t := range d.tasks() {
		if all[t.Step].OnFailure.Irreversible && t.State != operations.TaskPending {
			return true
		}
	}
	return false
}

// halts says that nothing more begins.
func (d *decider) halts() bool { return d.Operation.State == operations.Stopping && !d.firm() }

// together does tasks of one step, and says whether some of them are not at their end.
func (d *decider) together(s Step, first, next int) (open bool) {
	limit := map[Turn]int{OneByOne: 1, Concurrent: d.Concurrency}[s.Needs.Turn]
	busy, left := 0, 0
	for i := first; i < next; i++ {
		if d.tasks()[i].State == operations.TaskRunning {
			busy++
		}
	}
	for _, i := range d.order(s, d.tasks()[first:next]) {
		i += first
		t := d.tasks()[i]
		switch {
		case t.State == operations.TaskRunning:
			if d.goesOn(s, t); d.tasks()[i].State.Ended() {
				busy--
			}
		case t.State == operations.TaskPending && (limit > 0 && busy >= limit || d.halts() || !s.OnFailure.Continue && d.failures(first, next) != ""):
			left++
		case t.State == operations.TaskPending:
			if d.begins(s, t); d.tasks()[i].State == operations.TaskRunning {
				busy++
			} else if !d.tasks()[i].State.Ended() {
				left++
				if limit == 1 {
					return true // its turn has come, and it waits
				}
			}
		}
	}
	switch failed := d.failures(first, next); {
	case busy > 0:
		return true
	case failed != "" && !s.OnFailure.Continue:
		d.ended(operations.Failed, failed)
		return false
	case left > 0 && d.halts():
		done, total := d.out.Operation.Progress()
		d.ended(operations.Aborted, fmt.Sprintf("%d of %d steps were not taken", total-done, total))
		return false
	}
	return left > 0
}

// order is that of tasks of one step, by their places.
func (in Input) order(s Step, tasks []operations.Task) []int {
	var down, up []int
	for i, t := range tasks {
		j := slices.IndexFunc(in.Machines, func(m Machine) bool { return m.Name == t.Machine })
		if s.Needs.DownFirst && j >= 0 && in.Machines[j].Connected && !in.Machines[j].Works {
			down = append(down, i)
		} else {
			up = append(up, i)
		}
	}
	return append(down, up...)
}

// failures are why tasks have failed; empty when none has.
func (d *decider) failures(first, next int) string {
	var reasons []string
	for _, t := range d.tasks()[first:next] {
		if t.State == operations.TaskFailed {
			reasons = append(reasons, t.Title+": "+t.Message+all[t.Step].OnFailure.Advice)
		}
	}
	return strings.Join(reasons, "; ")
}

// begins begins a task whose turn it is, or says what it waits for.
func (d *decider) begins(s Step, t operations.Task) {
	m, there := d.machine(t.Machine)
	unless := ""
	if s.Needs.Unless != nil {
		unless = s.Needs.Unless(d)
	}
	switch {
	case !there:
		d.gone(s, t)
	case !m.Connected && s.Needs.Skip && d.waited(m.Awaited):
		t.State, t.Message = operations.TaskSkipped, "it is left out: "+m.Absent
		d.write(t)
	case !m.Connected:
		d.waits(m, m.Absent, onHost)
	case s.Needs.Quorum && m.Held != "":
		d.waits(m, m.Held, "")
	case s.Needs.Unpaused && d.Paused != "":
		d.waits(m, d.Paused, "drover clusters resume "+path.Base(d.Operation.Subject))
	case s.Needs.Token && d.otherToken():
		if err := d.retokens(m); err != nil {
			t.State, t.Message = operations.TaskFailed, err.Error()
			d.write(t)
		}
	case unless != "":
		t.State, t.Message = operations.TaskSkipped, unless
		d.write(t)
	case s.Needs.Spec && !d.Spec:
		d.out.Respec = true
		d.waits(m, "the cluster becomes what it was when the snapshot was taken", "")
	default:
		t.State, t.Progress, t.Message = operations.TaskRunning, "", ""
		t.Attempts++
		d.write(t)
		d.give(s, t, m)
	}
}

// gone is a task whose machine is not in the cluster any more.
func (d *decider) gone(s Step, t operations.Task) {
	t.State, t.Progress, t.Message = operations.TaskSkipped, "", "the machine has gone"
	if t.Machine == d.request.Target || s.OnFailure.Gone {
		t.State = operations.TaskFailed
	}
	d.write(t)
}

func (d *decider) id(t operations.Task) string {
	return fmt.Sprintf("%s-%s-%d", d.Operation.ID, t.Step, t.Attempts)
}

// give has the machine get what the task is, if it has not got it.
func (d *decider) give(s Step, t operations.Task, m Machine) {
	if s.whole() && m.Wanted && !m.Failed || !s.whole() && m.Job == d.id(t) {
		return
	}
	e, err := s.job(d, d.id(t), m)
	if err != nil {
		t.State, t.Progress, t.Message = operations.TaskFailed, "", err.Error()
		d.write(t)
		return
	}
	d.out.Jobs = append(d.out.Jobs, e)
}

// again is how long a task waits before it is tried again.
const again = 10 * time.Second

// goesOn looks how far a task is that was begun.
func (d *decider) goesOn(s Step, t operations.Task) {
	m, there := d.machine(t.Machine)
	if !there {
		d.gone(s, t)
		return
	}
	given := s.whole() && m.Wanted || !s.whole() && m.Job == d.id(t)
	switch {
	case !given:
		d.give(s, t, m)
		d.waits(m, "", "")
	case m.Failed:
		d.failed(s, t, m)
	case !m.Applied, s.Done.Works && !m.Works:
		t.Progress = ""
		if m.Applied {
			t.Progress = "until it works"
		}
		d.write(t)
		d.waits(m, m.Cause, m.NextStep)
	case s.Done.Settles > 0 && m.Roles.Etcd && !d.settled(s, t):
		d.waits(m, "etcd takes it in as a member that votes", "")
	default:
		d.succeeds(s, t, m)
	}
}

// settled says that a member has worked for long enough.
func (d *decider) settled(s Step, t operations.Task) bool {
	t.Progress = "works, and its member of etcd is taken in"
	d.write(t)
	t, _ = d.out.Operation.Task(t.ID)
	return d.waited(t.Since.Add(s.Done.Settles))
}

// waited says that a time has come, and otherwise has it looked at again then.
func (d *decider) waited(until time.Time) bool {
	left := until.Sub(d.Now)
	if left > 0 && (d.out.Again == 0 || left < d.out.Again) {
		d.out.Again = left
	}
	return left <= 0
}

// failed tries a task again, as often as its step allows.
func (d *decider) failed(s Step, t operations.Task, m Machine) {
	if t.Attempts >= s.OnFailure.Tries*(d.Operation.Retry+1) {
		t.State, t.Progress, t.Message = operations.TaskFailed, "", m.Fault
		d.write(t)
		return
	}
	t.Progress = fmt.Sprintf("try %d failed: %s", t.Attempts, m.Fault)
	d.write(t)
	t, _ = d.out.Operation.Task(t.ID)
	d.waits(m, t.Progress, "")
	if d.waited(t.Since.Add(again)) {
		t.Progress = ""
		t.Attempts++
		d.write(t)
		d.give(s, t, m)
	}
}

// succeeds ends a task, unless what its job printed says otherwise.
func (d *decider) succeeds(s Step, t operations.Task, m Machine) {
	t.State, t.Progress, t.Message = operations.TaskSucceeded, "", hostjob.Removed(m.Output)
	if s.Done.Read != nil {
		var err error
		if t.Message, err = s.Done.Read(d, m); err != nil {
			t.State, t.Message = operations.TaskFailed, err.Error()
		}
	}
	d.write(t)
}

// waits says what is waited for, unless something is already.
func (d *decider) waits(m Machine, cause, next string) {
	if d.wait == nil && cause != "" {
		d.wait = &operations.Wait{Object: "machine " + m.Name, Host: m.Title, Cause: cause, NextStep: next}
	}
}

// finish ends an operation all of whose tasks have ended.
func (d *decider) finish() {
	tasks := d.tasks()
	done := 0
	for _, t := range tasks {
		if t.State == operations.TaskSucceeded {
			done++
		}
	}
	switch failed := d.failures(0, len(tasks)); {
	case failed != "":
		d.ended(operations.Failed, failed)
	case done == 0:
		d.ended(operations.Failed, "nothing was done: "+tasks[0].Title+": "+tasks[0].Message)
	default:
		d.ended(operations.Succeeded, "")
	}
	d.out.Restored = d.firm() // what failed is what may be left over
}

// ended ends the record.
func (d *decider) ended(to operations.State, reason string) Output {
	next, err := d.out.Operation.To(to, reason, d.Now)
	if err == nil { // otherwise it has ended already
		d.out.Operation = next
	}
	d.out.Begun = d.firm()
	return d.out
}
