// Judging a machine: from what its agent reported and what the cluster's API shows
// to one state, its cause, and what ends the wait.

package planner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/k3s"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// maxOutput is how much of a failing instruction's output is kept for people.
const maxOutput = 8 << 10

// Statuses that Rancher's planner tells of a machine.
const (
	statusInitial = "waiting for agent to check in and apply initial plan"
	statusApply   = "waiting for plan to be applied"
	statusFailed  = "failure while applying plan"
	statusKubelet = "waiting for kubelet to update"
)

// judge gives the machine's verdict and the status text of the cluster's message.
func judge(s Snapshot, m Machine, wanted plans.Plan, delivered, changed bool) (Verdict, string) {
	host := describeHost(m)
	outcome, err := plans.ReadOutcome(m.Data)
	if err != nil {
		// What could be read is still told; what could not is the agent's fault and named.
		return failed(m, fmt.Sprintf("the agent on %s reported what cannot be read: %v", host, err), nil), statusFailed
	}
	node := nodeOf(s, m)
	waiting := Verdict{Condition: records.Condition{State: records.ApplyingPlan}, Node: node}
	switch {
	case !delivered || changed:
		waiting.Cause = "the plan is being delivered to " + host
		waiting.WaitingFor = "the agent on " + m.Name + " to take its plan"
		return waiting, statusOf(outcome)
	case isFailed(outcome, m.Data):
		return failed(m, "", &outcome), statusFailed
	case outcome.State == plans.StatePending && !inSync(outcome, m.Data):
		waiting.Cause = fmt.Sprintf("the agent on %s has not taken plan %s; %s", host, short(m.Data), presence(m.Agent))
		waiting.WaitingFor = "the agent on " + m.Name + " to take its plan"
		if !m.Agent.Connected {
			waiting.NextStep = "on the host: systemctl status rancher-system-agent; journalctl -u rancher-system-agent"
		}
		return waiting, statusOf(outcome)
	case !inSync(outcome, m.Data):
		waiting.Cause = fmt.Sprintf("the agent on %s is applying plan %s; %s", host, short(m.Data), presence(m.Agent))
		waiting.WaitingFor = "files and instructions of plan " + short(m.Data) + " to be done"
		return waiting, statusOf(outcome)
	}
	if sick := unhealthy(wanted, outcome); len(sick) > 0 {
		waiting.State = records.WaitingForProbes
		waiting.Cause = fmt.Sprintf("not healthy on %s: %s; %s", host, strings.Join(sick, ", "), presence(m.Agent))
		waiting.WaitingFor = "probes " + strings.Join(sick, ", ")
		waiting.NextStep = "on the host: journalctl -u " + k3s.Unit(m.Roles.Etcd || m.Roles.ControlPlane)
		if node != nil && m.Status.State == records.Active {
			// Probes flap when a control plane is busy. The node's own word in the cluster decides what is shown after the first time.
			return judgeNode(s, m, node, host)
		}
		return waiting, "waiting for probes: " + strings.Join(sick, ", ")
	}
	return judgeNode(s, m, node, host)
}

// judgeNode takes the last step by the word of the cluster's own API.
func judgeNode(s Snapshot, m Machine, node *records.NodeRef, host string) (Verdict, string) {
	v := Verdict{Node: node, Condition: records.Condition{State: records.WaitingForNode}}
	wasActive := m.Status.State == records.Active && m.Status.Node != nil
	if !s.API.Reachable {
		if wasActive {
			v.State = records.Active
			v.Cause = fmt.Sprintf("node %s was ready when it was last seen; the server has no connection to the cluster: %s", m.Status.Node.Name, s.API.Cause)
			return v, ""
		}
		v.Cause = "the Kubernetes API of cluster " + s.Cluster.Name + " cannot be asked: " + s.API.Cause
		v.WaitingFor = "a connection to the Kubernetes API on " + m.Name
		return v, "waiting for cluster agent to connect"
	}
	switch {
	case node == nil:
		v.Cause = fmt.Sprintf("the cluster has no node with label rke.cattle.io/machine=%s%s", m.UID, strangers(s.API.Strangers))
		v.WaitingFor = "the node of " + host + " to register"
		return v, "waiting for node ref"
	case node.ProviderID == "":
		v.Cause = fmt.Sprintf("node %s has no providerID", node.Name)
		v.WaitingFor = "spec.providerID of node " + node.Name
		v.NextStep = "a cloud controller of the cluster has to set it; see its log"
		return v, "waiting for node ref"
	case !node.Ready:
		v.Cause = fmt.Sprintf("node %s is not Ready: %s", node.Name, node.NotReady)
		v.WaitingFor = "condition Ready of node " + node.Name
		return v, "waiting for node ref"
	case !sameVersion(node.KubeletVersion, s.Cluster.Spec.KubernetesVersion):
		v.Cause = fmt.Sprintf("the kubelet of node %s is %s, not %s", node.Name, node.KubeletVersion, s.Cluster.Spec.KubernetesVersion)
		v.WaitingFor = "kubelet " + s.Cluster.Spec.KubernetesVersion
		return v, statusKubelet
	}
	v.State = records.Active
	return v, ""
}

func nodeOf(s Snapshot, m Machine) *records.NodeRef {
	if node, ok := s.API.Nodes[m.UID]; ok {
		return &node
	}
	if !s.API.Reachable {
		return m.Status.Node
	}
	return nil
}

func strangers(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; it has " + strings.Join(names, ", ") + " without it"
}

// inSync says whether the delivered plan is the one that was carried out. Agents from
// before plan-state leave pending in place; for them the server's copy of the applied plan decides.
func inSync(o plans.Outcome, data map[string][]byte) bool {
	switch o.State {
	case plans.StateSucceeded:
		return true
	case plans.StatePending, plans.StateNone:
		return len(data[plans.KeyPlan]) > 0 && bytes.Equal(data[plans.KeyPlan], data[plans.KeyAppliedPlan])
	default:
		return false
	}
}

func isFailed(o plans.Outcome, data map[string][]byte) bool {
	if o.State == plans.StateFailed {
		return true
	}
	threshold := plans.ReadDelivery(data).FailureThreshold
	return o.State != plans.StateSucceeded && o.State != plans.StateInProgress && !inSync(o, data) &&
		o.FailureCount > 0 && threshold != plans.Unlimited && o.FailureCount >= threshold &&
		o.FailedChecksum == plans.Checksum(data[plans.KeyPlan])
}

// failed is the verdict on a plan that could not be applied; the cause is taken from the outcome.
func failed(m Machine, cause string, o *plans.Outcome) Verdict {
	v := Verdict{Condition: records.Condition{State: records.Failed, Cause: cause}, Node: m.Status.Node}
	if o == nil {
		v.NextStep = "on the host: journalctl -u rancher-system-agent"
		return v
	}
	name, output := failingOutput(m.Data, *o)
	v.Failure = &records.PlanFailure{Checksum: plans.Checksum(m.Data[plans.KeyPlan]), Instruction: name, Output: tail(output, maxOutput)}
	host := describeHost(m)
	switch {
	case name != "":
		v.Cause = fmt.Sprintf("instruction %q of plan %s failed on %s%s", name, short(m.Data), host, lastLine(output))
	case len(output) > 0:
		v.Cause = fmt.Sprintf("plan %s could not be applied on %s%s", short(m.Data), host, lastLine(output))
	default:
		v.Cause = fmt.Sprintf("error applying plan -- check rancher-system-agent.service and %s.service logs on node for more information", k3s.Unit(m.Roles.Etcd || m.Roles.ControlPlane))
	}
	v.WaitingFor = "the next try, or a changed cluster"
	v.NextStep = "drover machines show " + m.Name
	return v
}

// failingOutput finds the instruction that failed: the last one of the plan that has failed output.
func failingOutput(data map[string][]byte, o plans.Outcome) (name string, output []byte) {
	if reason, ok := o.FailedOutput[plans.FailureOutput]; ok {
		output = reason
	}
	p, err := plans.Parse(data[plans.KeyPlan])
	if err != nil {
		return "", output
	}
	for _, in := range slices.Backward(p.Instructions) {
		if out, ok := o.FailedOutput[in.Name]; ok {
			return in.Name, append(slices.Clone(out), output...)
		}
	}
	return "", output
}

// unhealthy are the plan's probes without a healthy status, in order of name.
func unhealthy(p plans.Plan, o plans.Outcome) []string {
	var names []string
	for name := range p.Probes {
		if !o.ProbeStatuses[name].Healthy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func statusOf(o plans.Outcome) string {
	if o.AppliedChecksum == "" {
		return statusInitial
	}
	return statusApply
}

func presence(p Presence) string {
	switch {
	case p.Connected:
		return "its agent is connected since " + p.Since
	case p.Since != "":
		return "its agent is gone since " + p.Since
	default:
		return "its agent has not connected"
	}
}

// describeHost names a machine and, where known, the address people find it at.
func describeHost(m Machine) string {
	addresses := append(slices.Clone(m.InternalAddress), m.Address...)
	if len(addresses) == 0 {
		if m.NodeName != "" {
			return fmt.Sprintf("%s (%s)", m.Name, m.NodeName)
		}
		return m.Name
	}
	return fmt.Sprintf("%s (%s)", m.Name, addresses[0])
}

func short(data map[string][]byte) string { return plans.Checksum(data[plans.KeyPlan])[:8] }

// sameVersion compares major, minor and patch; distributions write their suffix in different ways.
func sameVersion(a, b string) bool {
	x, _, _ := strings.Cut(a, "+")
	y, _, _ := strings.Cut(b, "+")
	return x == y
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if last == "" {
		return ""
	}
	if len(last) > 300 {
		last = last[:300] + "…"
	}
	return ": " + last
}

func tail(b []byte, limit int) string {
	if len(b) <= limit {
		return string(b)
	}
	cut := b[len(b)-limit:]
	if i := bytes.IndexByte(cut, '\n'); i >= 0 {
		cut = cut[i+1:]
	}
	return string(cut)
}
