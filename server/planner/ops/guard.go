// The snapshot that an upgrade begins with, by which the cluster goes back should the upgrade fail. The upgrade itself is
// not decided here: its machines change when this is done.

package ops

import (
	"encoding/json"
	"strings"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
)

// guardVerb is that of the tasks which take such a snapshot. A machine that changes has a task without a verb.
const guardVerb = "guard"

// guardNames begin the names of the snapshots, by the kind of the operation.
var guardNames = map[string]string{KindRestore: "before-restore", KindCA: "before-rotate-ca"}

// guardName is for upgrades, whose kind is not decided here.
const guardName = "before-upgrade"

// Guard is of an operation that begins with a snapshot.
type Guard struct {
	// Spec is what the cluster was before the operation, to which it goes back with the snapshot.
	Spec clusterspec.Spec `json:"spec"`
}

// ReadGuard reads the field guard of an operation's parameters; not ok for an operation that begins without a snapshot.
func ReadGuard(o operations.Operation) (g Guard, ok bool) {
	var p struct {
		Guard *Guard `json:"guard"`
	}
	if json.Unmarshal(o.Params, &p) != nil || p.Guard == nil {
		return Guard{}, false
	}
	return *p.Guard, true
}

// IsGuard says that a task takes the snapshot that its operation begins with.
func IsGuard(t operations.Task) bool { return strings.HasPrefix(t.ID, guardVerb+" ") }

// TakeGuard takes the snapshot that an operation begins with, on one member of etcd. It is done when there is one, when the
// cluster has no etcd of its own, and when the operation is to stop and has not begun with it. An operation whose snapshot
// could not be taken has failed.
func TakeGuard(in Input) (out Output, done bool) {
	d := &decider{Input: in, out: Output{Operation: in.Operation}}
	t, known := d.guard()
	if known && t.State == operations.TaskPending && t.Attempts == 0 {
		// It has not begun, and another member may be the better one by now.
		m, there := d.machine(machineOf(t))
		if better, found := d.guardian(); found && better.Name != m.Name && (!there || !m.Connected && better.Connected) {
			t.State, t.Message = operations.TaskSkipped, "its agent is not there"
			d.write(t)
			known = false
		}
	}
	if !known {
		m, found := d.guardian()
		if !found || d.halts() {
			return d.out, true
		}
		d.add(guardVerb, m)
		t, _ = d.guard()
	}
	v := verbs[guardVerb]
	switch {
	case t.State == operations.TaskSucceeded, t.State == operations.TaskPending && d.halts():
		return d.out, true
	case t.State == operations.TaskPending:
		d.begins(v, guardVerb, t)
	case t.State == operations.TaskRunning:
		d.goesOn(v, guardVerb, t)
	}
	if t, _ = d.out.Operation.Task(t.ID); t.State == operations.TaskFailed {
		return d.ended(operations.Failed, d.failures(0, len(d.tasks()))), false
	}
	d.out.Operation = d.out.Operation.WithWait(d.wait, d.Now)
	return d.out, t.State == operations.TaskSucceeded
}

// guard is the task that counts: the last one that was not given up.
func (d *decider) guard() (last operations.Task, known bool) {
	for _, t := range d.tasks() {
		if IsGuard(t) && t.State != operations.TaskSkipped {
			last, known = t, true
		}
	}
	return last, known
}

// guardian is the member of etcd whose snapshot is taken: one that works, if there is one.
func (d *decider) guardian() (best Machine, found bool) {
	worth := func(m Machine) (n int) {
		for _, good := range []bool{m.Connected, m.Works} {
			if good {
				n++
			}
		}
		return n
	}
	for _, m := range d.Machines {
		if m.Roles.Etcd && m.Member && m.Plan && (!found || worth(m) > worth(best)) {
			best, found = m, true
		}
	}
	return best, found
}

// guards is the member whose snapshot is taken before a restore; none when the cluster does not answer, as there is nothing
// to take.
func (d *decider) guards() []step {
	m, found := d.guardian()
	if d.request.NoSnapshot || !d.Answers || !found || !m.Works || !m.Connected {
		return nil
	}
	return []step{{guardVerb, m}}
}
