// The type node: a machine as clients of /v3 know it, with drover's own fields beside:
// the registration state, its cause, and what it waits for.

package management

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/state"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
)

// Nodes serves the type node.
type Nodes struct {
	State   *state.State
	Applier *clusters.Applier
	// Draining says how far the drain of a node is that a user asked for: "draining" or "drained", or why it failed. Nil knows of none.
	Draining func(nodeID string) (state, cause string)
	Seen
}

func (a Nodes) kind() *Kind {
	text := norman.Field{Type: "string"}
	role := norman.Field{Type: "boolean", Default: false}
	return &Kind{
		Schema: norman.Schema{
			ID: "node", Plural: "nodes",
			Fields: norman.Fields(map[string]norman.Field{
				"clusterId": {Type: "reference[cluster]"}, "name": text, "nodeName": text, "requestedHostname": text, "hostname": text,
				"ipAddress": text, "externalIpAddress": text, "providerId": text, "namespaceId": text, "description": text,
				"etcd": role, "controlPlane": role, "worker": role, "imported": role, "unschedulable": role,
				"customConfig": {Type: "json"}, "dockerInfo": {Type: "json"}, "appliedNodeVersion": {Type: "int"}, "info": {Type: "json"}, "nodeTaints": {Type: "array[taint]"},
				"nodePoolId": {Type: "reference[nodePool]", Nullable: true}, "nodeTemplateId": {Type: "string", Nullable: true},
				"droverMachine": text, "droverState": text, "cause": text, "waitingFor": text, "nextStep": text, "refused": text,
				"capacity": {Type: "map[string]"}, "allocatable": {Type: "map[string]"}, "requested": {Type: "map[string]"},
				"since": {Type: "date"}, "history": {Type: "array[transition]"}, "lastFailure": {Type: "json", Nullable: true},
			}),
			// People name a host in any of three ways; "nodes delete host-1" of the CLI relies on it.
			ResourceActions: map[string]norman.Action{"cordon": {}, "uncordon": {}, "drain": {Input: "nodeDrainInput"}, "stopDrain": {}},
			Aliases:         map[string][]string{"name": {"name", "nodeName", "requestedHostname"}},
		},
		List: a.list,
		Get:  a.get,
	}
}

func (a Nodes) list(c *route.Call) []norman.Object {
	objects := []norman.Object{}
	for _, d := range a.State.Machines.List() {
		if !d.Value.InFleet() { // /v3 has no machines without a cluster
			a.Requested.Look(c.Ctx(), d.Value.Cluster())
			objects = append(objects, a.object(d.Value))
		}
	}
	return objects
}

func (a Nodes) get(c *route.Call, id string) (norman.Object, bool) {
	m, ok := a.machine(id)
	if !ok {
		return norman.Object{}, false
	}
	a.Requested.Soon(c.Ctx(), m.Cluster())
	return a.object(m), true
}

func (a Nodes) machine(id string) (records.Machine, bool) {
	clusterID, short, ok := strings.Cut(id, ":m-")
	if !ok {
		return records.Machine{}, false
	}
	cluster, ok := a.State.ClustersByID.First(clusterID)
	if !ok {
		return records.Machine{}, false
	}
	if d, ok := a.State.Machines.Get(clusterID + "/m-" + short); ok {
		return d.Value, true
	}
	if d, ok := a.State.Machines.Get(cluster.Value.Namespace + "/custom-" + short); ok && k8sobjects.NodeID(d.Value) == id {
		return d.Value, true
	}
	for _, d := range a.State.Machines.ListIn(cluster.Value.Namespace + "/") {
		if k8sobjects.NodeID(d.Value) == id {
			return d.Value, true
		}
	}
	return records.Machine{}, false
}

// object is a machine with what is seen of its node now.
func (a Nodes) object(m records.Machine) norman.Object {
	o := nodeObject(m)
	o.Fields["capacity"], o.Fields["allocatable"], o.Fields["requested"] = map[string]string{}, map[string]string{}, a.Requested.Now(m.Cluster()).OfNode(m.Status.Node)
	d, ok := a.api(m.Cluster()).Details[m.UID]
	if !ok {
		return o
	}
	o.Fields["capacity"], o.Fields["allocatable"], o.Fields["unschedulable"] = norman.Map(d.Capacity), norman.Map(d.Allocatable), d.Cordoned
	if d.Labels != nil {
		o.Fields["labels"] = d.Labels
	}
	if !m.Deleting.IsZero() {
		return o
	}
	draining, cause := "", ""
	if a.Draining != nil {
		draining, cause = a.Draining(o.ID)
	}
	if cause != "" {
		o.Fields["transitioningMessage"] = cause
	}
	switch {
	case draining == "draining":
		k8sobjects.NewSummary(draining, "yes", "").Into(o.Fields)
		o.Actions = []string{"stopDrain", "uncordon"}
	case d.Cordoned && o.Fields["state"] == k8sobjects.Active:
		word := "cordoned"
		if draining == "drained" {
			word = draining
		}
		o.Fields["state"], o.Actions = word, []string{"uncordon", "drain"}
	case d.Cordoned:
		o.Actions = []string{"uncordon"}
	case o.Fields["state"] == k8sobjects.Active:
		o.Actions = []string{"cordon", "drain"}
	}
	return o
}

func nodeObject(m records.Machine) norman.Object {
	summary := k8sobjects.MachineSummary(m)
	o := norman.Object{ID: k8sobjects.NodeID(m), Fixed: m.Status.Node == nil, Fields: map[string]any{
		"name": m.NodeName, "nodeName": "", "requestedHostname": m.NodeName, "hostname": m.NodeName,
		"clusterId": m.ClusterID, "namespaceId": m.ClusterID, "nodePoolId": nil, "nodeTemplateId": nil,
		"created": m.Created, "uuid": m.UID, "creatorId": nil, "annotations": norman.Map(m.Annotations), "labels": norman.Map(m.NodeLabels),
		"etcd": m.Roles.Etcd, "controlPlane": m.Roles.ControlPlane, "worker": m.Roles.Worker,
		"ipAddress": first(m.InternalAddress, m.Address), "externalIpAddress": first(m.Address),
		"imported": false, "unschedulable": false, "nodeTaints": taints(m.NodeTaints),
		"customConfig": map[string]any{
			"address": first(m.Address), "internalAddress": first(m.InternalAddress), "label": norman.Map(m.NodeLabels), "taints": taints(m.NodeTaints),
		},
		"droverMachine": m.Key(), "droverState": string(k8sobjects.MachineState(&m)), "cause": m.Status.Cause, "waitingFor": m.Status.WaitingFor,
		"nextStep": m.Status.NextStep, "since": m.Status.Since, "history": history(m), "refused": m.Refused, "lastFailure": nil,
	}}
	summary.Into(o.Fields)
	if m.NodeName == "" {
		o.Fields["name"] = m.Name
	}
	info := map[string]any{"os": map[string]string{"operatingSystem": m.OS}}
	if n := m.Status.Node; n != nil {
		o.Fields["nodeName"], o.Fields["hostname"], o.Fields["providerId"] = n.Name, n.Name, n.ProviderID
		if m.NodeName == "" {
			o.Fields["name"] = n.Name
		}
		info["kubernetes"] = map[string]string{"kubeletVersion": n.KubeletVersion}
		if first(m.InternalAddress, m.Address) == "" {
			o.Fields["ipAddress"] = first(n.Addresses)
		}
	}
	if m.Docker != nil {
		info["os"] = map[string]string{
			"operatingSystem": m.Docker.OperatingSystem, "dockerVersion": m.Docker.ServerVersion, "kernelVersion": m.Docker.KernelVersion,
		}
		o.Fields["dockerInfo"], o.Fields["appliedNodeVersion"] = dockerInfo(*m.Docker), m.Docker.AppliedNodeConfig
	}
	o.Fields["info"] = info
	if m.Status.LastFailure != nil {
		o.Fields["lastFailure"] = *m.Status.LastFailure
	}
	if !m.Deleting.IsZero() {
		o.Fields["removed"] = m.Deleting
	}
	return o
}

// dockerInfo has the names of Docker's own answer, as the peers show it.
func dockerInfo(d records.DockerHost) map[string]string {
	return map[string]string{
		"id": d.EngineID, "serverVersion": d.ServerVersion, "operatingSystem": d.OperatingSystem, "kernelVersion": d.KernelVersion,
		"architecture": d.Architecture, "cgroupDriver": d.CgroupDriver, "driver": d.StorageDriver,
	}
}

func history(m records.Machine) []records.Transition {
	if m.Status.History == nil {
		return []records.Transition{}
	}
	return m.Status.History
}

func taints(list []records.Taint) []records.Taint {
	if list == nil {
		return []records.Taint{}
	}
	return list
}

// first is the first text of the lists that is there.
func first(lists ...[]string) string {
	for _, list := range lists {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}

// Remove asks for the removal of a machine from its cluster.
func (a Nodes) Remove(c *Request) (route.Answer, error) {
	m, ok := a.machine(c.id)
	if !ok {
		return route.Answer{}, norman.Missing("node", c.id)
	}
	if err := a.Applier.RemoveMachine(c.Ctx(), records.MachineKey(m.Key()), c.Leave(), c.Turn()); err != nil {
		return route.Answer{}, err
	}
	return c.AfterRemoval()
}

// nodePoolKind is published since older CLIs list node pools before they print a join
// command; drover has none.
func nodePoolKind() *Kind {
	return &Kind{
		Schema: norman.Schema{
			ID: "nodePool", Plural: "nodePools",
			Fields: norman.Fields(map[string]norman.Field{"name": {Type: "string"}, "clusterId": {Type: "reference[cluster]"}, "quantity": {Type: "int"}}),
		},
		List: func(*route.Call) []norman.Object { return nil },
		Get:  func(*route.Call, string) (norman.Object, bool) { return norman.Object{}, false },
	}
}

// sums are the quantities of all nodes of a cluster together. Memory is in Ki and cpu in whole ones or m, which clients read.
func sums(api observed.API) (capacity, allocatable map[string]string) {
	total := func(of func(observed.NodeDetails) map[string]string) map[string]string {
		all := map[string]resource.Quantity{}
		for _, d := range api.Details {
			for name, text := range of(d) {
				q, err := resource.ParseQuantity(text)
				if err != nil {
					continue // what a node reports is not the server's to mend
				}
				sum := all[name]
				sum.Add(q)
				all[name] = sum
			}
		}
		texts := map[string]string{}
		for name, q := range all {
			texts[name] = q.String()
			if name == "memory" {
				kibi := resource.NewQuantity(q.Value()/1024, resource.DecimalSI)
				texts[name] = kibi.AsDec().String() + "Ki"
			}
		}
		return texts
	}
	return total(func(d observed.NodeDetails) map[string]string { return d.Capacity }), total(func(d observed.NodeDetails) map[string]string { return d.Allocatable })
}
