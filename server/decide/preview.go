// The preview of a decision: what people want to know before it is performed. It shows the steps of the very
// decision, in the order in which they will be taken, and what changes in files, without secrets.

package decide

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/decide/rollout"
	"github.com/drover-project/drover/server/records"
)

// Step is what is still to be done on one machine: now, when its plan is among what the decision
// writes, or when its turn comes.
type Step struct {
	Machine  records.MachineKey
	NodeName string
	// Tier is bootstrap, etcd, control plane or worker.
	Tier string
	// Leave says that the machine is removed.
	Leave bool
	// From and To are the plans before and after, in their wire form, which the Secret and the decision have anyway; To
	// is empty for a machine that leaves, and for one whose plan cannot be made before others have done theirs.
	From, To []byte
	// Drain says that pods leave the machine first.
	Drain bool
	// Now says that the step is taken by this decision.
	Now bool
	// Given says that a person wrote the plan, and Again that the machine has it, and failed with it.
	Given, Again bool
}

// stepsLeft are what is left to do on a cluster, in order.
func stepsLeft(p *pass.Pass) []Step {
	var all []Step
	if p.Fleet != nil {
		return fleetSteps(p.Fleet)
	}
	if p.Gate.Shut() {
		return nil
	}
	for _, t := range p.Tiers() {
		for _, m := range rollout.InTurn(p, t) {
			if m.Change == pass.Unchanged || m.Change == pass.Broken {
				continue
			}
			_, drain := rollout.Drains(p, m, t)
			all = append(all, Step{Machine: m.MachineKey(), NodeName: m.NodeName, Tier: t.Name, From: m.Plan(), To: m.Wanted, Drain: drain && m.Change == pass.Restart, Now: m.Deliver != nil || m.Order != nil})
		}
	}
	for _, m := range p.Members {
		if m.Leaving {
			all = append(all, Step{Machine: m.MachineKey(), NodeName: m.NodeName, Leave: true, Now: true})
		}
	}
	return all
}

// Preview is what a decision changes of a cluster.
type Preview = apitypes.Preview

// MachinePreview is what a decision changes on one host.
type MachinePreview = apitypes.MachinePreview

// Preview shows a decision that was made on a snapshot.
func (d Decision) Preview(s pass.Snapshot) Preview {
	status := s.Cluster.Status
	if d.Cluster.Status != nil {
		status = *d.Cluster.Status
	}
	p := Preview{State: string(status.State), Message: status.Message, Machines: []MachinePreview{}, Alone: len(s.Machines) - len(d.Steps)}
	for _, step := range d.Steps {
		one := MachinePreview{ID: string(step.Machine), NodeName: step.NodeName, Tier: step.Tier, Remove: step.Leave, Changes: []string{}, Drain: step.Drain, Again: step.Again, Now: step.Now}
		if len(step.To) > 0 {
			from, to := pass.Parsed(step.From), pass.Parsed(step.To)
			one.Plan = plans.Short(plans.Checksum(step.To))
			one.Changes = append(one.Changes, render.Changes(from, to)...)
			shown := render.Rendered
			if step.Given {
				shown = render.Public
				one.Changes = append(one.Changes, render.Repeated(from, to)...)
			}
			one.Files = render.Files(from, to, shown)
			one.Restart, _ = runtimes.Restarted(from.Instructions, to.Instructions)
		}
		if one.Restart != "" {
			p.Restarts++
		}
		if one.Drain {
			p.Drains++
		}
		p.Machines = append(p.Machines, one)
	}
	return p
}
