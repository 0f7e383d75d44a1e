// Machines that leave: etcd lets them go, the cluster forgets their nodes, their hosts are left clean,
// and only then does the store forget them.

package planner

import (
	"fmt"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/causes"
	"github.com/drover-project/drover/server/planner/render"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// leave decides on the machines that leave. A whole cluster goes with its workers first.
func (r *round) leave() {
	whole := !r.Cluster.Deleting.IsZero()
	workers := false
	for _, m := range r.members {
		workers = workers || m.leaving && !m.isServer()
	}
	for _, m := range r.members {
		switch {
		case !m.leaving:
		case m.Leave.Force && !whole && !r.alone(m) && !r.forgotten(m):
			// A member that nobody counts would end the quorum of the others one day.
		case m.Leave.Force, !m.hasPlan():
			m.remove = true
		case whole && workers && m.isServer():
			m.Condition = leaving(verdict.LeavingOrder, "the workers of cluster "+r.Cluster.Name+" to be removed", "", "%s is uninstalled when the workers of cluster %s have gone", describeHost(m.Machine), r.Cluster.Name)
		case whole, m.next.cleared, r.cleared(m):
			m.next.leaves, m.next.cleared = true, true
			r.uninstall(m)
		}
	}
}

// takesBack says that the removal of a machine is aborted before anything has begun for it: the machine stays as it is.
func (s Snapshot) takesBack(m Machine) bool {
	o := s.Operation
	return o != nil && o.Kind == operations.KindRemoval && o.State == operations.Stopping &&
		s.Cluster.Deleting.IsZero() && !m.Leave.Force && !m.Status.Leaves && !m.Status.Cleared
}

func leaving(code verdict.Code, waitingFor, next, format string, args ...any) records.Condition {
	return records.Condition{State: records.Removing, Code: string(code), Cause: fmt.Sprintf(format, args...), WaitingFor: waitingFor, NextStep: next}
}

// cleared says that the cluster has no node and no etcd member of the machine any more; until then it orders that,
// when etcd bears it.
func (r *round) cleared(m *member) bool {
	host, force := describeHost(m.Machine), "if that is not to be waited for: drover machines rm "+m.Name+" --force"
	if o := r.Operation; o != nil && o.Kind == operations.KindRemoval && o.State == operations.Running && !m.next.leaves {
		force += "; if it is to stay: drover operations abort " + o.ID
	}
	if m.Roles.Etcd && m.next.member {
		if reason := r.etcdKeeps(m, host, force); reason != nil {
			m.Condition = *reason
			return false
		}
	}
	switch {
	case !r.API.Reachable && r.alone(m):
		return true // there is nobody to ask
	case !r.API.Reachable:
		m.Condition = leaving(verdict.LeavingNode, "a connection to the Kubernetes API of cluster "+r.Cluster.Name, force, "node and etcd member of %s cannot be removed: %s", host, r.API.Cause)
		return false
	case m.node == nil:
		return true
	}
	id := "leave-" + m.UID
	if m.Work.Order == id && m.Work.Done {
		return true
	}
	m.order, m.next.leaves = r.removalOrder(m, id), true
	m.Condition = r.working(m, records.Removing, id, verdict.LeavingNode, verdict.DrainHook, "to be removed from the cluster")
	if m.NextStep == "" {
		m.NextStep = force
	}
	return false
}

// alone says that the cluster has no API without the machine.
func (r *round) alone(m *member) bool {
	if !m.Roles.ControlPlane {
		return false
	}
	for _, other := range r.servers {
		if other.Roles.ControlPlane && other.hasPlan() {
			return false
		}
	}
	return true
}

// etcdKeeps is why a member cannot leave etcd now; nil when it can.
func (r *round) etcdKeeps(m *member, host, force string) *records.Condition {
	var held records.Condition
	members, healthy := 0, 0
	for _, other := range r.etcdMembers() {
		if other == m {
			continue
		}
		members++
		if r.healthyEtcd(other) {
			healthy++
		}
		if other.leaving && other.order != nil && other.order.RemoveMember {
			held = leaving(verdict.LeavingQuorum, "etcd member "+withNode(other.Machine)+" to leave", force, "%s leaves etcd after %s: members leave one at a time", host, withNode(other.Machine))
			return &held
		}
	}
	switch {
	case members == 0:
		held = leaving(verdict.LeavingLast, "another etcd machine to join", force, "%s has the last member of the cluster's etcd, and with it all that the cluster knows", host)
		return &held
	case healthy < members/2+1:
		missing := r.missingMembers(m)
		held = leaving(verdict.LeavingQuorum, "etcd on "+named(missing)+" to be healthy", force, "etcd would have no quorum without %s: %s %s not healthy", host, named(missing), areOrIs(missing))
		return &held
	}
	for _, other := range r.staying {
		if m.next.joinURL != "" && other.hasPlan() && other.next.joinedTo == m.next.joinURL {
			next, why := force, ""
			switch h := r.Cluster.Status.Halted; {
			case r.Cluster.Paused != nil:
				next, why = "drover clusters resume "+r.Cluster.Name, ", and cluster "+r.Cluster.Name+" is paused"
			case h != 0 && h == r.Cluster.Generation:
				next, why = "apply the cluster again, which goes on with what was aborted, or as it was before", ", and the roll-out was aborted"
			}
			held = leaving(verdict.LeavingJoined, "the plan of "+withNode(other.Machine)+" to name another server", next, "%s was still joined to deleting etcd machine %s%s", other.Name, host, why)
			return &held
		}
	}
	return nil
}

// removalOrder takes pods, member and node of a machine out of its cluster.
func (r *round) removalOrder(m *member, id string) *NodeOrder {
	order := &NodeOrder{ID: id, Machine: m.key(), UID: m.UID, Node: m.node.Name, Cordon: true, RemoveMember: m.Roles.Etcd && m.next.member, Delete: true}
	var u clusterspec.UpgradeStrategy
	if given := r.Cluster.Spec.RKEConfig; given != nil && given.UpgradeStrategy != nil {
		u = *given.UpgradeStrategy
	}
	options := u.WorkerDrainOptions
	if m.isServer() {
		options = u.ControlPlaneDrainOptions
	}
	if options != nil && options.Enabled && m.node.Ready && len(r.staying) > 0 {
		order.Drain, order.Value = options, canonical(*options)
	}
	return order
}

// uninstall gives the machine the plan that leaves its host clean, and lets it go when that is done.
func (r *round) uninstall(m *member) {
	host := describeHost(m.Machine)
	wanted := render.Uninstall(r.input(m.Machine), m.Leave.Agent || r.Cluster.Leave.Agent)
	bytes, err := wanted.Marshal()
	switch {
	case err != nil:
		m.Condition = leaving(verdict.UninstallError, "", "", "the plan that cleans %s cannot be made: %v", host, err)
	case m.report.checksum != plans.Checksum(bytes):
		m.deliver = bytes
		m.Condition = leaving(verdict.Uninstalling, "the agent on "+m.Name+" to take its plan", "", "the plan that leaves %s clean is being delivered", host)
	case m.report.failed:
		m.finding = r.failed(m)
		m.State, m.Code, m.retry = records.Removing, string(verdict.UninstallError), nextRetry(m.Machine)
		m.NextStep += "; or forget the machine, with what is left on its host: drover machines rm " + m.Name + " --force"
	case m.report.inSync && r.Cluster.Deleting.IsZero() && !r.forgotten(m): // it had come back before it was stopped
	case m.report.inSync:
		m.remove = true
	case !m.Agent.Connected:
		m.Condition = leaving(verdict.UninstallAway, "the agent on "+m.Name+" to connect", "switch the host on, or forget the machine, with what is left on its host: drover machines rm "+m.Name+" --force",
			"%s is not cleaned yet; %s", host, presence(m.Agent))
	default:
		m.Condition = leaving(verdict.Uninstalling, "the host of "+m.Name+" to be clean", "", "the agent on %s removes %s%s", host, r.distribution.Name, causes.Of(m.data(), r.unit(m.Machine)).Words(true))
	}
}

// forgotten says that the cluster's API, where it can be asked, has no node of the machine any more; until then it
// orders that. k3s and RKE2 take the member of a deleted node out of etcd, for which its host is not needed.
func (r *round) forgotten(m *member) bool {
	id := "forget-" + m.UID
	if !m.hasPlan() || !r.API.Reachable || m.node == nil || m.Work.Order == id && m.Work.Done {
		return true
	}
	m.order = &NodeOrder{ID: id, Machine: m.key(), UID: m.UID, Node: m.node.Name, Delete: true}
	m.Condition = r.working(m, records.Removing, id, verdict.LeavingNode, verdict.DrainHook, "to be deleted")
	return false
}
