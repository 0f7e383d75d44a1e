// The conditions under which a cluster's machines get plans at all.

package elect

import (
	"fmt"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// halfRestored is the gate of a cluster whose restore did not come to its end: its servers may have no etcd, and would
// begin an empty one.
func halfRestored(p *pass.Pass) pass.Gate {
	c := p.Cluster
	return pass.Gate{
		Code: catalogue.RestoreFailed, Failed: true, State: records.ClusterError, Next: "drover operations show " + c.Status.Restoring + " has the reason; drover operations retry " + c.Status.Restoring + " goes on, and drover snapshots restore begins anew",
		Message: fmt.Sprintf("the restore of cluster %s by operation %s has not come to its end, and its servers do not start before one has", c.Name, c.Status.Restoring),
	}
}

// gates are those conditions in their order; the first that does not hold is shown.
func gates(p *pass.Pass) pass.Gate {
	c := p.Cluster
	broken := func(code catalogue.Code, next, format string, args ...any) pass.Gate {
		return pass.Gate{Code: code, Message: fmt.Sprintf(format, args...), Failed: true, State: records.ClusterError, Next: next}
	}
	switch {
	case !c.Deleting.IsZero():
		return pass.Gate{}
	case c.Spec.KubernetesVersion == "":
		return broken(catalogue.NoVersion, "apply the cluster with spec.kubernetesVersion", "kubernetesVersion not set on %s", p.ClusterKey())
	case p.Release == nil:
		return broken(catalogue.UnknownVersion, "give the server data of this version with --version-data, or set a version that it knows",
			"%s: KDM release data is empty for %s", p.ClusterKey(), c.Spec.KubernetesVersion)
	}
	restoring := p.Target() != nil
	switch {
	case p.Secrets != nil && restoring:
		return pass.Gate{}
	case c.Status.Restoring != "":
		return halfRestored(p)
	}
	if h := roles(p); h.Shut() {
		return h
	}
	switch pin := c.Labels[LabelInitPin]; {
	case p.Secrets == nil:
		return broken(catalogue.TokensLost, "restore the server's store from a backup",
			"the join tokens of cluster %s are missing from the store; they are never made anew, as they encrypt the cluster's data", p.ClusterKey())
	case p.Init == nil && p.Began:
		return noMember(p)
	case p.Init == nil && pin != "":
		return broken(catalogue.PinnedMissing, "register that host with the etcd role, or take the label "+LabelInitPin+" off the cluster",
			"unable to find designated init node matching machine ID %s", pin)
	}
	return pass.Gate{}
}

// roles are the gates of who has registered. A cluster that has been up needs its etcd and a
// control plane; that its last worker has gone is no reason to stop.
func roles(p *pass.Pass) pass.Gate {
	var etcd, known, controlPlane, worker bool
	for _, m := range p.Staying {
		etcd = etcd || m.Roles.Etcd
		controlPlane = controlPlane || m.Roles.ControlPlane
		worker = worker || m.Roles.Worker
	}
	for _, m := range p.Members {
		known = known || m.Roles.Etcd && m.HasPlan()
	}
	switch {
	case p.Verdict.Initialized && !known:
		return pass.Gate{
			Code: catalogue.EtcdReplaced, Failed: true, State: records.ClusterError, Next: "restore a snapshot, or remove the cluster and create it anew",
			Message: "rkecontrolplane was already initialized but no etcd machines exist that have plans, indicating the etcd plane has been entirely replaced. Restoration from etcd snapshot is required.",
		}
	case p.Verdict.Initialized && controlPlane:
		return pass.Gate{}
	case p.Verdict.Initialized:
		return pass.Gate{
			Code: catalogue.NoControlPlane, State: records.ClusterUnavailable, Message: "waiting for control plane to be available",
			Next: "run the command that `drover clusters join-command " + p.Cluster.Name + " --controlplane` prints on a host",
		}
	case etcd && controlPlane && worker:
		return pass.Gate{}
	}
	return pass.Gate{Code: catalogue.MissingRoles, Message: pass.NotYet, State: records.ClusterPending, Next: "run the command that `drover clusters join-command " + p.Cluster.Name + missing(etcd, controlPlane, worker) + "` prints on a host"}
}

// noMember is the gate of a cluster whose etcd has no member among the machines that stay: a machine that has never joined it would
// begin another one.
func noMember(p *pass.Pass) pass.Gate {
	h := pass.Gate{Code: catalogue.EtcdReplaced, Failed: true, State: records.ClusterError, Next: "restore a snapshot, or remove the cluster and create it anew"}
	var leaving, others []*pass.Member
	for _, m := range p.Members {
		switch {
		case m.Roles.Etcd && m.Leaving && m.Next.Member:
			leaving = append(leaving, m)
		case m.Roles.Etcd && !m.Leaving:
			others = append(others, m)
		}
	}
	h.Message = fmt.Sprintf("no machine of cluster %s is known to have a member of its etcd", p.Cluster.Name)
	if len(leaving) > 0 {
		h.Message = fmt.Sprintf("the members of the etcd of cluster %s leave with %s", p.Cluster.Name, pass.NamesOf(leaving))
		h.Next = "keep one of them: drover operations ls shows its removal, and drover operations abort takes it back; or " + h.Next
	}
	if len(others) > 0 {
		h.Message += fmt.Sprintf("; %s %s never joined it, and would begin another one", pass.NamesOf(others), haveOrHas(others))
	}
	return h
}

func haveOrHas(all []*pass.Member) string {
	if len(all) == 1 {
		return "has"
	}
	return "have"
}

// missing are the options of join-command for the roles that no machine has.
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
