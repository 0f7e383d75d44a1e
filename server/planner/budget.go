// How many machines may be away at a time, and whether etcd bears it.

package planner

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// timeFormat is that of times in sentences.
const timeFormat = "2006-01-02T15:04:05Z07:00"

// concurrency reads a limit of the upgrade strategy: a number, or a part of all in per cent that is rounded
// up; 0 is no limit, and nothing is 1.
func concurrency(text string, all int) int {
	part, isPart := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(part)
	switch {
	case err != nil || n < 0:
		return 1
	case isPart:
		return max(1, int(math.Ceil(float64(n)*float64(all)/100)))
	case n == 0:
		return math.MaxInt
	}
	return n
}

// away are the machines of a tier that have been part of the cluster and do not work, or are on their way
// through a change.
func (r *round) away(t tier) []*member {
	var away []*member
	for _, m := range t.members {
		if m.next.drain != nil || m.hasPlan() && !r.works(m) {
			away = append(away, m)
		}
	}
	return away
}

// works says that a machine is Active, or that nothing but a way to the cluster's API is missing for it: agents of another
// make open no tunnel, and their clusters have quorums all the same.
func (r *round) works(m *member) bool {
	return m.State == records.Active || (m.Code == string(verdict.NoAPI) || m.Code == string(verdict.OutOfSight)) && m.report.healthy()
}

// healing says that a machine has been part of the cluster, and that a restart takes nothing away: where the agent alone
// is gone, pods run.
func (r *round) healing(m *member) bool {
	return m.Code != string(verdict.AgentLost) && m.hasPlan() && !r.works(m) && m.next.drain == nil && (r.API.Reachable || !m.report.healthy())
}

// mendLimit is how long a server that took a new plan to be mended keeps others that do not work from theirs. One whose
// etcd has lost its quorum does not come up before another one does, so that the wait has an end.
const mendLimit = 2 * time.Minute

// mends says whether a server that does not work may take its new plan: what is wrong with it may be wrong with all of
// them, and what still works on them goes away with a restart. So they go one at a time, and, where the API shows that
// etcd has its quorum, never so that it is lost.
func (r *round) mends(m *member) bool {
	members, gone := 1, 0
	for _, other := range r.servers {
		if other == m {
			continue
		}
		if left := r.mending(other); left > 0 {
			if m.again == 0 || left < m.again {
				m.again = left
			}
			r.wait(m, verdict.WaitBudget, withNode(other.Machine)+" to be Active", "drover machines show "+other.Name,
				"a change of %s waits: servers that do not work change one at a time, and %s does", describeHost(m.Machine), describeHost(other.Machine))
			return false
		}
		if other.Roles.Etcd && other.next.member {
			members++
			if !r.works(other) && (!other.Agent.Connected || other.change == nothing) {
				gone++
			}
		}
	}
	if !r.API.Reachable || !m.Roles.Etcd || members-gone-1 >= members/2+1 || members <= 2 && gone == 0 {
		return true
	}
	missing := r.missingMembers(m)
	r.wait(m, verdict.WaitQuorum, "etcd on "+named(missing)+" to be healthy", "drover machines show "+missing[0].Name,
		"a change of %s waits: etcd would lose its quorum, as %s %s not healthy", describeHost(m.Machine), named(missing), areOrIs(missing))
	return false
}

// mending is for how long a server is still expected to come up by a plan that it has just got; zero when it works, or
// is not on its way.
func (r *round) mending(m *member) time.Duration {
	switch {
	case m.deliver != nil && m.change == restart:
		return mendLimit
	case !m.hasPlan() || m.change != nothing || r.works(m) || !m.Agent.Connected:
		return 0
	case m.State == records.Unavailable || m.State == records.Failed:
		return 0 // it worked with the plan that it has, or could not carry it out
	case m.State != m.Status.State:
		return mendLimit // it has come one step further just now
	}
	return max(0, m.Status.Since.Add(mendLimit).Sub(r.Now))
}

// upgrades says that the change brings another version to the machine's node.
func (r *round) upgrades(m *member) bool {
	node := r.nodeOf(m)
	return node != nil && node.KubeletVersion != "" && !sameVersion(node.KubeletVersion, r.Cluster.Spec.KubernetesVersion)
}

// etcdMembers are the machines whose etcd has joined, those that leave included until they are out.
func (r *round) etcdMembers() []*member {
	var all []*member
	for _, m := range r.members {
		if m.Roles.Etcd && m.next.member && !m.next.cleared {
			all = append(all, m)
		}
	}
	return all
}

// healthyEtcd says that the machine's etcd serves as far as anybody sees: by its state while it stays, by its node
// when it leaves.
func (r *round) healthyEtcd(m *member) bool {
	if m.deliver != nil && m.change == restart {
		return false // it restarts now
	}
	if m.leaving {
		node := r.nodeOf(m)
		return node != nil && node.Ready && (m.order == nil || !m.order.RemoveMember)
	}
	if r.API.Reachable || r.cluster.initialized {
		return r.works(m) && m.deliver == nil || m.deliver != nil && m.change == quiet
	}
	return m.report.healthy()
}

// quorumWithout says that etcd keeps its quorum while a machine restarts. One or two members never have a
// quorum without one of them; then all others have to be healthy.
func (r *round) quorumWithout(m *member) bool {
	members, healthy := 0, 0
	for _, other := range r.etcdMembers() {
		members++
		if other != m && r.healthyEtcd(other) {
			healthy++
		}
	}
	if members <= 2 {
		return healthy >= members-1
	}
	return healthy >= members/2+1
}

// missingMembers are the other members whose etcd is not healthy.
func (r *round) missingMembers(m *member) []*member {
	var missing []*member
	for _, other := range r.etcdMembers() {
		if other != m && !r.healthyEtcd(other) {
			missing = append(missing, other)
		}
	}
	return missing
}
