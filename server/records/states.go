// The states of clusters and machines, in the words that clients of the API compare.

package records

// ClusterState is what a cluster is.
type ClusterState string

// The states of clusters.
const (
	// ClusterPending waits for machines, ClusterProvisioning for the first control plane.
	ClusterPending      ClusterState = "pending"
	ClusterProvisioning ClusterState = "provisioning"
	ClusterUpdating     ClusterState = "updating"
	ClusterActive       ClusterState = "active"
	ClusterUnavailable  ClusterState = "unavailable"
	ClusterError        ClusterState = "error"
	ClusterPaused       ClusterState = "paused"
	ClusterRemoving     ClusterState = "removing"
	// ClusterExported and ClusterImported are not touched by the server: the cluster was exported, or imported and not yet
	// taken up.
	ClusterExported ClusterState = "exported"
	ClusterImported ClusterState = "imported"
)

// ClusterStates are all states of clusters. A state is judged anew from what is seen, so that any may follow any, until the
// cluster is removed.
func ClusterStates() []ClusterState {
	return []ClusterState{
		ClusterPending, ClusterProvisioning, ClusterUpdating, ClusterActive, ClusterUnavailable, ClusterError, ClusterPaused, ClusterRemoving, ClusterExported, ClusterImported,
	}
}

// MachineState is a registration state that a person sees.
type MachineState string

// The registration states, in the order of a machine's life.
const (
	Registering      MachineState = "Registering"
	WaitingForPlan   MachineState = "Waiting for plan"
	ApplyingPlan     MachineState = "Applying plan"
	WaitingForProbes MachineState = "Waiting for probes"
	WaitingForNode   MachineState = "Waiting to register with Kubernetes"
	Active           MachineState = "Active"
	// Unavailable is a machine that was Active and that does not work now.
	Unavailable MachineState = "Unavailable"
	// Draining is a machine whose pods are moved away before it changes, Uncordoning one that is let take
	// pods again.
	Draining    MachineState = "Draining"
	Uncordoning MachineState = "Uncordoning"
	Failed      MachineState = "Error"
	Removing    MachineState = "Removing"
)

// The states of Docker hosts, beside Registering and Removing.
const (
	Connected    MachineState = "Connected"
	Disconnected MachineState = "Disconnected"
)

// MachineStates are all states of machines.
func MachineStates() []MachineState {
	return []MachineState{
		Registering, WaitingForPlan, ApplyingPlan, WaitingForProbes, WaitingForNode, Active, Unavailable, Draining, Uncordoning, Failed, Removing, Connected, Disconnected,
	}
}
