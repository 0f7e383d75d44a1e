// Kinds and verbs in the words of rules, which are those of Kubernetes.

package auth

import (
	"strings"

	"github.com/drover-project/drover/server/roles"
)

// resource is a kind as rules name it, and how deep its objects are: those of roles.Global are no
// cluster's, even where its owner may do more.
func resource(kind Kind) (group, plural string, depth roles.Context) {
	switch kind {
	case Cluster:
		return roles.Management, "clusters", roles.Cluster
	case ProvisionedCluster:
		return roles.Provisioning, "clusters", roles.Cluster
	case ClusterMachine:
		return roles.Machines, "machines", roles.Cluster
	case RegistrationToken, Machine, NodePool, EtcdBackup, ClusterBinding:
		return roles.Management, strings.ToLower(string(kind)) + "s", roles.Cluster
	case Project, ProjectBinding:
		return roles.Management, strings.ToLower(string(kind)) + "s", roles.Project
	case Namespace, ProjectSecret:
		return "", strings.ToLower(string(kind)) + "s", roles.Project
	case Operation, Event, Tunnel, PlanSecret:
		return roles.Drover, strings.ToLower(string(kind)) + "s", roles.Cluster
	case Setting, Token, User, GlobalRole, GlobalRoleBinding, RoleTemplate, Principal, Directory, Preference, Feature, RKEVersion:
		return roles.Management, strings.ToLower(string(kind)) + "s", roles.Global
	case Metrics:
		return roles.Drover, "metrics", roles.Global
	case CloudCredential:
		return roles.Drover, "objects", roles.Global
	case SharedObject, Fleet, Backup:
	}
	return roles.Drover, strings.ToLower(string(kind)) + "s", roles.Global
}

// own is the verb of the owner of a cluster: it is in no role but those that may do everything
// there. A request that leads onto a host, or shows what a whole cluster keeps secret, asks for it.
const own = "own"

// request is what is asked of rules. What leads to a cluster's secrets or onto its hosts, and every
// action that is not named here, is for its owners.
func request(verb Verb, o Object) (roles.Request, roles.Context) {
	group, plural, depth := resource(o.Kind)
	q := roles.Request{Group: group, Resource: plural, Name: nameOf(o)}
	name, isAction := verb.ActionName()
	switch {
	case verb == List || verb == ListAll:
		q.Verb, q.Name = "list", ""
	case verb == Remove:
		q.Verb = "delete"
	case verb == Create:
		if q.Verb, q.Name = "create", ""; o.Kind == Cluster || o.Kind == ProvisionedCluster {
			depth = roles.Global // none is made in another
		}
	case verb == Apply:
		q.Verb = "update"
	case verb == Proxy || verb == Terminal:
		q.Verb = "get"
	case verb == Own || verb == Dial:
		q = roles.Request{Group: roles.Management, Resource: "clusters", Verb: own}
	case isAction:
		q = actionRequest(q, o.Kind, name)
	case strings.HasPrefix(string(verb), collectionAction):
		q.Verb, q.Name = "list", "" // of which search is the only one that is not everybody's
	default:
		q.Verb = string(verb) // get, update and patch
	}
	return q, depth
}

func actionRequest(q roles.Request, kind Kind, name string) roles.Request {
	switch {
	case kind == Cluster && name == "generateKubeconfig":
		q.Verb = "get"
	case kind == Cluster && name == "backupEtcd":
		q.Resource, q.Verb, q.Name = "etcdbackups", "create", ""
	case kind == Cluster && (name == "exportYaml" || name == "rotateCertificates" || name == "rotateEncryptionKey" || name == "restoreFromEtcdBackup"):
		q.Verb = "update"
	case kind == Machine && (name == "logs" || name == "cordon" || name == "uncordon" || name == "drain" || name == "stopDrain"), kind == Namespace && name == "move":
		q.Verb = "update"
	case kind == Operation, kind == User:
		q.Verb = "update"
	default:
		q.Verb = own
	}
	return q
}

// nameOf is the object's name in the words of rules: what follows its cluster or namespace.
func nameOf(o Object) string {
	return o.Key[strings.LastIndexAny(o.Key, ":/")+1:]
}
