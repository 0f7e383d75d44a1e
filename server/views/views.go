// Package views is how drover shows things: one JSON shape for each, made here from the
// records and used by /v1-drover, by the command line and by the web page. What other
// programs' clients expect to see is in server/api.
//
// Times are RFC 3339 in UTC; an absent time or text is left out where its field says so,
// lists and maps are never null. No view holds a secret but Join, which is made of one, and JoinTokens.
package views

import (
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// OfMachine shows a machine.
func OfMachine(d store.Document[records.Machine]) apitypes.Machine {
	m := d.Value
	var drain *apitypes.Drain
	if m.Status.Drain != nil {
		drain = &apitypes.Drain{Since: m.Status.Drain.Since, Done: m.Status.Drain.Done}
	}
	return apitypes.Machine{
		Type: "machine", ID: m.Key(), NodeID: k8sobjects.NodeID(m), Namespace: m.Namespace, Name: m.Name, UID: m.UID, Revision: d.Revision,
		Cluster: m.ClusterName, ClusterID: m.ClusterID, Fleet: m.InFleet(), MachineID: m.MachineID, NodeName: m.NodeName, Hostname: m.Hostname, Roles: m.Roles, OS: m.OS,
		Address: List(m.Address), InternalAddress: List(m.InternalAddress), Labels: Dict(m.Labels),
		NodeLabels: Dict(m.NodeLabels), NodeTaints: List(m.NodeTaints), Created: m.Created, Deleting: m.Deleting, Refused: m.Refused, Claim: m.Claim, RejoinUntil: m.RejoinUntil,
		State: k8sobjects.MachineState(&m), Code: m.Status.Code, Cause: m.Status.Cause, WaitingFor: m.Status.WaitingFor, NextStep: m.Status.NextStep, Since: m.Status.Since,
		History: List(m.Status.History), Node: m.Status.Node, Docker: m.Docker, LastFailure: m.Status.LastFailure, Retries: m.Status.Retries, NextRetry: m.Status.NextRetry,
		Init: m.Status.Init, JoinURL: m.Status.JoinURL, JoinedTo: m.Status.JoinedTo, Drain: drain,
	}
}

// OfCluster shows a cluster with so many machines.
func OfCluster(d store.Document[records.Cluster], machines int) apitypes.Cluster {
	cl := d.Value
	shown := k8sobjects.ClusterSummary(cl)
	c := apitypes.Cluster{
		Type: "cluster", ID: cl.ID, Namespace: cl.Namespace, Name: cl.Name, UID: cl.UID, Revision: d.Revision, Generation: cl.Generation, ObservedGeneration: cl.Status.ObservedGeneration,
		Labels: Dict(cl.Labels), Annotations: Dict(cl.Annotations), Created: cl.Created, CreatorID: cl.CreatorID, Deleting: cl.Deleting,
		KubernetesVersion: cl.Spec.KubernetesVersion, Version: cl.Status.Version, APIEndpoint: cl.Status.APIEndpoint,
		State: shown.State, Message: shown.Message, Failed: cl.Status.Failed, Ready: cl.Status.Ready, Connected: cl.Status.Connected, Exported: cl.Exported,
		Since: cl.Status.Since, Machines: machines, Paused: cl.Paused != nil,
	}
	if w := cl.Status.Warning; w.Code != "" {
		c.Warning = &w
	}
	if e := cl.Spec.AuthEndpoint(); e.Enabled {
		c.AuthorizedEndpoint = &apitypes.AuthorizedEndpoint{FQDN: e.FQDN}
	}
	if cl.Spec.Imported() {
		c.Distribution = apitypes.ImportedCluster
	} else if cl.Spec.RKE1() {
		c.Distribution, c.KubernetesVersion = apitypes.RKE1, desired.Version(cl.Spec)
	} else if cl.Spec.Docker() {
		c.Distribution = apitypes.Docker
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

// OfToken shows a token that was used last at a time.
func OfToken(t records.Token, used time.Time) apitypes.Token {
	return apitypes.Token{
		Type: "token", Name: t.Name, UserID: t.UserID, Description: t.Description, ClusterID: t.ClusterID, Session: t.Session,
		Enabled: !t.Disabled, Created: t.Created, Expires: t.Expires, LastUsed: used.UTC().Truncate(time.Second),
	}
}

// OfObject is the view of a Secret or ConfigMap.
func OfObject(p objects.Object) apitypes.NamedObject {
	return apitypes.NamedObject{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, Type: p.Type}
}

// List shows an absent list as an empty one.
func List[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// Dict shows an absent map as an empty one.
func Dict(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// OfFleet shows a fleet with its machines; operation may be nil.
func OfFleet(d store.Document[records.Fleet], machines []records.Machine, operation *apitypes.OperationSummary) apitypes.Fleet {
	f := d.Value
	v := apitypes.Fleet{
		Type: "fleet", ID: f.ID, Namespace: f.Namespace, Name: f.Name, UID: f.UID, Revision: d.Revision, Created: f.Created, CreatorID: f.CreatorID, Deleting: f.Deleting,
		Machines: len(machines), States: map[records.MachineState]int{}, Operation: operation,
	}
	for _, m := range machines {
		v.States[k8sobjects.MachineState(&m)]++
	}
	return v
}

// OfDirectory shows one.
func OfDirectory(d records.Directory) apitypes.Directory {
	d = directories.Shown(d)
	return apitypes.Directory{
		Type: "directory", Kind: d.Kind, Enabled: !d.Disabled, DisplayName: d.DisplayName, Access: string(d.Access), Allowed: d.Allowed,
		LDAP: d.LDAP, OIDC: d.OIDC, GitHub: d.GitHub, Changed: d.Changed,
	}
}

// OfTested shows it. Of very many groups the first are shown.
func OfTested(kind string, p directories.Person) apitypes.TestedDirectory {
	groups, _ := directories.Kept(kind, p.Groups, func(string) bool { return false })
	return apitypes.TestedDirectory{Type: "testedDirectory", Kind: kind, Principal: p.Principal, Login: p.Login, Name: p.Name, Groups: groups}
}
