// What the planner orders on the nodes of a cluster through the cluster's own Kubernetes API:
// plain data, which server/controllers/nodes performs.

package pass

import (
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// NodeOrder is what one node of a cluster is to become. It is wanted for as long as it is given,
// and performed as often as needed: a step that has come true already does nothing. The steps
// are taken in the order of the fields.
type NodeOrder struct {
	// ID names the order. An order with another ID is another order, which begins anew.
	ID      string
	Machine records.MachineKey
	// UID is the machine's. A node whose label rke.cattle.io/machine has another value is not
	// touched: another host has taken its name.
	UID string
	// Node is the node's name.
	Node string

	// Labels are set on the node and Unlabel are keys that are taken off it: labels that were
	// set once and are not wanted any more.
	Labels  map[string]string
	Unlabel []string
	// Taints are put on the node. One replaces another of the same key and effect.
	Taints []records.Taint
	// Untaint are taken off the node, by key and effect.
	Untaint []records.Taint

	// Cordon keeps new pods off the node.
	Cordon bool
	// PreHooks are annotations of the plan Secret that must have Value before pods are evicted.
	PreHooks []string
	// Drain evicts the node's pods; nil evicts none. Its Enabled and its hooks are not looked at.
	Drain *clusterspec.DrainOptions
	// PostHooks are annotations of the plan Secret that must have Value before the cordon is lifted.
	PostHooks []string
	// Uncordon lifts the cordon.
	Uncordon bool
	// Value is what hooks have to write: the canonical JSON of the drain options.
	Value string

	// RemoveMember has the distribution take the node's member out of etcd.
	RemoveMember bool
	// Delete deletes the Node object. k3s and RKE2 take the member of a deleted node out of etcd too.
	Delete bool
}
