// Which machines work, and whether etcd has its quorum with them.

package pass

import (
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// Works says that a machine is Active, or that nothing but a way to the cluster's API is missing for it: agents of another
// make open no tunnel, and their clusters have quorums all the same.
func (p *Pass) Works(m *Member) bool {
	return m.State == records.Active || (m.Code == string(catalogue.NoAPI) || m.Code == string(catalogue.OutOfSight)) && m.Report.Healthy()
}

// Healing says that a machine has been part of the cluster, and that a restart takes nothing away: where the agent alone
// is gone, pods run.
func (p *Pass) Healing(m *Member) bool {
	return m.Code != string(catalogue.AgentLost) && m.HasPlan() && !p.Works(m) && m.Next.Drain == nil && (p.API.Reachable || !m.Report.Healthy())
}

// Upgrades says that the change brings another version to the machine's node.
func (p *Pass) Upgrades(m *Member) bool {
	node := p.NodeOf(m)
	return node != nil && node.KubeletVersion != "" && !SameVersion(node.KubeletVersion, p.Cluster.Spec.KubernetesVersion)
}

// EtcdMembers are the machines whose etcd has joined, those that leave included until they are out.
func (p *Pass) EtcdMembers() []*Member {
	var all []*Member
	for _, m := range p.Members {
		if m.Roles.Etcd && m.Next.Member && !m.Next.Cleared {
			all = append(all, m)
		}
	}
	return all
}

// HealthyEtcd says that the machine's etcd serves as far as is seen: by its state while it stays, by its node
// when it leaves.
func (p *Pass) HealthyEtcd(m *Member) bool {
	if m.Deliver != nil && m.Change == Restart {
		return false // it restarts now
	}
	if m.Leaving {
		node := p.NodeOf(m)
		return node != nil && node.Ready && (m.Order == nil || !m.Order.RemoveMember)
	}
	if p.API.Reachable || p.Verdict.Initialized {
		return p.Works(m) && m.Deliver == nil || m.Deliver != nil && m.Change == Quiet
	}
	return m.Report.Healthy()
}

// QuorumWithout says that etcd keeps its quorum while a machine restarts. One or two members never have a
// quorum without one of them; then all others have to be healthy.
func (p *Pass) QuorumWithout(m *Member) bool {
	members, healthy := 0, 0
	for _, other := range p.EtcdMembers() {
		members++
		if other != m && p.HealthyEtcd(other) {
			healthy++
		}
	}
	if members <= 2 {
		return healthy >= members-1
	}
	return healthy >= members/2+1
}

// MissingMembers are the other members whose etcd is not healthy.
func (p *Pass) MissingMembers(m *Member) []*Member {
	var missing []*Member
	for _, other := range p.EtcdMembers() {
		if other != m && !p.HealthyEtcd(other) {
			missing = append(missing, other)
		}
	}
	return missing
}

// Usable says that a server has taken its plan, that its parts are healthy, and that it is not lost.
func (p *Pass) Usable(m *Member) bool {
	if !m.HasPlan() || m.Next.JoinURL == "" || m.Status.State == records.Unavailable {
		return false
	}
	return m.Report.Healthy()
}

// Voter says that the machine's etcd has joined: its node says so, or, while there is no API that could
// show a node, all that is known of the host.
func (p *Pass) Voter(m *Member) bool {
	if !m.HasPlan() || !m.Report.Healthy() {
		return false
	}
	if p.API.Reachable {
		return m.Details.Voter == observed.VoterYes || m == p.Init && m.Details.Voter == observed.VoterUnknown
	}
	return !p.Verdict.Initialized
}
