// Nodes, tokens and preferences in the form of management.cattle.io, as dashboards read them.
//
// Wire source: rancher/rancher pkg/apis/management.cattle.io/v3 (Node, Token, Preference).

package k8sobjects

import (
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

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
