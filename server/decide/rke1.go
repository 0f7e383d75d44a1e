// RKE1 clusters: where each of their hosts stands, by its tunnel, by the operation that the engine runs, and by what the
// cluster's own API shows. What is done on hosts is decided in server/rke/desired, and done in server/rke.

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/explain"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
)

// rke1Pass is a pass over an RKE1 cluster, with what holds for all of its hosts.
type rke1Pass struct {
	*pass.Pass
	// wrong is why its document cannot be carried out.
	wrong error
	needs []desired.Need
	// halted says that what is wanted was stopped, done that it was brought about.
	halted, done bool
}

// warningOf is what a person should look at on a cluster that works, and when that may be something else.
func warningOf(cluster string, r *records.RKEState, now time.Time) (w records.Warning, again time.Duration) {
	if r == nil {
		return w, 0
	}
	first := ""
	for name, end := range r.Ends {
		// Nothing reads the certificate beside the key of service account tokens.
		if name != pki.ServiceAccount && (first == "" || end.Before(r.Ends[first]) || end.Equal(r.Ends[first]) && name < first) {
			first = name
		}
	}
	rotate := "drover clusters rotate certificates " + cluster
	if first == pki.CA || first == pki.RequestHeaderCA {
		rotate += " --ca"
	}
	end := r.Ends[first]
	last := records.RKESnapshot{}
	for _, s := range r.Snapshots {
		if s.Scheduled {
			last = s
		}
	}
	switch {
	case first == "":
	case !now.Before(end.Add(-explain.WarnBefore)):
		return explain.CertificateWarning(cluster, first, end, rotate, now)
	default:
		again = end.Add(-explain.WarnBefore).Sub(now)
	}
	if last.Failure != "" {
		w = records.Warning{Code: string(catalogue.SnapshotFailed), Cause: "the last scheduled snapshot of cluster " + cluster + " failed: " + last.Failure, NextStep: "drover snapshots ls " + cluster}
	}
	return w, again
}

// decideRKE1 decides where the hosts of an RKE1 cluster stand, and the cluster.
func decideRKE1(s pass.Snapshot) Decision {
	r := &rke1Pass{Pass: pass.New(s)}
	r.look()
	for _, m := range r.Members {
		if m.Leaving {
			if m.Remove = r.left(m); !m.Remove {
				m.Condition = r.leaving(m)
			}
			continue
		}
		r.judge(m)
	}
	r.verdict()
	return decision(r.Pass)
}

// look finds what holds for all hosts.
func (r *rke1Pass) look() {
	var machines []records.Machine
	tunnels := map[string]bool{}
	for _, m := range r.Members {
		machines = append(machines, *m.Machine.Machine)
		tunnels[m.Name] = m.Tunnel.Connected
	}
	r.needs = desired.Needs(r.Cluster.Name, machines, func(m records.Machine) bool { return tunnels[m.Name] })
	before, err := rke.State(r.RKE1.Record)
	in := desired.Input{Cluster: r.Cluster, Machines: machines, Before: before, Versions: r.RKE1.Versions}
	var stamp string
	if err == nil {
		stamp, err = desired.Stamp(in)
	}
	if err == nil && len(desired.Missing(machines)) == 0 {
		_, _, err = desired.Config(in)
	}
	r.wrong = err
	warning, again := warningOf(r.Cluster.Name, r.RKE1.Record, r.Now)
	r.Verdict.Warning = warning
	r.LookAgain(again)
	if record := r.RKE1.Record; record != nil {
		r.halted, r.done = record.Halted == stamp, record.Done == stamp
		r.Verdict.Initialized = r.Verdict.Initialized || record.Done != ""
	}
	r.Verdict.Initialized = r.Verdict.Initialized || r.API.Reachable
	r.Verdict.Ready = r.API.Reachable
}

// left says that a host that is removed has gone: the cluster's state does not have it any more.
func (r *rke1Pass) left(m *pass.Member) bool {
	record := r.RKE1.Record
	return record == nil || m.Leave.Force || !slices.Contains(record.Hosts, desired.Address(*m.Machine.Machine))
}

// leaving is where a host stands that is removed.
func (r *rke1Pass) leaving(m *pass.Member) records.Condition {
	c := records.Condition{State: records.Removing, Code: string(catalogue.LeavingNode), Cause: m.NodeName + " is taken out of the cluster and cleaned", WaitingFor: "the operation that does it"}
	if cause, next, failing := r.failing(); failing {
		c.Code, c.Cause, c.NextStep = string(catalogue.UninstallError), cause, next
	}
	return c
}

// failing says why the operation's last try has failed, and what comes next.
func (r *rke1Pass) failing() (cause, next string, failing bool) {
	if r.Operation == nil || r.Operation.Wait == nil {
		return "", "", false
	}
	return r.Operation.Wait.Cause, r.Operation.Wait.NextStep, true
}

// under is what the operation under way is doing; empty when none is.
func (r *rke1Pass) under() string {
	if r.Operation == nil {
		return ""
	}
	for _, t := range r.Operation.Tasks {
		if t.State == operations.TaskRunning {
			return strings.TrimSuffix(t.Title+": "+t.Progress, ": ")
		}
	}
	return "operation " + r.Operation.ID + " begins"
}

// judge says where a host stands that stays.
func (r *rke1Pass) judge(m *pass.Member) {
	m.Condition, m.Again = dockerCondition(m.Machine, r.Now, r.Leading)
	if node, ok := r.API.Nodes[m.UID]; ok {
		m.Node = &node
	}
	if !m.Tunnel.Connected {
		return
	}
	cause, next, failing := r.failing()
	is := func(state records.MachineState, code catalogue.Code, cause, waitingFor, next string) {
		m.Condition = records.Condition{State: state, Code: string(code), Cause: cause, WaitingFor: waitingFor, NextStep: next}
	}
	switch {
	case m.Node != nil && m.Node.Ready:
		is(records.Active, "", "", "", "")
	case r.Cluster.Exported != nil:
		is(records.WaitingForPlan, catalogue.Exported, records.ExportedSince(*r.Cluster.Exported, r.Cluster.Name), "the cluster to be resumed", "drover clusters resume "+r.Cluster.Name)
	case r.wrong != nil:
		is(records.WaitingForPlan, catalogue.BadSpec, r.wrong.Error(), "a document that can be carried out", "")
	case failing:
		is(records.Failed, catalogue.RKE1Failed, cause, "", next)
	case r.Operation != nil:
		is(records.ApplyingPlan, catalogue.RKE1Running, r.under(), "operation "+r.Operation.ID, "")
	case !r.done && len(r.needs) > 0:
		is(records.WaitingForPlan, catalogue.MissingRoles, "cluster "+r.Cluster.Name+" waits: "+desired.Sentence(r.needs), "hosts with the roles that are missing", r.needs[0].NextStep)
	case r.halted:
		is(records.WaitingForPlan, catalogue.Halted, "the operation that was to bring "+m.NodeName+" about was stopped", "a change of the cluster", "apply the cluster as it shall be")
	case r.Cluster.Paused != nil && !r.done:
		is(records.WaitingForPlan, catalogue.Paused, "cluster "+r.Cluster.Name+" is paused", "the end of the pause", "drover clusters resume "+r.Cluster.Name)
	case !r.done:
		is(records.WaitingForPlan, catalogue.Delivering, "the server is about to begin with "+m.NodeName, "an operation", "")
	default:
		r.deployed(m)
	}
}

// deployed says where a host stands that has all that it should have, and whose node is not Ready.
func (r *rke1Pass) deployed(m *pass.Member) {
	was := pass.WasActive(m.Machine)
	m.State = records.WaitingForNode
	if was {
		m.State = records.Unavailable
	}
	switch {
	case !r.API.Reachable && was && m.Status.State == records.Active:
		if m.Unseen = m.Status.Unseen; m.Unseen.IsZero() {
			m.Unseen = r.Now
		}
		m.Node, m.Code, m.Cause = m.Status.Node, string(catalogue.OutOfSight), "the Kubernetes API of cluster "+r.Cluster.Name+" cannot be asked: "+r.API.Cause
		if left := m.Unseen.Add(pass.UnseenLimit).Sub(r.Now); left > 0 {
			m.State, m.Again = records.Active, left
		}
	case !r.API.Reachable:
		m.Node, m.Code = m.Status.Node, string(catalogue.NoAPI)
		m.Cause, m.WaitingFor = "the Kubernetes API of cluster "+r.Cluster.Name+" cannot be asked: "+r.API.Cause, "a connection to the Kubernetes API"
	case m.Node == nil:
		m.Code, m.WaitingFor = string(catalogue.NoNode), "the node of "+m.NodeName+" to register"
		m.Cause, m.NextStep = "the cluster has no node "+strings.ToLower(m.NodeName), "drover machines logs "+m.Name+" --container kubelet"
	default:
		m.Code, m.WaitingFor = string(catalogue.NodeNotReady), "condition Ready of node "+m.Node.Name
		m.Cause, m.NextStep = fmt.Sprintf("node %s is not Ready: %s", m.Node.Name, m.Node.NotReady), "drover machines logs "+m.Name+" --container kubelet"
	}
}

// verdict is the state and the message of the cluster.
func (r *rke1Pass) verdict() {
	c := &r.Verdict
	var joining, lost []string
	for _, m := range r.Staying {
		switch m.State {
		case records.Active:
		case records.Disconnected, records.Unavailable:
			lost = append(lost, m.NodeName)
		default:
			joining = append(joining, m.NodeName)
		}
	}
	cause, _, failing := r.failing()
	c.State = records.ClusterProvisioning
	if c.Initialized {
		c.State = records.ClusterUpdating
	}
	switch {
	case !r.Cluster.Deleting.IsZero():
		c.State, c.Message, c.Failed = records.ClusterRemoving, r.under(), failing
		if failing {
			c.Message = cause
		}
	case r.Cluster.Exported != nil:
		c.State, c.Message = r.exported()
	case r.wrong != nil:
		c.Message, c.Failed = r.wrong.Error(), true
	case c.Warning.Code == string(catalogue.CertificatesEnded) && (r.Operation == nil || failing):
		c.Message, c.Failed = c.Warning.Cause+": "+c.Warning.NextStep, true
	case failing:
		c.Message, c.Failed = cause, true
	case !r.done && len(r.needs) > 0:
		if !c.Initialized {
			c.State = records.ClusterPending
		}
		c.Message = "waiting: " + desired.Sentence(r.needs)
	case r.Operation != nil && r.Operation.Kind != operations.KindSnapshot: // for which nothing restarts
		c.Message = r.under()
	case !r.done:
		c.Message = "an operation is about to begin"
		if r.halted {
			c.Message = "the operation was stopped; apply the cluster as it shall be"
		}
		if r.Cluster.Paused != nil {
			c.State, c.Message = records.ClusterPaused, "the cluster is paused"
		}
	case explain.Gathers(r.Pass) && len(joining) == 0 && len(lost) == 0:
		c.State, c.Ready, c.Connected = records.ClusterActive, r.Cluster.Status.Ready, r.Cluster.Status.Connected
	case !r.API.Reachable && len(joining) == 0:
		c.State, c.Message = records.ClusterUnavailable, "the server has no connection to the cluster: "+r.API.Cause
	case len(joining) > 0:
		c.Message = "waiting for the nodes of " + some(joining)
	default:
		c.State, c.Message = records.ClusterActive, ""
		if len(lost) > 0 {
			c.Message = "not well: " + some(lost)
		}
	}
}

// exported is the state of a cluster that the server does not touch.
func (r *rke1Pass) exported() (state records.ClusterState, message string) {
	state = records.ClusterExported
	message = records.ExportedSince(*r.Cluster.Exported, r.Cluster.Name) + ", and the server does not touch it; `drover clusters resume " + r.Cluster.Name + "` takes it up"
	if !r.Cluster.Exported.Imported {
		return state, message
	}
	var absent []string
	if record := r.RKE1.Record; record != nil {
		for _, address := range record.Hosts {
			if !slices.ContainsFunc(r.Members, func(m *pass.Member) bool { return desired.Address(*m.Machine.Machine) == address }) {
				absent = append(absent, address)
			}
		}
	}
	if len(absent) > 0 {
		message += "; no node agent has registered on " + some(absent)
	}
	return records.ClusterImported, message
}
