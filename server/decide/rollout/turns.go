// Package rollout says whose turn it is. First plans and changes that restart nothing are given as soon as their conditions
// hold. A change that restarts goes from tier to tier, and in a tier as far as its budget allows. While an operation such as a restore is
// under way, its steps say who is next instead (operate.go). It sets Deliver, Retry and Order of machines, and what those wait for whose
// turn has not come.
package rollout

import (
	"fmt"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/judge"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// Run is the stage.
func Run(p *pass.Pass) {
	if p.Daytwo() {
		operate(p)
	} else {
		prepare(p)
		turns(p)
	}
	uncordon(p)
	labels(p)
}

// turns gives plans to those whose turn it is, and says of all others what they wait for.
func turns(p *pass.Pass) {
	if p.Gate.Shut() || !p.Cluster.Deleting.IsZero() {
		return
	}
	for _, m := range p.Staying {
		switch {
		case m.Change == pass.Unchanged && m.Failure != nil:
			m.Retry = pass.NextRetry(m.Machine)
			m.Retry.Now = p.RetryNow(m)
		case m.Change == pass.First && !stopped(p, m, "the first plan"):
			join(p, m)
		case m.Change == pass.Quiet && !stopped(p, m, "a change that restarts nothing"):
			Deliver(p, m)
		}
	}
	restarts(p)
}

// stopped says that nothing new may begin on the cluster, and has the machine say what waits for that.
func stopped(p *pass.Pass, m *pass.Member, what string) bool {
	c := p.Cluster
	switch {
	case p.InDrain(m):
		return false // what has begun is brought to its end
	case c.Paused != nil:
		Wait(p, m, catalogue.Paused, "cluster "+c.Name+" to be resumed", "drover clusters resume "+c.Name, "%s for %s waits, as cluster %s is paused since %s", what, pass.DescribeHost(m.Machine), c.Name, c.Paused.At.UTC().Format(pass.TimeFormat))
		return true
	case p.Stopping() && m.Change != pass.First:
		Wait(p, m, catalogue.Halted, "the operation "+p.Operation.ID+" to stop", "", "%s for %s is not made, as operation %s is stopped", what, pass.DescribeHost(m.Machine), p.Operation.ID)
		return true
	case p.Verdict.Halted != 0 && p.Verdict.Halted == c.Generation && m.Change != pass.First:
		Wait(p, m, catalogue.Halted, "a changed cluster", "apply the cluster again, which goes on with it, or as it shall be", "%s for %s is not made, as the roll-out was stopped", what, pass.DescribeHost(m.Machine))
		return true
	}
	return waitWindow(p, m, what)
}

// Wait says what a machine waits for. A machine that works stays Active: only its change waits.
func Wait(p *pass.Pass, m *pass.Member, code catalogue.Code, waitingFor, next, format string, args ...any) {
	if m.HasPlan() && m.State != records.Active {
		return // that it does not work comes first
	}
	m.Code, m.Cause, m.WaitingFor, m.NextStep = string(code), fmt.Sprintf(format, args...), waitingFor, next
	m.Text = m.Cause
}

// Deliver gives a machine its wanted plan.
func Deliver(p *pass.Pass, m *pass.Member) {
	host := pass.DescribeHost(m.Machine)
	m.Deliver, m.Next.JoinedTo = m.Wanted, m.Server
	m.Text = pass.StatusOf(m.Report)
	if m.Next.Drain != nil {
		m.Text = "drain completed"
	}
	node := p.NodeOf(m)
	m.Finding = pass.Finding{Node: node, Condition: records.Condition{
		State: records.ApplyingPlan, Code: string(catalogue.Delivering), Cause: "the plan is being delivered to " + host,
		WaitingFor: "the agent on " + m.Name + " to take its plan",
	}}
	if stale, is := p.StaleNode(m); is {
		m.Cause = judge.StaleCause(p, m, stale) + "; " + m.Cause
	}
}

// restarts takes machines through changes that restart them.
func restarts(p *pass.Pass) {
	before := "" // of the tiers before, what is not done; nothing begins then
	for _, t := range p.Tiers() {
		away, left := away(p, t), 0
		for _, m := range InTurn(p, t) {
			if m.Change != pass.Restart {
				continue
			}
			if !mayRestart(p, m, t, before, away) {
				left++
				continue
			}
			if !p.Healing(m) {
				away = append(away, m)
			}
			take(p, m, t)
		}
		if before == "" {
			before = unfinished(p, t, left)
		}
	}
}

// InTurn are the machines of a tier with those first that do not work anyway.
func InTurn(p *pass.Pass, t pass.Tier) []*pass.Member {
	var broken, others []*pass.Member
	for _, m := range t.Members {
		if p.Healing(m) || m.Next.Drain != nil {
			broken = append(broken, m)
		} else {
			others = append(others, m)
		}
	}
	return append(broken, others...)
}

// mayRestart says whether a machine's turn has come, and what it waits for otherwise.
func mayRestart(p *pass.Pass, m *pass.Member, t pass.Tier, before string, away []*pass.Member) bool {
	switch d := m.Next.Drain; {
	case d != nil && !d.Done && p.Stopping():
		return false // its pods may stay, and come back
	case d != nil && (before == "" || !p.Upgrades(m)):
		return !stopped(p, m, "a change") // it has begun, unless that was for another change
	}
	if stopped(p, m, "a change") {
		return false
	}
	host := pass.DescribeHost(m.Machine)
	// A machine that does not work takes its new plan at once, servers one after the other: that may be what
	// mends it, and what others wait for. Only a newer kubelet has to wait for the control plane.
	mends := p.Healing(m) && (m.IsServer() || before == "" || !p.Upgrades(m))
	switch {
	case mends && m.IsServer():
		return mayMend(p, m)
	case mends:
		return true
	case before != "":
		Wait(p, m, catalogue.WaitTier, before, "", "a change of %s waits until it is done on %s", host, before)
		return false
	case len(away) >= t.Limit:
		Wait(p, m, catalogue.WaitBudget, pass.NamesOf(away)+" to be Active", "drover machines show "+away[0].Name,
			"a change of %s waits: of the %s machines %d may be away at a time, and %s %s", host, t.Name, t.Limit, pass.NamesOf(away), pass.AreOrIs(away))
		return false
	case m.Roles.Etcd && !p.QuorumWithout(m):
		missing := p.MissingMembers(m)
		Wait(p, m, catalogue.WaitQuorum, "etcd on "+pass.NamesOf(missing)+" to be healthy", "drover machines show "+missing[0].Name,
			"a change of %s waits: etcd would lose its quorum, as %s %s not healthy", host, pass.NamesOf(missing), pass.AreOrIs(missing))
		return false
	}
	return true
}

// take drains a machine where that is wanted, and gives it its plan when that is done.
func take(p *pass.Pass, m *pass.Member, t pass.Tier) {
	if options, wanted := Drains(p, m, t); wanted && !drained(p, m, options) {
		return
	}
	Deliver(p, m)
}

// unfinished is what the next tiers wait for: machines whose turn has not come, and more of those
// that were taken and do not work than may be away; empty when the tier is done.
func unfinished(p *pass.Pass, t pass.Tier, left int) string {
	var waiting, failing []*pass.Member
	for _, m := range t.Members {
		switch {
		case !m.HasPlan() && m.Deliver == nil:
			// It has not joined, which is no part of a change.
		case m.Change == pass.Restart && m.Deliver == nil, m.Deliver != nil && m.Change == pass.Restart, m.Next.Drain != nil:
			waiting = append(waiting, m)
		case !p.Works(m) && (m.Status.Node != nil || !p.Verdict.Initialized && m.Report.Applied):
			failing = append(failing, m)
		}
	}
	gone := func(m *pass.Member) bool { return m.State == records.Failed || m.State == records.Unavailable }
	for _, m := range failing {
		if !gone(m) || left > 0 || len(failing) >= t.Limit {
			waiting = append(waiting, m)
		}
	}
	if len(waiting) == 0 {
		return ""
	}
	return t.Name + " " + pass.NamesOf(waiting)
}
