// First plans: when a machine may join.

package planner

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner/verdict"
)

// join gives a machine its first plan once there is something to join, and etcd has taken those before it.
func (r *round) join(m *member) {
	host := describeHost(m.Machine)
	newer := r.olderServer(m)
	if twin, shared := r.twin(m); twin != nil {
		r.wait(m, verdict.Duplicate, twin.Name+" to be removed", "drover machines rm "+twin.Name+", or drover machines rm "+m.Name+" and register its host with what is its own",
			"%s has the %s, as has %s: a cluster has one node of a name and of an address", host, shared, withNode(twin.Machine))
		return
	}
	switch {
	case m == r.init:
		r.deliver(m)
	case !r.usable(r.init) && !r.anyDoor():
		r.waitFor(m)
	case m.server == "":
		r.waitFor(m)
	case newer != nil:
		r.wait(m, verdict.WaitUpgrade, fmt.Sprintf("%s to run %s", withNode(newer.Machine), r.Cluster.Spec.KubernetesVersion), "",
			"%s joins when the servers run its version; %s runs %s", host, withNode(newer.Machine), newer.node.KubeletVersion)
	case m.Roles.Etcd:
		r.joinEtcd(m)
	default:
		r.deliver(m)
	}
}

// twin is a machine with the same node name or address that has the older right to it, and what they share.
func (r *round) twin(m *member) (other *member, shared string) {
	older := func(o *member) bool {
		if o.hasPlan() != m.hasPlan() {
			return o.hasPlan()
		}
		return o.Created.Before(m.Created) || o.Created.Equal(m.Created) && o.Name < m.Name
	}
	for _, o := range r.members {
		if o == m || !o.leaving && !older(o) || o.leaving && (o.remove || o.next.cleared || !o.hasPlan()) {
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
func (r *round) waitFor(m *member) {
	code, text := verdict.WaitControlPlane, "waiting for control plane to be available"
	switch {
	case m.Roles.Etcd:
		code, text = verdict.WaitBootstrap, "waiting for bootstrap etcd to be available"
	case m.Roles.ControlPlane:
		code, text = verdict.WaitEtcd, "waiting for etcd to be available"
	}
	cause := "no server has one that can be joined"
	if r.init != nil {
		cause = fmt.Sprintf("%s begins the cluster and is not ready to be joined: it is %s", describeHost(r.init.Machine), r.init.State)
		if r.init.hasPlan() && r.init.next.joinURL == "" {
			cause = describeHost(r.init.Machine) + " begins the cluster, and its address is not known yet"
		}
	}
	r.wait(m, code, "a plan for "+m.Name, "", "%s is %s; %s", describeHost(m.Machine), text, cause)
	m.status = text
}

// anyDoor says that a server works through which others join.
func (r *round) anyDoor() bool {
	for _, m := range r.servers {
		if r.usable(m) {
			return true
		}
	}
	return false
}

// olderServer is a server whose kubelet is not of the wanted version yet: nobody joins with a newer one.
func (r *round) olderServer(m *member) *member {
	for _, other := range r.servers {
		if other != m && other.hasPlan() && other.node != nil && r.upgrades(other) {
			return other
		}
	}
	return nil
}

// joinEtcd lets one member join at a time, and the next when that one votes: etcd takes one
// learner, and each member that does not work yet counts against the quorum.
func (r *round) joinEtcd(m *member) {
	host := describeHost(m.Machine)
	healthy, members := 0, r.etcdMembers()
	for _, other := range members {
		if r.healthyEtcd(other) {
			healthy++
		}
	}
	for _, other := range r.servers {
		if other == m || !other.Roles.Etcd || other.next.member || (!other.hasPlan() && other.deliver == nil) {
			continue
		}
		why := "has not joined"
		if other.details.Voter == observed.VoterLearner {
			why = "is a learner"
		}
		r.wait(m, verdict.WaitVoter, "etcd on "+withNode(other.Machine)+" to vote", "drover machines show "+other.Name+"; if its host is lost: drover machines rm "+other.Name+" --force",
			"%s joins etcd after %s, which %s: members join one at a time", host, describeHost(other.Machine), why)
		m.status = "waiting for bootstrap etcd to be available"
		return
	}
	if len(members) > 0 && healthy*2 <= len(members) {
		missing := r.missingMembers(m)
		r.wait(m, verdict.WaitQuorum, "etcd on "+named(missing)+" to be healthy", "drover machines show "+missing[0].Name,
			"%s cannot join etcd, which has no quorum: %s %s not healthy", host, named(missing), areOrIs(missing))
		return
	}
	r.deliver(m)
}
