// Package observed is what the server sees of clusters and hosts, beside what its store
// keeps: plain data that observers publish, the planner decides by and people are shown.
// It imports no observer and no decider, so that neither depends on the other.
package observed

import (
	"time"

	"github.com/drover-project/drover/server/records"
)

// API is what the server sees of a cluster's own Kubernetes API.
type API struct {
	// Reachable says that the API answered through the tunnel.
	Reachable bool
	// Cause says why it is not reachable.
	Cause string
	// Version is what the API reports of itself.
	Version string
	// Nodes are the cluster's nodes by machine UID (label rke.cattle.io/machine).
	Nodes map[string]records.NodeRef
	// Unlabelled are names of nodes without that label.
	Unlabelled []string
}

// Presence is whether the agent of a machine holds its watch open at any server.
type Presence struct {
	Connected bool
	// Since is when it connected, or when it went; zero when it was never seen.
	Since time.Time
}

// Tunnel is what is known of a host's tunnel, over all servers.
type Tunnel struct {
	Connected bool
	// Since is when it opened, or when it ended; zero when that is not known.
	Since time.Time
	// Reason is why it ended, where that is known.
	Reason string
}
