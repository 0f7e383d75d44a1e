// First plans: when a machine may join.

package rollout

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
)

// join gives a machine its first plan once there is something to join, and etcd has taken those before it.
func join(p *pass.Pass, m *pass.Member) {
	host := pass.DescribeHost(m.Machine)
	newer := olderServer(p, m)
	if twin, shared := twin(p, m); twin != nil {
		Wait(p, m, catalogue.Duplicate, twin.Name+" to be removed", "drover machines rm "+twin.Name+", or drover machines rm "+m.Name+" and register its host with what is its own",
			"%s has the %s, as has %s: a cluster has one node of a name and of an address", host, shared, pass.WithNode(twin.Machine))
		return
	}
	switch {
	case m == p.Init:
		Deliver(p, m)
	case !p.Usable(p.Init) && !anyDoor(p):
		waitFor(p, m)
	case m.Server == "":
		waitFor(p, m)
	case newer != nil:
		Wait(p, m, catalogue.WaitUpgrade, fmt.Sprintf("%s to run %s", pass.WithNode(newer.Machine), p.Cluster.Spec.KubernetesVersion), "",
			"%s joins when the servers run its version; %s runs %s", host, pass.WithNode(newer.Machine), newer.Node.KubeletVersion)
	case m.Roles.Etcd:
		joinEtcd(p, m)
	default:
		Deliver(p, m)
	}
}

// twin is a machine with the same node name or address that has the older right to it, and what they share.
func twin(p *pass.Pass, m *pass.Member) (other *pass.Member, shared string) {
	older := func(o *pass.Member) bool {
		if o.HasPlan() != m.HasPlan() {
			return o.HasPlan()
		}
		return o.Created.Before(m.Created) || o.Created.Equal(m.Created) && o.Name < m.Name
	}
	for _, o := range p.Members {
		if o == m || !o.Leaving && !older(o) || o.Leaving && (o.Remove || o.Next.Cleared || !o.HasPlan()) {
			continue
		}
		if m.NodeName != "" && o.NodeName == m.NodeName {
			return o, "node name " + m.NodeName
		}
		for _, a := range m.InternalAddress {
			if slices.Contains(o.InternalAddress, a) {
				return o, "address " + a
			}
		}
	}
	return nil, ""
}

// waitFor is the wait for the tier before, in Rancher's words.
func waitFor(p *pass.Pass, m *pass.Member) {
	code, text := catalogue.WaitControlPlane, "waiting for control plane to be available"
	switch {
	case m.Roles.Etcd:
		code, text = catalogue.WaitBootstrap, "waiting for bootstrap etcd to be available"
	case m.Roles.ControlPlane:
		code, text = catalogue.WaitEtcd, "waiting for etcd to be available"
	}
	cause := "no server has one that can be joined"
	if p.Init != nil {
		cause = fmt.Sprintf("%s begins the cluster and is not ready to be joined: it is %s", pass.DescribeHost(p.Init.Machine), p.Init.State)
		if p.Init.HasPlan() && p.Init.Next.JoinURL == "" {
			cause = pass.DescribeHost(p.Init.Machine) + " begins the cluster, and its address is not known yet"
		}
	}
	Wait(p, m, code, "a plan for "+m.Name, "", "%s is %s; %s", pass.DescribeHost(m.Machine), text, cause)
	m.Text = text
}

// anyDoor says that a server works through which others join.
func anyDoor(p *pass.Pass) bool {
	return slices.ContainsFunc(p.Servers, p.Usable)
}

// olderServer is a server whose kubelet is not of the wanted version yet: no machine joins with a newer one.
func olderServer(p *pass.Pass, m *pass.Member) *pass.Member {
	for _, other := range p.Servers {
		if other != m && other.HasPlan() && other.Node != nil && p.Upgrades(other) {
			return other
		}
	}
	return nil
}

// joinEtcd lets one member join at a time, and the next when that one votes: etcd takes one
// learner, and each member that does not work yet counts against the quorum.
func joinEtcd(p *pass.Pass, m *pass.Member) {
	host := pass.DescribeHost(m.Machine)
	healthy, members := 0, p.EtcdMembers()
	for _, other := range members {
		if p.HealthyEtcd(other) {
			healthy++
		}
	}
	for _, other := range p.Servers {
		if other == m || !other.Roles.Etcd || other.Next.Member || (!other.HasPlan() && other.Deliver == nil) {
			continue
		}
		why := "has not joined"
		if other.Details.Voter == observed.VoterLearner {
			why = "is a learner"
		}
		Wait(p, m, catalogue.WaitVoter, "etcd on "+pass.WithNode(other.Machine)+" to vote", "drover machines show "+other.Name+"; if its host is lost: drover machines rm "+other.Name+" --force",
			"%s joins etcd after %s, which %s: members join one at a time", host, pass.DescribeHost(other.Machine), why)
		m.Text = "waiting for bootstrap etcd to be available"
		return
	}
	if len(members) > 0 && healthy*2 <= len(members) {
		missing := p.MissingMembers(m)
		Wait(p, m, catalogue.WaitQuorum, "etcd on "+pass.NamesOf(missing)+" to be healthy", "drover machines show "+missing[0].Name,
			"%s cannot join etcd, which has no quorum: %s %s not healthy", host, pass.NamesOf(missing), pass.AreOrIs(missing))
		return
	}
	Deliver(p, m)
}
