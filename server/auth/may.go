// Who may do what: one function without state, asked by the table of routes and by
// handlers that know the object.

package auth

import "strings"

// Verb is what is done to an object.
type Verb string

// Verbs. An action of a resource is Verb "action NAME", one of a whole type
// "collection action NAME"; see Action and CollectionAction.
const (
	// List shows of all objects those that Get is allowed for, ListAll all of them.
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
	// Own is to have all rights inside a cluster.
	Own Verb = "own"
	// Dial opens a connection on a host.
	Dial Verb = "dial"

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
	// Fleet is one of machines without a cluster.
	Fleet Kind = "fleet"
	// Backup is one of the server itself.
	Backup Kind = "backup"
)

// Object is what something is done to. With Kind alone it stands for any object of the
// kind that belongs to nobody in particular.
type Object struct {
	Kind Kind
	// Key is the object's name: of a setting its name, of a plan Secret
	// "<namespace>/<name>", of a cluster, a fleet and of an operation its id.
	Key string
	// Owner is the id of the user whom a token belongs to; of a user it is the user's own id.
	Owner string
}

// May says whether somebody may do something to an object. It is a function of its
// arguments alone. Everybody includes those without a credential: the zero Identity.
func May(who Identity, verb Verb, o Object) bool {
	switch {
	case who.PlanSecret != "":
		return o.Kind == PlanSecret && o.Key == who.PlanSecret && (verb == Get || verb == List || verb == Update)
	case who.UserID == "":
		return o.Kind == Setting && verb == Get && openSetting(o.Key)
	case who.ClusterID != "":
		return o.Kind == Cluster && (verb == Proxy || verb == Own) && who.Admin && (o.Key == "" || o.Key == who.ClusterID) ||
			May(Identity{}, verb, o)
	case who.Admin:
		return true
	}
	return userMay(who, verb, o)
}

// userMay is what every user may do: see settings, and look after themselves and their tokens.
// Lists are open, since they show only what Get is allowed for.
func userMay(who Identity, verb Verb, o Object) bool {
	own := o.Owner != "" && o.Owner == who.UserID
	switch o.Kind {
	case Setting:
		return verb == Get || verb == List
	case Token:
		switch verb {
		case List, Create, CollectionAction("logout"), CollectionAction("logoutAll"):
			return true
		case Get, Update, Remove:
			return own
		}
	case User:
		return verb == List || verb == CollectionAction("changepassword") || verb == Get && own
	case Cluster, RegistrationToken, Machine, NodePool, EtcdBackup, Project:
		return verb == List
	case Tunnel, Metrics, PlanSecret, Namespace, Operation, Event, SharedObject, Fleet, Backup:
	}
	return false
}

// openSetting says that a setting is read before anybody logs in: to trust the server's
// certificate, and to draw a login page.
func openSetting(name string) bool {
	switch name {
	case "cacerts", "first-login", "ui-banners", "ui-brand", "ui-default-landing", "ui-issues", "ui-pl":
		return true
	}
	return false
}

// Lost says whether somebody may see less than before: some kind of which they saw all
// objects is no longer theirs to see.
func Lost(before, now Identity) bool {
	for _, kind := range []Kind{Cluster, RegistrationToken, Machine, Project, Setting, Token, User, Operation, Event, Fleet} {
		if May(before, Get, Object{Kind: kind}) && !May(now, Get, Object{Kind: kind}) {
			return true
		}
	}
	return false
}

// ActionName is the name of the action of a resource that the verb is, if it is one.
func (v Verb) ActionName() (string, bool) { return strings.CutPrefix(string(v), action) }
