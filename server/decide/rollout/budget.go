// How many machines may be away at a time, and whether etcd bears it.

package rollout

import (
	"time"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// away are the machines of a tier that have been part of the cluster and do not work, or are on their way
// through a change.
func away(p *pass.Pass, t pass.Tier) []*pass.Member {
	var away []*pass.Member
	for _, m := range t.Members {
		if m.Next.Drain != nil || m.HasPlan() && !p.Works(m) {
			away = append(away, m)
		}
	}
	return away
}

// MendLimit is how long a server that took a new plan to be mended keeps others that do not work from theirs. A server whose
// etcd has lost its quorum does not come up before another one does, so that the wait has an end.
const MendLimit = 2 * time.Minute

// mayMend says whether a server that does not work may take its new plan: what is wrong with it may be wrong with all of
// them, and what still works on them goes away with a restart. So they go one at a time, and, where the API shows that
// etcd has its quorum, never so that it is lost.
func mayMend(p *pass.Pass, m *pass.Member) bool {
	members, gone := 1, 0
	for _, other := range p.Servers {
		if other == m {
			continue
		}
		if left := mending(p, other); left > 0 {
			if m.Again == 0 || left < m.Again {
				m.Again = left
			}
			Wait(p, m, catalogue.WaitBudget, pass.WithNode(other.Machine)+" to be Active", "drover machines show "+other.Name,
				"a change of %s waits: servers that do not work change one at a time, and %s does", pass.DescribeHost(m.Machine), pass.DescribeHost(other.Machine))
			return false
		}
		if other.Roles.Etcd && other.Next.Member {
			members++
			if !p.Works(other) && (!other.Agent.Connected || other.Change == pass.Unchanged) {
				gone++
			}
		}
	}
	if !p.API.Reachable || !m.Roles.Etcd || members-gone-1 >= members/2+1 || members <= 2 && gone == 0 {
		return true
	}
	missing := p.MissingMembers(m)
	Wait(p, m, catalogue.WaitQuorum, "etcd on "+pass.NamesOf(missing)+" to be healthy", "drover machines show "+missing[0].Name,
		"a change of %s waits: etcd would lose its quorum, as %s %s not healthy", pass.DescribeHost(m.Machine), pass.NamesOf(missing), pass.AreOrIs(missing))
	return false
}

// mending is for how long a server is still expected to come up by a plan that it has just got; zero when it works, or
// is not on its way.
func mending(p *pass.Pass, m *pass.Member) time.Duration {
	switch {
	case m.Deliver != nil && m.Change == pass.Restart:
		return MendLimit
	case !m.HasPlan() || m.Change != pass.Unchanged || p.Works(m) || !m.Agent.Connected:
		return 0
	case m.State == records.Unavailable || m.State == records.Failed:
		return 0 // it worked with the plan that it has, or could not carry it out
	case m.State != m.Status.State:
		return MendLimit // it has come one step further just now
	}
	return max(0, m.Status.Since.Add(MendLimit).Sub(p.Now))
}
