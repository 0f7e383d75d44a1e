// Package leave decides on machines that leave: etcd lets them go, the cluster forgets their nodes, their hosts are left clean,
// and only then does the store forget them.
package leave

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/desired"
	"github.com/drover-project/drover/server/decide/judge"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// Run is the stage: it decides on the machines that leave. A whole cluster goes with its workers first.
func Run(p *pass.Pass) {
	whole := !p.Cluster.Deleting.IsZero()
	workers := false
	for _, m := range p.Members {
		workers = workers || m.Leaving && !m.IsServer()
	}
	for _, m := range p.Members {
		switch {
		case !m.Leaving:
		case m.Leave.Force && !whole && !alone(p, m) && !forgotten(p, m):
			// A member that is not counted would end the quorum of the others one day.
		case m.Leave.Force, !m.HasPlan():
			m.Remove = true
		case whole && workers && m.IsServer():
			m.Condition = leaving(catalogue.LeavingOrder, "the workers of cluster "+p.Cluster.Name+" to be removed", "", "%s is uninstalled when the workers of cluster %s have gone", pass.DescribeHost(m.Machine), p.Cluster.Name)
		case whole, m.Next.Cleared, cleared(p, m):
			m.Next.Leaves, m.Next.Cleared = true, true
			uninstall(p, m)
		}
	}
}

func leaving(code catalogue.Code, waitingFor, next, format string, args ...any) records.Condition {
	return records.Condition{State: records.Removing, Code: string(code), Cause: fmt.Sprintf(format, args...), WaitingFor: waitingFor, NextStep: next}
}

// cleared says that the cluster has no node and no etcd member of the machine any more; until then it orders that,
// when etcd bears it.
func cleared(p *pass.Pass, m *pass.Member) bool {
	host, force := pass.DescribeHost(m.Machine), "if that is not to be waited for: drover machines rm "+m.Name+" --force"
	if o := p.Operation; o != nil && o.Kind == operations.KindRemoval && o.State == operations.Running && !m.Next.Leaves {
		force += "; if it is to stay: drover operations abort " + o.ID
	}
	if m.Roles.Etcd && m.Next.Member {
		if reason := etcdKeeps(p, m, host, force); reason != nil {
			m.Condition = *reason
			return false
		}
	}
	switch {
	case !p.API.Reachable && alone(p, m):
		return true // there is no server to ask
	case !p.API.Reachable:
		m.Condition = leaving(catalogue.LeavingNode, "a connection to the Kubernetes API of cluster "+p.Cluster.Name, force, "node and etcd member of %s cannot be removed: %s", host, p.API.Cause)
		return false
	case m.Node == nil:
		return true
	}
	id := "leave-" + m.UID
	if m.Work.Order == id && m.Work.Done {
		return true
	}
	m.Order, m.Next.Leaves = removalOrder(p, m, id), true
	m.Condition = judge.Working(p, m, records.Removing, id, catalogue.LeavingNode, catalogue.DrainHook, "to be removed from the cluster")
	m.NextStep = cmp.Or(m.NextStep, force)
	return false
}

// alone says that the cluster has no API without the machine.
func alone(p *pass.Pass, m *pass.Member) bool {
	if !m.Roles.ControlPlane {
		return false
	}
	for _, other := range p.Servers {
		if other.Roles.ControlPlane && other.HasPlan() {
			return false
		}
	}
	return true
}

// etcdKeeps is why a member cannot leave etcd now; nil when it can.
func etcdKeeps(p *pass.Pass, m *pass.Member, host, force string) *records.Condition {
	var held records.Condition
	members, healthy := 0, 0
	for _, other := range p.EtcdMembers() {
		if other == m {
			continue
		}
		members++
		if p.HealthyEtcd(other) {
			healthy++
		}
		if other.Leaving && other.Order != nil && other.Order.RemoveMember {
			held = leaving(catalogue.LeavingQuorum, "etcd member "+pass.WithNode(other.Machine)+" to leave", force, "%s leaves etcd after %s: members leave one at a time", host, pass.WithNode(other.Machine))
			return &held
		}
	}
	switch {
	case members == 0:
		held = leaving(catalogue.LeavingLast, "another etcd machine to join", force, "%s has the last member of the cluster's etcd, and with it all that the cluster knows", host)
		return &held
	case healthy < members/2+1:
		missing := p.MissingMembers(m)
		held = leaving(catalogue.LeavingQuorum, "etcd on "+pass.NamesOf(missing)+" to be healthy", force, "etcd would have no quorum without %s: %s %s not healthy", host, pass.NamesOf(missing), pass.AreOrIs(missing))
		return &held
	}
	for _, other := range p.Staying {
		if m.Next.JoinURL != "" && other.HasPlan() && other.Next.JoinedTo == m.Next.JoinURL {
			next, why := force, ""
			switch h := p.Cluster.Status.Halted; {
			case p.Cluster.Paused != nil:
				next, why = "drover clusters resume "+p.Cluster.Name, ", and cluster "+p.Cluster.Name+" is paused"
			case h != 0 && h == p.Cluster.Generation:
				next, why = "apply the cluster again, which goes on with what was aborted, or as it was before", ", and the roll-out was aborted"
			}
			held = leaving(catalogue.LeavingJoined, "the plan of "+pass.WithNode(other.Machine)+" to name another server", next, "%s was still joined to deleting etcd machine %s%s", other.Name, host, why)
			return &held
		}
	}
	return nil
}

// removalOrder takes pods, member and node of a machine out of its cluster.
func removalOrder(p *pass.Pass, m *pass.Member, id string) *pass.NodeOrder {
	order := &pass.NodeOrder{ID: id, Machine: m.MachineKey(), UID: m.UID, Node: m.Node.Name, Cordon: true, RemoveMember: m.Roles.Etcd && m.Next.Member, Delete: true}
	var u clusterspec.UpgradeStrategy
	if given := p.Cluster.Spec.RKEConfig; given != nil && given.UpgradeStrategy != nil {
		u = *given.UpgradeStrategy
	}
	options := u.WorkerDrainOptions
	if m.IsServer() {
		options = u.ControlPlaneDrainOptions
	}
	if options != nil && options.Enabled && m.Node.Ready && len(p.Staying) > 0 {
		order.Drain, order.Value = options, pass.Canonical(*options)
	}
	return order
}

// uninstall gives the machine the plan that leaves its host clean, and lets it go when that is done.
func uninstall(p *pass.Pass, m *pass.Member) {
	host := pass.DescribeHost(m.Machine)
	wanted := render.Uninstall(desired.Input(p.Snapshot, m.Machine), m.Leave.Agent || p.Cluster.Leave.Agent)
	bytes, err := wanted.Marshal()
	switch {
	case err != nil:
		m.Condition = leaving(catalogue.UninstallError, "", "", "the plan that cleans %s cannot be made: %v", host, err)
	case m.Report.Checksum != plans.Checksum(bytes):
		m.Deliver = bytes
		m.Condition = leaving(catalogue.Uninstalling, "the agent on "+m.Name+" to take its plan", "", "the plan that leaves %s clean is being delivered", host)
	case m.Report.Failed:
		m.Finding = judge.Failed(p, m)
		m.State, m.Code, m.Retry = records.Removing, string(catalogue.UninstallError), pass.NextRetry(m.Machine)
		m.NextStep += "; or forget the machine, with what is left on its host: drover machines rm " + m.Name + " --force"
	case m.Report.InSync && p.Cluster.Deleting.IsZero() && !forgotten(p, m): // it had come back before it was stopped
	case m.Report.InSync:
		m.Remove = true
	case !m.Agent.Connected:
		m.Condition = leaving(catalogue.UninstallAway, "the agent on "+m.Name+" to connect", "switch the host on, or forget the machine, with what is left on its host: drover machines rm "+m.Name+" --force",
			"%s is not cleaned yet; %s", host, pass.Presence(m.Agent))
	default:
		m.Condition = leaving(catalogue.Uninstalling, "the host of "+m.Name+" to be clean", "", "the agent on %s removes %s%s", host, p.Distribution.Name, judge.Of(m.Data(), p.Unit(m.Machine)).Words(true))
	}
}

// forgotten says that the cluster's API, where it can be asked, has no node of the machine any more; until then it
// orders that. k3s and RKE2 take the member of a deleted node out of etcd, for which its host is not needed.
func forgotten(p *pass.Pass, m *pass.Member) bool {
	id := "forget-" + m.UID
	if !m.HasPlan() || !p.API.Reachable || m.Node == nil || m.Work.Order == id && m.Work.Done {
		return true
	}
	m.Order = &pass.NodeOrder{ID: id, Machine: m.MachineKey(), UID: m.UID, Node: m.Node.Name, Delete: true}
	m.Condition = judge.Working(p, m, records.Removing, id, catalogue.LeavingNode, catalogue.DrainHook, "to be deleted")
	return false
}
