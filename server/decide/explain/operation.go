// The operation under way on a cluster: how far its record is by what was found of the machines. It
// follows what is decided; what it decides itself is that nothing new begins once it is to stop.

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// What is done on a machine by operations that the planner carries out itself.
const (
	stepChange = "change"
	stepRemove = "remove"
)

// maxTasks is up to how many machines an operation has a task each; beyond it each tier has one.
const maxTasks = 100

// operation carries the record of the operation on.
func operation(p *pass.Pass) {
	if p.Operation == nil || p.Operation.State == operations.Queued || p.Operation.State.Ended() {
		return
	}
	next := *p.Operation
	if p.NextOperation != nil {
		next = *p.NextOperation // its snapshot came one step further
	}
	if next.State.Ended() {
		return
	}
	switch next.Kind {
	case operations.KindUpgrade, operations.KindChange:
		next = rollOut(p, next)
	case operations.KindRemoval, operations.KindUninstall:
		next = departure(p, next)
	}
	p.Note(next)
}

// rollOut is the record of a change after this pass.
func rollOut(p *pass.Pass, o operations.Operation) operations.Operation {
	guards, o := steps.Guarded(o)
	if len(o.Tasks) == 0 {
		o = plannedTasks(p, o)
	}
	if !p.Unguarded {
		o = rolled(p, o)
	}
	o.Tasks = append(guards, o.Tasks...)
	return o
}

// rolled is the record with what was found of the machines that it changes.
func rolled(p *pass.Pass, o operations.Operation) operations.Operation {
	if len(o.Tasks) > 0 && strings.HasPrefix(o.Tasks[0].ID, tierPrefix) {
		o = tierTasks(p, o)
	} else {
		o = machineTasks(p, o)
	}
	return Ended(p, waiting(p, o))
}

// plannedTasks are one task for each machine that the operation changes, in the order of their tiers.
func plannedTasks(p *pass.Pass, o operations.Operation) operations.Operation {
	var changing []*pass.Member
	for _, t := range p.Tiers() {
		for _, m := range t.Members {
			if m.Change == pass.Restart || m.Change == pass.Quiet {
				changing = append(changing, m)
			}
		}
	}
	if len(changing) > maxTasks {
		return tierTasks(p, o)
	}
	for _, m := range changing {
		o = o.WithTask(operations.Task{ID: m.Name, Step: stepChange, Machine: m.Name, Title: changeTitle(m), Host: m.NodeName}, p.Now)
	}
	return o
}

func changeTitle(m *pass.Member) string {
	if m.Change == pass.Quiet {
		return "change files of " + pass.DescribeHost(m.Machine)
	}
	return "change and restart " + pass.DescribeHost(m.Machine)
}

// machineTasks has the tasks be what is found of their machines.
func machineTasks(p *pass.Pass, o operations.Operation) operations.Operation {
	there := map[string]*pass.Member{}
	for _, m := range p.Staying {
		there[m.Name] = m
	}
	for _, t := range o.Tasks {
		m := there[t.ID]
		if m == nil {
			t.State, t.Progress, t.Message = operations.TaskSkipped, "", "the machine has gone"
			o = o.WithTask(t, p.Now)
			continue
		}
		state := taskOf(m)
		if state == operations.TaskRunning && m.Deliver != nil {
			t.Attempts++
		}
		t.State, t.Progress, t.Message = state, "", ""
		switch state {
		case operations.TaskRunning:
			t.Progress = string(m.State)
		case operations.TaskFailed:
			t.Message = m.Cause
		}
		o = o.WithTask(t, p.Now)
	}
	return o
}

// taskOf is where the change of a machine is.
func taskOf(m *pass.Member) operations.TaskState {
	switch {
	case m.Change == pass.Restart && m.Deliver == nil && m.Next.Drain == nil && m.State != records.Failed:
		return operations.TaskPending
	case m.Deliver != nil || m.Retry != nil && m.Retry.Now || m.Next.Drain != nil:
		return operations.TaskRunning
	case m.State == records.Failed:
		return operations.TaskFailed
	case m.State == records.Active && m.Change == pass.Unchanged:
		return operations.TaskSucceeded
	}
	return operations.TaskRunning
}

// tierPrefix begins the IDs of tasks that stand for a tier.
const tierPrefix = "tier "

// tierTasks has one task for each tier of a large cluster.
func tierTasks(p *pass.Pass, o operations.Operation) operations.Operation {
	for _, t := range p.Tiers() {
		if len(t.Members) == 0 {
			continue
		}
		count := map[operations.TaskState]int{}
		for _, m := range t.Members {
			count[taskOf(m)]++
		}
		task := operations.Task{ID: tierPrefix + t.Name, Title: t.Name + " machines", State: operations.TaskRunning}
		switch done := count[operations.TaskSucceeded]; {
		case done == len(t.Members):
			task.State = operations.TaskSucceeded
		case count[operations.TaskPending]+done == len(t.Members):
			task.State = operations.TaskPending
		case count[operations.TaskFailed] > 0 && count[operations.TaskRunning] == 0:
			task.State, task.Message = operations.TaskFailed, fmt.Sprintf("%d of %d failed", count[operations.TaskFailed], len(t.Members))
		default:
			task.Progress = fmt.Sprintf("%d of %d done", done, len(t.Members))
		}
		o = o.WithTask(task, p.Now)
	}
	return o
}

// waiting has the record say what it waits for: the first machine that is not through.
func waiting(p *pass.Pass, o operations.Operation) operations.Operation {
	var first *pass.Member
	for _, t := range p.Tiers() {
		for _, m := range t.Members {
			state := taskOf(m)
			if state == operations.TaskSucceeded {
				continue
			}
			if first == nil || state == operations.TaskFailed && taskOf(first) != operations.TaskFailed {
				first = m
			}
		}
	}
	return WaitOn(p, o, first)
}

// WaitOn has the record say that it waits for a machine; nil is for nothing.
func WaitOn(p *pass.Pass, o operations.Operation, first *pass.Member) operations.Operation {
	if first == nil || first.Cause == "" {
		return o.WithWait(nil, p.Now)
	}
	object, next := "machine "+first.Name, first.NextStep
	if first.State == records.Failed && o.Back != "" {
		next += "; the way back is " + o.Back
	}
	if o.Wait != nil && o.Wait.Object == object && o.Wait.NextStep == next && first.State == records.ApplyingPlan {
		return o // causes of one step differ in what was printed last, which the machine shows
	}
	wait := operations.Wait{Object: object, Host: pass.DescribeHost(first.Machine), Cause: first.Cause, NextStep: next}
	if first.Code == string(catalogue.WaitWindow) {
		wait.Object, wait.Host, wait.Until = "the maintenance window", "", p.Window.Change.UTC()
	}
	return o.WithWait(&wait, p.Now)
}

// Ended ends the record when nothing is left to do, or when what was begun is finished and it is to stop.
func Ended(p *pass.Pass, o operations.Operation) operations.Operation {
	open, begun := 0, 0
	for _, t := range o.Tasks {
		if t.State != operations.TaskSucceeded && t.State != operations.TaskSkipped {
			open++
		}
		if (t.State == operations.TaskRunning || t.State == operations.TaskWaiting) && !(o.State == operations.Stopping && gone(p, t.ID)) {
			begun++
		}
	}
	to, reason := operations.Succeeded, ""
	switch {
	case begun > 0, p.Gate.Shut() && o.State != operations.Stopping:
		return o
	case open > 0 && o.State != operations.Stopping:
		return o
	case open > 0 || p.Gate.Shut():
		to, reason = operations.Aborted, fmt.Sprintf("%d of %d were not changed and keep what they have", open, len(o.Tasks))
		if o.Back != "" && slices.ContainsFunc(o.Tasks, func(t operations.Task) bool {
			return t.State == operations.TaskSucceeded || t.State == operations.TaskFailed
		}) {
			reason += "; the way back is " + o.Back
		}
		p.Verdict.Halted = p.Cluster.Generation
	}
	ended, err := o.To(to, reason, p.Now)
	if err != nil {
		return o // its state does not lead there: it has ended already
	}
	return ended
}

// departure is the record of machines that leave.
func departure(p *pass.Pass, o operations.Operation) operations.Operation {
	var first *pass.Member
	var kept []*pass.Member
	for _, m := range p.Members {
		if m.Kept {
			kept = append(kept, m)
			if task, known := o.Task(m.Name); known {
				task.State, task.Progress, task.Message = operations.TaskSkipped, "", "it stays in the cluster"
				o = o.WithTask(task, p.Now)
			}
		}
		if _, known := o.Task(m.Name); !m.Leaving || !known && len(p.Members) > maxTasks {
			continue
		}
		task := operations.Task{ID: m.Name, Step: stepRemove, Machine: m.Name, Title: "remove " + pass.DescribeHost(m.Machine), Host: m.NodeName, State: operations.TaskRunning, Progress: "leaves the cluster"}
		switch {
		case m.Remove:
			task.State, task.Progress = operations.TaskSucceeded, ""
		case m.Next.Cleared:
			task.Progress = "its host is left clean"
		}
		if m.Failure != nil {
			task.State, task.Message = operations.TaskFailed, m.Cause
		}
		o = o.WithTask(task, p.Now)
		if first == nil && !m.Remove {
			first = m
		}
	}
	if first != nil {
		cause := first.Cause
		if o.State == operations.Stopping {
			cause = "its removal has begun, and is finished first: " + cause
		}
		return o.WithWait(&operations.Wait{Object: "machine " + first.Name, Host: pass.DescribeHost(first.Machine), Cause: cause, NextStep: first.NextStep}, p.Now)
	}
	to, reason := operations.Succeeded, ""
	if len(kept) > 0 {
		to, reason = operations.Aborted, pass.DescribeServers(kept)+" stays in the cluster, as nothing had begun for it"
	}
	ended, err := o.To(to, reason, p.Now)
	if err != nil {
		return o
	}
	return ended
}

// gone says, of an operation that is to stop, that nothing can be heard of the end of what a machine has begun.
func gone(p *pass.Pass, name string) bool {
	for _, m := range p.Staying {
		if m.Name == name {
			return !m.Agent.Connected || m.State == records.Unavailable
		}
	}
	return false
}
