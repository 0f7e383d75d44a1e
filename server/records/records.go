// Package records holds the documents that the server keeps in its store: plain
// data, without behaviour that needs a store, a clock or a network. The key of each
// is given with its type. Values read from the store are shared: change a copy.
package records

import (
	"encoding/json"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/clusterspec"
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
	// Bucket is the place where the keys of a bucket's credential may be used (clusterspec.S3.Place), since the person who applied the
	// document chose it; nil for other objects.
	Bucket *clusterspec.S3 `json:"bucket,omitempty"`
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
