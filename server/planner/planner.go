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
	"time"

	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner/render"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/versions"
)

// Snapshot is everything a decision depends on. The values that it points to are the
// store's and are never changed.
type Snapshot struct {
	// Now is the time of the decision.
	Now time.Time
	// Leading is since when this server leads; it has heard of no tunnel before.
	Leading time.Time
	Cluster records.Cluster
	// Secrets are the join tokens; nil when the store has none.
	Secrets *records.ClusterSecrets
	// Release is what is known of the wanted version; nil when nothing is.
	Release *versions.Release
	// InstallerImage is the prefix of installer images; empty means the default.
	InstallerImage string
	Machines       []Machine
	// API is what is seen of the cluster's own API; not used for a cluster of Docker hosts.
	API observed.API
}

// Machine is one registered host with all that is known of it.
type Machine struct {
	*records.Machine
	// Secret is the plan Secret; nil when the store has none, as for Docker hosts.
	Secret *records.PlanSecret
	// Agent is whether the agent holds its watch open.
	Agent observed.Presence
	// Tunnel is that of a Docker host.
	Tunnel observed.Tunnel
}

// data are the data of the plan Secret.
func (m Machine) data() map[string][]byte {
	if m.Secret == nil {
		return nil
	}
	return m.Secret.Data
}

// server says that the machine runs more than pods.
func (m Machine) server() bool { return m.Roles.Etcd || m.Roles.ControlPlane }

func (m Machine) plan() []byte { return m.data()[plans.KeyPlan] }

// Decide is the whole decision on a cluster. Once it is committed, the decision on the
// same snapshot with what was committed has nothing left to write, but for a machine that
// got a plan: what is shown of that follows from its Secret.
func Decide(s Snapshot) Decision {
	s.Machines = slices.Clone(s.Machines)
	slices.SortFunc(s.Machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case !s.Cluster.Deleting.IsZero():
		return removal(s)
	case s.Cluster.Spec.Docker():
		return decideDocker(s)
	}
	return decidePlans(s)
}

// removal takes the cluster out of the store with everything that belongs to it.
func removal(s Snapshot) Decision {
	d := Decision{Cluster: ClusterDecision{Key: s.key(), Remove: true}}
	for _, m := range s.Machines {
		d.Machines = append(d.Machines, MachineDecision{Key: m.key(), Remove: true})
	}
	return d
}

func (s Snapshot) key() records.ClusterKey {
	return records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
}

func (m Machine) key() records.MachineKey { return records.NewMachineKey(m.Namespace, m.Name) }

// input is what the plan of a machine is made of.
func (s Snapshot) input(m Machine) render.Input {
	return render.Input{Cluster: s.Cluster, Machine: m.Machine, Secrets: s.Secrets, Release: s.Release, InstallerImage: s.InstallerImage}
}

// staying are the machines that nobody removes.
func (s Snapshot) staying() []Machine {
	return slices.DeleteFunc(slices.Clone(s.Machines), func(m Machine) bool { return !m.Deleting.IsZero() })
}

// verdict is what was found of a machine; the next status is made of it.
type verdict struct {
	records.Condition
	node    *records.NodeRef
	failure *records.PlanFailure // without time
	unseen  time.Time            // of the next status
	// relabelled and restarts are of the next status.
	relabelled bool
	restarts   int
	again      time.Duration // when to look again though nothing changed; zero: not
}

// clusterVerdict is what was found of a cluster; the next status is made of it.
type clusterVerdict struct {
	state       string
	message     string
	failed      bool
	initialized bool
	ready       bool
	connected   bool
	renderer    int
}

// Cluster states as API clients compare them.
const (
	ClusterPending      = "pending"
	ClusterProvisioning = "provisioning"
	ClusterUpdating     = "updating"
	ClusterActive       = "active"
	ClusterUnavailable  = "unavailable"
	ClusterError        = "error"
)

// notYet is the plan text of a machine whose turn has not come.
const notYet = "waiting for at least one control plane, etcd, and worker node to be registered"

// decidePlans decides on a cluster whose machines get plans. The drafts are what is
// decided of its machines, in their order.
func decidePlans(s Snapshot) Decision {
	machines := s.staying()
	cluster := clusterVerdict{renderer: s.Cluster.Status.Renderer, initialized: s.Cluster.Status.Initialized, connected: s.API.Reachable}
	drafts := make([]draft, len(machines))
	if hold := gates(s, machines); hold.message != "" {
		cluster.state, cluster.message, cluster.failed = hold.state, hold.message, hold.failed
		for i, m := range machines {
			drafts[i] = draft{verdict: held(s, m, hold)}
		}
		return s.decision(machines, drafts, cluster)
	}
	first := elect(machines)
	spare := verdict{Condition: records.Condition{
		State: records.WaitingForPlan,
		Cause: fmt.Sprintf("cluster %s has its one machine, %s; this version of drover provisions clusters of one machine", s.Cluster.Name, machines[first].Name),
	}}
	for i := range drafts {
		drafts[i] = draft{verdict: spare}
	}
	drafts[first], cluster = plan(s, machines[first], cluster)
	return s.decision(machines, drafts, cluster)
}

// draft is what is decided of one machine, before times and history are put to it.
type draft struct {
	verdict
	deliver []byte // a plan to be written as pending; nil for none
	retry   *retry // when the delivered plan failed
}

// elect is the index of the machine that carries the cluster: the one that has a plan, else
// the first by name with all roles; -1 when there is none.
func elect(machines []Machine) int {
	first := -1
	for i, m := range machines {
		if !allRoles(m.Roles) {
			continue
		}
		if len(m.plan()) > 0 {
			return i
		}
		if first < 0 {
			first = i
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

// gates are the conditions under which a cluster is worked on; the first that does not hold is shown.
func gates(s Snapshot, machines []Machine) hold {
	c := s.Cluster
	switch {
	case c.Spec.KubernetesVersion == "":
		return hold{message: fmt.Sprintf("kubernetesVersion not set on %s", s.key()), failed: true, state: ClusterError}
	case s.Release == nil:
		return hold{
			message: fmt.Sprintf("%s: KDM release data is empty for %s", s.key(), c.Spec.KubernetesVersion), failed: true, state: ClusterError,
			next: "give the server data of this version with --version-data, or set a version that it knows",
		}
	case elect(machines) < 0:
		return hold{message: notYet, state: ClusterPending, next: "run the command that `drover clusters join-command " + c.Name + " --all-roles` prints on a host"}
	case s.Secrets == nil:
		return hold{
			message: fmt.Sprintf("the join tokens of cluster %s are missing from the store; they are never made anew, as they encrypt the cluster's data", s.key()),
			failed:  true, state: ClusterError, next: "restore the server's store from a backup",
		}
	}
	return hold{}
}

// held is the verdict on a machine while a gate of its cluster is shut.
func held(s Snapshot, m Machine, h hold) verdict {
	cond := records.Condition{State: records.WaitingForPlan, Cause: h.message, WaitingFor: "a plan for " + m.Name, NextStep: h.next}
	if h.message == notYet && !allRoles(m.Roles) {
		cond.Cause = fmt.Sprintf("%s has the roles %s; this version of drover provisions clusters of one machine, and cluster %s needs one with all roles", m.Name, m.Roles, s.Cluster.Name)
		cond.NextStep = "register one host with --etcd --controlplane --worker"
	}
	if h.failed {
		cond.State = records.Failed
	}
	return verdict{Condition: cond, node: m.Status.Node}
}

// plan decides for the machine that carries the cluster.
func plan(s Snapshot, m Machine, cluster clusterVerdict) (draft, clusterVerdict) {
	if cluster.renderer == 0 {
		cluster.renderer = render.Newest
	}
	fail := func(err error) (draft, clusterVerdict) {
		cluster.state, cluster.message, cluster.failed = ClusterError, err.Error(), true
		return draft{verdict: verdict{Condition: records.Condition{State: records.Failed, Cause: err.Error()}}}, cluster
	}
	stale, hasStale := staleNode(s, m)
	if hasStale && !m.Status.Relabelled {
		relabelled := *m.Machine
		relabelled.Status.Relabelled = true
		m.Machine = &relabelled
	}
	wanted, err := render.Plan(s.input(m), cluster.renderer)
	if err == nil && takenBack(m, wanted) {
		restarted := *m.Machine
		restarted.Status.Restarts++
		m.Machine = &restarted
		wanted, err = render.Plan(s.input(m), cluster.renderer)
	}
	if err != nil {
		return fail(err)
	}
	delivered, isDelivered := deliveredPlan(m.data())
	changed := !isDelivered || !plans.Equal(delivered, wanted)
	var d draft
	if changed {
		if d.deliver, err = wanted.Marshal(); err != nil {
			return fail(err)
		}
	}
	var status string
	d.verdict, status = judge(s, m, wanted, isDelivered, changed)
	d.relabelled, d.restarts = m.Status.Relabelled, m.Status.Restarts
	if hasStale && d.State != records.Failed {
		d.Cause = staleCause(s, m, stale) + "; " + d.Cause
	}
	if d.failure != nil && !changed {
		d.retry = nextRetry(m)
	}
	return d, shown(s, m, d.verdict, status, cluster)
}

// takenBack says whether the wanted plan restarts nothing after the one that was applied last, while the one that
// was delivered since would have: the runtime may run with what that one left, and did not come to an end.
func takenBack(m Machine, wanted plans.Plan) bool {
	applied, err := plans.Parse(m.data()[plans.KeyAppliedPlan])
	if err != nil {
		return false // none was applied
	}
	between, _ := deliveredPlan(m.data())
	_, changed := runtimes.Restarted(applied.Instructions, between.Instructions)
	_, changes := runtimes.Restarted(applied.Instructions, wanted.Instructions)
	return changed && !changes && !untouched(m)
}

// untouched says whether no agent has begun with the delivered plan.
func untouched(m Machine) bool {
	failure := m.Status.LastFailure
	return plans.State(m.data()[plans.KeyPlanState]) == plans.StatePending && (failure == nil || failure.Checksum != plans.Checksum(m.plan()))
}

// staleNode is the node of this machine's host that still has the label of a machine that was removed: the host joined
// again, and k3s was kept. The API answers through this host, so the cluster's only node is its own.
func staleNode(s Snapshot, m Machine) (records.NodeRef, bool) {
	if !s.API.Reachable || len(s.API.Nodes) != 1 || len(s.API.Unlabelled) > 0 {
		return records.NodeRef{}, false
	}
	for uid, node := range s.API.Nodes {
		known := slices.ContainsFunc(s.Machines, func(other Machine) bool { return other.UID == uid })
		return node, !known && uid != m.UID
	}
	return records.NodeRef{}, false
}

// staleCause says what is wrong with such a node, and what mends it.
func staleCause(s Snapshot, m Machine, node records.NodeRef) string {
	return fmt.Sprintf("node %s has the label of a machine that was removed, as this host joined again with its k3s; %s is restarted, and takes the label rke.cattle.io/machine=%s then", node.Name, s.unit(m), m.UID)
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

// shown makes the cluster's one message out of the machine's.
func shown(s Snapshot, m Machine, v verdict, status string, c clusterVerdict) clusterVerdict {
	c.initialized = c.initialized || v.State == records.Active
	switch {
	case v.State == records.Active && s.API.Reachable:
		c.state, c.ready = ClusterActive, true
	case v.State == records.Active:
		c.state, c.message = ClusterUnavailable, "the server has no connection to the cluster: "+s.API.Cause
	case v.State == records.Unavailable:
		c.state, c.message = ClusterUnavailable, v.Cause
	case v.State == records.Failed:
		c.state, c.failed = ClusterProvisioning, true
		tier := "bootstrap"
		if c.initialized {
			tier = "control plane"
		}
		c.message = fmt.Sprintf("failing %s machine(s) %s: %s", tier, m.Name, v.Cause)
	default:
		c.state = ClusterProvisioning
		c.message = fmt.Sprintf("configuring bootstrap node(s) %s: %s", m.Name, status)
	}
	if c.initialized && c.state == ClusterProvisioning {
		c.state = ClusterUpdating
	}
	return c
}

func allRoles(r records.Roles) bool { return r.Etcd && r.ControlPlane && r.Worker }
