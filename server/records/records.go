// Package records holds the documents that the server keeps in its store: plain
// data, without behaviour that needs a store, a clock or a network. The key of each
// is given with its type. Values read from the store are shared: change a copy.
package records

import (
	"encoding/json"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/operations"
)

// Object is the metadata that all namespaced records share.
type Object struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is stable for the life of the object and differs after deletion and re-creation.
	UID string `json:"uid"`
	// Generation grows with each change of what is wanted.
	Generation  int64             `json:"generation,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Deleting is when removal was asked for; zero while no user did.
	Deleting time.Time `json:"deleting,omitzero"`
}

// Key is "<namespace>/<name>".
func (o Object) Key() string { return o.Namespace + "/" + o.Name }

// Cluster is a cluster as its owner wants it and as it is. Sensitive. Key: Object.Key.
type Cluster struct {
	Object
	// ID is the management name: c-m-xxxxxxxx, or c-xxxxx for a cluster of Docker hosts or an imported one.
	ID        string           `json:"id"`
	CreatorID string           `json:"creatorID,omitempty"`
	Spec      clusterspec.Spec `json:"spec"`
	// Paused is who keeps the server from beginning anything on the cluster's machines; nil when no one does.
	Paused *Pause `json:"paused,omitempty"`
	// Exported is who took the cluster out of the server's hands, which does not touch it then; nil while it is the server's to change.
	Exported *Exported `json:"exported,omitempty"`
	// Requests are what the document asked for once, by the kinds of operations.
	Requests map[operations.Kind]Requested `json:"requests,omitempty"`
	// Owners say who set which field, as metadata.managedFields of Kubernetes; empty while it was not asked for.
	Owners json.RawMessage `json:"owners,omitempty"`
	// Granted are the Secrets and ConfigMaps that the cluster may use since a person who may read them applied its document, by
	// their keys; what the document does not name any more is not among them. Package references makes them.
	Granted map[string]Granted `json:"granted,omitempty"`
	// Leave says how the cluster goes, once Deleting is set.
	Leave Leave `json:"leave,omitzero"`
	// Projects are what the cluster has of projects from its beginning.
	Projects ClusterProjects `json:"projects,omitzero"`
	// Differs is what was changed by hand of the rights that are kept in the cluster; nil for nothing.
	Differs *Differs      `json:"differs,omitempty"`
	Status  ClusterStatus `json:"status,omitzero"`
}

// Granted is the right of a cluster to use a Secret or ConfigMap.
type Granted struct {
	// UID is that of the object: another one that gets its name is not meant.
	UID string `json:"uid"`
	// Bucket is the place where the keys of a bucket's credential may be used (etcdspec.S3.Place), since the person who applied the
	// document chose it; nil for other objects.
	Bucket *etcdspec.S3 `json:"bucket,omitempty"`
}

// Pause is who paused a cluster, and when.
type Pause struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// ClusterStatus is what the planner found.
type ClusterStatus struct {
	// ObservedGeneration is the generation that the planner last looked at.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Renderer is the version of the rendering that this cluster's plans are made by. It moves
	// only with a change of the spec, so that a newer server does not restart anything.
	Renderer int `json:"renderer,omitempty"`
	// Initialized says that a control plane has been up once.
	Initialized bool `json:"initialized,omitempty"`
	// Ready says that the cluster's API answers through the server.
	Ready bool `json:"ready,omitempty"`
	// Connected says that a tunnel to the cluster's control plane is open and answers.
	Connected bool         `json:"connected,omitempty"`
	State     ClusterState `json:"state,omitempty"`
	// Message is what is waited for, or what went wrong; empty when nothing is.
	Message string `json:"message,omitempty"`
	// Failed says that Message is an error and not a wait.
	Failed bool `json:"failed,omitempty"`
	// Since is when State and Message became what they are.
	Since time.Time `json:"since,omitzero"`
	// Version is the Kubernetes version that the cluster's API reports.
	Version string `json:"version,omitempty"`
	// Halted is the generation whose roll-out was aborted: machines that had not been taken keep what they have
	// until the spec changes again. Zero when none was.
	Halted int64 `json:"halted,omitempty"`
	// Restoring is the ID of a restore that has stopped servers and has not come to its end; nothing starts on the cluster's
	// machines before one has. Empty otherwise.
	Restoring string `json:"restoring,omitempty"`
	// APIEndpoint is the URL of the cluster's API server on its control-plane host.
	APIEndpoint string `json:"apiEndpoint,omitempty"`
	// Warning is what will go wrong, or has gone wrong while the cluster works; empty for nothing.
	Warning Warning `json:"warning,omitzero"`
}

// Warning is something that a person should look at.
type Warning = apitypes.Warning

// ClusterSecrets are the join tokens of a cluster. Sensitive. Key: the cluster's key.
// The server token encrypts the cluster's bootstrap data and every snapshot: it is
// replaced by a rotation or a restore alone, and none that a snapshot may need is forgotten.
type ClusterSecrets struct {
	ServerToken string `json:"serverToken"`
	AgentToken  string `json:"agentToken"`
	// Made is when ServerToken was made; zero is with the cluster.
	Made time.Time `json:"made,omitzero"`
	// Next is the server token that a rotation brings; nil when none was asked for. It is kept until it is in
	// force: a rotation that failed may have brought it to the cluster, and the next one goes on with it.
	Next *ServerToken `json:"next,omitempty"`
	// Other are server tokens that were in force at other times, which their snapshots need.
	Other []ServerToken `json:"other,omitempty"`
	// Brought are the hashes (installers.HashServerToken) of those of its server tokens that people brought from another server. What is read
	// by them was written beside another agent token.
	Brought []string `json:"brought,omitempty"`
}

// ServerToken is a server token that is not in force.
type ServerToken struct {
	Token string `json:"token"`
	// Made is when it was made; zero is with the cluster, or before it.
	Made time.Time `json:"made,omitzero"`
}

// RegistrationToken lets hosts join one cluster. Sensitive. Key: "<cluster id>/<name>".
type RegistrationToken struct {
	ClusterID        string    `json:"clusterID"`
	ClusterNamespace string    `json:"clusterNamespace"`
	ClusterName      string    `json:"clusterName"`
	Name             string    `json:"name"`
	Token            string    `json:"token"`
	Created          time.Time `json:"created"`
	// CreatorID is the user who made it; empty for one that came with its cluster.
	CreatorID string `json:"creatorID,omitempty"`
	// Expires zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// Key is "<cluster id>/<name>".
func (t RegistrationToken) Key() string { return t.ClusterID + "/" + t.Name }

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
	NodeName        string   `json:"nodeName,omitempty"`
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

// PlanSecret is the plan of one machine and what its agent reports. Sensitive. Key: Object.Key.
type PlanSecret struct {
	Object
	// Data are the Secret's data, empty values included.
	Data map[string][]byte `json:"data,omitempty"`
}

// NodeConfig is what a Docker host should run, as its agent gets it. Sensitive. Key: that of the machine.
type NodeConfig struct {
	// Config is the JSON of GET /v3/connect/config.
	Config json.RawMessage `json:"config"`
}

// Token is an API token. Sensitive, and its key is stored as a hash only. Key: Name.
type Token struct {
	Name        string `json:"name"`
	KeyHash     string `json:"keyHash"` // hex SHA-256
	UserID      string `json:"userID"`
	Description string `json:"description,omitempty"`
	ClusterID   string `json:"clusterID,omitempty"` // limits the token to one cluster
	// ClusterHash is the hash that the cluster gets which the token is limited to, in a form of clusterauth. Tokens of
	// before there was one have none.
	ClusterHash string    `json:"clusterHash,omitempty"`
	Session     bool      `json:"session,omitempty"` // made by a login
	TTLMillis   int64     `json:"ttl,omitempty"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"` // zero means never
	Disabled    bool      `json:"disabled,omitempty"`
	// Directory is the kind of the one that the login of a session went by; empty for this server itself.
	Directory string `json:"directory,omitempty"`
}

// TokenUse is when a token was used last, to the second. Key: its name.
type TokenUse struct {
	At time.Time `json:"at"`
}

// Setting is one setting that differs from its default. Key: Name.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Replica is a running server. It is gone with the server. Key: ID.
type Replica struct {
	ID string `json:"id"`
	// URL is where other servers reach this one.
	URL     string    `json:"url"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Identity names it among those that campaign for leadership; empty for servers of before there was one.
	Identity string `json:"identity,omitempty"`
}

// Connection says that a host's tunnel, or the watch of its agent, ends at a server. It is
// removed with the tunnel or watch, and with the server. Key: "<subject>|<replica>".
type Connection struct {
	// Subject is the host as tunnels call it, or the key of the plan Secret that is watched.
	Subject string `json:"subject"`
	// Replica is the ID of the server.
	Replica string    `json:"replica"`
	Since   time.Time `json:"since"`
	// Agent is the release of the agent that opened a tunnel; empty when it is not known, and of watches.
	Agent string `json:"agent,omitempty"`
}

// Key is "<subject>|<replica>".
func (c Connection) Key() string { return c.Subject + "|" + c.Replica }

// ServerSecret is something that all servers of one store share and no others know.
// Sensitive. Key: its name.
type ServerSecret struct {
	// Value is text of the alphabet of tokens, or PEM.
	Value string `json:"value"`
}
