package steps

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
)

// Step is one thing that is done on a machine; each is a value in the file of the kind of operation that it is part of. A task of an
// operation is a step on a machine. Tasks of one step that stand together are done side by side, as far as Needs allows.
type Step struct {
	// Name is the step in records and in the IDs of jobs. Title is a sentence for people, with %s for the machine; what a preview
	// shows and what is done are both made of it.
	Name, Title string
	Needs       Needs
	// Job is what the machine gets; nil is the plan itself that the cluster wants. The error is why it cannot get it.
	Job       func(d *decider, id string, m Machine) (Job, error)
	Done      Done
	OnFailure OnFailure
	// Stops says that the job leaves the distribution of its machine stopped.
	Stops bool
}

// Turn is how many machines are at a step at a time.
type Turn int

const (
	// OneByOne is one at a time, Together all of them, and Concurrent as many as workers of the cluster may be away.
	OneByOne Turn = iota
	Together
	Concurrent
)

// Needs is what has to be before a step begins on a machine.
type Needs struct {
	Turn Turn
	// Quorum has it wait until etcd bears that the machine restarts.
	Quorum bool
	// DownFirst has machines that are down go first, since what they get is what they lack.
	DownFirst bool
	// Skip leaves out a machine whose agent is not there, or into whose plan nothing can be put; otherwise it is waited for.
	Skip bool
	// Token has the cluster's server token become the one that the request needs, and Spec the cluster what the request wants.
	Token, Spec bool
	// Unpaused has it wait while the cluster is paused.
	Unpaused bool
	// Unless is why it need not be done; empty when it has to. Nil is that it always has to.
	Unless func(d *decider) string
}

// Done is when a step has been done, once its machine has carried the job out.
type Done struct {
	// Works says that the machine has to work, too, and Settles for how long after that it is waited for where it has etcd.
	Works   bool
	Settles time.Duration
	// Read reads what the job printed, and keeps what comes of it. It returns a line for people; the error is that the step failed.
	Read func(d *decider, m Machine) (string, error)
}

// OnFailure is what becomes of an operation whose step fails on a machine.
type OnFailure struct {
	// Tries is how often it is begun before it has failed.
	Tries int
	// Continue has the operation go on without it; otherwise it fails.
	Continue bool
	// Irreversible says that the operation cannot be stopped any more once the step has begun on a machine.
	Irreversible bool
	// Gone has the operation fail when the machine has gone; otherwise the step is left out.
	Gone bool
	// Advice is what a person does about it, as the rest of a sentence.
	Advice string
}

// all are the steps by their names.
var all = byName(guard, save, rotate, renew, keys, restartKeys, token, retoken, prove, newCAs, takeCAs, reload, tidy, fetch, check, stop, restore, start, seal,
	forget, join, reconnect, clean, canary, agent)

func byName(steps ...Step) map[string]Step {
	named := map[string]Step{}
	for _, s := range steps {
		named[s.Name] = s
	}
	return named
}

// whole says that the machine gets the plan itself.
func (s Step) whole() bool { return s.Job == nil }

// job is what a machine gets for the step.
func (s Step) job(d *decider, id string, m Machine) (Job, error) {
	if s.whole() {
		return Job{Machine: m.Name, Base: Whole}, nil
	}
	e, err := s.Job(d, id, m)
	e.Machine = m.Name
	return e, err
}

// just is a job of one instruction beside the plan that the machine has.
func just(in plans.OneTimeInstruction) (Job, error) {
	return Job{Instructions: []plans.OneTimeInstruction{in}}, nil
}

// on is a step on a machine that is to come.
type on struct {
	step    Step
	machine Machine
}

// task is the task of a step on a machine.
func (o on) task() operations.Task {
	return operations.Task{
		ID: o.step.Name + " " + o.machine.Name, Step: o.step.Name, Machine: o.machine.Name, Title: fmt.Sprintf(o.step.Title, o.machine.Title), Host: o.machine.NodeName,
	}
}

// each is a step on machines, in their order.
func each(s Step, machines ...Machine) (to []on) {
	for _, m := range machines {
		to = append(to, on{s, m})
	}
	return to
}

// Stops says that the job of an ID leaves the distribution of its host stopped, until another plan starts it.
func Stops(id string) bool {
	parts := strings.Split(id, "-") // as decider.id writes it
	return len(parts) > 2 && all[parts[len(parts)-2]].Stops
}

// planning is what the steps of an operation depend on.
type planning struct {
	Input
	request Request
}

// plan are the steps of the operation on its machines, in their order; the error is why it cannot begin.
func (p planning) plan() (to []on, err error) {
	if n := len(p.Machines); n > MaxMachines && p.request.Agent == nil {
		return nil, fmt.Errorf("the cluster has %d machines, and an operation of this kind takes %d at most", n, MaxMachines)
	}
	of, known := kinds[p.Operation.Kind]
	if !known {
		return nil, fmt.Errorf("%q is not done in steps", p.Operation.Kind)
	}
	if to, err = of.plan(p); err == nil && len(to) == 0 {
		err = fmt.Errorf("no machine of the cluster has a plan and the role for it")
	}
	return to, err
}

func (p planning) with(is func(Machine) bool) []Machine {
	return slices.DeleteFunc(slices.Clone(p.Machines), func(m Machine) bool { return !is(m) })
}

// servers are those with a plan, in the order in which they restart: etcd alone, with a control plane, a control plane alone.
func (p planning) servers() []Machine {
	return slices.Concat(
		p.with(func(m Machine) bool { return m.Roles.Etcd && !m.Roles.ControlPlane && m.Plan }),
		p.with(func(m Machine) bool { return m.Roles.Etcd && m.Roles.ControlPlane && m.Plan }),
		p.with(func(m Machine) bool { return !m.Roles.Etcd && m.Roles.ControlPlane && m.Plan }))
}

func (p planning) workers() []Machine {
	return p.with(func(m Machine) bool { return !m.Roles.Etcd && !m.Roles.ControlPlane && m.Plan })
}

func (p planning) machine(name string) (Machine, bool) {
	i := slices.IndexFunc(p.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return Machine{}, false
	}
	return p.Machines[i], true
}
