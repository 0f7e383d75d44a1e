// Judging a machine: from what its agent reported and what the cluster's API shows
// to one state, its cause, and what ends the wait.

package planner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// maxOutput is how much of a failing instruction's output is kept for people.
const maxOutput = 8 << 10

// Texts that Rancher's planner shows of a machine.
const (
	statusInitial = "waiting for agent to check in and apply initial plan"
	statusApply   = "waiting for plan to be applied"
	statusFailed  = "failure while applying plan"
	statusKubelet = "waiting for kubelet to update"
)

// judge gives the machine's verdict and the status text of the cluster's message.
func judge(s Snapshot, m Machine, wanted plans.Plan, delivered, changed bool) (verdict, string) {
	host := describeHost(m)
	outcome, err := plans.ReadOutcome(m.data())
	if err != nil {
		// What could be read is still shown; what could not is the agent's fault and named.
		return failed(s, m, fmt.Sprintf("the agent on %s reported what cannot be read: %v", host, err), nil), statusFailed
	}
	node := nodeOf(s, m)
	waiting := verdict{Condition: records.Condition{State: records.ApplyingPlan}, node: node}
	switch {
	case !delivered || changed:
		waiting.Cause = "the plan is being delivered to " + host
		waiting.WaitingFor = "the agent on " + m.Name + " to take its plan"
		return waiting, statusOf(outcome)
	case isFailed(outcome, m.data()):
		return failed(s, m, "", &outcome), statusFailed
	case outcome.State == plans.StatePending && !inSync(outcome, m.data()):
		waiting.Cause = fmt.Sprintf("the agent on %s has not taken plan %s; %s", host, short(m.data()), presence(m.Agent))
		waiting.WaitingFor = "the agent on " + m.Name + " to take its plan"
		if !m.Agent.Connected {
			waiting.NextStep = "on the host: systemctl status rancher-system-agent; journalctl -u rancher-system-agent"
		}
		return waiting, statusOf(outcome)
	case !inSync(outcome, m.data()):
		waiting.Cause = fmt.Sprintf("the agent on %s is applying plan %s; %s%s", host, short(m.data()), presence(m.Agent), hostReport(m, true))
		waiting.WaitingFor = "files and instructions of plan " + short(m.data()) + " to be done"
		if report, ok := plans.ReadHostReport(m.data()); ok && len(report.Units) > 0 {
			waiting.NextStep = lookAtUnits(report)
		}
		return waiting, statusOf(outcome)
	}
	if sick := unhealthy(wanted, outcome); len(sick) > 0 {
		waiting.State = records.WaitingForProbes
		waiting.Cause = fmt.Sprintf("not healthy on %s: %s; %s%s", host, strings.Join(sick, ", "), presence(m.Agent), hostReport(m, false))
		waiting.WaitingFor = "probes " + strings.Join(sick, ", ")
		waiting.NextStep = "on the host: journalctl -u " + s.unit(m)
		if node != nil && wasActive(m) {
			// Probes flap when a control plane is busy. After the first time the node's state in the cluster decides what is shown.
			return judgeNode(s, m, node, sick)
		}
		return waiting, "waiting for probes: " + strings.Join(sick, ", ")
	}
	return judgeNode(s, m, node, nil)
}

// wasActive says that the machine has been Active with the plan that it has now.
func wasActive(m Machine) bool {
	return (m.Status.State == records.Active || m.Status.State == records.Unavailable) && m.Status.Node != nil
}

// judgeNode takes the last step by what the cluster's own API shows. The probes in sick fail.
func judgeNode(s Snapshot, m Machine, node *records.NodeRef, sick []string) (verdict, string) {
	v := verdict{node: node, Condition: records.Condition{State: records.WaitingForNode}}
	if !s.API.Reachable {
		if wasActive(m) {
			return unseen(s, m, sick), ""
		}
		v.Cause = "the Kubernetes API of cluster " + s.Cluster.Name + " cannot be asked: " + s.API.Cause
		v.WaitingFor = "a connection to the Kubernetes API on " + m.Name
		return v, "waiting for cluster agent to connect"
	}
	switch {
	case node == nil:
		v.Cause = fmt.Sprintf("the cluster has no node with label rke.cattle.io/machine=%s%s", m.UID, unlabelled(s.API.Unlabelled))
		v.WaitingFor = "the node of " + describeHost(m) + " to register"
		return v, "waiting for node ref"
	case node.ProviderID == "":
		v.Cause = fmt.Sprintf("node %s has no providerID", node.Name)
		v.WaitingFor = "spec.providerID of node " + node.Name
		v.NextStep = "a cloud controller of the cluster has to set it; see its log"
		return v, "waiting for node ref"
	case !node.Ready:
		v.Cause = fmt.Sprintf("node %s is not Ready: %s", node.Name, node.NotReady)
		v.WaitingFor = "condition Ready of node " + node.Name
		if wasActive(m) { // it has registered long ago
			v.State, v.NextStep = records.Unavailable, lookAtHost(s, m)
		}
		return v, "waiting for node ref"
	case !sameVersion(node.KubeletVersion, s.Cluster.Spec.KubernetesVersion):
		v.Cause = fmt.Sprintf("the kubelet of node %s is %s, not %s", node.Name, node.KubeletVersion, s.Cluster.Spec.KubernetesVersion)
		v.WaitingFor = "kubelet " + s.Cluster.Spec.KubernetesVersion
		return v, statusKubelet
	}
	v.State = records.Active
	return v, ""
}

// unseenLimit is how long an Active machine may be out of sight before that is its state: a control plane that starts
// again is away for some seconds, and a lost host is to be shown within a minute, in which its loss has to be noticed.
const unseenLimit = 30 * time.Second

// unseen is the verdict on a machine that was Active and whose cluster's API cannot be asked.
func unseen(s Snapshot, m Machine, sick []string) verdict {
	since := m.Status.Unseen
	if since.IsZero() {
		since = s.Now
	}
	v := verdict{node: m.Status.Node, unseen: since, Condition: records.Condition{State: m.Status.State}}
	left := since.Add(unseenLimit).Sub(s.Now)
	if v.State == records.Active && left > 0 {
		v.again = left
		v.Cause = fmt.Sprintf("node %s was ready when it was last seen; the server has no connection to the cluster: %s", m.Status.Node.Name, s.API.Cause)
		return v
	}
	v.State = records.Unavailable
	v.NextStep = lookAtHost(s, m)
	when := since.UTC().Format(time.RFC3339)
	switch {
	case !m.Agent.Connected:
		v.Cause = fmt.Sprintf("nothing is seen of %s since %s: %s, and the server has no connection to its cluster: %s", describeHost(m), when, presence(m.Agent), s.API.Cause)
		v.WaitingFor = "the agent on " + m.Name + " to connect"
		v.NextStep = "switch the host on; " + v.NextStep
	case len(sick) > 0:
		v.Cause = fmt.Sprintf("%s does not work on %s since %s: not healthy: %s; %s%s", s.unit(m), describeHost(m), when, strings.Join(sick, ", "), s.API.Cause, hostReport(m, false))
		v.WaitingFor = "probes " + strings.Join(sick, ", ") + " of " + m.Name
	default:
		v.Cause = fmt.Sprintf("the server has no connection to the cluster on %s since %s: %s", describeHost(m), when, s.API.Cause)
		v.WaitingFor = "a connection to the Kubernetes API on " + m.Name
	}
	return v
}

// hostReport is what drover's agent reports of the host, as the end of a cause; empty when there is nothing. Of the
// instruction it speaks only while the plan is applied.
func hostReport(m Machine, applying bool) string {
	report, ok := plans.ReadHostReport(m.data())
	if !ok {
		return ""
	}
	text := ""
	if applying && report.Instruction != "" {
		text = fmt.Sprintf("; instruction %q runs since %s", report.Instruction, report.Since.UTC().Format(time.RFC3339))
		if report.Output != "" {
			text += fmt.Sprintf(" and printed last: %q", report.Output)
		}
	}
	for _, unit := range report.Units {
		text += "; " + unit.String()
	}
	return text
}

// lookAtUnits is what shows more of the units that are not well.
func lookAtUnits(report plans.HostReport) string {
	return "on the host: journalctl -u " + report.Units[0].Name + "; correct the cluster and apply it: a newer plan is taken as soon as the instruction waits"
}

// unit is the systemd unit of the machine's node.
func (s Snapshot) unit(m Machine) string {
	return runtimes.Of(s.Cluster.Spec.KubernetesVersion).Unit(m.server())
}

// lookAtHost is what a person runs to see why a host that worked does not.
func lookAtHost(s Snapshot, m Machine) string {
	return fmt.Sprintf("on the host: systemctl status rancher-system-agent %s; journalctl -u %s", s.unit(m), s.unit(m))
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

func unlabelled(names []string) string {
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
func failed(s Snapshot, m Machine, cause string, o *plans.Outcome) verdict {
	v := verdict{Condition: records.Condition{State: records.Failed, Cause: cause}, node: m.Status.Node}
	if o == nil {
		v.NextStep = "on the host: journalctl -u rancher-system-agent"
		return v
	}
	name, output := failingOutput(m.data(), *o)
	v.failure = &records.PlanFailure{Checksum: plans.Checksum(m.data()[plans.KeyPlan]), Instruction: name, Output: tail(output, maxOutput)}
	host := describeHost(m)
	switch {
	case name != "":
		v.Cause = fmt.Sprintf("instruction %q of plan %s failed on %s%s", name, short(m.data()), host, lastLine(output))
	case len(output) > 0:
		v.Cause = fmt.Sprintf("plan %s could not be applied on %s%s", short(m.data()), host, lastLine(output))
	default:
		v.Cause = fmt.Sprintf("error applying plan -- check rancher-system-agent.service and %s.service logs on node for more information", s.unit(m))
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

func presence(p observed.Presence) string {
	since := p.Since.UTC().Format(time.RFC3339)
	switch {
	case p.Connected:
		return "its agent is connected" // since when is not known: a watch that is opened again at once counts as the old one
	case !p.Since.IsZero():
		return "its agent is gone since " + since
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

func short(data map[string][]byte) string { return plans.Short(plans.Checksum(data[plans.KeyPlan])) }

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
