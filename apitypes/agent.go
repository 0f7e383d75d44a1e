// The agents on hosts.

package apitypes

// Agent is the agent on the host of a machine.
type Agent struct {
	Type string `json:"type"` // agent
	// ID is that of the machine, "<namespace>/<name>".
	ID       string `json:"id"`
	Machine  string `json:"machineName"`
	Cluster  string `json:"clusterName"` // or that of the fleet
	NodeName string `json:"nodeName,omitempty"`
	// Agent is the release of drover that the agent is of; absent when that is not known, as of the original ones, and without a tunnel.
	Agent string `json:"agent,omitempty"`
	// Release is that of the server, which agents are updated to.
	Release string     `json:"release"`
	State   AgentState `json:"state"`
}

// AgentState is how an agent stands to the server's release.
type AgentState string

// The states of agents.
const (
	AgentCurrent AgentState = "current"
	// AgentBehind is of another release, older or newer.
	AgentBehind AgentState = "behind"
	// AgentPinned is of another release, and stays, as its cluster has its agents pinned.
	AgentPinned AgentState = "pinned"
	// AgentUnknown has no tunnel, or does not say its release.
	AgentUnknown AgentState = "unknown"
)

// PinAgents is the annotation of a cluster whose agents are pinned; its value is "true" then.
const PinAgents = "drover.dev/pin-agents"

// AskedPin has the agents of a cluster stay of the releases that they are of, or ends that.
type AskedPin struct {
	Pinned bool `json:"pinned"`
}
