// Machines: registered hosts, what they ask for and how they stand.

package records

import (
	"time"

	"github.com/drover-project/drover/apitypes"
)

// Taint is a Kubernetes node taint.
type Taint = apitypes.Taint

// Roles of a machine in its cluster.
type Roles = apitypes.Roles

// Machine is a registered host. Sensitive. Key: Object.Key. Its namespace is the cluster's, or, for a
// Docker host, the cluster's ID, since those are named after their hostnames.
type Machine struct {
	Object
	ClusterName string `json:"clusterName"`
	ClusterID   string `json:"clusterID"`
	// ClusterNamespace is that of the cluster where it is not the machine's own.
	ClusterNamespace string `json:"clusterNamespace,omitempty"`
	// MachineID is what the host calls itself, X-Cattle-Id.
	MachineID string `json:"machineID"`
	Roles     Roles  `json:"roles"`
	OS        string `json:"os"`
	// NodeName is the node name asked for; empty leaves it to the host.
	NodeName string `json:"nodeName,omitempty"`
	// Hostname is what the host called itself when it registered; it is only shown.
	Hostname        string   `json:"hostname,omitempty"`
	Address         []string `json:"address,omitempty"`
	InternalAddress []string `json:"internalAddress,omitempty"`
	// NodeLabels and NodeTaints are what the host asked for at registration.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	NodeTaints []Taint           `json:"nodeTaints,omitempty"`
	// TokenHash is the hex SHA-256 of the machine's token; PreviousTokenHash stays valid
	// after a new registration until the new token was used once.
	TokenHash         string `json:"tokenHash,omitempty"`
	PreviousTokenHash string `json:"previousTokenHash,omitempty"`
	// Refused is a change asked for by a later registration that the rules do not allow; empty when there is none.
	Refused string `json:"refused,omitempty"`
	// Claim is the last registration that asked for this machine's place without its token; nil
	// when there was none since a registration was taken.
	Claim *Claim `json:"claim,omitempty"`
	// RejoinUntil is until when one registration is taken without that token; zero when none is.
	RejoinUntil time.Time `json:"rejoinUntil,omitzero"`
	// Origin is how the host registered for the first time.
	Origin Origin `json:"origin,omitzero"`
	// Leave says how the machine goes, once Deleting is set.
	Leave Leave `json:"leave,omitzero"`
	// Docker is set for hosts whose Docker socket a node agent offers, and for no others.
	Docker *DockerHost `json:"docker,omitempty"`
	// Certificate is the first one of the distribution's that ends on the host; the zero value when none is known.
	Certificate CertificateEnd `json:"certificate,omitzero"`
	Status      MachineStatus  `json:"status,omitzero"`
}

// CertificateEnd is a certificate and when it ends.
type CertificateEnd struct {
	// Name is its file below the data directory of the distribution, or a few words for it.
	Name string    `json:"name"`
	End  time.Time `json:"end"`
}

// Leave is what was asked for when a machine or a cluster is removed.
type Leave struct {
	// By is the ID of the user.
	By string `json:"by,omitempty"`
	// Force forgets at once what cannot be asked any more; the host keeps what runs on it.
	Force bool `json:"force,omitempty"`
	// Uninstall leaves hosts clean. It is set for machines unless forced; a cluster without it
	// is forgotten, and its hosts keep what runs on them.
	Uninstall bool `json:"uninstall,omitempty"`
	// Agent takes drover's agent off the host too.
	Agent bool `json:"agent,omitempty"`
}

// Claim is a registration that did not show that it came from the machine's host.
type Claim = apitypes.Claim

// Origin is whom a host registered by: registration token and network.
type Origin struct {
	// Token is "<cluster id>/<name>" of the registration token.
	Token string `json:"token,omitempty"`
	// Source is the address that the host came from, 192.0.2.1/32, or the network of an IPv6 address, 2001:db8::/64.
	Source string `json:"source,omitempty"`
}

// Cluster is the key of the machine's cluster.
func (m Machine) Cluster() ClusterKey {
	if m.ClusterNamespace != "" {
		return NewClusterKey(m.ClusterNamespace, m.ClusterName)
	}
	return NewClusterKey(m.Namespace, m.ClusterName)
}

// Subject is what the machine's tunnels are called.
func (m Machine) Subject() Subject {
	if m.Docker != nil {
		return Subject(m.Namespace + ":" + m.Name)
	}
	return Subject(m.Key())
}

// DockerHost is what a node agent said of the Docker on its host when it connected last.
type DockerHost = apitypes.DockerHost

// PlanSecretName is the name of the machine's plan Secret.
func (m Machine) PlanSecretName() string { return m.Name + PlanSecretEnd }

// Condition names what a machine is and what holds it there.
type Condition struct {
	State MachineState `json:"state"`
	// Code is the row of the catalogue of causes (server/decide/catalogue); empty for Active.
	Code string `json:"code,omitempty"`
	// Cause is a sentence that names object, host and reason; empty for Active.
	Cause string `json:"cause,omitempty"`
	// WaitingFor is the thing whose coming ends the wait.
	WaitingFor string `json:"waitingFor,omitempty"`
	// NextStep is what a person can do, when there is something.
	NextStep string `json:"nextStep,omitempty"`
}

// MachineStatus is what the planner found.
type MachineStatus struct {
	Condition
	// Since is when State, Cause and WaitingFor became what they are.
	Since time.Time `json:"since,omitzero"`
	// History are the states walked through, oldest first, at most 20.
	History []Transition `json:"history,omitempty"`
	// Node is the Kubernetes node, once the cluster's own API shows it.
	Node *NodeRef `json:"node,omitempty"`
	// Unseen is since when the cluster's API shows nothing of the node of a machine that was Active;
	// zero while it does.
	Unseen time.Time `json:"unseen,omitzero"`
	// Relabelled says that the node of this host had the label of another machine, one that was removed, and that
	// k3s is restarted for it once: a node takes its labels when it starts.
	Relabelled bool `json:"relabelled,omitempty"`
	// Restarts is how often a plan was taken back to one that had been applied before. The installer
	// on the host does not know of the plan between, with which the runtime may run: it has to restart it.
	Restarts int `json:"restarts,omitempty"`
	// Init says that this machine began the cluster, or has taken over from the one that did.
	Init bool `json:"init,omitempty"`
	// Member says that the machine's etcd has joined as a voter.
	Member bool `json:"member,omitempty"`
	// JoinURL is where others may join through this machine; empty while that is not known, and on workers.
	JoinURL string `json:"joinURL,omitempty"`
	// JoinedTo is the JoinURL in the plan that was delivered last; empty for the one that began the cluster.
	JoinedTo string `json:"joinedTo,omitempty"`
	// Drain is the drain that the machine is in; nil when it is in none.
	Drain *Drain `json:"drain,omitempty"`
	// Given are the labels and taints that the node has got; nil until it has registered.
	Given *Given `json:"given,omitempty"`
	// GivenPlan is, of a machine of a fleet, the checksum of the plan that it was given and has carried out, once an update of its agent has
	// taken the place of that plan's instructions; NoPlan where it was given none.
	GivenPlan string `json:"givenPlan,omitempty"`
	// Leaves says of a machine that leaves that something has begun for it, in its cluster or on its host.
	Leaves bool `json:"leaves,omitempty"`
	// Cleared says of a machine that leaves that the cluster has no node and no member of it any more.
	Cleared bool `json:"cleared,omitempty"`
	// LastFailure is the latest failure of a plan; it is kept until a plan succeeds.
	LastFailure *PlanFailure `json:"lastFailure,omitempty"`
	// RetriedChecksum and Retries count automatic new tries of a failed plan.
	RetriedChecksum string    `json:"retriedChecksum,omitempty"`
	Retries         int       `json:"retries,omitempty"`
	NextRetry       time.Time `json:"nextRetry,omitzero"`
}

// Given are labels and taints that a node got for its machine.
type Given struct {
	Labels map[string]string `json:"labels,omitempty"`
	Taints []Taint           `json:"taints,omitempty"`
}

// Drain is a machine on its way through a change that moves its pods away first.
type Drain struct {
	// ID names the drain to the code that performs it.
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	// WasCordoned says that a user had cordoned the node before; it stays so then.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	// Options are the canonical JSON of the options, as hooks have to repeat it.
	Options string `json:"options"`
	// Done says that the pods have gone; the change follows.
	Done bool `json:"done,omitempty"`
	// Generation is that of the cluster for whose change the pods leave; zero in records of older servers.
	Generation int64 `json:"generation,omitempty"`
}

// Transition is one state walked through.
type Transition = apitypes.Transition

// PlanFailure is what an agent reported of a plan that could not be applied.
type PlanFailure = apitypes.PlanFailure

// NodeRef is the Kubernetes node of a machine as the cluster's API shows it.
type NodeRef = apitypes.NodeRef
