// Snapshots of etcd, and the one that an upgrade begins with, by which the cluster goes back should the upgrade fail. The upgrade itself is
// not decided here: its machines change when this is done.

package steps

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
)

// guard takes such a snapshot.
var guard = Step{
	Name: "guard", Title: "take a snapshot on %s before anything changes", Done: Done{Read: readSnapshot},
	OnFailure: OnFailure{Tries: 3, Advice: "; nothing was changed. Mend that and try again with drover operations retry, or ask for it anew with --no-snapshot"},
	Job: func(d *decider, id string, m Machine) (Job, error) {
		e, err := just(m.Host.Save(id, cmp.Or(guardNames[d.Operation.Kind], "before-upgrade")))
		if m.Failed && m.Job == "" {
			e.Base = Files // what has failed would fail again, before the snapshot that is to come before its correction
		}
		return e, err
	},
}

// guardNames begin the names of the snapshots of operations that are no upgrades.
var guardNames = map[operations.Kind]string{operations.KindRestore: "before-restore", operations.KindRotateCA: "before-rotate-ca"}

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
func IsGuard(t operations.Task) bool { return t.Step == guard.Name }

// TakeGuard takes the snapshot that an operation begins with, on one member of etcd. It is done when there is one, when the
// cluster has no etcd of its own, and when the operation is to stop and has not begun with it. An operation whose snapshot
// could not be taken has failed.
func TakeGuard(in Input) (out Output, done bool) {
	d := deciding(in)
	t, known := d.guard()
	if known && t.State == operations.TaskPending && t.Attempts == 0 {
		// It has not begun, and another member may be the better one by now.
		m, there := d.machine(t.Machine)
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
		d.write(on{guard, m}.task())
		t, _ = d.guard()
	}
	switch {
	case t.State == operations.TaskSucceeded, t.State == operations.TaskPending && d.halts():
		return d.out, true
	case t.State == operations.TaskPending:
		d.begins(guard, t)
	case t.State == operations.TaskRunning:
		d.goesOn(guard, t)
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
func (p planning) guardian() (best Machine, found bool) {
	one := map[bool]int{true: 1}
	worth := func(m Machine) int { return one[m.Connected] + one[m.Works] }
	for _, m := range p.Machines {
		if m.Roles.Etcd && m.Member && m.Plan && (!found || worth(m) > worth(best)) {
			best, found = m, true
		}
	}
	return best, found
}

// guards is the member whose snapshot is taken before a restore; none when the cluster does not answer, as there is nothing
// to take.
func (p planning) guards() []on {
	m, found := p.guardian()
	if p.request.NoSnapshot || !p.Answers || !found || !m.Works || !m.Connected {
		return nil
	}
	return each(guard, m)
}

// Guarded takes the tasks of the snapshot that an operation begins with apart from those of its machines.
func Guarded(o operations.Operation) (guards []operations.Task, rest operations.Operation) {
	n := 0
	for n < len(o.Tasks) && IsGuard(o.Tasks[n]) {
		n++
	}
	guards, o.Tasks = o.Tasks[:n:n], o.Tasks[n:]
	return guards, o
}

// DefaultName begins the name of a snapshot for which the user gave none; the distribution's own are named so.
const DefaultName = "on-demand"

var save = Step{
	Name: "save", Title: "take a snapshot on %s", Needs: Needs{Skip: true}, Done: Done{Read: readSnapshot}, OnFailure: OnFailure{Tries: 3, Continue: true},
	Job: func(d *decider, id string, m Machine) (Job, error) {
		return just(m.Host.Save(id, cmp.Or(d.request.Name, DefaultName)))
	},
}

// readSnapshot keeps the snapshot that a machine says it has taken.
func readSnapshot(d *decider, m Machine) (string, error) {
	file, err := hostjob.ReadFile(m.Output)
	if err != nil {
		return "", err
	}
	d.out.Saved = append(d.out.Saved, Saved{Machine: m.Name, File: file})
	return found(file), nil
}

func found(file hostjob.File) string {
	return fmt.Sprintf("%s, %d bytes, is whole", path.Base(file.File), file.Size)
}

// snapshot are the steps of a snapshot.
func (p planning) snapshot() ([]on, error) {
	for _, name := range p.request.Machines {
		if !slices.ContainsFunc(p.Machines, func(m Machine) bool { return m.Name == name && m.Roles.Etcd }) {
			return nil, fmt.Errorf("the cluster has no machine %s with etcd", name)
		}
	}
	return each(save, p.with(func(m Machine) bool {
		return m.Roles.Etcd && m.Member && (len(p.request.Machines) == 0 || slices.Contains(p.request.Machines, m.Name))
	})...), nil
}
