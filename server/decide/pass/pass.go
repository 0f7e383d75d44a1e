// Package pass is what the stages of a decision share: the snapshot that it is made of, and each machine with what the stages before
// have found. What is asked of it here is the same at every stage; what only one stage decides stands there.
package pass

import (
	"time"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/report"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
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

// Data are the data of the plan Secret.
func (m Machine) Data() map[string][]byte {
	if m.Secret == nil {
		return nil
	}
	return m.Secret.Data
}

// Plan is the wire form of the delivered plan; empty while there is none.
func (m Machine) Plan() []byte { return m.Data()[plans.KeyPlan] }

// IsServer says that the machine runs more than pods.
func (m Machine) IsServer() bool { return m.Roles.Etcd || m.Roles.ControlPlane }

// ClusterKey is the key of the cluster's record.
func (s Snapshot) ClusterKey() records.ClusterKey {
	return records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
}

// MachineKey is the key of the machine's record.
func (m Machine) MachineKey() records.MachineKey { return records.NewMachineKey(m.Namespace, m.Name) }

// Finding is what was found of a machine; the next status is made of it.
type Finding struct {
	records.Condition
	Node    *records.NodeRef
	Failure *records.PlanFailure // without time
	Unseen  time.Time            // of the next status
	Again   time.Duration        // when to look again though nothing changed; zero: not
	// Nodeless says that the machine becomes no node, and does not wait for one.
	Nodeless bool
}

// Verdict is what was found of a cluster; the next status is made of it.
type Verdict struct {
	Warning     records.Warning
	State       records.ClusterState
	Message     string
	Failed      bool
	Initialized bool
	Ready       bool
	Connected   bool
	Renderer    int
	Halted      int64
	Restoring   string
}

// Pass is one decision on its way through the stages.
type Pass struct {
	Snapshot
	Distribution installers.Distribution
	// Members are all machines, in the order of their names; Staying are those that are not removed, and
	// Servers those of them with etcd or a control plane.
	Members, Staying, Servers []*Member
	// Init is the machine that begins the cluster; nil while there is none. Began says that there is an etcd, or was.
	Init    *Member
	Began   bool
	Verdict Verdict
	// NextOperation is the next record of the operation; nil when it stays.
	NextOperation *operations.Operation
	// Saved are snapshots that were taken, NewSpec is what a restore wants the cluster to become, and Again when to look
	// again for an operation; see package rollout.
	Saved   []records.Snapshot
	NewSpec *clusterspec.Spec
	Again   time.Duration
	// NextSecrets are the cluster's next ones; nil when they stay.
	NextSecrets *records.ClusterSecrets
	// Fleet is set in a pass over a fleet, which has no cluster.
	Fleet *Fleet
	// Rehearsed is what came of a rehearsal.
	Rehearsed *Rehearsed
	// Window is when machines may be restarted, Unguarded that an upgrade has not got its snapshot yet.
	Window    WindowState
	Unguarded bool
	// Gate is what keeps every machine from getting a plan; the zero value when none does.
	Gate Gate
}

// Member is one machine in a pass, and what is decided of it: the one shape of a machine at all stages.
type Member struct {
	Machine
	// Leaving says that it goes; Kept that its removal is taken back.
	Leaving, Kept bool

	// Server is the URL to join at in the wanted plan, whose wire form is Wanted where it differs
	// from the delivered one.
	Server string
	Wanted []byte
	// DrainHashes are those of the delivered plan and the wanted one.
	DrainHashes [2]string
	Change      Change
	Report      report.Report
	Details     observed.NodeDetails
	// Text is what the cluster's message says of the machine, in Rancher's words.
	Text string
	Draft
}

// Draft is what is decided of one machine, before times and history are put to it.
type Draft struct {
	Finding
	Deliver []byte     // a plan to be written as pending; nil for none
	Retry   *Retry     // when the delivered plan failed
	Order   *NodeOrder // what its node is to become; nil for nothing
	Remove  bool       // the machine goes out of the store
	Next    Place      // of the next status
}

// Place is what a machine is to its cluster and how far it is, as far as a status keeps it.
type Place struct {
	Init, Member, Relabelled, Leaves, Cleared bool
	Restarts                                  int
	JoinURL, JoinedTo, GivenPlan              string
	Drain                                     *records.Drain
	Given                                     *records.Given
}

// New is a pass before anything is decided.
func New(s Snapshot) *Pass {
	p := &Pass{Snapshot: s, Distribution: runtimes.Of(s.Cluster.Spec.KubernetesVersion), Window: s.Windowed()}
	status := s.Cluster.Status
	if s.resumed() {
		status.Halted = 0
	}
	p.Verdict = Verdict{Renderer: status.Renderer, Initialized: status.Initialized, Connected: s.API.Reachable, Halted: status.Halted, Restoring: status.Restoring}
	for _, machine := range s.Machines {
		m := &Member{Machine: machine, Leaving: !machine.Deleting.IsZero() || !s.Cluster.Deleting.IsZero()}
		if m.Leaving && s.takesBack(machine) {
			m.Leaving, m.Kept = false, true
		}
		m.Details = s.API.Details[machine.UID]
		before := machine.Status
		m.Next = Place{
			Init: before.Init, Member: before.Member, Relabelled: before.Relabelled, Leaves: before.Leaves, Cleared: before.Cleared, Restarts: before.Restarts,
			JoinURL: before.JoinURL, JoinedTo: before.JoinedTo, GivenPlan: before.GivenPlan, Drain: before.Drain, Given: before.Given,
		}
		m.Report = s.reportOf(machine)
		p.Members = append(p.Members, m)
		if !m.Leaving {
			p.Staying = append(p.Staying, m)
			if m.IsServer() {
				p.Servers = append(p.Servers, m)
			}
		}
	}
	return p
}

// LookAgain has the cluster looked at again after a wait, if that is the shortest; zero or less is none.
func (p *Pass) LookAgain(wait time.Duration) {
	if wait > 0 && (p.Again <= 0 || wait < p.Again) {
		p.Again = wait
	}
}

// HasPlan says that a plan was delivered to the machine.
func (m *Member) HasPlan() bool { return len(m.Plan()) > 0 }

// Delivered is the plan in the data of a plan Secret, and whether there is one.
func Delivered(data map[string][]byte) (plans.Plan, bool) {
	return Parsed(data[plans.KeyPlan]), len(data[plans.KeyPlan]) > 0
}

// Parsed is the plan of a wire form; empty when there is none, or none that can be read.
func Parsed(wire []byte) plans.Plan {
	if len(wire) == 0 {
		return plans.Plan{}
	}
	p, err := plans.Parse(wire)
	if err != nil {
		return plans.Plan{}
	}
	return *p
}

// Put writes what a machine is to its cluster into its status.
func (p Place) Put(s records.MachineStatus) records.MachineStatus {
	s.Init, s.Member, s.Relabelled, s.Leaves, s.Cleared, s.Restarts = p.Init, p.Member, p.Relabelled, p.Leaves, p.Cleared, p.Restarts
	s.JoinURL, s.JoinedTo, s.GivenPlan, s.Drain, s.Given = p.JoinURL, p.JoinedTo, p.GivenPlan, p.Drain, p.Given
	return s
}

// Gift is the plan that an operation gives.
type Gift struct {
	Bytes    []byte
	Checksum string
	Limit    int // how many machines may be on their way at a time
	Tasks    map[string]operations.Task
}

// Fleet is what a pass over a fleet has in the place of a cluster.
type Fleet struct {
	// Plan is nil while none is given.
	Plan *Gift
	// Due are the machines to which something is still to be done, in the order in which it will be.
	Due []*Member
}

// Under says that a machine has the plan of the operation under way, as one of its tasks, or had carried it out before its agent was updated.
func (f *Fleet) Under(m *Member) bool {
	given := f.Plan
	if given == nil || m.Report.Checksum != given.Checksum && !(m.Report.InSync && m.Next.GivenPlan == given.Checksum) {
		return false
	}
	t, known := given.Tasks[m.Name]
	return known && t.State != operations.TaskSucceeded && t.State != operations.TaskSkipped
}

// Rehearsed is the result of a rehearsal, of the snapshot whose record has the key.
type Rehearsed struct {
	Snapshot string
	Result   records.Rehearsal
}
