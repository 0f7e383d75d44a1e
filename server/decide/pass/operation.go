// The operation under way on a cluster, its maintenance window, and tries of failed plans.

package pass

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// Daytwo says that an operation on a running cluster is under way, such as a snapshot, a restore or a rotation. Nothing else begins on the cluster's machines then.
func (s Snapshot) Daytwo() bool {
	o := s.Operation
	return o != nil && operations.Stepped(o.Kind) && o.State != operations.Queued && !o.State.Ended() && s.Cluster.Deleting.IsZero()
}

// Target is the machine that begins the cluster anew by a restore; nil without one.
func (p *Pass) Target() *Member {
	if !p.Daytwo() {
		return nil
	}
	name := steps.Target(*p.Operation)
	i := slices.IndexFunc(p.Staying, func(m *Member) bool { return m.Name == name && m.Roles.Etcd })
	if i < 0 {
		return nil
	}
	return p.Staying[i]
}

// Restoring says that a restore is under way.
func (p *Pass) Restoring() bool { return p.Daytwo() && p.Operation.Kind == operations.KindRestore }

// Named is the machine of that name that stays; nil when there is none.
func (p *Pass) Named(name string) *Member {
	i := slices.IndexFunc(p.Staying, func(m *Member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return p.Staying[i]
}

// Lost says that no machine has a part of the cluster's etcd: a first machine would begin an empty one.
func (p *Pass) Lost() bool {
	return p.Verdict.Initialized && !slices.ContainsFunc(p.Members, func(m *Member) bool { return m.Roles.Etcd && m.Next.Member })
}

// InDrain says that the pods of a machine leave, or have left, for the change that is wanted now. What a drain of a change
// that is not wanted any more was for has not begun.
func (p *Pass) InDrain(m *Member) bool {
	d := m.Next.Drain
	return d != nil && (d.Generation == 0 || d.Generation == p.Cluster.Generation)
}

// takesBack says that the removal of a machine is aborted before anything has begun for it: the machine stays as it is.
func (s Snapshot) takesBack(m Machine) bool {
	o := s.Operation
	return o != nil && o.Kind == operations.KindRemoval && o.State == operations.Stopping &&
		s.Cluster.Deleting.IsZero() && !m.Leave.Force && !m.Status.Leaves && !m.Status.Cleared
}

// Stopping says that the operation finishes what was begun and begins nothing.
func (p *Pass) Stopping() bool {
	return p.Operation != nil && p.Operation.State == operations.Stopping
}

// RetryNow says that a user asked to try the failed plan of a machine again.
func (p *Pass) RetryNow(m *Member) bool {
	if p.Operation == nil || p.Operation.State != operations.Running || p.Operation.Retry == 0 {
		return false
	}
	task, known := p.Operation.Task(m.Name)
	return known && task.State == operations.TaskPending
}

// Note has the next record of the operation written if it is another one.
func (p *Pass) Note(next operations.Operation) {
	if !reflect.DeepEqual(next, *p.Operation) {
		p.NextOperation = &next
	}
}

// Retry is a failed plan that the server starts again by itself.
type Retry struct {
	Checksum string
	Attempt  int  // 1 for the first try after the original one
	Now      bool // a user asked for it
}

// NextRetry numbers the next automatic try. Counting is by checksum, so a new plan starts anew.
func NextRetry(m Machine) *Retry {
	r := Retry{Checksum: plans.Checksum(m.Plan()), Attempt: 1}
	if m.Status.RetriedChecksum == r.Checksum {
		r.Attempt = m.Status.Retries + 1
	}
	return &r
}

// Finding is that of a machine whose failed plan is delivered again.
func (r Retry) Finding(m Machine) Finding {
	state := records.ApplyingPlan
	if m.Status.State == records.Removing {
		state = records.Removing
	}
	return Finding{Node: m.Status.Node, Condition: records.Condition{
		State: state, Code: string(catalogue.Retrying), Cause: fmt.Sprintf("plan %s is delivered again, try %d", plans.Short(r.Checksum), r.Attempt+1),
		WaitingFor: "the agent on " + m.Name + " to take its plan",
	}}
}

// RetryDelay spaces the server's own tries of a failed plan: 30 s, doubling, at most 10 min.
func RetryDelay(attempt int) time.Duration {
	return min(30*time.Second<<min(attempt-1, 10), 10*time.Minute)
}

// WindowState is how the maintenance windows of a cluster are now.
type WindowState struct {
	// Text is empty for a cluster without one.
	Text string
	clusterspec.WindowState
	// fault is why they cannot be read; nothing restarts then.
	fault error
}

// Window is how the maintenance windows of a cluster are at a time, and what they are; the text is empty for a cluster
// without one, which may always be disturbed. The error says why they cannot be read.
func Window(c records.Cluster, now time.Time) (text string, s clusterspec.WindowState, err error) {
	if text = c.Annotations[clusterspec.MaintenanceWindow]; text == "" {
		return "", clusterspec.WindowState{Open: true}, nil
	}
	all, err := clusterspec.ParseWindows(text)
	if err != nil {
		return text, s, fmt.Errorf("the maintenance window %.80q of cluster %s cannot be read: %w", text, c.Name, err)
	}
	return all.String(), all.At(now), nil
}

// Windowed is how the maintenance windows of the cluster are now.
func (s Snapshot) Windowed() WindowState {
	var w WindowState
	w.Text, w.WindowState, w.fault = Window(s.Cluster, s.Now)
	return w
}

// Again is when the windows are others than now; zero: not by themselves.
func (w WindowState) Again(now time.Time) time.Duration {
	if w.Change.IsZero() {
		return 0
	}
	return w.Change.Sub(now)
}

// Opens is when a window opens, as the rest of a sentence.
func (w WindowState) Opens() string {
	if w.fault != nil {
		return w.fault.Error()
	}
	return clusterspec.WindowOpens(w.Text, w.WindowState)
}

// Hurried says that a user has the operation not wait for the window.
func (p *Pass) Hurried() bool {
	return p.Operation != nil && p.Operation.Hurry != nil && !p.Operation.State.Ended() && p.Operation.State != operations.Queued
}

// resumed says that a change runs again whose roll-out had been stopped, as a user asked to try it again.
func (s Snapshot) resumed() bool {
	o := s.Operation
	return o != nil && (o.Kind == operations.KindUpgrade || o.Kind == operations.KindChange) && o.State == operations.Running && o.Generation == s.Cluster.Generation
}
