// Package views is how drover shows things: one JSON shape for each, made here from the
// records and used by /v1-drover, by the command line and by the web page. What other
// programs' clients expect to see is in server/api.
//
// Times are RFC 3339 in UTC; an absent time or text is left out where its field says so,
// lists and maps are never null. No view holds a secret but Join, which is made of one, and JoinTokens.
package views

import (
	"time"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
)

// Machine is a host that joined.
type Machine struct {
	Type string `json:"type"` // machine
	// ID is "<namespace>/<name>", NodeID the id that /v3 knows the machine by.
	ID              string               `json:"id"`
	NodeID          string               `json:"nodeId"`
	Namespace       string               `json:"namespace"`
	Name            string               `json:"name"`
	UID             string               `json:"uid"`
	Revision        int64                `json:"revision"`
	Cluster         string               `json:"clusterName"` // or that of the fleet, as the next
	ClusterID       string               `json:"clusterId"`
	Fleet           bool                 `json:"fleet,omitempty"` // it belongs to a fleet
	MachineID       string               `json:"machineId"`
	NodeName        string               `json:"nodeName"` // as the host asked for; Node has the real one
	Roles           records.Roles        `json:"roles"`
	OS              string               `json:"os"`
	Address         []string             `json:"address"`
	InternalAddress []string             `json:"internalAddress"`
	Labels          map[string]string    `json:"labels"`
	NodeLabels      map[string]string    `json:"nodeLabels"`
	NodeTaints      []records.Taint      `json:"nodeTaints"`
	Created         time.Time            `json:"created"`
	Deleting        time.Time            `json:"deleting,omitzero"`
	Refused         string               `json:"refused,omitempty"`
	Claim           *records.Claim       `json:"claim,omitempty"` // of the machine's place, without its token
	RejoinUntil     time.Time            `json:"rejoinUntil,omitzero"`
	State           records.MachineState `json:"state"`
	Code            string               `json:"code,omitempty"` // row of docs/troubleshooting.md
	Cause           string               `json:"cause,omitempty"`
	WaitingFor      string               `json:"waitingFor,omitempty"`
	NextStep        string               `json:"nextStep,omitempty"`
	Since           time.Time            `json:"since,omitzero"`
	History         []records.Transition `json:"history"`
	Node            *records.NodeRef     `json:"node,omitempty"`
	Docker          *records.DockerHost  `json:"docker,omitempty"`
	LastFailure     *records.PlanFailure `json:"lastFailure,omitempty"`
	Retries         int                  `json:"retries,omitempty"`
	NextRetry       time.Time            `json:"nextRetry,omitzero"`
	// Init says that the machine began the cluster, or has taken over from the one that did. JoinURL is where
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

// OfMachine shows a machine.
func OfMachine(d store.Document[records.Machine]) Machine {
	m := d.Value
	var drain *Drain
	if m.Status.Drain != nil {
		drain = &Drain{Since: m.Status.Drain.Since, Done: m.Status.Drain.Done}
	}
	return Machine{
		Type: "machine", ID: m.Key(), NodeID: conditions.NodeID(m), Namespace: m.Namespace, Name: m.Name, UID: m.UID, Revision: d.Revision,
		Cluster: m.ClusterName, ClusterID: m.ClusterID, Fleet: m.InFleet(), MachineID: m.MachineID, NodeName: m.NodeName, Roles: m.Roles, OS: m.OS,
		Address: list(m.Address), InternalAddress: list(m.InternalAddress), Labels: dict(m.Labels),
		NodeLabels: dict(m.NodeLabels), NodeTaints: list(m.NodeTaints), Created: m.Created, Deleting: m.Deleting, Refused: m.Refused, Claim: m.Claim, RejoinUntil: m.RejoinUntil,
		State: conditions.MachineState(m), Code: m.Status.Code, Cause: m.Status.Cause, WaitingFor: m.Status.WaitingFor, NextStep: m.Status.NextStep, Since: m.Status.Since,
		History: list(m.Status.History), Node: m.Status.Node, Docker: m.Docker, LastFailure: m.Status.LastFailure, Retries: m.Status.Retries, NextRetry: m.Status.NextRetry,
		Init: m.Status.Init, JoinURL: m.Status.JoinURL, JoinedTo: m.Status.JoinedTo, Drain: drain,
	}
}

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
	// KubernetesVersion is the wanted one, Version the one that runs.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Version           string `json:"version,omitempty"`
	APIEndpoint       string `json:"apiEndpoint,omitempty"`
	State             string `json:"state"`
	Message           string `json:"message,omitempty"`
	Failed            bool   `json:"failed"`
	// Warning is what a person should look at though the cluster works; absent for nothing.
	Warning   *records.Warning `json:"warning,omitempty"`
	Ready     bool             `json:"ready"`
	Connected bool             `json:"connected"`
	Since     time.Time        `json:"since,omitzero"`
	Machines  int              `json:"machines"`
	// Paused says that nothing new begins on its machines until it is resumed.
	Paused bool `json:"paused,omitempty"`
	// Exported is set while the server does not touch the cluster.
	Exported *records.Exported `json:"exported,omitempty"`
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

// OfCluster shows a cluster with so many machines.
func OfCluster(d store.Document[records.Cluster], machines int) Cluster {
	cl := d.Value
	shown := conditions.Cluster(cl)
	c := Cluster{
		Type: "cluster", ID: cl.ID, Namespace: cl.Namespace, Name: cl.Name, UID: cl.UID, Revision: d.Revision, Generation: cl.Generation, ObservedGeneration: cl.Status.ObservedGeneration,
		Labels: dict(cl.Labels), Annotations: dict(cl.Annotations), Created: cl.Created, CreatorID: cl.CreatorID, Deleting: cl.Deleting,
		KubernetesVersion: cl.Spec.KubernetesVersion, Version: cl.Status.Version, APIEndpoint: cl.Status.APIEndpoint,
		State: shown.State, Message: shown.Message, Failed: cl.Status.Failed, Ready: cl.Status.Ready, Connected: cl.Status.Connected, Exported: cl.Exported,
		Since: cl.Status.Since, Machines: machines, Paused: cl.Paused != nil,
	}
	if w := cl.Status.Warning; w.Code != "" {
		c.Warning = &w
	}
	if e := cl.Spec.AuthEndpoint(); e.Enabled {
		c.AuthorizedEndpoint = &AuthorizedEndpoint{FQDN: e.FQDN}
	}
	if cl.Spec.Imported() {
		c.Distribution = ImportedCluster
	} else if cl.Spec.RKE1() {
		c.Distribution, c.KubernetesVersion = RKE1, want.Version(cl.Spec)
	} else if cl.Spec.Docker() {
		c.Distribution = Docker
	} else if cl.Spec.KubernetesVersion != "" {
		c.Distribution = string(versions.RuntimeOf(cl.Spec.KubernetesVersion))
	}
	return c
}

// OfDocument shows a cluster as its owner wrote it, in the form that POST /v1-drover/apply
// takes.
func OfDocument(cl records.Cluster) clusterspec.Document {
	d := clusterspec.Document{
		APIVersion: clusterspec.APIVersion, Kind: clusterspec.Kind, Spec: cl.Spec,
		Metadata: clusterspec.Metadata{Name: cl.Name, Namespace: cl.Namespace, Labels: cl.Labels, Annotations: cl.Annotations},
	}
	if cl.Spec.Docker() {
		d.APIVersion = clusterspec.DockerAPIVersion
	}
	return d
}

// Token is an API token, without its key.
type Token struct {
	Type        string    `json:"type"` // token
	Name        string    `json:"name"`
	UserID      string    `json:"userId"`
	Description string    `json:"description"`
	ClusterID   string    `json:"clusterId,omitempty"`
	Session     bool      `json:"session"`
	Enabled     bool      `json:"enabled"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"` // absent for never
	// LastUsed is when a request came with it last; absent when that is not known.
	LastUsed time.Time `json:"lastUsed,omitzero"`
}

// OfToken shows a token that was used last at a time.
func OfToken(t records.Token, used time.Time) Token {
	return Token{
		Type: "token", Name: t.Name, UserID: t.UserID, Description: t.Description, ClusterID: t.ClusterID, Session: t.Session,
		Enabled: !t.Disabled, Created: t.Created, Expires: t.Expires, LastUsed: used.UTC().Truncate(time.Second),
	}
}

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
	// Command trusts what kubectl trusts, InsecureCommand anybody.
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

// List is a page of things. Continue is where the next page begins, absent on the last one.
type List[T any] struct {
	Data []T `json:"data"`
	// Total is how many there are on all pages.
	Total    int    `json:"total"`
	Continue string `json:"continue,omitempty"`
}

// NamedObject is a Secret or a ConfigMap, without what is in it.
type NamedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Type      string `json:"type,omitempty"`
}

// OfObject is the view of a Secret or ConfigMap.
func OfObject(p objects.Object) NamedObject {
	return NamedObject{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, Type: p.Type}
}

// Applied is the answer to POST /v1-drover/apply.
type Applied struct {
	Results []clusters.Result `json:"results"`
	DryRun  bool              `json:"dryRun"`
}

// Paused is the answer to a pause.
type Paused struct {
	Cluster Cluster `json:"cluster"`
	// Finishing are the machines on which something has begun that is finished first.
	Finishing []string `json:"finishing"`
}

// list shows an absent list as an empty one.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// dict shows an absent map as an empty one.
func dict(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
