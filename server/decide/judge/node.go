// Judging a machine's node: the last step to Active is taken by what the cluster's own API shows.

package judge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// Working is the condition of a machine on whose node something is done.
func Working(p *pass.Pass, m *pass.Member, state records.MachineState, id string, code, hook catalogue.Code, what string) records.Condition {
	node := m.Node.Name
	c := records.Condition{State: state, Code: string(code), WaitingFor: "node " + node + " " + what, Cause: fmt.Sprintf("node %s of %s begins %s", node, pass.DescribeHost(m.Machine), what)}
	if m.Work.Order != id {
		return c
	}
	phase := cmp.Or(m.Work.Phase, "waiting until other nodes are done")
	c.Cause = fmt.Sprintf("%s, node %s of %s, since %s", phase, node, pass.DescribeHost(m.Machine), m.Work.Since.UTC().Format(pass.TimeFormat))
	if m.Work.Missing != "" {
		c.Code = string(hook)
		kind := "pre-drain"
		if m.Work.Phase == observed.PhasePostHooks {
			kind = "post-drain"
		}
		c.WaitingFor = fmt.Sprintf("annotation %s of the plan Secret of %s", m.Work.Missing, m.Name)
		c.Cause = fmt.Sprintf("waiting for %s hook %s on %s since %s", kind, m.Work.Missing, node, m.Work.Since.UTC().Format(pass.TimeFormat))
		c.NextStep = "have it write the value of annotation rke.cattle.io/" + kind + " there, or take the hook out of the cluster's upgradeStrategy"
		return c
	}
	if m.Work.Cause != "" {
		c.Cause += ": " + m.Work.Cause
	}
	if len(m.Work.Pods) > 0 {
		c.WaitingFor = "pods to leave node " + node + ": " + strings.Join(m.Work.Pods, ", ")
		c.NextStep = "see why they stay (kubectl describe pod, a PodDisruptionBudget?); or set a timeout, disableEviction or enabled: false in the drain options and apply"
	}
	return c
}

// judgeNode takes the last step by what the cluster's own API shows. The probes in sick fail.
func judgeNode(p *pass.Pass, m *pass.Member, node *records.NodeRef, sick []string) (pass.Finding, string) {
	v := pass.Finding{Node: node, Condition: records.Condition{State: records.WaitingForNode}}
	wait := func(code catalogue.Code, waitingFor, format string, args ...any) {
		v.Code, v.WaitingFor, v.Cause = string(code), waitingFor, fmt.Sprintf(format, args...)
	}
	if !p.API.Reachable {
		if pass.WasActive(m.Machine) {
			return unseen(p, m, sick), ""
		}
		wait(catalogue.NoAPI, "a connection to the Kubernetes API on "+apiHosts(p, m), "the Kubernetes API of cluster %s cannot be asked: %s", p.Cluster.Name, p.API.Cause)
		return v, "waiting for cluster agent to connect"
	}
	absent, again := p.AgentAbsent(m)
	v.Again = again
	wanted := p.Cluster.Spec.KubernetesVersion
	switch {
	case absent:
		return agentLost(p, m, node), "waiting for the agent to connect"
	case node == nil:
		wait(catalogue.NoNode, "the node of "+pass.DescribeHost(m.Machine)+" to register", "the cluster has no node with label rke.cattle.io/machine=%s%s", m.UID, unlabelled(p.API.Unlabelled))
		return v, "waiting for node ref"
	case node.ProviderID == "":
		wait(catalogue.NoProviderID, "spec.providerID of node "+node.Name, "node %s has no providerID", node.Name)
		v.NextStep = "a cloud controller of the cluster has to set it; see its log"
		return v, "waiting for node ref"
	case !node.Ready:
		wait(catalogue.NodeNotReady, "condition Ready of node "+node.Name, "node %s is not Ready: %s%s", node.Name, node.NotReady, Of(m.Data(), p.Unit(m.Machine)).Words(false))
		if pass.WasActive(m.Machine) { // it has registered long ago
			v.State, v.NextStep = records.Unavailable, p.LookAtHost(m.Machine)
		}
		return v, "waiting for node ref"
	case m.Roles.Etcd && !m.Next.Member && m.Details.Voter == observed.VoterLearner:
		wait(catalogue.WaitVoter, "etcd on "+m.Name+" to vote", "etcd on %s has joined, and does not vote yet", pass.DescribeHost(m.Machine))
		return v, "waiting for bootstrap etcd to be available"
	case m.Change != pass.Restart && !pass.SameVersion(node.KubeletVersion, wanted):
		wait(catalogue.KubeletVersion, "kubelet "+wanted, "the kubelet of node %s is %s, not %s", node.Name, node.KubeletVersion, wanted)
		return v, pass.StatusKubelet
	}
	v.State = records.Active
	return v, ""
}

// apiHosts are the hosts through which the cluster's API is reached: the machine itself, or the control planes.
func apiHosts(p *pass.Pass, m *pass.Member) string {
	if m.Roles.ControlPlane {
		return m.Name
	}
	var names []string
	for _, other := range p.Servers {
		if other.Roles.ControlPlane {
			names = append(names, other.Name)
		}
	}
	return pass.ThreeOf(names)
}

// unseen is the finding on a machine that was Active and whose cluster's API cannot be asked.
func unseen(p *pass.Pass, m *pass.Member, sick []string) pass.Finding {
	since := m.Status.Unseen
	if since.IsZero() {
		since = p.Now
	}
	v := pass.Finding{Node: m.Status.Node, Unseen: since, Condition: records.Condition{State: records.Active, Code: string(catalogue.OutOfSight)}}
	if m.Status.State == records.Unavailable {
		v.State = records.Unavailable
	}
	left := since.Add(pass.UnseenLimit).Sub(p.Now)
	if v.State == records.Active && left > 0 {
		v.Again = left
		v.Cause = fmt.Sprintf("node %s was ready when it was last seen; the server has no connection to the cluster: %s", m.Status.Node.Name, p.API.Cause)
		return v
	}
	v.State = records.Unavailable
	v.NextStep = p.LookAtHost(m.Machine)
	when := since.UTC().Format(time.RFC3339)
	quorum, way := LostQuorum(etcdSeen(p))
	switch {
	case !m.Agent.Connected:
		v.Code = string(catalogue.HostLost)
		v.Cause = fmt.Sprintf("nothing is seen of %s since %s: %s, and the server has no connection to its cluster: %s", pass.DescribeHost(m.Machine), when, pass.Presence(m.Agent), p.API.Cause)
		v.WaitingFor = "the agent on " + m.Name + " to connect"
		v.NextStep = "switch the host on; " + v.NextStep
	case quorum != "":
		v.Code, v.Cause, v.WaitingFor, v.NextStep = string(catalogue.QuorumLost), quorum, "members of etcd to come back, or a restore", way
	case len(sick) > 0:
		v.Code = string(catalogue.UnitDown)
		v.Cause = fmt.Sprintf("%s does not work on %s since %s: not healthy: %s; %s%s", p.Unit(m.Machine), pass.DescribeHost(m.Machine), when, strings.Join(sick, ", "), p.API.Cause, Of(m.Data(), p.Unit(m.Machine)).Words(false))
		v.WaitingFor = "probes " + strings.Join(sick, ", ") + " of " + m.Name
	default:
		v.Cause = fmt.Sprintf("the server has no connection to the cluster on %s since %s: %s", pass.DescribeHost(m.Machine), when, p.API.Cause)
		v.WaitingFor = "a connection to the Kubernetes API on " + apiHosts(p, m)
	}
	return v
}

// agentLost is the finding on a machine whose agent is gone while the cluster's API answers. Whether the host is gone with
// its agent, the node shows: a kubelet that reports nothing is noticed by its cluster some 40 s later.
func agentLost(p *pass.Pass, m *pass.Member, node *records.NodeRef) pass.Finding {
	v := pass.Finding{Node: node, Condition: records.Condition{
		State: records.WaitingForNode, Code: string(catalogue.HostLost), WaitingFor: "the agent on " + m.Name + " to connect", NextStep: "switch the host on; " + p.LookAtHost(m.Machine),
	}}
	host, gone := m.Name, pass.Presence(m.Agent)
	if pass.WasActive(m.Machine) {
		v.State, host = records.Unavailable, pass.DescribeHost(m.Machine)
	}
	switch {
	case node == nil:
		v.Cause = fmt.Sprintf("nothing is seen of %s: %s, and the cluster has no node of it", host, gone)
	case !node.Ready:
		v.Cause = fmt.Sprintf("nothing is seen of %s: %s, and node %s is not Ready: %s", host, gone, node.Name, node.NotReady)
	default:
		v.Code = string(catalogue.AgentLost)
		v.Cause = fmt.Sprintf("%s takes no plans: %s; node %s was Ready when the kubelet reported last", host, gone, node.Name)
		v.NextStep = "see whether the host is on; there: systemctl status rancher-system-agent; journalctl -u rancher-system-agent"
	}
	return v
}

// etcdSeen are the members of the cluster's etcd, and who of them is gone as far as hosts can be asked. A probe of etcd is no
// sign: of a member that is there it fails when others are gone.
func etcdSeen(p *pass.Pass) []Member {
	var all []Member
	if p.Restoring() {
		return nil // it begins a new etcd
	}
	for _, m := range p.EtcdMembers() {
		one := Member{Name: m.Name, Gone: Of(m.Data(), p.Unit(m.Machine)).Down()}
		if absent, _ := p.AgentAbsent(m); absent {
			one.Gone = pass.Presence(m.Agent)
		}
		all = append(all, one)
	}
	return all
}

func unlabelled(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; it has " + strings.Join(names, ", ") + " without it"
}

// StaleCause says what is wrong with such a node, and what mends it.
func StaleCause(p *pass.Pass, m *pass.Member, node records.NodeRef) string {
	return fmt.Sprintf("node %s has the label of a machine that was removed, as this host joined again with its %s; %s is restarted, and takes the label rke.cattle.io/machine=%s then",
		node.Name, p.Distribution.Name, p.Unit(m.Machine), m.UID)
}
