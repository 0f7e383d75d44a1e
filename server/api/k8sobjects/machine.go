// Machines in the form of Cluster API; nodes, tokens and preferences in that of management.cattle.io, as dashboards read them.
// Wire source: rancher/rancher pkg/apis/management.cattle.io/v3 (Node, Token, Preference).

package k8sobjects

import (
	"maps"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
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

// Node is a management.cattle.io/v3 Node: a machine, or a Docker host, in the namespace of its cluster's id.
func Node(d store.Document[records.Machine]) map[string]any {
	m := d.Value
	about := m.Object
	about.Namespace, about.Name, _ = strings.Cut(NodeID(m), ":")
	status := map[string]any{"conditions": machineConditions(m)}
	inner := map[string]any{"addresses": machineAddresses(m)}
	if n := m.Status.Node; n != nil {
		status["nodeName"] = n.Name
		inner["nodeInfo"] = map[string]string{"kubeletVersion": n.KubeletVersion, "operatingSystem": m.OS}
	}
	status["internalNodeStatus"] = inner
	return Generic(map[string]any{
		"apiVersion": ManagementVersion, "kind": "Node", "metadata": metadata(about, d.Revision), "status": status,
		"spec": map[string]any{
			"requestedHostname": m.NodeName, "displayName": m.NodeName, "etcd": m.Roles.Etcd, "controlPlane": m.Roles.ControlPlane, "worker": m.Roles.Worker,
		},
	})
}

// Token is a management.cattle.io/v3 Token, without anything of its key.
func Token(d store.Document[records.Token], now time.Time) map[string]any {
	t := d.Value
	expires := ""
	if !t.Expires.IsZero() {
		expires = stamp(t.Expires)
	}
	return Generic(map[string]any{
		"apiVersion": ManagementVersion, "kind": "Token", "metadata": metadata(records.Object{Name: t.Name, Created: t.Created}, d.Revision),
		"userId": t.UserID, "authProvider": "local", "description": t.Description, "ttl": t.TTLMillis, "expiresAt": expires,
		"expired": !t.Expires.IsZero() && !now.Before(t.Expires), "isDerived": !t.Session, "enabled": !t.Disabled, "clusterName": norman.Reference(t.ClusterID),
	})
}

// Preference is a management.cattle.io/v3 Preference, in the namespace of its user's id.
func Preference(d store.Document[records.Preference]) map[string]any {
	p := d.Value
	return Generic(map[string]any{
		"apiVersion": ManagementVersion, "kind": "Preference", "value": p.Value,
		"metadata": metadata(records.Object{Namespace: p.UserID, Name: p.Name, Created: p.Created}, d.Revision),
	})
}

// Feature is a management.cattle.io/v3 Feature, which cannot be switched.
func Feature(name, description string, on bool) map[string]any {
	return Generic(map[string]any{
		"apiVersion": ManagementVersion, "kind": "Feature", "metadata": metadata(records.Object{Name: name}, 1),
		"spec": map[string]any{"value": on}, "status": map[string]any{"default": on, "description": description, "dynamic": false, "lockedValue": on},
	})
}
