// The operation under way on a cluster: how far its record is by what was found of the machines. It
// follows what is decided; what it decides itself is that nothing new begins once it is to stop.

package planner

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// What is done on a machine by operations that the planner carries out itself.
const (
	stepChange = "change"
	stepRemove = "remove"
)

// maxTasks is up to how many machines an operation has a task each; beyond it each tier has one.
const maxTasks = 100

// stopping says that the operation finishes what was begun and begins nothing.
func (r *round) stopping() bool {
	return r.Operation != nil && r.Operation.State == operations.Stopping
}

// retryNow says that somebody asked to try the failed plan of a machine again.
func (r *round) retryNow(m *member) bool {
	if r.Operation == nil || r.Operation.State != operations.Running || r.Operation.Retry == 0 {
		return false
	}
	task, known := r.Operation.Task(m.Name)
	return known && task.State == operations.TaskPending
}

// progress carries the record of the operation on.
func (r *round) progress() {
	if r.Operation == nil || r.Operation.State == operations.Queued || r.Operation.State.Ended() {
		return
	}
	next := *r.Operation
	if r.operation != nil {
		next = *r.operation // its snapshot came one step further
	}
	if next.State.Ended() {
		return
	}
	switch next.Kind {
	case operations.KindUpgrade, operations.KindChange:
		next = r.rollOut(next)
	case operations.KindRemoval, operations.KindUninstall:
		next = r.departure(next)
	}
	r.note(next)
}

// note has the next record of the operation written if it is another one.
func (r *round) note(next operations.Operation) {
	if !reflect.DeepEqual(next, *r.Operation) {
		r.operation = &next
	}
}

// rollOut is the record of a change after this round.
func (r *round) rollOut(o operations.Operation) operations.Operation {
	guards, o := guarded(o)
	if len(o.Tasks) == 0 {
		o = r.plannedTasks(o)
	}
	if !r.unguarded {
		o = r.rolled(o)
	}
	o.Tasks = append(guards, o.Tasks...)
	return o
}

// rolled is the record with what was found of the machines that it changes.
func (r *round) rolled(o operations.Operation) operations.Operation {
	if len(o.Tasks) > 0 && strings.HasPrefix(o.Tasks[0].ID, tierPrefix) {
		o = r.tierTasks(o)
	} else {
		o = r.machineTasks(o)
	}
	return r.ended(r.waiting(o))
}

// plannedTasks are one task for each machine that the operation changes, in the order of their tiers.
func (r *round) plannedTasks(o operations.Operation) operations.Operation {
	var changing []*member
	for _, t := range r.tiers() {
		for _, m := range t.members {
			if m.change == restart || m.change == quiet {
				changing = append(changing, m)
			}
		}
	}
	if len(changing) > maxTasks {
		return r.tierTasks(o)
	}
	for _, m := range changing {
		o = o.WithTask(operations.Task{ID: m.Name, Step: stepChange, Machine: m.Name, Title: changeTitle(m), Host: m.NodeName}, r.Now)
	}
	return o
}

func changeTitle(m *member) string {
	if m.change == quiet {
		return "change files of " + describeHost(m.Machine)
	}
	return "change and restart " + describeHost(m.Machine)
}

// machineTasks has the tasks be what is found of their machines.
func (r *round) machineTasks(o operations.Operation) operations.Operation {
	there := map[string]*member{}
	for _, m := range r.staying {
		there[m.Name] = m
	}
	for _, t := range o.Tasks {
		m := there[t.ID]
		if m == nil {
			t.State, t.Progress, t.Message = operations.TaskSkipped, "", "the machine has gone"
			o = o.WithTask(t, r.Now)
			continue
		}
		state := taskOf(m)
		if state == operations.TaskRunning && m.deliver != nil {
			t.Attempts++
		}
		t.State, t.Progress, t.Message = state, "", ""
		switch state {
		case operations.TaskRunning:
			t.Progress = string(m.State)
		case operations.TaskFailed:
			t.Message = m.Cause
		}
		o = o.WithTask(t, r.Now)
	}
	return o
}

// taskOf is where the change of a machine is.
func taskOf(m *member) operations.TaskState {
	switch {
	case m.change == restart && m.deliver == nil && m.next.drain == nil && m.State != records.Failed:
		return operations.TaskPending
	case m.deliver != nil || m.retry != nil && m.retry.now || m.next.drain != nil:
		return operations.TaskRunning
	case m.State == records.Failed:
		return operations.TaskFailed
	case m.State == records.Active && m.change == nothing:
		return operations.TaskSucceeded
	}
	return operations.TaskRunning
}

// tierPrefix begins the IDs of tasks that stand for a tier.
const tierPrefix = "tier "

// tierTasks has one task for each tier of a large cluster.
func (r *round) tierTasks(o operations.Operation) operations.Operation {
	for _, t := range r.tiers() {
		if len(t.members) == 0 {
			continue
		}
		count := map[operations.TaskState]int{}
		for _, m := range t.members {
			count[taskOf(m)]++
		}
		task := operations.Task{ID: tierPrefix + t.name, Title: t.name + " machines", State: operations.TaskRunning}
		switch done := count[operations.TaskSucceeded]; {
		case done == len(t.members):
			task.State = operations.TaskSucceeded
		case count[operations.TaskPending]+done == len(t.members):
			task.State = operations.TaskPending
		case count[operations.TaskFailed] > 0 && count[operations.TaskRunning] == 0:
			task.State, task.Message = operations.TaskFailed, fmt.Sprintf("%d of %d failed", count[operations.TaskFailed], len(t.members))
		default:
			task.Progress = fmt.Sprintf("%d of %d done", done, len(t.members))
		}
		o = o.WithTask(task, r.Now)
	}
	return o
}

// waiting has the record say what it waits for: the first machine that is not through.
func (r *round) waiting(o operations.Operation) operations.Operation {
	var first *member
	for _, t := range r.tiers() {
		for _, m := range t.members {
			state := taskOf(m)
			if state == operations.TaskSucceeded {
				continue
			}
			if first == nil || state == operations.TaskFailed && taskOf(first) != operations.TaskFailed {
				first = m
			}
		}
	}
	return r.waitOn(o, first)
}

// waitOn has the record say that it waits for a machine; nil is for nothing.
func (r *round) waitOn(o operations.Operation, first *member) operations.Operation {
	if first == nil || first.Cause == "" {
		return o.WithWait(nil, r.Now)
	}
	object, next := "machine "+first.Name, first.NextStep
	if first.State == records.Failed && o.Back != "" {
		next += "; the way back is " + o.Back
	}
	if o.Wait != nil && o.Wait.Object == object && o.Wait.NextStep == next && first.State == records.ApplyingPlan {
		return o // causes of one step differ in what was printed last, which the machine shows
	}
	wait := operations.Wait{Object: object, Host: describeHost(first.Machine), Cause: first.Cause, NextStep: next}
	if first.Code == string(verdict.WaitWindow) {
		wait.Object, wait.Host, wait.Until = "the maintenance window", "", r.window.Change.UTC()
	}
	return o.WithWait(&wait, r.Now)
}

// ended ends the record when nothing is left to do, or when what was begun is finished and it is to stop.
func (r *round) ended(o operations.Operation) operations.Operation {
	open, begun := 0, 0
	for _, t := range o.Tasks {
		if t.State != operations.TaskSucceeded && t.State != operations.TaskSkipped {
			open++
		}
		if (t.State == operations.TaskRunning || t.State == operations.TaskWaiting) && !(o.State == operations.Stopping && r.gone(t.ID)) {
			begun++
		}
	}
	to, reason := operations.Succeeded, ""
	switch {
	case begun > 0, r.shut.holds() && o.State != operations.Stopping:
		return o
	case open > 0 && o.State != operations.Stopping:
		return o
	case open > 0 || r.shut.holds():
		to, reason = operations.Aborted, fmt.Sprintf("%d of %d were not changed and keep what they have", open, len(o.Tasks))
		if o.Back != "" && slices.ContainsFunc(o.Tasks, func(t operations.Task) bool {
			return t.State == operations.TaskSucceeded || t.State == operations.TaskFailed
		}) {
			reason += "; the way back is " + o.Back
		}
		r.cluster.halted = r.Cluster.Generation
	}
	ended, err := o.To(to, reason, r.Now)
	if err != nil {
		return o // its state does not lead there: it has ended already
	}
	return ended
}

// departure is the record of machines that leave.
func (r *round) departure(o operations.Operation) operations.Operation {
	var first *member
	var kept []*member
	for _, m := range r.members {
		if m.kept {
			kept = append(kept, m)
			if task, known := o.Task(m.Name); known {
				task.State, task.Progress, task.Message = operations.TaskSkipped, "", "it stays in the cluster"
				o = o.WithTask(task, r.Now)
			}
		}
		if _, known := o.Task(m.Name); !m.leaving || !known && len(r.members) > maxTasks {
			continue
		}
		task := operations.Task{ID: m.Name, Step: stepRemove, Machine: m.Name, Title: "remove " + describeHost(m.Machine), Host: m.NodeName, State: operations.TaskRunning, Progress: "leaves the cluster"}
		switch {
		case m.remove:
			task.State, task.Progress = operations.TaskSucceeded, ""
		case m.next.cleared:
			task.Progress = "its host is left clean"
		}
		if m.failure != nil {
			task.State, task.Message = operations.TaskFailed, m.Cause
		}
		o = o.WithTask(task, r.Now)
		if first == nil && !m.remove {
			first = m
		}
	}
	if first != nil {
		cause := first.Cause
		if o.State == operations.Stopping {
			cause = "its removal has begun, and is finished first: " + cause
		}
		return o.WithWait(&operations.Wait{Object: "machine " + first.Name, Host: describeHost(first.Machine), Cause: cause, NextStep: first.NextStep}, r.Now)
	}
	to, reason := operations.Succeeded, ""
	if len(kept) > 0 {
		to, reason = operations.Aborted, describeServers(kept)+" stays in the cluster, as nothing had begun for it"
	}
	ended, err := o.To(to, reason, r.Now)
	if err != nil {
		return o
	}
	return ended
}

// gone says, of an operation that is to stop, that nothing can be heard of the end of what a machine has begun.
func (r *round) gone(name string) bool {
	for _, m := range r.staying {
		if m.Name == name {
			return !m.Agent.Connected || m.State == records.Unavailable
		}
	}
	return false
}
