// The walk over the tasks of an operation: what is done, what is begun now, and what is waited for.

package ops

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/server/operations"
)

// Decide is the next step of an operation that runs or stops. On what it gave, once that is stored, it gives nothing more.
func Decide(in Input) Output {
	d := &decider{Input: in, out: Output{Operation: in.Operation}}
	var err error
	if d.request, err = ReadRequest(in.Operation); err != nil {
		return d.ended(operations.Failed, err.Error())
	}
	if len(in.Operation.Tasks) == 0 {
		steps, err := d.steps()
		if err != nil {
			return d.ended(operations.Failed, err.Error())
		}
		for _, s := range steps {
			d.add(s.verb, s.machine)
		}
	}
	d.walk()
	return d.out
}

// decider is one decision on its way.
type decider struct {
	Input
	request Request
	out     Output
	// wait is what is waited for; the first one counts.
	wait *operations.Wait
}

// tasks are those of the next record.
func (d *decider) tasks() []operations.Task { return d.out.Operation.Tasks }

// add names a task that is to come.
func (d *decider) add(verb string, m Machine) {
	d.write(operations.Task{ID: taskID(verb, m.Name), Title: fmt.Sprintf(verbs[verb].title, m.Title), Host: m.NodeName})
}

func (d *decider) write(t operations.Task) {
	d.out.Operation = d.out.Operation.WithTask(t, d.Now)
}

func (d *decider) machine(name string) (Machine, bool) {
	for _, m := range d.Machines {
		if m.Name == name {
			return m, true
		}
	}
	return Machine{}, false
}

// walk goes through the tasks until one is not done.
func (d *decider) walk() {
	d.out.Begun = d.firm()
	all := d.tasks()
	for first := 0; first < len(all); {
		name, next := verbOf(all[first]), first
		for next < len(all) && verbOf(all[next]) == name {
			next++
		}
		if d.together(name, first, next) {
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
		if verbs[verbOf(t)].firm && t.State != operations.TaskPending {
			return true
		}
	}
	return false
}

// halts says that nothing more begins.
func (d *decider) halts() bool { return d.Operation.State == operations.Stopping && !d.firm() }

// together does tasks of one verb, and says whether some of them are not at their end.
func (d *decider) together(name string, first, next int) (open bool) {
	v := verbs[name]
	limit := v.limit
	if name == "renew" {
		limit = d.Concurrency
	}
	busy, left := 0, 0
	for i := first; i < next; i++ {
		if d.tasks()[i].State == operations.TaskRunning {
			busy++
		}
	}
	for _, i := range d.order(v, d.tasks()[first:next]) {
		i += first
		t := d.tasks()[i]
		switch {
		case t.State == operations.TaskRunning:
			if d.goesOn(v, name, t); d.tasks()[i].State.Ended() {
				busy--
			}
		case t.State == operations.TaskPending && (limit > 0 && busy >= limit || d.halts() || !v.further && d.failures(first, next) != ""):
			left++
		case t.State == operations.TaskPending:
			if d.begins(v, name, t); d.tasks()[i].State == operations.TaskRunning {
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
	case failed != "" && !v.further:
		d.ended(operations.Failed, failed)
		return false
	case left > 0 && d.halts():
		done, total := d.out.Operation.Progress()
		d.ended(operations.Aborted, fmt.Sprintf("%d of %d steps were not taken", total-done, total))
		return false
	}
	return left > 0
}

// order is that of tasks of one verb, by their places.
func (in Input) order(v verb, tasks []operations.Task) []int {
	var down, up []int
	for i, t := range tasks {
		j := slices.IndexFunc(in.Machines, func(m Machine) bool { return m.Name == machineOf(t) })
		if v.mends && j >= 0 && in.Machines[j].Connected && !in.Machines[j].Works {
			down = append(down, i)
		} else {
			up = append(up, i)
		}
	}
	return append(down, up...)
}

// failures are why tasks have failed; empty when none has.
func (d *decider) failures(first, next int) string {
	var all []string
	for _, t := range d.tasks()[first:next] {
		if t.State == operations.TaskFailed {
			all = append(all, t.Title+": "+t.Message+verbs[verbOf(t)].wayOut)
		}
	}
	return strings.Join(all, "; ")
}

// begins begins a task whose turn it is, or says what it waits for.
func (d *decider) begins(v verb, name string, t operations.Task) {
	m, there := d.machine(machineOf(t))
	switch {
	case !there:
		d.gone(v, t)
	case !m.Connected && v.away:
		t.State, t.Message = operations.TaskSkipped, "the agent on its host is not there: "+m.Absent
		d.write(t)
	case !m.Connected:
		d.waits(m, m.Absent, "on the host: systemctl status rancher-system-agent")
	case v.gate && m.Held != "":
		d.waits(m, m.Held, "")
	case d.request.retokened(name, d.Secrets):
		if err := d.retokens(m); err != nil {
			t.State, t.Message = operations.TaskFailed, err.Error()
			d.write(t)
		}
	case name == "seal" && !brought(d.Secrets):
		t.State, t.Message = operations.TaskSkipped, "it has that one already"
		d.write(t)
	case name == "restore" && !d.Spec:
		d.out.Respec = true
		d.waits(m, "the cluster becomes what it was when the snapshot was taken", "")
	default:
		t.State, t.Progress, t.Message = operations.TaskRunning, "", ""
		t.Attempts++
		d.write(t)
		d.give(v, name, t, m)
	}
}

// gone is a task whose machine is not in the cluster any more.
func (d *decider) gone(v verb, t operations.Task) {
	t.State, t.Progress, t.Message = operations.TaskSkipped, "", "the machine has gone"
	if machineOf(t) == d.request.Target || v.sole {
		t.State = operations.TaskFailed
	}
	d.write(t)
}

func (d *decider) id(t operations.Task) string {
	return fmt.Sprintf("%s-%s-%d", d.Operation.ID, verbOf(t), t.Attempts)
}

// give has the machine get what the task is, if it has not got it.
func (d *decider) give(v verb, name string, t operations.Task, m Machine) {
	if v.whole && m.Wanted && !m.Failed || !v.whole && m.Errand == d.id(t) {
		return
	}
	e, err := d.errand(name, d.id(t), m)
	if err != nil {
		t.State, t.Progress, t.Message = operations.TaskFailed, "", err.Error()
		d.write(t)
		return
	}
	d.out.Errands = append(d.out.Errands, e)
}

// again is how long a task waits before it is tried again.
const again = 10 * time.Second

// goesOn looks how far a task is that was begun.
func (d *decider) goesOn(v verb, name string, t operations.Task) {
	m, there := d.machine(machineOf(t))
	if !there {
		d.gone(v, t)
		return
	}
	given := v.whole && m.Wanted || !v.whole && m.Errand == d.id(t)
	switch {
	case !given:
		d.give(v, name, t, m)
		d.waits(m, "", "")
	case m.Failed:
		d.failed(v, name, t, m)
	case !m.Applied, v.works && !m.Works:
		t.Progress = ""
		if m.Applied {
			t.Progress = "until it works"
		}
		d.write(t)
		d.waits(m, m.Cause, m.NextStep)
	case v.settles > 0 && m.Roles.Etcd && !d.settled(v, t):
		d.waits(m, "etcd takes it in as a member that votes", "")
	default:
		d.succeeds(name, t, m)
	}
}

// settled says that a member has worked for long enough.
func (d *decider) settled(v verb, t operations.Task) bool {
	t.Progress = "works, and its member of etcd is taken in"
	d.write(t)
	t, _ = d.out.Operation.Task(t.ID)
	return d.waited(t.Since.Add(v.settles))
}

// waited says that a time has come, and otherwise has it looked at again then.
func (d *decider) waited(until time.Time) bool {
	left := until.Sub(d.Now)
	if left > 0 && (d.out.Again == 0 || left < d.out.Again) {
		d.out.Again = left
	}
	return left <= 0
}

// failed tries a task again, as often as its verb allows.
func (d *decider) failed(v verb, name string, t operations.Task, m Machine) {
	if t.Attempts >= v.tries*(d.Operation.Retry+1) {
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
		d.give(v, name, t, m)
	}
}

// succeeds ends a task.
func (d *decider) succeeds(name string, t operations.Task, m Machine) {
	t.State, t.Progress, t.Message = operations.TaskSucceeded, "", errand.Removed(m.Output)
	if name == "newcas" {
		next, err := d.request.reissued(m)
		if err != nil {
			t.State, t.Message = operations.TaskFailed, err.Error()
		}
		d.request, d.out.Operation = next, needing(d.out.Operation, next)
	}
	if name == "save" || name == "check" || name == guardVerb {
		file, err := saved(m)
		switch {
		case err != nil:
			t.State, t.Message = operations.TaskFailed, err.Error()
		case name == "check":
			if file.TokenHash != "" { // an archive does not say it
				// Once servers have stopped for it, they start with the token that the snapshot needs.
				d.request.TokenHash = file.TokenHash
				d.out.Operation = needing(d.out.Operation, d.request)
			}
			t.Message = found(file)
		default:
			d.out.Saved = append(d.out.Saved, Saved{Machine: m.Name, File: file})
			t.Message = found(file)
		}
	}
	d.write(t)
}

func found(file errand.File) string {
	return fmt.Sprintf("%s, %d bytes, is whole", path.Base(file.File), file.Size)
}

// waits says what is waited for, unless something is already.
func (d *decider) waits(m Machine, cause, next string) {
	if d.wait == nil && cause != "" {
		d.wait = &operations.Wait{Object: "machine " + m.Name, Host: m.Title, Cause: cause, NextStep: next}
	}
}

// finish ends an operation all of whose tasks have ended.
func (d *decider) finish() {
	all := d.tasks()
	done := 0
	for _, t := range all {
		if t.State == operations.TaskSucceeded {
			done++
		}
	}
	switch failed := d.failures(0, len(all)); {
	case failed != "":
		d.ended(operations.Failed, failed)
	case done == 0:
		d.ended(operations.Failed, "nothing was done: "+all[0].Title+": "+all[0].Message)
	default:
		d.ended(operations.Succeeded, "")
	}
	d.out.Restored = d.firm() // whatever failed is what may be left over
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
