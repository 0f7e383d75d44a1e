// The states of clusters, machines and requests, in the words that clients of the API compare.

package records

import "github.com/drover-project/drover/apitypes"

// ClusterState is what a cluster is.
type ClusterState = apitypes.ClusterState

// The states of clusters.
const (
	ClusterPending      = apitypes.ClusterPending
	ClusterProvisioning = apitypes.ClusterProvisioning
	ClusterUpdating     = apitypes.ClusterUpdating
	ClusterActive       = apitypes.ClusterActive
	ClusterUnavailable  = apitypes.ClusterUnavailable
	ClusterError        = apitypes.ClusterError
	ClusterPaused       = apitypes.ClusterPaused
	ClusterRemoving     = apitypes.ClusterRemoving
	ClusterExported     = apitypes.ClusterExported
	ClusterImported     = apitypes.ClusterImported
)

// ClusterStates are all states of clusters. A state is judged anew from what is seen, so that any may follow any, until the
// cluster is removed.
func ClusterStates() []ClusterState {
	return []ClusterState{
		ClusterPending, ClusterProvisioning, ClusterUpdating, ClusterActive, ClusterUnavailable, ClusterError, ClusterPaused, ClusterRemoving, ClusterExported, ClusterImported,
	}
}

// MachineState is a registration state that a person sees.
type MachineState = apitypes.MachineState

// The registration states, in the order of a machine's life.
const (
	Registering      = apitypes.MachineRegistering
	WaitingForPlan   = apitypes.MachineWaitingForPlan
	ApplyingPlan     = apitypes.MachineApplyingPlan
	WaitingForProbes = apitypes.MachineWaitingForProbes
	WaitingForNode   = apitypes.MachineWaitingForNode
	Active           = apitypes.MachineActive
	Unavailable      = apitypes.MachineUnavailable
	Draining         = apitypes.MachineDraining
	Uncordoning      = apitypes.MachineUncordoning
	Failed           = apitypes.MachineFailed
	Removing         = apitypes.MachineRemoving
)

// The states of Docker hosts, beside Registering and Removing.
const (
	Connected    = apitypes.MachineConnected
	Disconnected = apitypes.MachineDisconnected
)

// MachineStates are all states of machines.
func MachineStates() []MachineState {
	return []MachineState{
		Registering, WaitingForPlan, ApplyingPlan, WaitingForProbes, WaitingForNode, Active, Unavailable, Draining, Uncordoning, Failed, Removing, Connected, Disconnected,
	}
}

// Requested is something that a document asked for once, and what became of it.
type Requested struct {
	// Value is what the document had, as JSON; another one asks anew.
	Value string `json:"value"`
	// Operation is the ID of the one that was begun; empty when it was refused, for which Phase is RequestFailed.
	Operation string `json:"operation,omitempty"`
	// Message is why it failed.
	Phase   RequestPhase `json:"phase"`
	Message string       `json:"message,omitempty"`
}

// RequestPhase is how far a request of a document is, in Rancher's words. Source: rancher/rancher pkg/apis/rke.cattle.io/v1,
// ETCDSnapshotPhase and RotateEncryptionKeysPhase.
type RequestPhase string

// The phases; the last two are ends.
const (
	RequestStarted  RequestPhase = "Started"
	RequestFinished RequestPhase = "Finished"
	RequestFailed   RequestPhase = "Failed"
)
