// Package planner decides. From one snapshot of a cluster (what is wanted, which
// machines registered, what their agents report, what the cluster's own API shows)
// it computes the plan of each machine, the state each machine is in and what holds
// it there. It is a function: no clock, no store, no network; equal snapshots give
// equal decisions, and what a preview prints is what is then performed.
//
// Rules and messages follow Rancher's planner (rancher/rancher pkg/capr/planner).
package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/versions"
)

// Renderer is the newest version of the rendering. A cluster keeps the one it was
// made with until its owner changes its spec, so that a newer server restarts nothing.
const Renderer = 1

// Snapshot is everything a decision depends on.
type Snapshot struct {
	Cluster records.Cluster
	// Secrets are the join tokens; nil when the store has none.
	Secrets *records.ClusterSecrets
	// Release is what is known of the wanted version; nil when nothing is.
	Release *versions.Release
	// InstallerImage is the prefix of installer images; empty means the default.
	InstallerImage string
	Machines       []Machine
	API            API
}

// Machine is one registered host with all that is known of it.
type Machine struct {
	records.Machine
	// Data are the data of the plan Secret.
	Data map[string][]byte
	// Agent is whether the agent holds its watch open.
	Agent Presence
}

// Presence is whether somebody is there, and since when; Since is text because a
// decision only ever prints it, and empty when nobody was ever there.
type Presence struct {
	Connected bool
	Since     string
}

// API is what the server sees of the cluster's own Kubernetes API.
type API struct {
	// Reachable says that the API answered through the tunnel.
	Reachable bool
	// Cause says why it is not reachable.
	Cause string
	// Version is what the API reports of itself.
	Version string
	// Nodes are the cluster's nodes by machine UID (label rke.cattle.io/machine).
	Nodes map[string]records.NodeRef
	// Strangers are names of nodes without that label.
	Strangers []string
}

// Decision is what is to be done and what is to be shown.
type Decision struct {
	// Deliver are plans to be written as pending, by machine name.
	Deliver map[string][]byte
	// Retries are failed plans to be delivered again unchanged, by machine name.
	Retries map[string]Retry
	// Machines are the states, by machine name.
	Machines map[string]Verdict
	Cluster  ClusterVerdict
}

// Retry is a failed plan that the server starts again by itself.
type Retry struct {
	Checksum string
	// Attempt is 1 for the first try after the original one.
	Attempt int
	Plan    []byte
}

// Verdict is what is shown of a machine.
type Verdict struct {
	records.Condition
	Node    *records.NodeRef
	Failure *records.PlanFailure // without time
}

// ClusterVerdict is what is shown of a cluster.
type ClusterVerdict struct {
	State       string
	Message     string
	Failed      bool
	Initialized bool
	Ready       bool
	Renderer    int
}

// Cluster states as API clients compare them.
const (
	ClusterPending      = "pending"
	ClusterProvisioning = "provisioning"
	ClusterUpdating     = "updating"
	ClusterActive       = "active"
	ClusterUnavailable  = "unavailable"
	ClusterError        = "error"
	ClusterRemoving     = "removing"
)

// notYet is the plan text of a machine whose turn has not come.
const notYet = "waiting for at least one control plane, etcd, and worker node to be registered"

// Decide is the whole planner.
func Decide(s Snapshot) Decision {
	d := Decision{Deliver: map[string][]byte{}, Retries: map[string]Retry{}, Machines: map[string]Verdict{}}
	d.Cluster = ClusterVerdict{Renderer: s.Cluster.Status.Renderer, Initialized: s.Cluster.Status.Initialized}
	machines := slices.Clone(s.Machines)
	slices.SortFunc(machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	if hold := gates(s, machines); hold.message != "" {
		d.hold(s, machines, hold)
		return d
	}
	first := elect(machines)
	for _, m := range machines {
		if !m.Deleting.IsZero() || m.Name == first.Name {
			continue
		}
		d.Machines[m.Name] = Verdict{Condition: records.Condition{
			State: records.WaitingForPlan,
			Cause: fmt.Sprintf("cluster %s has its one machine, %s; this version of drover provisions clusters of one machine", s.Cluster.Name, first.Name),
		}}
	}
	d.removing(machines)
	d.plan(s, *first)
	return d
}

// elect picks the machine that carries the cluster: the one that has a plan, else the first by name with all roles.
func elect(machines []Machine) *Machine {
	var first *Machine
	for i, m := range machines {
		if !m.Deleting.IsZero() || !allRoles(m.Roles) {
			continue
		}
		if len(m.Data[plans.KeyPlan]) > 0 {
			return &machines[i]
		}
		if first == nil {
			first = &machines[i]
		}
	}
	return first
}

// hold is a reason why no machine may get a plan.
type hold struct {
	message string
	failed  bool
	state   string
	next    string
}

// gates is the list of conditions under which a cluster is worked on, in the order in which they are told.
func gates(s Snapshot, machines []Machine) hold {
	c := s.Cluster
	switch {
	case !c.Deleting.IsZero():
		return hold{message: fmt.Sprintf("cluster %s is being removed", c.Name), state: ClusterRemoving}
	case c.Spec.KubernetesVersion == "":
		return hold{message: fmt.Sprintf("kubernetesVersion not set on %s", c.Key()), failed: true, state: ClusterError}
	case s.Release == nil:
		return hold{
			message: fmt.Sprintf("%s: KDM release data is empty for %s", c.Key(), c.Spec.KubernetesVersion), failed: true, state: ClusterError,
			next: "give the server data of this version with --version-data, or set a version that it knows",
		}
	case elect(machines) == nil:
		return hold{message: notYet, state: ClusterPending, next: "run the command that `drover clusters join-command " + c.Name + " --all-roles` prints on a host"}
	case s.Secrets == nil:
		return hold{
			message: fmt.Sprintf("the join tokens of cluster %s are missing from the store; they are never made anew, as they encrypt the cluster's data", c.Key()),
			failed:  true, state: ClusterError, next: "restore the server's store from a backup",
		}
	}
	return hold{}
}

// hold shows a gate that is shut on all machines of the cluster.
func (d *Decision) hold(s Snapshot, machines []Machine, h hold) {
	d.Cluster.State, d.Cluster.Message, d.Cluster.Failed = h.state, h.message, h.failed
	for _, m := range machines {
		cond := records.Condition{State: records.WaitingForPlan, Cause: h.message, WaitingFor: "a plan for " + m.Name, NextStep: h.next}
		if h.message == notYet && !allRoles(m.Roles) {
			cond.Cause = fmt.Sprintf("%s has the roles %s; %s", m.Name, m.Roles, oneMachine(s.Cluster.Name))
			cond.NextStep = "register one host with --etcd --controlplane --worker"
		}
		if h.failed {
			cond.State = records.Failed
		}
		d.Machines[m.Name] = Verdict{Condition: cond, Node: m.Status.Node}
	}
	d.removing(machines)
	if h.state == ClusterRemoving {
		for _, m := range machines {
			d.Machines[m.Name] = Verdict{Condition: records.Condition{State: records.Removing, Cause: h.message}}
		}
	}
}

func oneMachine(cluster string) string {
	return fmt.Sprintf("this version of drover provisions clusters of one machine, and cluster %s needs one with all roles", cluster)
}

func (d *Decision) removing(machines []Machine) {
	for _, m := range machines {
		if !m.Deleting.IsZero() {
			d.Machines[m.Name] = Verdict{Condition: records.Condition{State: records.Removing, Cause: fmt.Sprintf("machine %s is being removed", m.Name)}}
		}
	}
}

// plan decides for the machine that carries the cluster.
func (d *Decision) plan(s Snapshot, m Machine) {
	if d.Cluster.Renderer == 0 {
		d.Cluster.Renderer = Renderer
	}
	wanted, err := Render(s, m, d.Cluster.Renderer)
	if err != nil {
		d.Cluster.State, d.Cluster.Message, d.Cluster.Failed = ClusterError, err.Error(), true
		d.Machines[m.Name] = Verdict{Condition: records.Condition{State: records.Failed, Cause: err.Error()}}
		return
	}
	delivered, isDelivered := deliveredPlan(m.Data)
	changed := !isDelivered || !plans.Equal(delivered, wanted)
	if changed {
		bytes, err := wanted.Marshal()
		if err != nil {
			d.Cluster.State, d.Cluster.Message, d.Cluster.Failed = ClusterError, err.Error(), true
			return
		}
		d.Deliver[m.Name] = bytes
	}
	v, status := judge(s, m, wanted, isDelivered, changed)
	d.Machines[m.Name] = v
	if v.Failure != nil && !changed {
		d.Retries[m.Name] = retry(m)
	}
	d.showCluster(s, m, v, status)
}

// retry numbers the next automatic try. Counting is by checksum, so a new plan starts anew.
func retry(m Machine) Retry {
	r := Retry{Checksum: plans.Checksum(m.Data[plans.KeyPlan]), Attempt: 1, Plan: m.Data[plans.KeyPlan]}
	if m.Status.RetriedChecksum == r.Checksum {
		r.Attempt = m.Status.Retries + 1
	}
	return r
}

func deliveredPlan(data map[string][]byte) (plans.Plan, bool) {
	if len(data[plans.KeyPlan]) == 0 {
		return plans.Plan{}, false
	}
	p, err := plans.Parse(data[plans.KeyPlan])
	if err != nil {
		return plans.Plan{}, true
	}
	return *p, true
}

// showCluster makes the cluster's one message out of the machine's.
func (d *Decision) showCluster(s Snapshot, m Machine, v Verdict, status string) {
	c := &d.Cluster
	c.Initialized = c.Initialized || v.State == records.Active
	switch {
	case v.State == records.Active && s.API.Reachable:
		c.State, c.Ready = ClusterActive, true
	case v.State == records.Active:
		c.State, c.Message = ClusterUnavailable, "the server has no connection to the cluster: "+s.API.Cause
	case v.State == records.Failed:
		c.State, c.Failed = ClusterProvisioning, true
		c.Message = fmt.Sprintf("failing bootstrap machine(s) %s: %s", m.Name, v.Cause)
	default:
		c.State = ClusterProvisioning
		c.Message = fmt.Sprintf("configuring bootstrap node(s) %s: %s", m.Name, status)
	}
	if c.Initialized && c.State == ClusterProvisioning {
		c.State = ClusterUpdating
	}
}

func allRoles(r records.Roles) bool { return r.Etcd && r.ControlPlane && r.Worker }
