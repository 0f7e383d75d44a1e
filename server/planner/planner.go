// Package planner decides. From one snapshot of a cluster (what is wanted, which
// machines registered, what their agents report, what the cluster's own API shows)
// it computes the plan of each machine, the state each machine is in and what holds
// it there. It is a function: no clock, no store, no network; equal snapshots give
// equal decisions, and what a preview prints is what is then performed.
//
// A pass takes the steps of decidePlans, each a file: which machine begins the cluster
// (election.go), what each machine should have (wanted.go), how each is doing (judge.go,
// node.go), who leaves (leave.go), whose turn it is (turns.go, joins.go, budget.go, drain.go)
// and what is said of the cluster (labels.go, message.go, operation.go). While a snapshot is taken or restored, or something
// rotated, package ops says whose turn it is (daytwo.go). Machines without a cluster take another way
// through the same judgement (fleet.go).
//
// Rules and messages follow Rancher's planner (rancher/rancher pkg/capr/planner).
package planner

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
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
	// DefaultRegistry is the server's default registry; empty when it has none.
	DefaultRegistry string
	// Objects are the Secrets and ConfigMaps that the cluster refers to and may use, by their keys, and ObjectsVersion a text that
	// differs whenever they do.
	Objects        map[string]objects.Object
	ObjectsVersion string
	Machines       []Machine
	// RKE1 is of an RKE1 cluster; empty for others.
	RKE1 RKE1
	// Import is of an imported cluster; empty for others.
	Import Import
	// API is what is seen of the cluster's own API; not used for a cluster of Docker hosts without Kubernetes.
	API observed.API
	// Operation is what is under way on the cluster; nil when nothing is.
	Operation *operations.Operation
	// Memo saves work where a cluster is decided on again; nil is fine, and gives the same decision.
	Memo *Memo
}

// Machine is one registered host with all that is known of it.
type Machine struct {
	*records.Machine
	// Secret is the plan Secret; nil when the store has none, as for Docker hosts.
	Secret *records.PlanSecret
	// SecretRevision differs whenever Secret does; 0 says that it is not known.
	SecretRevision int64
	// Agent is whether the agent holds its watch open.
	Agent observed.Presence
	// Tunnel is that of a Docker host.
	Tunnel observed.Tunnel
	// Work is how far the last order on the machine's node is; the zero value when there is none.
	Work observed.NodeWork
}

// data are the data of the plan Secret.
func (m Machine) data() map[string][]byte {
	if m.Secret == nil {
		return nil
	}
	return m.Secret.Data
}

func (m Machine) plan() []byte { return m.data()[plans.KeyPlan] }

// isServer says that the machine runs more than pods.
func (m Machine) isServer() bool { return m.Roles.Etcd || m.Roles.ControlPlane }

// Decide is the whole decision on a cluster. Once it is committed, the decision on the
// same snapshot with what was committed has nothing left to write, but for a machine that
// got a plan: what is shown of that follows from its Secret.
func Decide(s Snapshot) Decision {
	s.Machines = slices.Clone(s.Machines)
	slices.SortFunc(s.Machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	if s.Operation != nil {
		named := steps.Named(*s.Operation)
		s.Operation = &named
	}
	switch {
	case !s.Cluster.Deleting.IsZero() && !s.Cluster.Leave.Uninstall:
		return removal(s)
	case s.Cluster.Spec.Imported():
		return decideImported(s)
	case s.Cluster.Spec.RKE1():
		return decideRKE1(s)
	case s.Cluster.Spec.Docker():
		return decideDocker(s)
	}
	return decidePlans(s)
}

// removal takes the cluster out of the store with everything that belongs to it.
func removal(s Snapshot) Decision {
	d := Decision{Cluster: ClusterDecision{Key: s.key(), Remove: true}}
	for _, m := range s.Machines {
		d.Steps = append(d.Steps, Step{Machine: m.key(), NodeName: m.NodeName, Leave: true, Now: true})
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
	return render.Input{
		Cluster: s.Cluster, Machine: m.Machine, Secrets: s.Secrets, Release: s.Release, InstallerImage: s.InstallerImage,
		DefaultRegistry: s.DefaultRegistry, Objects: s.Objects,
	}
}

// finding is what was found of a machine; the next status is made of it.
type finding struct {
	records.Condition
	node    *records.NodeRef
	failure *records.PlanFailure // without time
	unseen  time.Time            // of the next status
	again   time.Duration        // when to look again though nothing changed; zero: not
	// nodeless says that the machine becomes no node, and does not wait for one.
	nodeless bool
}

// clusterVerdict is what was found of a cluster; the next status is made of it.
type clusterVerdict struct {
	warning     records.Warning
	state       records.ClusterState
	message     string
	failed      bool
	initialized bool
	ready       bool
	connected   bool
	renderer    int
	halted      int64
	restoring   string
}

// round is one pass over a cluster whose machines get plans.
type round struct {
	Snapshot
	distribution installers.Distribution
	// members are all machines, in the order of their names; staying are those that nobody removes, and
	// servers those of them with etcd or a control plane.
	members, staying, servers []*member
	// init is the machine that begins the cluster; nil while there is none. began says that there is an etcd, or was.
	init    *member
	began   bool
	cluster clusterVerdict
	// operation is the next record of the operation; nil when it stays.
	operation *operations.Operation
	// saved are snapshots that were taken, respec is what a restore wants the cluster to become, and again when to look
	// again for an operation; see operate.
	saved  []records.Snapshot
	respec *clusterspec.Spec
	again  time.Duration
	// secrets are the cluster's next ones; nil when they stay.
	secrets *records.ClusterSecrets
	// fleet is set in a round over a fleet, which has no cluster.
	fleet *fleet
	// rehearsed is what came of a rehearsal; see rehearse.
	rehearsed *Rehearsed
	// window is when machines may be restarted, unguarded that an upgrade has not got its snapshot; see prepare.
	window    windowed
	unguarded bool
	// shut is the gate that keeps every machine from getting a plan; the zero value when none does.
	shut hold
}

// member is one machine in a round, and what is decided of it.
type member struct {
	Machine
	// leaving says that it goes; kept that its removal is taken back.
	leaving, kept bool

	// server is the URL to join at in the wanted plan, whose wire form is bytes where it differs
	// from the delivered one.
	server string
	bytes  []byte
	// drainHashes are those of the delivered plan and the wanted one.
	drainHashes [2]string
	change      change
	report      report
	details     observed.NodeDetails
	// status is what the cluster's message says of the machine, in Rancher's words.
	status string
	draft
}

// draft is what is decided of one machine, before times and history are put to it.
type draft struct {
	finding
	deliver []byte     // a plan to be written as pending; nil for none
	retry   *retry     // when the delivered plan failed
	order   *NodeOrder // what its node is to become; nil for nothing
	remove  bool       // the machine goes out of the store
	next    place      // of the next status
}

// place is what a machine is to its cluster and how far it is, as far as a status keeps it.
type place struct {
	init, member, relabelled, leaves, cleared bool
	restarts                                  int
	joinURL, joinedTo                         string
	drain                                     *records.Drain
	given                                     *records.Given
}

// decidePlans decides on a cluster whose machines get plans.
func decidePlans(s Snapshot) Decision {
	if s.Operation != nil && s.Operation.Generation > s.Cluster.Generation {
		s.Operation = nil // the cluster was read before the change that the operation is for: nothing is to be done for it yet
	}
	r := newRound(s)
	s.Memo.forget(s)
	r.addresses()
	r.elect()
	r.shut = r.gates()
	r.want()
	for _, m := range r.members {
		r.judge(m)
	}
	r.leave()
	if r.daytwo() {
		r.operate()
	} else {
		r.prepare()
		r.turns()
	}
	r.uncordon()
	r.labels()
	again := r.expiry()
	r.message()
	r.outlived()
	r.progress()
	d := r.decision()
	d.again(again)
	return d
}

// newRound is a round before anything is decided.
func newRound(s Snapshot) *round {
	r := &round{Snapshot: s, distribution: runtimes.Of(s.Cluster.Spec.KubernetesVersion), window: s.windowed()}
	status := s.Cluster.Status
	if s.resumed() {
		status.Halted = 0
	}
	r.cluster = clusterVerdict{renderer: status.Renderer, initialized: status.Initialized, connected: s.API.Reachable, halted: status.Halted, restoring: status.Restoring}
	for _, machine := range s.Machines {
		m := &member{Machine: machine, leaving: !machine.Deleting.IsZero() || !s.Cluster.Deleting.IsZero()}
		if m.leaving && s.takesBack(machine) {
			m.leaving, m.kept = false, true
		}
		m.details = s.API.Details[machine.UID]
		before := machine.Status
		m.next = place{
			init: before.Init, member: before.Member, relabelled: before.Relabelled, leaves: before.Leaves, cleared: before.Cleared, restarts: before.Restarts,
			joinURL: before.JoinURL, joinedTo: before.JoinedTo, drain: before.Drain, given: before.Given,
		}
		m.report = s.reportOf(machine)
		r.members = append(r.members, m)
		if !m.leaving {
			r.staying = append(r.staying, m)
			if m.isServer() {
				r.servers = append(r.servers, m)
			}
		}
	}
	return r
}

// hasPlan says that a plan was delivered to the machine.
func (m *member) hasPlan() bool { return len(m.plan()) > 0 }

func deliveredPlan(data map[string][]byte) (plans.Plan, bool) {
	return parsed(data[plans.KeyPlan]), len(data[plans.KeyPlan]) > 0
}

// parsed is the plan of a wire form; empty when there is none, or none that can be read.
func parsed(wire []byte) plans.Plan {
	if len(wire) == 0 {
		return plans.Plan{}
	}
	p, err := plans.Parse(wire)
	if err != nil {
		return plans.Plan{}
	}
	return *p
}
