// What is decided: the snapshot that a decision is made on, and previews of one.

package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/store"
)

// readSet are the documents of a snapshot: the writes of a decision are conditional on
// their revisions.
type readSet struct {
	cluster store.Document[records.Cluster]
	// fleet is set when the decision is on a fleet; cluster is empty then.
	fleet    *store.Document[records.Fleet]
	machines []documents // sorted by the machines' keys
	// operation is the one under way; it has no revision when there is none.
	operation store.Document[operations.Operation]
	// secrets are the cluster's; they have no revision when there are none.
	secrets store.Document[records.ClusterSecrets]
}

// documents are a machine and its plan Secret, which has no revision when there is none.
type documents struct {
	machine *store.Document[records.Machine]
	secret  store.Document[records.PlanSecret]
}

// find are the documents of a machine of the snapshot.
func (g readSet) find(key records.MachineKey) *documents {
	i, _ := slices.BinarySearchFunc(g.machines, string(key), func(d documents, key string) int { return strings.Compare(d.machine.Key, key) })
	return &g.machines[i]
}

// gather takes the snapshot of a cluster. It reads memory only.
func (c *Controller) gather(cluster store.Document[records.Cluster], given ...objects.Object) (pass.Snapshot, readSet) {
	key := records.NewClusterKey(cluster.Value.Namespace, cluster.Value.Name)
	s := pass.Snapshot{
		Now: c.Now().UTC(), Leading: time.Unix(0, c.leading.Load()), Cluster: cluster.Value, InstallerImage: c.InstallerImage(), DefaultRegistry: c.DefaultRegistry(),
	}
	s.Objects, s.ObjectsVersion = c.objects(cluster.Value, given)
	docker, rke1 := cluster.Value.Spec.Docker(), cluster.Value.Spec.RKE1()
	if !docker || rke1 {
		s.API = c.API(key)
	}
	if rke1 {
		s.RKE1.Versions = c.RKE1Versions
		if d, ok := c.State.RKEStates.Get(string(key)); ok {
			s.RKE1.Record = &d.Value
		}
	}
	if cluster.Value.Spec.Imported() {
		s.Import.Tunnel = c.Hosts.Tunnel(records.ClusterSubject(cluster.Value.ID))
		if d, ok := c.State.ClusterAgents.Get(string(key)); ok {
			s.Import.Agent = &d.Value
		}
	}
	g := readSet{cluster: cluster}
	if secrets, ok := c.State.ClusterSecrets.Get(cluster.Key); ok {
		g.secrets, s.Secrets = secrets, &secrets.Value
	}
	// Whether a version that no data have may be used was asked when the document came in; one that
	// the data have lost since then still runs.
	if release, ok := c.Versions().Permissive(cluster.Value.Spec.KubernetesVersion); ok {
		s.Release = &release
	}
	if under, ok := operations.Active(cluster.Key, c.State.OperationsOf(key)); ok {
		if g.operation, ok = c.State.Operations.Get(under.Key()); ok {
			s.Operation = &g.operation.Value
		}
	}
	g.machines, s.Machines = c.members(key, docker, c.Nodes.Work(key))
	return s, g
}

// gatherFleet takes the snapshot of a fleet. It reads memory only.
func (c *Controller) gatherFleet(d store.Document[records.Fleet]) (decide.FleetSnapshot, readSet) {
	key := records.ClusterKey(d.Key)
	s := decide.FleetSnapshot{Now: c.Now().UTC(), Leading: time.Unix(0, c.leading.Load()), Fleet: d.Value}
	g := readSet{fleet: &d}
	if under, ok := operations.Active(d.Key, c.State.OperationsOf(key)); ok {
		if g.operation, ok = c.State.Operations.Get(under.Key()); ok {
			s.Operation = &g.operation.Value
		}
		if given, ok := c.State.GivenPlans.Get(under.Key()); ok {
			s.Given = &given.Value
		}
	}
	g.machines, s.Machines = c.members(key, false, nil)
	return s, g
}

// members are the machines of a cluster or a fleet, as they are kept and as a snapshot has them.
func (c *Controller) members(key records.ClusterKey, docker bool, work map[records.MachineKey]observed.NodeWork) ([]documents, []pass.Machine) {
	found := c.State.MachinesByCluster.Find(key)
	kept, machines := make([]documents, len(found)), make([]pass.Machine, len(found))
	for i, d := range found {
		kept[i].machine = d
		m := pass.Machine{Machine: &d.Value, Work: work[records.MachineKey(d.Key)]}
		if docker {
			m.Tunnel = c.Hosts.Tunnel(d.Value.Subject())
		} else {
			m.Agent.Since, m.Agent.Connected = c.Hosts.Watching(records.MachineKey(d.Key).PlanSecret())
		}
		if secret, ok := c.State.PlanSecrets.Get(records.MachineKey(d.Key).PlanSecret()); ok {
			kept[i].secret, m.Secret, m.SecretRevision = secret, &kept[i].secret.Value, secret.Revision
		}
		machines[i] = m
	}
	return kept, machines
}

// objects are those that a cluster refers to and may use, by their keys, with a text that differs whenever they do. Given ones are
// taken instead of the stored ones.
func (c *Controller) objects(cluster records.Cluster, given []objects.Object) (found map[string]objects.Object, version string) {
	var revisions strings.Builder
	found = references.Of(cluster, references.Stored(c.State, given...))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		d, _ := c.State.Objects.Get(key)
		fmt.Fprintf(&revisions, "%s@%d ", key, d.Revision)
	}
	return found, revisions.String()
}

// Preview is what the next pass would decide on a cluster if it were stored as given. Every server can say it.
// Of the Secrets and ConfigMaps that it refers to, those that are given are taken instead of the stored ones.
func (c *Controller) Preview(cluster records.Cluster, given ...objects.Object) decide.Preview {
	key := records.NewClusterKey(cluster.Namespace, cluster.Name)
	snapshot, _ := c.gather(store.Document[records.Cluster]{Key: string(key), Value: cluster}, given...)
	snapshot.Operation = nil // which would have it wait
	return decide.Decide(snapshot).Preview(snapshot)
}

// PreviewFleet is what would be decided on a fleet if an operation gave a plan to machines of it now. Every server can
// say it.
func (c *Controller) PreviewFleet(d store.Document[records.Fleet], o operations.Operation, plan records.GivenPlan) decide.Preview {
	snapshot, _ := c.gatherFleet(d)
	snapshot.Operation, snapshot.Given = &o, &plan
	return decide.PreviewFleet(snapshot)
}

// PreviewOperation is what an operation of package steps would do on the machines of its cluster or fleet if it began now, in its order. The
// error says why it could not begin.
func (c *Controller) PreviewOperation(o operations.Operation) ([]string, error) {
	var next *operations.Operation
	if fleet, ok := c.State.Fleets.Get(o.Subject); ok {
		snapshot, _ := c.gatherFleet(fleet)
		snapshot.Operation = &o
		next = decide.DecideFleet(snapshot).Operation
	} else if cluster, ok := c.State.Clusters.Get(o.Subject); ok {
		snapshot, _ := c.gather(cluster)
		snapshot.Operation = &o
		next = decide.Decide(snapshot).Operation
	} else {
		return nil, &store.NotFoundError{Collection: "clusters", Key: o.Subject}
	}
	if next == nil {
		return nil, fmt.Errorf("nothing is known yet of what operation %s would do on %s; ask again in a moment", o.Kind, records.ClusterKey(o.Subject).Home())
	}
	if len(next.Tasks) == 0 {
		return nil, fmt.Errorf("%s: it would not begin: %s", o.Title, next.Reason)
	}
	var lines []string
	for _, t := range next.Tasks {
		lines = append(lines, t.Title)
	}
	return lines, nil
}
