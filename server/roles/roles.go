// Package roles says what people may do, as values: rules, the roles that hold them, the
// bindings that give a role to a user or a group, and what all bindings of a person come to (Grants). It
// stands on nothing: no clock, store or network.
//
// Rules are those of Kubernetes' RBAC, so that a role means the same at the server and inside a
// cluster.
//
// Wire source: rancher/rancher pkg/apis/management.cattle.io/v3 (GlobalRole, RoleTemplate and
// their bindings), k8s.io/api/rbac/v1 (PolicyRule).
package roles

import "time"

// Rule allows verbs on resources, or on paths that are none. "*" in a list stands for anything.
// Key of Kubernetes: PolicyRule.
type Rule struct {
	APIGroups []string `json:"apiGroups,omitempty"`
	// Resources are plurals in lower case, "pods/log" a part of one, "*/status" that part of all.
	Resources []string `json:"resources,omitempty"`
	Verbs     []string `json:"verbs,omitempty"`
	// ResourceNames narrow the rule to objects of these names; none is all.
	ResourceNames []string `json:"resourceNames,omitempty"`
	// NonResourceURLs are paths; one that ends in * stands for all that begin so.
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Context is where the rules of a role hold.
type Context string

// Contexts. A role of Global holds at the server and, for its records, in all clusters; one of
// Cluster or Project in the one that its binding names.
const (
	Global  Context = "global"
	Cluster Context = "cluster"
	Project Context = "project"
)

// Role is a named set of rules: a global role, or a role template of clusters or projects. Key of
// the store: ID. Of a built-in one only the flags are stored, see Overlaid.
type Role struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Context     Context `json:"context"`
	Rules       []Rule  `json:"rules,omitempty"`
	// Inherits are the IDs of role templates of the same context whose rules it has, too.
	Inherits []string `json:"inherits,omitempty"`
	// Kubernetes is the ClusterRole of Kubernetes itself that the role is inside a cluster,
	// besides its rules: admin, edit or view; empty for none.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Builtin is one that comes with the server.
	Builtin bool `json:"builtin,omitempty"`
	// Locked is one that no new binding may give.
	Locked bool `json:"locked,omitempty"`
	// NewUserDefault is a global role that new users get, the others role templates that the
	// creator of a cluster or a project gets.
	NewUserDefault        bool `json:"newUserDefault,omitempty"`
	ClusterCreatorDefault bool `json:"clusterCreatorDefault,omitempty"`
	ProjectCreatorDefault bool `json:"projectCreatorDefault,omitempty"`

	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
	CreatorID   string            `json:"creatorID,omitempty"`
}

// Binding gives a role to a user or a group. Key of the store: ID.
type Binding struct {
	// ID is "grb-xxxxx", "<cluster id>:crtb-xxxxx" or "<namespace of the project>:prtb-xxxxx".
	ID string `json:"id"`
	// Name is what its maker calls it; "" is by its ID. Several may have one name.
	Name string `json:"name,omitempty"`
	// Role is the ID of a global role where ClusterID is empty, else of a role template.
	Role string `json:"role"`
	Subject
	// ClusterID is the management ID of the cluster in which the role holds; empty for a global role.
	ClusterID string `json:"clusterID,omitempty"`
	// ProjectID is "<cluster id>:<project>" where the role holds in one project; ClusterID is set then, too.
	ProjectID string `json:"projectID,omitempty"`

	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     time.Time         `json:"created"`
	CreatorID   string            `json:"creatorID,omitempty"`
}

// Context is where the binding's role holds.
func (b Binding) Context() Context {
	switch {
	case b.ProjectID != "":
		return Project
	case b.ClusterID != "":
		return Cluster
	}
	return Global
}

// Subject is whom a binding is for: exactly one of the two.
type Subject struct {
	// User is the principal of a person: "local://<user id>" or that of a directory.
	User string `json:"user,omitempty"`
	// Group is the principal of a group, in the words of the directory that knows it.
	Group string `json:"group,omitempty"`
}

// Principal is the text of the subject.
func (s Subject) Principal() string {
	if s.User != "" {
		return s.User
	}
	return s.Group
}

// localPrefix begins the principals of this server's own users.
const localPrefix = "local://"

// LocalUser is the principal of a user of this server.
func LocalUser(userID string) string { return localPrefix + userID }

// LocalUserID is the ID of the user whose principal it is; false for one of a directory.
func LocalUserID(principal string) (string, bool) {
	if len(principal) <= len(localPrefix) || principal[:len(localPrefix)] != localPrefix {
		return "", false
	}
	return principal[len(localPrefix):], true
}

// Kind is one of the two kinds of roles, whose IDs are names of their own.
type Kind bool

// Kinds.
const (
	GlobalRole   Kind = false
	RoleTemplate Kind = true
)

// KindOf is the kind of the roles of a context.
func KindOf(c Context) Kind { return Kind(c != Global) }

// Lookup finds a role by its ID.
type Lookup func(kind Kind, id string) (Role, bool)

// OfCreator are the bindings, still without IDs, that the creator of a cluster gets in it.
func OfCreator(templates []Role, clusterID, userID string, at time.Time) []Binding {
	var all []Binding
	for _, r := range templates {
		if r.Context == Cluster && r.ClusterCreatorDefault {
			all = append(all, Binding{Role: r.ID, ClusterID: clusterID, Subject: Subject{User: LocalUser(userID)}, Created: at, CreatorID: userID})
		}
	}
	return all
}

// Overlaid is a built-in role with the flags that people gave it.
func (r Role) Overlaid(stored Role) Role {
	r.Locked, r.NewUserDefault = stored.Locked, stored.NewUserDefault
	r.ClusterCreatorDefault, r.ProjectCreatorDefault = stored.ClusterCreatorDefault, stored.ProjectCreatorDefault
	return r
}
