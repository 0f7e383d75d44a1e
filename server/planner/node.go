// Judging a machine's node: the last step to Active is taken by what the cluster's own API shows.

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner/causes"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// judgeNode takes the last step by what the cluster's own API shows. The probes in sick fail.
func (r *round) judgeNode(m *member, node *records.NodeRef, sick []string) (finding, string) {
	v := finding{node: node, Condition: records.Condition{State: records.WaitingForNode}}
	wait := func(code verdict.Code, waitingFor, format string, args ...any) {
		v.Code, v.WaitingFor, v.Cause = string(code), waitingFor, fmt.Sprintf(format, args...)
	}
	if !r.API.Reachable {
		if wasActive(m.Machine) {
			return r.unseen(m, sick), ""
		}
		wait(verdict.NoAPI, "a connection to the Kubernetes API on "+r.apiHosts(m), "the Kubernetes API of cluster %s cannot be asked: %s", r.Cluster.Name, r.API.Cause)
		return v, "waiting for cluster agent to connect"
	}
	absent, again := r.agentAbsent(m)
	v.again = again
	wanted := r.Cluster.Spec.KubernetesVersion
	switch {
	case absent:
		return r.agentLost(m, node), "waiting for the agent to connect"
	case node == nil:
		wait(verdict.NoNode, "the node of "+describeHost(m.Machine)+" to register", "the cluster has no node with label rke.cattle.io/machine=%s%s", m.UID, unlabelled(r.API.Unlabelled))
		return v, "waiting for node ref"
	case node.ProviderID == "":
		wait(verdict.NoProviderID, "spec.providerID of node "+node.Name, "node %s has no providerID", node.Name)
		v.NextStep = "a cloud controller of the cluster has to set it; see its log"
		return v, "waiting for node ref"
	case !node.Ready:
		wait(verdict.NodeNotReady, "condition Ready of node "+node.Name, "node %s is not Ready: %s%s", node.Name, node.NotReady, causes.Of(m.data(), r.unit(m.Machine)).Words(false))
		if wasActive(m.Machine) { // it has registered long ago
			v.State, v.NextStep = records.Unavailable, r.lookAtHost(m.Machine)
		}
		return v, "waiting for node ref"
	case m.Roles.Etcd && !m.next.member && m.details.Voter == observed.VoterLearner:
		wait(verdict.WaitVoter, "etcd on "+m.Name+" to vote", "etcd on %s has joined, and does not vote yet", describeHost(m.Machine))
		return v, "waiting for bootstrap etcd to be available"
	case m.change != restart && !sameVersion(node.KubeletVersion, wanted):
		wait(verdict.KubeletVersion, "kubelet "+wanted, "the kubelet of node %s is %s, not %s", node.Name, node.KubeletVersion, wanted)
		return v, statusKubelet
	}
	v.State = records.Active
	return v, ""
}

// apiHosts are the hosts through which the cluster's API is reached: the machine itself, or the control planes.
func (r *round) apiHosts(m *member) string {
	if m.Roles.ControlPlane {
		return m.Name
	}
	var names []string
	for _, other := range r.servers {
		if other.Roles.ControlPlane {
			names = append(names, other.Name)
		}
	}
	return threeOf(names)
}

// voter says that the machine's etcd has joined: its node says so, or, while there is no API that could
// show a node, all that is known of the host.
func (r *round) voter(m *member) bool {
	if !m.hasPlan() || !m.report.healthy() {
		return false
	}
	if r.API.Reachable {
		return m.details.Voter == observed.VoterYes || m == r.init && m.details.Voter == observed.VoterUnknown
	}
	return !r.cluster.initialized
}

// unseenLimit is how long an Active machine may be out of sight before that is its state: a control plane that starts
// again is away for some seconds, and a lost host is to be shown within a minute, in which its loss has to be noticed.
const unseenLimit = 30 * time.Second

// unseen is the finding on a machine that was Active and whose cluster's API cannot be asked.
func (r *round) unseen(m *member, sick []string) finding {
	since := m.Status.Unseen
	if since.IsZero() {
		since = r.Now
	}
	v := finding{node: m.Status.Node, unseen: since, Condition: records.Condition{State: records.Active, Code: string(verdict.OutOfSight)}}
	if m.Status.State == records.Unavailable {
		v.State = records.Unavailable
	}
	left := since.Add(unseenLimit).Sub(r.Now)
	if v.State == records.Active && left > 0 {
		v.again = left
		v.Cause = fmt.Sprintf("node %s was ready when it was last seen; the server has no connection to the cluster: %s", m.Status.Node.Name, r.API.Cause)
		return v
	}
	v.State = records.Unavailable
	v.NextStep = r.lookAtHost(m.Machine)
	when := since.UTC().Format(time.RFC3339)
	quorum, way := causes.LostQuorum(r.etcdSeen())
	switch {
	case !m.Agent.Connected:
		v.Code = string(verdict.HostLost)
		v.Cause = fmt.Sprintf("nothing is seen of %s since %s: %s, and the server has no connection to its cluster: %s", describeHost(m.Machine), when, presence(m.Agent), r.API.Cause)
		v.WaitingFor = "the agent on " + m.Name + " to connect"
		v.NextStep = "switch the host on; " + v.NextStep
	case quorum != "":
		v.Code, v.Cause, v.WaitingFor, v.NextStep = string(verdict.QuorumLost), quorum, "members of etcd to come back, or a restore", way
	case len(sick) > 0:
		v.Code = string(verdict.UnitDown)
		v.Cause = fmt.Sprintf("%s does not work on %s since %s: not healthy: %s; %s%s", r.unit(m.Machine), describeHost(m.Machine), when, strings.Join(sick, ", "), r.API.Cause, causes.Of(m.data(), r.unit(m.Machine)).Words(false))
		v.WaitingFor = "probes " + strings.Join(sick, ", ") + " of " + m.Name
	default:
		v.Cause = fmt.Sprintf("the server has no connection to the cluster on %s since %s: %s", describeHost(m.Machine), when, r.API.Cause)
		v.WaitingFor = "a connection to the Kubernetes API on " + r.apiHosts(m)
	}
	return v
}

// agentAbsent says that the machine's agent is away for longer than agents take to come back, where the cluster is to
// have agents; until then, after which time it will be. A crashed agent is back before the server notes it as gone.
func (s Snapshot) agentAbsent(m *member) (absent bool, again time.Duration) {
	if s.Cluster.Annotations[clusterspec.NoAgents] == "true" {
		return false, 0
	}
	return s.absent(m, observed.AgentGrace)
}

// agentLost is the finding on a machine whose agent is gone while the cluster's API answers. Whether the host is gone with
// its agent, the node shows: a kubelet that reports nothing is noticed by its cluster some 40 s later.
func (r *round) agentLost(m *member, node *records.NodeRef) finding {
	v := finding{node: node, Condition: records.Condition{
		State: records.WaitingForNode, Code: string(verdict.HostLost), WaitingFor: "the agent on " + m.Name + " to connect", NextStep: "switch the host on; " + r.lookAtHost(m.Machine),
	}}
	host, gone := m.Name, presence(m.Agent)
	if wasActive(m.Machine) {
		v.State, host = records.Unavailable, describeHost(m.Machine)
	}
	switch {
	case node == nil:
		v.Cause = fmt.Sprintf("nothing is seen of %s: %s, and the cluster has no node of it", host, gone)
	case !node.Ready:
		v.Cause = fmt.Sprintf("nothing is seen of %s: %s, and node %s is not Ready: %s", host, gone, node.Name, node.NotReady)
	default:
		v.Code = string(verdict.AgentLost)
		v.Cause = fmt.Sprintf("%s takes no plans: %s; node %s was Ready when the kubelet reported last", host, gone, node.Name)
		v.NextStep = "see whether the host is on; there: systemctl status rancher-system-agent; journalctl -u rancher-system-agent"
	}
	return v
}

// etcdSeen are the members of the cluster's etcd, and who of them is gone as far as hosts can be asked. A probe of etcd is no
// sign: of a member that is there it fails when others are gone.
func (r *round) etcdSeen() []causes.Member {
	var all []causes.Member
	if r.restoring() {
		return nil // it begins a new etcd
	}
	for _, m := range r.etcdMembers() {
		one := causes.Member{Name: m.Name, Gone: causes.Of(m.data(), r.unit(m.Machine)).Down()}
		if absent, _ := r.agentAbsent(m); absent {
			one.Gone = presence(m.Agent)
		}
		all = append(all, one)
	}
	return all
}

func (r *round) nodeOf(m *member) *records.NodeRef {
	if node, ok := r.API.Nodes[m.UID]; ok {
		return &node
	}
	if !r.API.Reachable {
		return m.Status.Node
	}
	return nil
}

func unlabelled(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; it has " + strings.Join(names, ", ") + " without it"
}
