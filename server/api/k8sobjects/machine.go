// Machines in the form of Cluster API.

package k8sobjects

import (
	"maps"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Machine is a cluster.x-k8s.io/v1beta1 Machine.
func Machine(d store.Document[records.Machine]) map[string]any {
	m := d.Value
	about := m.Object
	about.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": m.ClusterName}
	maps.Copy(about.Labels, m.Labels)
	ref := func(kind string) map[string]string {
		return map[string]string{"apiVersion": "rke.cattle.io/v1", "kind": kind, "namespace": m.Namespace, "name": m.Name}
	}
	status := map[string]any{
		"phase": machinePhase(m), "conditions": machineConditions(m),
		"addresses": machineAddresses(m),
	}
	if n := m.Status.Node; n != nil {
		status["nodeRef"] = map[string]string{"apiVersion": "v1", "kind": "Node", "name": n.Name, "uid": n.UID}
		status["nodeInfo"] = map[string]string{"kubeletVersion": n.KubeletVersion, "operatingSystem": m.OS}
	}
	spec := map[string]any{
		"clusterName": m.ClusterName, "infrastructureRef": ref("CustomMachine"),
		"bootstrap": map[string]any{"configRef": ref("RKEBootstrap"), "dataSecretName": m.PlanSecretName()},
	}
	if n := m.Status.Node; n != nil && n.ProviderID != "" {
		spec["providerID"] = n.ProviderID
	}
	return Generic(map[string]any{
		"apiVersion": MachineVersion, "kind": "Machine",
		"metadata": metadata(about, d.Revision), "spec": spec, "status": status,
	})
}

// machinePhase is the state in the words of Cluster API.
func machinePhase(m records.Machine) string {
	switch MachineState(&m) {
	case records.Registering, records.WaitingForPlan:
		return "Pending"
	case records.ApplyingPlan, records.WaitingForProbes:
		return "Provisioning"
	case records.WaitingForNode:
		return "Provisioned"
	case records.Active, records.Unavailable: // Cluster API has no phase for a node that was lost
		return "Running"
	case records.Connected, records.Disconnected: // of Docker hosts
	case records.Removing:
		return "Deleting"
	case records.Failed:
		return "Failed"
	}
	return "Unknown"
}

func machineConditions(m records.Machine) []Condition {
	s := MachineSummary(m)
	ready := Condition{Type: "Ready", Status: "Unknown", Message: s.Message, LastTransitionTime: stamp(m.Status.Since)}
	switch s.Transitioning {
	case "no":
		ready.Status = "True"
	case "error":
		ready.Status, ready.Reason = "False", "Error"
	}
	return []Condition{ready}
}

func machineAddresses(m records.Machine) []map[string]string {
	addresses := []map[string]string{}
	for _, x := range m.InternalAddress {
		addresses = append(addresses, map[string]string{"type": "InternalIP", "address": x})
	}
	for _, x := range m.Address {
		addresses = append(addresses, map[string]string{"type": "ExternalIP", "address": x})
	}
	return addresses
}
