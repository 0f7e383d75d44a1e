// Judging a machine: from what its agent reported and what the cluster's API shows
// to one state, its cause, and what ends the wait.

package planner

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/planner/causes"
	"github.com/drover-project/drover/server/planner/verdict"
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

// judge finds how a machine is doing with the plan that it has.
func (r *round) judge(m *member) {
	switch {
	case m.leaving, m.change == broken:
		m.node = r.nodeOf(m)
		return
	case r.shut.holds() && (r.shut.failed || !m.hasPlan()):
		m.finding = r.held(m)
		return
	case !m.hasPlan():
		m.finding = finding{Condition: records.Condition{State: records.WaitingForPlan}}
		m.status = notYet
		return
	}
	m.finding, m.status = r.found(m)
	if node, stale := r.staleNode(m); stale && m.State != records.Failed {
		m.Code, m.Cause = string(verdict.StaleNode), r.staleCause(m, node)+"; "+m.Cause
	}
	m.next.member = m.next.member || m.Roles.Etcd && r.voter(m)
}

// found is the machine's finding and the status text of the cluster's message.
func (r *round) found(m *member) (finding, string) {
	host := describeHost(m.Machine)
	report := m.report
	if report.unreadable != nil {
		// What could be read is still shown; what could not is the agent's fault and named.
		return finding{node: m.Status.Node, Condition: records.Condition{
			State: records.Failed, Code: string(verdict.BadReport), Cause: fmt.Sprintf("the agent on %s reported what cannot be read: %v", host, report.unreadable),
			NextStep: "on the host: journalctl -u rancher-system-agent",
		}}, statusFailed
	}
	said := causes.Of(m.data(), r.unit(m.Machine))
	waiting := finding{Condition: records.Condition{State: records.ApplyingPlan}, node: r.nodeOf(m)}
	switch {
	case report.failed:
		return r.failed(m), statusFailed
	case report.state == plans.StatePending && !report.inSync:
		waiting.Code = string(verdict.AgentNotTaken)
		waiting.Cause = fmt.Sprintf("the agent on %s has not taken plan %s; %s", host, short(m.data()), presence(m.Agent))
		waiting.WaitingFor = "the agent on " + m.Name + " to take its plan"
		if !m.Agent.Connected {
			waiting.Code = string(verdict.AgentAbsent)
			waiting.NextStep = "on the host: systemctl status rancher-system-agent; journalctl -u rancher-system-agent"
		}
		return waiting, statusOf(report)
	case !report.inSync:
		waiting.Code = string(verdict.Applying)
		waiting.Cause = fmt.Sprintf("the agent on %s is applying plan %s; %s%s%s", host, short(m.data()), presence(m.Agent), said.Clock(deliveredAt(m.Machine), r.Now), said.Words(true))
		waiting.WaitingFor = "files and instructions of plan " + short(m.data()) + " to be done"
		waiting.NextStep = said.Next(m.Name)
		return waiting, statusOf(report)
	}
	if absent, again := r.agentAbsent(m); steps.Stops(report.errand) && !absent {
		// What the API of the restored cluster says of the node is as old as the snapshot.
		waiting.Code, waiting.WaitingFor, waiting.again = string(verdict.WaitOperation), "its turn to start again", again
		waiting.Cause = fmt.Sprintf("%s is stopped on %s by a restore of a snapshot, and starts again when its turn has come; %s", r.unit(m.Machine), host, presence(m.Agent))
		waiting.NextStep = "drover operations ls shows how far the restore is"
		return waiting, "waiting for the restore to start it"
	}
	if sick := report.sick; len(sick) > 0 {
		waiting.State, waiting.Code = records.WaitingForProbes, string(verdict.Probes)
		waiting.Cause = fmt.Sprintf("not healthy on %s: %s; %s%s", host, strings.Join(sick, ", "), presence(m.Agent), said.Words(false))
		waiting.WaitingFor = "probes " + strings.Join(sick, ", ")
		waiting.NextStep = cmp.Or(said.NextPod(m.Name), "on the host: journalctl -u "+r.unit(m.Machine))
		if waiting.node != nil && wasActive(m.Machine) {
			// Probes flap when a control plane is busy. After the first time the node's state in the cluster decides what is shown.
			return r.judgeNode(m, waiting.node, sick)
		}
		return waiting, "waiting for probes: " + strings.Join(sick, ", ")
	}
	if r.fleet != nil {
		return r.present(m), ""
	}
	return r.judgeNode(m, waiting.node, nil)
}

// wasActive says that the machine has been Active with the plan that it has now.
func wasActive(m Machine) bool {
	return (m.Status.State == records.Active || m.Status.State == records.Unavailable || m.Status.State == records.Draining || m.Status.State == records.Uncordoning) && m.Status.Node != nil
}

// deliveredAt is when the machine got its plan, in RFC 3339; empty when that is not known.
func deliveredAt(m Machine) string {
	if m.Secret == nil {
		return ""
	}
	return m.Secret.Annotations[annotationPlanUpdated]
}

// unit is the systemd unit of the machine's node, or of its agent where it has no cluster.
func (r *round) unit(m Machine) string {
	if r.fleet != nil {
		return "rancher-system-agent"
	}
	return r.distribution.Unit(m.isServer())
}

// lookAtHost is what a person runs to see why a host that worked does not.
func (r *round) lookAtHost(m Machine) string {
	return fmt.Sprintf("on the host: systemctl status rancher-system-agent %s; journalctl -u %s", r.unit(m), r.unit(m))
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

// failed is the finding on a plan that could not be applied; the cause is taken from what was reported.
func (r *round) failed(m *member) finding {
	v := finding{Condition: records.Condition{State: records.Failed, Code: string(verdict.PlanFailed)}, node: m.Status.Node}
	o, err := plans.ReadOutcome(m.data())
	if err != nil {
		o = plans.Outcome{} // found has said so
	}
	name, output := causes.FailingOutput(m.data(), o)
	reason := o.FailedOutput[plans.FailureOutput]
	v.failure = &records.PlanFailure{Checksum: plans.Checksum(m.data()[plans.KeyPlan]), Instruction: name, Output: causes.Tail(slices.Concat(output, reason), maxOutput)}
	host := describeHost(m.Machine)
	switch {
	case name != "":
		// How it ended comes first, and then what it said last, which is what a person wants to know.
		how := strings.TrimPrefix(causes.LastLine(reason), ": instruction "+name)
		v.Cause = fmt.Sprintf("instruction %q of plan %s failed on %s%s%s", name, short(m.data()), host, how, causes.LastLine(output))
	case len(reason) > 0:
		v.Cause = fmt.Sprintf("plan %s could not be applied on %s%s", short(m.data()), host, causes.LastLine(reason))
	default:
		v.Cause = fmt.Sprintf("error applying plan -- check rancher-system-agent.service and %s.service logs on node for more information", r.unit(m.Machine))
	}
	v.WaitingFor = "the next try, or a changed cluster"
	v.NextStep = "drover machines show " + m.Name
	return v
}

// unhealthy are those of a plan's probes without a healthy status.
func unhealthy(probes []string, o plans.Outcome) []string {
	var names []string
	for _, name := range probes {
		if !o.ProbeStatuses[name].Healthy {
			names = append(names, name)
		}
	}
	return names
}

func statusOf(r report) string {
	if !r.applied {
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

// describeHost names a machine with its node, where that has another name, and, where known, the address people find
// it at.
func describeHost(m Machine) string {
	known := []string{}
	if node := nodeName(m); node != "" {
		known = append(known, node)
	}
	if addresses := append(slices.Clone(m.InternalAddress), m.Address...); len(addresses) > 0 {
		known = append(known, addresses[0])
	}
	if len(known) == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s (%s)", m.Name, strings.Join(known, ", "))
}

func short(data map[string][]byte) string { return plans.Short(plans.Checksum(data[plans.KeyPlan])) }

// sameVersion compares major, minor and patch; distributions write their suffix in different ways.
func sameVersion(a, b string) bool {
	x, _, _ := strings.Cut(a, "+")
	y, _, _ := strings.Cut(b, "+")
	return x == y
}
