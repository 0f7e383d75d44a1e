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
	// Details are what else is known of the same nodes, by the same UIDs.
	Details map[string]NodeDetails
	// Unlabelled are names of nodes without that label.
	Unlabelled []string
}

// NodeDetails is what is seen of a node beside its NodeRef.
type NodeDetails struct {
	// Cordoned says that the node takes no new pods.
	Cordoned bool
	Labels   map[string]string
	// Capacity and Allocatable are of cpu, memory and pods, as quantities of Kubernetes.
	Capacity, Allocatable map[string]string
	Taints                []records.Taint
	// Voter is what the node is in etcd.
	Voter Voter
	// RemovedMember is the name of the etcd member that the distribution took out of etcd on
	// request; empty when it took none.
	RemovedMember string
}

// Voter is what a node reports of its member of etcd, as k3s and RKE2 write it into the node's
// condition EtcdIsVoter (k3s-io/k3s pkg/etcd).
type Voter string

// The kinds of members.
const (
	// VoterUnknown is a node that reports nothing: it has no etcd, or has not got so far.
	VoterUnknown Voter = ""
	// VoterYes is a member that votes.
	VoterYes Voter = "voter"
	// VoterLearner is a member that does not vote: a learner, one that is not healthy, or one
	// that has not joined.
	VoterLearner Voter = "learner"
)

// NodeWork is how far an order on the node of a machine is.
type NodeWork struct {
	// Order is the ID of the order.
	Order string
	// Done says that all of it has come true; the other fields but Since are empty then.
	Done bool
	// Phase is the step that the order is at, one of the phases below; empty while it waits
	// for its turn, which Cause says.
	Phase string
	// Cause is what is waited for, or the last error.
	Cause string
	// Pods are those that still have to go, "<namespace>/<name>", sorted, at most MaxPods.
	Pods []string
	// Since is when the phase began, or when the order was done.
	Since time.Time
	// Missing is the annotation of the plan Secret that a drain hook has not written yet.
	Missing string
}

// MaxPods is how many pods are named that hold a drain.
const MaxPods = 20

// The phases of an order, in the order of its steps.
const (
	PhaseLabelling   = "setting labels and taints"
	PhaseCordoning   = "cordoning"
	PhasePreHooks    = "waiting for pre-drain hooks"
	PhaseDraining    = "draining"
	PhasePostHooks   = "waiting for post-drain hooks"
	PhaseUncordoning = "uncordoning"
	PhaseMember      = "removing etcd member"
	PhaseDeleting    = "deleting node"
)

// AgentGrace is how long an agent whose watch ended counts as there. Agents open a new watch every 5 to 10 minutes, and a
// restarted agent needs five seconds.
const AgentGrace = 8 * time.Second

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
