// Who may do what: one function without state, asked by the table of routes and by
// handlers that know the object.

package auth

import (
	"strings"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/settings"
)

// Verb is what is done to an object.
type Verb string

// Verbs. An action of a resource is Verb "action NAME", one of a whole type
// "collection action NAME"; see Action and CollectionAction.
const (
	// List shows of all objects those that Get is allowed for, so that it is open to everybody.
	// ListAll has to be allowed itself: of objects at the server all of them, of those in clusters
	// where it is.
	List    Verb = "list"
	ListAll Verb = "list all"
	Get     Verb = "get"
	Create  Verb = "create"
	Update  Verb = "update"
	Patch   Verb = "patch"
	Remove  Verb = "remove"
	// Apply takes in cluster documents.
	Apply Verb = "apply"
	// Proxy passes a request on to a cluster's own API.
	Proxy Verb = "proxy"
	// Terminal runs lines of kubectl in the web page, whose requests to the cluster ask for Proxy.
	Terminal Verb = "terminal"
	// Own is to have all rights inside a cluster.
	Own Verb = "own"
	// Dial opens a connection on a host.
	Dial Verb = "dial"
	// Login is to log in.
	Login Verb = "login"

	action           = "action "
	collectionAction = "collection action "
)

// Action is the verb of an action of one resource.
func Action(name string) Verb { return action + Verb(name) }

// CollectionAction is the verb of an action of a whole type.
func CollectionAction(name string) Verb { return collectionAction + Verb(name) }

// Kind is a kind of objects. Those of /v3 have the ids of their schemas.
type Kind string

// Kinds.
const (
	Cluster           Kind = "cluster"
	RegistrationToken Kind = "clusterRegistrationToken"
	Machine           Kind = "node"
	NodePool          Kind = "nodePool"
	EtcdBackup        Kind = "etcdBackup"
	Project           Kind = "project"
	Setting           Kind = "setting"
	Token             Kind = "token"
	User              Kind = "user"
	Tunnel            Kind = "tunnel"
	Metrics           Kind = "metrics"
	PlanSecret        Kind = "planSecret"
	Namespace         Kind = "namespace"
	Operation         Kind = "operation"
	Event             Kind = "event"
	// SharedObject is a Secret or ConfigMap that clusters refer to.
	SharedObject Kind = "object"
	// CloudCredential is a shared object with the keys of a bucket, in the form of /v3.
	CloudCredential Kind = "cloudCredential"
	// Fleet is one of machines without a cluster.
	Fleet Kind = "fleet"
	// Backup is one of the server itself.
	Backup Kind = "backup"
	// Audit is the audit log of a server.
	Audit Kind = "audit"
	// ProvisionedCluster and ClusterMachine are a cluster and its machine in the forms of /v1.
	ProvisionedCluster Kind = "provisionedCluster"
	ClusterMachine     Kind = "clusterMachine"
	// Roles, who has them, and whom they can be given to.
	GlobalRole        Kind = "globalRole"
	GlobalRoleBinding Kind = "globalRoleBinding"
	RoleTemplate      Kind = "roleTemplate"
	ClusterBinding    Kind = "clusterRoleTemplateBinding"
	ProjectBinding    Kind = "projectRoleTemplateBinding"
	Principal         Kind = "principal"
	// Directory is the configuration of an outside directory.
	Directory Kind = "authConfig"
	// ProjectSecret is a Secret that all namespaces of a project have.
	ProjectSecret Kind = "secret"
	// Preference is what a dashboard keeps for a user, and Feature what it sees of the server.
	Preference Kind = "preference"
	Feature    Kind = "feature"
	// RKEVersion is a version of RKE1 with its images.
	RKEVersion Kind = "rkeK8sSystemImage"
)

// Object is what something is done to. With Kind alone it stands for any object of the
// kind that belongs to no user.
type Object struct {
	Kind Kind
	// Key is the object's name: of a setting its name, of a plan Secret
	// "<namespace>/<name>", of a cluster, a fleet and of an operation its id.
	Key string
	// Owner is the id of the user whom a token belongs to, or who made a shared object; of a user it is the user's own id.
	Owner string
	// Cluster is the management id of the cluster that the object belongs to, or the id of a fleet;
	// of a cluster and a project it follows from Key.
	Cluster string
	// Project is the id of the project that the object belongs to; of a project it is Key.
	Project string
}

// OfCluster is the cluster with a management id.
func OfCluster(id string) Object { return Object{Kind: Cluster, Key: id} }

// OfShared is a Secret or ConfigMap that clusters may refer to.
func OfShared(o objects.Object) Object {
	return Object{Kind: SharedObject, Key: o.Key(), Owner: o.CreatorID}
}

// In is any object of a kind in a cluster.
func In(clusterID string, kind Kind) Object { return Object{Kind: kind, Cluster: clusterID} }

// place is where the object is.
func (o Object) place() roles.Place {
	at := roles.Place{Cluster: o.Cluster, Project: o.Project}
	switch o.Kind {
	case Cluster:
		at.Cluster = o.Key
	case Project:
		at.Project = o.Key
	}
	if at.Project != "" {
		at.Cluster = roles.ClusterOf(at.Project)
	}
	return at
}

// In is the management id of the cluster that the object is or is in; empty for none.
func (o Object) In() string { return o.place().Cluster }

// May says whether a user may do something to an object. It is a function of its
// arguments alone. Everybody includes those without a credential: the zero Identity.
func May(who Identity, verb Verb, o Object) bool {
	switch {
	case who.PlanSecret != "":
		return o.Kind == PlanSecret && o.Key == who.PlanSecret && (verb == Get || verb == List || verb == Update)
	case who.UserID == "":
		return o.Kind == Setting && verb == Get && openSetting(o.Key)
	case who.ClusterID != "":
		return o.Kind == Cluster && (verb == Proxy || verb == Own) && (o.Key == "" || o.Key == who.ClusterID) && who.anywhere(verb, OfCluster(who.ClusterID)) ||
			May(Identity{}, verb, o)
	}
	return who.anywhere(verb, o)
}

// anywhere is May for a user whose token is not limited to a cluster.
func (who Identity) anywhere(verb Verb, o Object) bool {
	if everybodyMay(who, verb, o) {
		return true
	}
	if o.Kind == Preference || o.Kind == Token && verb != ListAll && verb != Action("revoke") {
		return false // they are their owners' alone
	}
	if who.Admin {
		return true
	}
	if Reserved(verb, o) != "" {
		return false
	}
	q, depth := request(verb, o)
	at := o.place()
	if depth == roles.Global {
		at = roles.Place{}
	} else if depth == roles.Cluster {
		at.Project = ""
	}
	return who.Grants.Allow(q, at)
}

// Reserved is why something is for administrators alone, even where rules allow it: with it any user would become one. It is empty for
// what is not.
func Reserved(verb Verb, o Object) string {
	if verb == Get || verb == List || verb == ListAll {
		return ""
	}
	switch {
	case o.Kind == Setting && settings.ForAdministrators(o.Key):
		return "setting " + o.Key + " reaches hosts or clusters, or decides who gets in, so that only an administrator (global role admin) changes it"
	case o.Kind == Directory:
		return "a directory decides who is an administrator, so that only an administrator (global role admin) changes it"
	}
	return ""
}

// Somewhere says whether a user may do something to an object of a kind at any place: it is what a
// route without an object asks, whose handler asks May about each object.
func Somewhere(who Identity, verb Verb, kind Kind) bool {
	o := Object{Kind: kind}
	if verb == Apply && kind == Cluster { // documents of clusters that are new, and of those that are there
		return Somewhere(who, Create, kind) || Somewhere(who, Update, kind)
	}
	if May(who, verb, o) {
		return true
	}
	if who.UserID == "" || who.ClusterID != "" || who.PlanSecret != "" {
		return false
	}
	if Reserved(verb, o) != "" {
		return false
	}
	q, depth := request(verb, o)
	return kind != Token && who.Grants.Somewhere(q, depth)
}

// everybodyMay is what every user may do: see settings, features and versions, and look after themselves, their preferences and their tokens.
// Lists are open, since they show only what Get is allowed for.
func everybodyMay(who Identity, verb Verb, o Object) bool {
	own := o.Owner != "" && o.Owner == who.UserID
	switch o.Kind {
	case Setting, Feature, RKEVersion:
		return verb == Get || verb == List || verb == ListAll
	case Preference:
		return verb == List || verb == Create || own
	case Token:
		switch verb {
		case List, Create, CollectionAction("logout"), CollectionAction("logoutAll"):
			return true
		case Get, Update, Remove, Action("revoke"):
			return own
		}
	case User:
		return verb == List || verb == CollectionAction("changepassword") || verb == Get && own
	case Principal:
		return verb == List || verb == Get && own
	case Cluster, RegistrationToken, Machine, NodePool, EtcdBackup, Project, Operation, Event,
		GlobalRole, GlobalRoleBinding, RoleTemplate, ClusterBinding, ProjectBinding, ProjectSecret:
		return verb == List
	case SharedObject, CloudCredential: // its creator may do all with it
		return verb == List || own && (verb == Get || verb == Update || verb == Remove)
	case Tunnel, Metrics, PlanSecret, Namespace, Fleet, Backup, ProvisionedCluster, ClusterMachine, Audit, Directory:
	}
	return false
}

// openSetting says that a setting is read before a user logs in: to trust the server's
// certificate, and to draw a login page.
func openSetting(name string) bool {
	switch name {
	case "cacerts", "first-login", "ui-banners", "ui-brand", "ui-default-landing", "ui-issues", "ui-pl":
		return true
	}
	return false
}

// Lost says whether a user may see less than before in general: some kind of which they saw all
// objects is no longer theirs to see. That an object of one cluster is not is for the code that shows it
// to ask May.
func Lost(before, now Identity) bool {
	for _, kind := range []Kind{
		Cluster, RegistrationToken, Machine, Project, Setting, User, Operation, Event, Fleet, EtcdBackup, ProvisionedCluster, ClusterMachine,
		GlobalRole, GlobalRoleBinding, RoleTemplate, ClusterBinding, ProjectBinding, Principal, PlanSecret, Namespace, Tunnel, SharedObject, CloudCredential, Backup, ProjectSecret,
	} {
		if May(before, Get, Object{Kind: kind}) && !May(now, Get, Object{Kind: kind}) {
			return true
		}
	}
	return false
}

// ActionName is the name of the action of a resource that the verb is, if it is one.
func (v Verb) ActionName() (string, bool) { return strings.CutPrefix(string(v), action) }
