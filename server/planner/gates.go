// The conditions under which a cluster's machines get plans at all.

package planner

import (
	"fmt"

	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// hold is a reason why no machine may get a plan.
type hold struct {
	code    verdict.Code
	message string
	failed  bool
	state   records.ClusterState
	next    string
}

func (h hold) holds() bool { return h.message != "" }

// notYet is the plan text of a machine whose turn has not come.
const notYet = "waiting for at least one control plane, etcd, and worker node to be registered"

// gates are those conditions in their order; the first that does not hold is shown.
func (r *round) gates() hold {
	c := r.Cluster
	broken := func(code verdict.Code, next, format string, args ...any) hold {
		return hold{code: code, message: fmt.Sprintf(format, args...), failed: true, state: records.ClusterError, next: next}
	}
	switch {
	case !c.Deleting.IsZero():
		return hold{}
	case c.Spec.KubernetesVersion == "":
		return broken(verdict.NoVersion, "apply the cluster with spec.kubernetesVersion", "kubernetesVersion not set on %s", r.key())
	case r.Release == nil:
		return broken(verdict.UnknownVersion, "give the server data of this version with --version-data, or set a version that it knows",
			"%s: KDM release data is empty for %s", r.key(), c.Spec.KubernetesVersion)
	}
	restoring := r.target() != nil
	switch {
	case r.Secrets != nil && restoring:
		return hold{}
	case c.Status.Restoring != "":
		return r.halfRestored()
	}
	if h := r.roles(); h.holds() {
		return h
	}
	switch pin := c.Labels[labelInitPin]; {
	case r.Secrets == nil:
		return broken(verdict.TokensLost, "restore the server's store from a backup",
			"the join tokens of cluster %s are missing from the store; they are never made anew, as they encrypt the cluster's data", r.key())
	case r.init == nil && r.began:
		return r.noMember()
	case r.init == nil && pin != "":
		return broken(verdict.PinnedMissing, "register that host with the etcd role, or take the label "+labelInitPin+" off the cluster",
			"unable to find designated init node matching machine ID %s", pin)
	}
	return hold{}
}

// roles are the gates of who has registered. A cluster that has been up needs its etcd and a
// control plane; that its last worker has gone is no reason to stop.
func (r *round) roles() hold {
	var etcd, known, controlPlane, worker bool
	for _, m := range r.staying {
		etcd = etcd || m.Roles.Etcd
		controlPlane = controlPlane || m.Roles.ControlPlane
		worker = worker || m.Roles.Worker
	}
	for _, m := range r.members {
		known = known || m.Roles.Etcd && m.hasPlan()
	}
	switch {
	case r.cluster.initialized && !known:
		return hold{
			code: verdict.EtcdReplaced, failed: true, state: records.ClusterError, next: "restore a snapshot, or remove the cluster and create it anew",
			message: "rkecontrolplane was already initialized but no etcd machines exist that have plans, indicating the etcd plane has been entirely replaced. Restoration from etcd snapshot is required.",
		}
	case r.cluster.initialized && controlPlane:
		return hold{}
	case r.cluster.initialized:
		return hold{
			code: verdict.NoControlPlane, state: records.ClusterUnavailable, message: "waiting for control plane to be available",
			next: "run the command that `drover clusters join-command " + r.Cluster.Name + " --controlplane` prints on a host",
		}
	case etcd && controlPlane && worker:
		return hold{}
	}
	return hold{code: verdict.MissingRoles, message: notYet, state: records.ClusterPending, next: "run the command that `drover clusters join-command " + r.Cluster.Name + missing(etcd, controlPlane, worker) + "` prints on a host"}
}

// noMember is the gate of a cluster whose etcd has no member among the machines that stay: who has never joined it would
// begin another one.
func (r *round) noMember() hold {
	h := hold{code: verdict.EtcdReplaced, failed: true, state: records.ClusterError, next: "restore a snapshot, or remove the cluster and create it anew"}
	var leaving, others []*member
	for _, m := range r.members {
		switch {
		case m.Roles.Etcd && m.leaving && m.next.member:
			leaving = append(leaving, m)
		case m.Roles.Etcd && !m.leaving:
			others = append(others, m)
		}
	}
	h.message = fmt.Sprintf("no machine of cluster %s is known to have a member of its etcd", r.Cluster.Name)
	if len(leaving) > 0 {
		h.message = fmt.Sprintf("the members of the etcd of cluster %s leave with %s", r.Cluster.Name, named(leaving))
		h.next = "keep one of them: drover operations ls shows its removal, and drover operations abort takes it back; or " + h.next
	}
	if len(others) > 0 {
		h.message += fmt.Sprintf("; %s %s never joined it, and would begin another one", named(others), haveOrHas(others))
	}
	return h
}

func haveOrHas(all []*member) string {
	if len(all) == 1 {
		return "has"
	}
	return "have"
}

// missing are the options of join-command for the roles that nobody has.
func missing(etcd, controlPlane, worker bool) string {
	if !etcd && !controlPlane && !worker {
		return " --all-roles"
	}
	text := ""
	for _, role := range []struct {
		has  bool
		flag string
	}{{etcd, " --etcd"}, {controlPlane, " --controlplane"}, {worker, " --worker"}} {
		if !role.has {
			text += role.flag
		}
	}
	return text
}

// held is what is found of a machine while a gate of its cluster is shut.
func (r *round) held(m *member) finding {
	h := r.shut
	cond := records.Condition{State: records.WaitingForPlan, Code: string(h.code), Cause: h.message, WaitingFor: "a plan for " + m.Name, NextStep: h.next}
	if h.code == verdict.MissingRoles {
		cond.Cause = fmt.Sprintf("%s has the roles %s, and cluster %s is %s", m.Name, m.Roles, r.Cluster.Name, h.message)
	}
	if h.failed {
		cond.State = records.Failed
	}
	return finding{Condition: cond, node: m.Status.Node}
}
