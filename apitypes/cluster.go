// Clusters, and how hosts join them.

package apitypes

import "time"

// Cluster is a cluster.
type Cluster struct {
	Type string `json:"type"` // cluster
	// ID is the management id, as in c-m-4xk2vbcd.
	ID         string `json:"id"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Revision   int64  `json:"revision"`
	Generation int64  `json:"generation"`
	// ObservedGeneration is the generation that State and Message are of.
	ObservedGeneration int64             `json:"observedGeneration"`
	Labels             map[string]string `json:"labels"`
	Annotations        map[string]string `json:"annotations"`
	Created            time.Time         `json:"created"`
	CreatorID          string            `json:"creatorId,omitempty"`
	Deleting           time.Time         `json:"deleting,omitzero"`
	// Distribution is k3s, rke2, rke1, imported, or docker for hosts that run Docker and nothing that the server provisioned.
	Distribution string `json:"distribution"`
	// KubernetesVersion is the wanted version, Version the version that runs.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Version           string `json:"version,omitempty"`
	APIEndpoint       string `json:"apiEndpoint,omitempty"`
	State             string `json:"state"`
	Message           string `json:"message,omitempty"`
	Failed            bool   `json:"failed"`
	// Warning is what a person should look at though the cluster works; absent for nothing.
	Warning   *Warning  `json:"warning,omitempty"`
	Ready     bool      `json:"ready"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Machines  int       `json:"machines"`
	// Paused says that nothing new begins on its machines until it is resumed.
	Paused bool `json:"paused,omitempty"`
	// Exported is set while the server does not touch the cluster.
	Exported *Exported `json:"exported,omitempty"`
	// AuthorizedEndpoint is set when people reach the cluster's API without the server, too.
	AuthorizedEndpoint *AuthorizedEndpoint `json:"authorizedEndpoint,omitempty"`
}

// AuthorizedEndpoint is the way to a cluster's API without the server.
type AuthorizedEndpoint struct {
	// FQDN stands for the API servers; without it each control-plane host is a way of its own.
	FQDN string `json:"fqdn,omitempty"`
}

// The distributions of clusters of hosts that run Docker, RKE1's and without one, and of clusters that were made elsewhere.
const (
	ImportedCluster = "imported"
	RKE1            = "rke1"
	Docker          = "docker"
)

// Paused is the answer to a pause.
type Paused struct {
	Cluster Cluster `json:"cluster"`
	// Finishing are the machines on which something has begun that is finished first.
	Finishing []string `json:"finishing"`
}

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

// Warning is something that a person should look at.
type Warning struct {
	// Code is the row of the catalogue of causes (server/decide/catalogue), Cause a sentence, NextStep what a person does.
	Code     string `json:"code"`
	Cause    string `json:"cause"`
	NextStep string `json:"nextStep,omitempty"`
}

// Exported says that a cluster is in other hands, and since when.
type Exported struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
	// Imported says that the cluster was made by the rke command line, and no user has had the server take it up yet.
	Imported bool `json:"imported,omitempty"`
}

// DefaultNamespace is where clusters live unless their document says otherwise.
const DefaultNamespace = "fleet-default"

// Join is the command by which a host joins a cluster or a fleet. It holds the registration token.
type Join struct {
	Type    string `json:"type"` // join
	Cluster string `json:"clusterName"`
	// Command is without roles, which are appended as flags; empty where Problem says why. It has
	// the token in no argument of a program.
	Command string    `json:"command,omitempty"`
	Problem string    `json:"problem,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Import is of an imported cluster, whose Command is for kubectl in that cluster: it trusts the server's own authority alone.
	Import *Import `json:"import,omitempty"`
	// Made says that the fleet was made for this.
	Made bool `json:"made,omitempty"`
}

// Import are the other lines of an imported cluster. All but CleanupURL have the registration token in them.
type Import struct {
	// Command trusts what kubectl trusts; InsecureCommand trusts any server.
	Command         string `json:"command"`
	InsecureCommand string `json:"insecureCommand"`
	ManifestURL     string `json:"manifestUrl"`
	// CleanupURL has the names of what is to be deleted by hand where the agent does not answer.
	CleanupURL string `json:"cleanupUrl"`
	// Spent is when the first agent was let in by a registration token of the cluster, from when on a token lets in none but agents of
	// the same Kubernetes.
	Spent time.Time `json:"spent,omitzero"`
}

// JoinTokens are what machines join a cluster's etcd and Kubernetes with. They encrypt its snapshots.
type JoinTokens struct {
	Type    string `json:"type"`    // joinTokens
	Cluster string `json:"cluster"` // <namespace>/<name>
	// Server is that of machines with etcd or a control plane, Agent that of workers.
	Server string `json:"server"`
	Agent  string `json:"agent"`
	// Earlier are server tokens that were in force at other times, by which snapshots of then are read.
	Earlier []EarlierToken `json:"earlier"`
}

// EarlierToken is a server token that is not in force.
type EarlierToken struct {
	Token string `json:"token"`
	// Hash is what its snapshots have of it.
	Hash string `json:"hash"`
}

// AskedToken is a server token that is brought to a cluster.
type AskedToken struct {
	// Token is the password alone, or K10<hash of the CA>::server:<password>.
	Token string `json:"token"`
}

// BroughtToken is a server token that was brought to a cluster, without the token.
type BroughtToken struct {
	Type    string `json:"type"`    // broughtToken
	Cluster string `json:"cluster"` // <namespace>/<name>
	// Hash is what its snapshots have of it.
	Hash string `json:"hash"`
	// Known says that the cluster had it already, and nothing was changed.
	Known bool `json:"known"`
}
