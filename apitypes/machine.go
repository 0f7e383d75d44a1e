// Machines: hosts that joined.

package apitypes

import "time"

// Machine is a host that joined.
type Machine struct {
	Type string `json:"type"` // machine
	// ID is "<namespace>/<name>", NodeID the id that /v3 knows the machine by.
	ID              string            `json:"id"`
	NodeID          string            `json:"nodeId"`
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	Revision        int64             `json:"revision"`
	Cluster         string            `json:"clusterName"` // or that of the fleet, as the next
	ClusterID       string            `json:"clusterId"`
	Fleet           bool              `json:"fleet,omitempty"` // it belongs to a fleet
	MachineID       string            `json:"machineId"`
	NodeName        string            `json:"nodeName"`           // as the host asked for; Node has the real one
	Hostname        string            `json:"hostname,omitempty"` // as it called itself when it registered
	Roles           Roles             `json:"roles"`
	OS              string            `json:"os"`
	Address         []string          `json:"address"`
	InternalAddress []string          `json:"internalAddress"`
	Labels          map[string]string `json:"labels"`
	NodeLabels      map[string]string `json:"nodeLabels"`
	NodeTaints      []Taint           `json:"nodeTaints"`
	Created         time.Time         `json:"created"`
	Deleting        time.Time         `json:"deleting,omitzero"`
	Refused         string            `json:"refused,omitempty"`
	Claim           *Claim            `json:"claim,omitempty"` // of the machine's place, without its token
	RejoinUntil     time.Time         `json:"rejoinUntil,omitzero"`
	State           MachineState      `json:"state"`
	Code            string            `json:"code,omitempty"` // row of docs/reference/causes.md
	Cause           string            `json:"cause,omitempty"`
	WaitingFor      string            `json:"waitingFor,omitempty"`
	NextStep        string            `json:"nextStep,omitempty"`
	Since           time.Time         `json:"since,omitzero"`
	History         []Transition      `json:"history"`
	Node            *NodeRef          `json:"node,omitempty"`
	Docker          *DockerHost       `json:"docker,omitempty"`
	LastFailure     *PlanFailure      `json:"lastFailure,omitempty"`
	Retries         int               `json:"retries,omitempty"`
	NextRetry       time.Time         `json:"nextRetry,omitzero"`
	// Init says that the machine began the cluster, or has taken over from the machine that did. JoinURL is where
	// others may join through it, JoinedTo where it joined itself.
	Init     bool   `json:"init,omitempty"`
	JoinURL  string `json:"joinURL,omitempty"`
	JoinedTo string `json:"joinedTo,omitempty"`
	// Drain is the drain that the machine is in.
	Drain *Drain `json:"drain,omitempty"`
	// Agent is the release of drover that the agent is of whose tunnel is open; absent when that is not known, as of original
	// agents, and where machines are followed.
	Agent string `json:"agent,omitempty"`
}

// Drain is a machine on its way through a change that moves its pods away first.
type Drain struct {
	Since time.Time `json:"since"`
	// Done says that the pods have gone; the change follows.
	Done bool `json:"done"`
}

// MachineState is a registration state that a person sees.
type MachineState string

// The registration states, in the order of a machine's life.
const (
	MachineRegistering      MachineState = "Registering"
	MachineWaitingForPlan   MachineState = "Waiting for plan"
	MachineApplyingPlan     MachineState = "Applying plan"
	MachineWaitingForProbes MachineState = "Waiting for probes"
	MachineWaitingForNode   MachineState = "Waiting to register with Kubernetes"
	MachineActive           MachineState = "Active"
	// Unavailable is a machine that was Active and that does not work now.
	MachineUnavailable MachineState = "Unavailable"
	// Draining is a machine whose pods are moved away before it changes, Uncordoning one that is let take
	// pods again.
	MachineDraining    MachineState = "Draining"
	MachineUncordoning MachineState = "Uncordoning"
	MachineFailed      MachineState = "Error"
	MachineRemoving    MachineState = "Removing"
)

// The states of Docker hosts, beside Registering and Removing.
const (
	MachineConnected    MachineState = "Connected"
	MachineDisconnected MachineState = "Disconnected"
)

// Roles of a machine in its cluster.
type Roles struct {
	Etcd         bool `json:"etcd,omitempty"`
	ControlPlane bool `json:"controlPlane,omitempty"`
	Worker       bool `json:"worker,omitempty"`
}

// String is the roles as people write them: "etcd,controlplane,worker"; "none" without any.
func (r Roles) String() string {
	s := ""
	for _, role := range []struct {
		has  bool
		name string
	}{{r.Etcd, "etcd"}, {r.ControlPlane, "controlplane"}, {r.Worker, "worker"}} {
		if !role.has {
			continue
		}
		if s != "" {
			s += ","
		}
		s += role.name
	}
	if s == "" {
		return "none"
	}
	return s
}

// Taint is a Kubernetes node taint.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Transition is one state walked through.
type Transition struct {
	State MachineState `json:"state"`
	At    time.Time    `json:"at"`
}

// Claim is a registration that did not show that it came from the machine's host.
type Claim struct {
	Source string    `json:"source"` // as in Origin
	At     time.Time `json:"at"`
}

// NodeRef is the Kubernetes node of a machine as the cluster's API shows it.
type NodeRef struct {
	Name           string   `json:"name"`
	UID            string   `json:"uid"`
	ProviderID     string   `json:"providerID,omitempty"`
	KubeletVersion string   `json:"kubeletVersion,omitempty"`
	Addresses      []string `json:"addresses,omitempty"`
	Ready          bool     `json:"ready"`
	// NotReady is the API's own reason and message while Ready is false.
	NotReady string `json:"notReady,omitempty"`
}

// PlanFailure is what an agent reported of a plan that could not be applied.
type PlanFailure struct {
	Checksum string    `json:"checksum"`
	At       time.Time `json:"at"`
	// Instruction is the name of the failing instruction, or empty when a file was at fault.
	Instruction string `json:"instruction,omitempty"`
	// Output is the last lines it printed, at most 8 KiB.
	Output string `json:"output,omitempty"`
}

// DockerHost is what a node agent said of the Docker on its host when it connected last.
type DockerHost struct {
	// EngineID is Docker's own name for itself; empty when the agent did not report it.
	EngineID        string `json:"engineID,omitempty"`
	ServerVersion   string `json:"serverVersion,omitempty"`
	OperatingSystem string `json:"operatingSystem,omitempty"`
	KernelVersion   string `json:"kernelVersion,omitempty"`
	Architecture    string `json:"architecture,omitempty"`
	CgroupDriver    string `json:"cgroupDriver,omitempty"`
	StorageDriver   string `json:"storageDriver,omitempty"`
	// Seen is when an agent was let in last.
	Seen time.Time `json:"seen,omitzero"`
	// CredentialHash is the hash of the host's own credential; empty for original agents, which have none.
	CredentialHash string `json:"credentialHash,omitempty"`
	// Source is the address, or the /64, that the agent came from last; empty in records of before it was kept.
	Source string `json:"source,omitempty"`
	// Moved says that Source has changed while the host had no credential, so that it may be another host: it gets none any more.
	Moved bool `json:"moved,omitempty"`
	// AppliedNodeConfig is the version that the agent acknowledged.
	AppliedNodeConfig int `json:"appliedNodeConfig,omitempty"`
}

// Containers are those of a Docker host.
type Containers struct {
	Data []Container `json:"data"`
}

// Container is a container of a Docker host, as its agent lists it.
type Container struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Image   string    `json:"image"`
	State   string    `json:"state"`  // running, exited, …
	Status  string    `json:"status"` // Docker's own words, such as "Up 3 hours"
	Created time.Time `json:"created"`
}

// LabelChange is what a person changes of the labels of a machine's node.
type LabelChange struct {
	// Set are labels that are added or replaced.
	Set map[string]string `json:"set,omitempty"`
	// Remove are the keys of labels that are taken off.
	Remove []string `json:"remove,omitempty"`
}

// Tiers are the parts of a cluster in the order in which they change; TierOf is an index.
var Tiers = [...]string{"bootstrap", "etcd", "control plane", "worker"}

// TierOf is the tier of a machine with these roles; init is the tier of the machine that began the cluster.
func TierOf(init bool, r Roles) int {
	switch {
	case init:
		return 0
	case r.Etcd:
		return 1
	case r.ControlPlane:
		return 2
	}
	return 3
}
