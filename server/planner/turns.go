// Whose turn it is. First plans and changes that restart nothing are given as soon as their conditions
// hold. A change that restarts goes from tier to tier, and in a tier as far as its budget allows.

package planner

import (
	"fmt"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// tier is a part of the cluster that changes before the next part begins.
type tier struct {
	name    string
	members []*member
	limit   int // how many may be unavailable
	drain   *clusterspec.DrainOptions
}

// tiers are the machines that stay, in the order in which they change: the one that began the cluster, the others
// with etcd, the other control planes, and the workers.
func (r *round) tiers() []tier {
	var u clusterspec.UpgradeStrategy
	if given := r.Cluster.Spec.RKEConfig; given != nil && given.UpgradeStrategy != nil {
		u = *given.UpgradeStrategy
	}
	all := []tier{
		{name: "bootstrap", limit: 1, drain: u.ControlPlaneDrainOptions}, {name: "etcd", limit: 1, drain: u.ControlPlaneDrainOptions},
		{name: "control plane", drain: u.ControlPlaneDrainOptions}, {name: "worker", drain: u.WorkerDrainOptions},
	}
	for _, m := range r.staying {
		i := r.tierOf(m)
		all[i].members = append(all[i].members, m)
	}
	all[2].limit = concurrency(u.ControlPlaneConcurrency, len(all[2].members))
	all[3].limit = concurrency(u.WorkerConcurrency, len(all[3].members))
	return all
}

func (r *round) tierOf(m *member) int {
	switch {
	case m == r.init:
		return 0
	case m.Roles.Etcd:
		return 1
	case m.Roles.ControlPlane:
		return 2
	}
	return 3
}

// turns gives plans to those whose turn it is, and says of all others what they wait for.
func (r *round) turns() {
	if r.shut.holds() || !r.Cluster.Deleting.IsZero() {
		return
	}
	for _, m := range r.staying {
		switch {
		case m.change == nothing && m.failure != nil:
			m.retry = nextRetry(m.Machine)
			m.retry.now = r.retryNow(m)
		case m.change == first && !r.stopped(m, "the first plan"):
			r.join(m)
		case m.change == quiet && !r.stopped(m, "a change that restarts nothing"):
			r.deliver(m)
		}
	}
	r.restarts()
}

// stopped says that nothing new may begin on the cluster, and has the machine say what waits for that.
func (r *round) stopped(m *member, what string) bool {
	c := r.Cluster
	switch {
	case r.inDrain(m):
		return false // what has begun is brought to its end
	case c.Paused != nil:
		r.wait(m, verdict.Paused, "cluster "+c.Name+" to be resumed", "drover clusters resume "+c.Name, "%s for %s waits, as cluster %s is paused since %s", what, describeHost(m.Machine), c.Name, c.Paused.At.UTC().Format(timeFormat))
		return true
	case r.stopping() && m.change != first:
		r.wait(m, verdict.Halted, "the operation "+r.Operation.ID+" to stop", "", "%s for %s is not made, as operation %s is stopped", what, describeHost(m.Machine), r.Operation.ID)
		return true
	case r.cluster.halted != 0 && r.cluster.halted == c.Generation && m.change != first:
		r.wait(m, verdict.Halted, "a changed cluster", "apply the cluster again, which goes on with it, or as it shall be", "%s for %s is not made, as the roll-out was stopped", what, describeHost(m.Machine))
		return true
	}
	return r.waitWindow(m, what)
}

// wait says what a machine waits for. One that works stays Active: only its change waits.
func (r *round) wait(m *member, code verdict.Code, waitingFor, next, format string, args ...any) {
	if m.hasPlan() && m.State != records.Active {
		return // that it does not work comes first
	}
	m.Code, m.Cause, m.WaitingFor, m.NextStep = string(code), fmt.Sprintf(format, args...), waitingFor, next
	m.status = m.Cause
}

// deliver gives a machine its wanted plan.
func (r *round) deliver(m *member) {
	host := describeHost(m.Machine)
	m.deliver, m.next.joinedTo = m.bytes, m.server
	m.status = statusOf(m.report)
	if m.next.drain != nil {
		m.status = "drain completed"
	}
	node := r.nodeOf(m)
	m.finding = finding{node: node, Condition: records.Condition{
		State: records.ApplyingPlan, Code: string(verdict.Delivering), Cause: "the plan is being delivered to " + host,
		WaitingFor: "the agent on " + m.Name + " to take its plan",
	}}
	if stale, is := r.staleNode(m); is {
		m.Cause = r.staleCause(m, stale) + "; " + m.Cause
	}
}

// restarts takes machines through changes that restart them.
func (r *round) restarts() {
	before := "" // of the tiers before, what is not done; nothing begins then
	for _, t := range r.tiers() {
		away, left := r.away(t), 0
		for _, m := range r.inTurn(t) {
			if m.change != restart {
				continue
			}
			if !r.mayRestart(m, t, before, away) {
				left++
				continue
			}
			if !r.healing(m) {
				away = append(away, m)
			}
			r.take(m, t)
		}
		if before == "" {
			before = r.unfinished(t, left)
		}
	}
}

// inTurn are the machines of a tier with those first that do not work anyway.
func (r *round) inTurn(t tier) []*member {
	var broken, others []*member
	for _, m := range t.members {
		if r.healing(m) || m.next.drain != nil {
			broken = append(broken, m)
		} else {
			others = append(others, m)
		}
	}
	return append(broken, others...)
}

// mayRestart says whether a machine's turn has come, and what it waits for otherwise.
func (r *round) mayRestart(m *member, t tier, before string, away []*member) bool {
	switch d := m.next.drain; {
	case d != nil && !d.Done && r.stopping():
		return false // its pods may stay, and come back
	case d != nil && (before == "" || !r.upgrades(m)):
		return !r.stopped(m, "a change") // it has begun, unless that was for another change
	}
	if r.stopped(m, "a change") {
		return false
	}
	host := describeHost(m.Machine)
	// One that does not work takes its new plan at once, servers one after the other: that may be what
	// mends it, and what others wait for. Only a newer kubelet has to wait for the control plane.
	mends := r.healing(m) && (m.isServer() || before == "" || !r.upgrades(m))
	switch {
	case mends && m.isServer():
		return r.mends(m)
	case mends:
		return true
	case before != "":
		r.wait(m, verdict.WaitTier, before, "", "a change of %s waits until it is done on %s", host, before)
		return false
	case len(away) >= t.limit:
		r.wait(m, verdict.WaitBudget, named(away)+" to be Active", "drover machines show "+away[0].Name,
			"a change of %s waits: of the %s machines %d may be away at a time, and %s %s", host, t.name, t.limit, named(away), areOrIs(away))
		return false
	case m.Roles.Etcd && !r.quorumWithout(m):
		missing := r.missingMembers(m)
		r.wait(m, verdict.WaitQuorum, "etcd on "+named(missing)+" to be healthy", "drover machines show "+missing[0].Name,
			"a change of %s waits: etcd would lose its quorum, as %s %s not healthy", host, named(missing), areOrIs(missing))
		return false
	}
	return true
}

func areOrIs(all []*member) string {
	if len(all) == 1 {
		return "is"
	}
	return "are"
}

// take drains a machine where that is wanted, and gives it its plan when that is done.
func (r *round) take(m *member, t tier) {
	if options, wanted := r.drains(m, t); wanted && !r.drained(m, options) {
		return
	}
	r.deliver(m)
}

// unfinished is what the next tiers wait for: machines whose turn has not come, and more of those
// that were taken and do not work than may be away; empty when the tier is done.
func (r *round) unfinished(t tier, left int) string {
	var waiting, failing []*member
	for _, m := range t.members {
		switch {
		case !m.hasPlan() && m.deliver == nil:
			// It has not joined, which is no part of a change.
		case m.change == restart && m.deliver == nil, m.deliver != nil && m.change == restart, m.next.drain != nil:
			waiting = append(waiting, m)
		case !r.works(m) && (m.Status.Node != nil || !r.cluster.initialized && m.report.applied):
			failing = append(failing, m)
		}
	}
	gone := func(m *member) bool { return m.State == records.Failed || m.State == records.Unavailable }
	for _, m := range failing {
		if !gone(m) || left > 0 || len(failing) >= t.limit {
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		return ""
	}
	return t.name + " " + named(waiting)
}
