// What an upgrade and other changes that restart machines wait for before anything begins: the cluster's maintenance
// window, and for an upgrade the snapshot by which there is a way back.

package planner

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/window"
)

// windowed is how the maintenance windows of a cluster are now.
type windowed struct {
	// text is empty for a cluster without one.
	text string
	window.State
	// fault is why they cannot be read; nothing restarts then.
	fault error
}

// Window is how the maintenance windows of a cluster are at a time, and what they are; the text is empty for a cluster
// without one, which may always be disturbed. The error says why they cannot be read.
func Window(c records.Cluster, now time.Time) (text string, s window.State, err error) {
	if text = c.Annotations[clusterspec.MaintenanceWindow]; text == "" {
		return "", window.State{Open: true}, nil
	}
	all, err := window.Parse(text)
	if err != nil {
		return text, s, fmt.Errorf("the maintenance window %.80q of cluster %s cannot be read: %w", text, c.Name, err)
	}
	return all.String(), all.At(now), nil
}

func (s Snapshot) windowed() windowed {
	var w windowed
	w.text, w.State, w.fault = Window(s.Cluster, s.Now)
	return w
}

// again is when the windows are others than now; zero: not by themselves.
func (w windowed) again(now time.Time) time.Duration {
	if w.Change.IsZero() {
		return 0
	}
	return w.Change.Sub(now)
}

// opens is when a window opens, as the rest of a sentence.
func (w windowed) opens() string {
	if w.fault != nil {
		return w.fault.Error()
	}
	return window.Opens(w.text, w.State)
}

// outside says that a restart of the machine has to wait for the maintenance window. One that does not work is mended at
// any time, as long as that is no upgrade: a restart takes nothing away from it.
func (r *round) outside(m *member) bool {
	switch {
	case r.window.Open, r.hurried(), !r.cluster.initialized, m.change != restart:
		return false
	}
	return !r.healing(m) || r.upgrades(m)
}

// hurried says that somebody has the operation not wait for the window.
func (r *round) hurried() bool {
	return r.Operation != nil && r.Operation.Hurry != nil && !r.Operation.State.Ended() && r.Operation.State != operations.Queued
}

// resumed says that a change runs again whose roll-out had been stopped, as somebody asked to try it again.
func (s Snapshot) resumed() bool {
	o := s.Operation
	return o != nil && (o.Kind == operations.KindUpgrade || o.Kind == operations.KindChange) && o.State == operations.Running && o.Generation == s.Cluster.Generation
}

// prepare takes the snapshot that an upgrade begins with. Until there is one nothing changes; an upgrade whose snapshot
// could not be taken has failed, and what it was for is not begun.
func (r *round) prepare() {
	o := r.Operation
	if o == nil || o.Kind != operations.KindUpgrade || o.State == operations.Queued || o.State.Ended() || !r.Cluster.Deleting.IsZero() || r.shut.holds() {
		return
	}
	guard, asked := steps.ReadGuard(*o)
	if !asked || o.Back != "" {
		return
	}
	begun := len(o.Tasks) > 0 && steps.IsGuard(o.Tasks[0])
	if !begun && !r.stopping() && (r.Cluster.Paused != nil || !r.window.Open && !r.hurried()) {
		return // nothing changes now anyway
	}
	out, done := steps.TakeGuard(r.opsInput())
	next := out.Operation
	r.unguarded = !done
	for _, e := range out.Errands {
		if m := r.named(e.Machine); m != nil {
			r.entrust(m, e)
		}
	}
	for _, s := range out.Saved {
		m := r.named(s.Machine)
		if m == nil {
			continue
		}
		taken := r.snapshotOf(m, s.File, guard.Spec)
		r.saved = append(r.saved, taken)
		next.Back = fmt.Sprintf("drover snapshots restore %s %s --mode kubernetesVersion --replace --yes", r.Cluster.Name, taken.Name())
		next = next.WithLine("the way back: "+next.Back, r.Now)
	}
	if next.State == operations.Failed {
		r.cluster.halted = r.Cluster.Generation
	}
	r.again = out.Again
	r.note(next)
}

// guarded takes the tasks of the snapshot that an operation begins with apart from those of its machines.
func guarded(o operations.Operation) (guards []operations.Task, rest operations.Operation) {
	n := 0
	for n < len(o.Tasks) && steps.IsGuard(o.Tasks[n]) {
		n++
	}
	guards, o.Tasks = o.Tasks[:n:n], o.Tasks[n:]
	return guards, o
}

// waitWindow has a machine say that its change waits for the window, or for the snapshot before an upgrade; false when it
// waits for neither.
func (r *round) waitWindow(m *member, what string) bool {
	switch {
	case r.unguarded && m.change != first:
		r.wait(m, verdict.WaitSnapshot, "a snapshot of etcd", "drover operations show "+r.Operation.ID, "%s for %s waits for the snapshot that the upgrade begins with", what, describeHost(m.Machine))
	case r.outside(m):
		next := ""
		if r.Operation != nil && r.Operation.State == operations.Running {
			next = "drover operations hurry " + r.Operation.ID + " does it now"
		}
		r.wait(m, verdict.WaitWindow, "the maintenance window "+r.window.text, next, "%s for %s is not made now: %s", what, describeHost(m.Machine), r.window.opens())
	default:
		return false
	}
	return true
}
