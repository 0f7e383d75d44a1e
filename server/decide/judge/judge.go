// Package judge finds how a machine is doing: from what its agent reported and what the cluster's API shows to one state, its cause, and
// what ends the wait. It sets the finding of each machine, its text in the cluster's message, and whether it is a member of etcd.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// present takes the last step of a machine without a cluster: there is no node, so its agent's being there decides.
func present(p *pass.Pass, m *pass.Member) pass.Finding {
	absent, again := p.Absent(m, pass.UnseenLimit)
	if !absent {
		return pass.Finding{Again: again, Condition: records.Condition{State: records.Active}}
	}
	return pass.Finding{Condition: records.Condition{
		State: records.Unavailable, Code: string(catalogue.AgentAbsent), Cause: fmt.Sprintf("%s was active, and %s", pass.DescribeHost(m.Machine), pass.Presence(m.Agent)),
		WaitingFor: "the agent on " + m.Name + " to connect", NextStep: "switch the host on; " + p.LookAtHost(m.Machine),
	}}
}

// held is what is found of a machine while a gate of its cluster is shut.
func held(p *pass.Pass, m *pass.Member) pass.Finding {
	h := p.Gate
	cond := records.Condition{State: records.WaitingForPlan, Code: string(h.Code), Cause: h.Message, WaitingFor: "a plan for " + m.Name, NextStep: h.Next}
	if h.Code == catalogue.MissingRoles {
		cond.Cause = fmt.Sprintf("%s has the roles %s, and cluster %s is %s", m.Name, m.Roles, p.Cluster.Name, h.Message)
	}
	if h.Failed {
		cond.State = records.Failed
	}
	return pass.Finding{Condition: cond, Node: m.Status.Node}
}

// MaxOutput is how much of a failing instruction's output is kept for people.
const MaxOutput = 8 << 10

// Run is the stage.
func Run(p *pass.Pass) {
	for _, m := range p.Members {
		machine(p, m)
	}
}

// machine finds how a machine is doing with the plan that it has.
func machine(p *pass.Pass, m *pass.Member) {
	switch {
	case m.Leaving, m.Change == pass.Broken:
		m.Node = p.NodeOf(m)
		return
	case p.Gate.Shut() && (p.Gate.Failed || !m.HasPlan()):
		m.Finding = held(p, m)
		return
	case !m.HasPlan():
		m.Finding = pass.Finding{Condition: records.Condition{State: records.WaitingForPlan}}
		m.Text = pass.NotYet
		return
	}
	m.Finding, m.Text = Found(p, m)
	if node, stale := p.StaleNode(m); stale && m.State != records.Failed {
		m.Code, m.Cause = string(catalogue.StaleNode), StaleCause(p, m, node)+"; "+m.Cause
	}
	m.Next.Member = m.Next.Member || m.Roles.Etcd && p.Voter(m)
}

// Found is the machine's finding and the status text of the cluster's message.
func Found(p *pass.Pass, m *pass.Member) (pass.Finding, string) {
	host := pass.DescribeHost(m.Machine)
	report := m.Report
	if report.Unreadable != nil {
		// What could be read is still shown; what could not is the agent's fault and named.
		return pass.Finding{Node: m.Status.Node, Condition: records.Condition{
			State: records.Failed, Code: string(catalogue.BadReport), Cause: fmt.Sprintf("the agent on %s reported what cannot be read: %v", host, report.Unreadable),
			NextStep: "on the host: journalctl -u rancher-system-agent",
		}}, pass.StatusFailed
	}
	said := Of(m.Data(), p.Unit(m.Machine))
	waiting := pass.Finding{Condition: records.Condition{State: records.ApplyingPlan}, Node: p.NodeOf(m)}
	switch {
	case report.Failed:
		return Failed(p, m), pass.StatusFailed
	case report.State == plans.StatePending && !report.InSync:
		waiting.Code = string(catalogue.AgentNotTaken)
		waiting.Cause = fmt.Sprintf("the agent on %s has not taken plan %s; %s", host, pass.ShortPlan(m.Data()), pass.Presence(m.Agent))
		waiting.WaitingFor = "the agent on " + m.Name + " to take its plan"
		if !m.Agent.Connected {
			waiting.Code = string(catalogue.AgentAbsent)
			waiting.NextStep = "on the host: systemctl status rancher-system-agent; journalctl -u rancher-system-agent"
		}
		return waiting, pass.StatusOf(report)
	case !report.InSync:
		waiting.Code = string(catalogue.Applying)
		waiting.Cause = fmt.Sprintf("the agent on %s is applying plan %s; %s%s%s", host, pass.ShortPlan(m.Data()), pass.Presence(m.Agent), said.Clock(pass.DeliveredAt(m.Machine), p.Now), said.Words(true))
		waiting.WaitingFor = "files and instructions of plan " + pass.ShortPlan(m.Data()) + " to be done"
		waiting.NextStep = said.Next(m.Name)
		return waiting, pass.StatusOf(report)
	}
	if absent, again := p.AgentAbsent(m); steps.Stops(report.Job) && !absent {
		// What the API of the restored cluster says of the node is as old as the snapshot.
		waiting.Code, waiting.WaitingFor, waiting.Again = string(catalogue.WaitOperation), "its turn to start again", again
		waiting.Cause = fmt.Sprintf("%s is stopped on %s by a restore of a snapshot, and starts again when its turn has come; %s", p.Unit(m.Machine), host, pass.Presence(m.Agent))
		waiting.NextStep = "drover operations ls shows how far the restore is"
		return waiting, "waiting for the restore to start it"
	}
	if sick := report.Sick; len(sick) > 0 {
		waiting.State, waiting.Code = records.WaitingForProbes, string(catalogue.Probes)
		waiting.Cause = fmt.Sprintf("not healthy on %s: %s; %s%s", host, strings.Join(sick, ", "), pass.Presence(m.Agent), said.Words(false))
		waiting.WaitingFor = "probes " + strings.Join(sick, ", ")
		waiting.NextStep = cmp.Or(said.NextPod(m.Name), "on the host: journalctl -u "+p.Unit(m.Machine))
		if waiting.Node != nil && pass.WasActive(m.Machine) {
			// Probes flap when a control plane is busy. After the first time the node's state in the cluster decides what is shown.
			return judgeNode(p, m, waiting.Node, sick)
		}
		return waiting, "waiting for probes: " + strings.Join(sick, ", ")
	}
	if p.Fleet != nil {
		return present(p, m), ""
	}
	return judgeNode(p, m, waiting.Node, nil)
}

// Failed is the finding on a plan that could not be applied; the cause is taken from what was reported.
func Failed(p *pass.Pass, m *pass.Member) pass.Finding {
	v := pass.Finding{Condition: records.Condition{State: records.Failed, Code: string(catalogue.PlanFailed)}, Node: m.Status.Node}
	o, err := plans.ReadOutcome(m.Data())
	if err != nil {
		o = plans.Outcome{} // found has said so
	}
	name, output := failingOutput(m.Data(), o)
	reason := o.FailedOutput[plans.FailureOutput]
	v.Failure = &records.PlanFailure{Checksum: plans.Checksum(m.Data()[plans.KeyPlan]), Instruction: name, Output: tail(slices.Concat(output, reason), MaxOutput)}
	host := pass.DescribeHost(m.Machine)
	switch {
	case name != "":
		// How it ended comes first, and then what it said last, which is what a person wants to know.
		how := strings.TrimPrefix(lastLine(reason), ": instruction "+name)
		v.Cause = fmt.Sprintf("instruction %q of plan %s failed on %s%s%s", name, pass.ShortPlan(m.Data()), host, how, lastLine(output))
	case len(reason) > 0:
		v.Cause = fmt.Sprintf("plan %s could not be applied on %s%s", pass.ShortPlan(m.Data()), host, lastLine(reason))
	default:
		v.Cause = fmt.Sprintf("error applying plan -- check rancher-system-agent.service and %s.service logs on node for more information", p.Unit(m.Machine))
	}
	v.WaitingFor = "the next try, or a changed cluster"
	v.NextStep = "drover machines show " + m.Name
	return v
}
