// The roles that come with the server.
//
// Source: rancher/rancher pkg/data/management/role_data.go for names, contexts and what each may
// do on records of the server; Kubernetes' ClusterRoles admin, edit and view for what project
// roles may do inside a cluster.

package roles

import (
	"slices"
	"strings"
)

// API groups of the server's own resources. Drover is of those that Rancher has no name for.
const (
	Management   = "management.cattle.io"
	Provisioning = "provisioning.cattle.io"
	Machines     = "cluster.x-k8s.io"
	Drover       = "drover.dev"
)

// IDs of roles that the server itself gives.
const (
	Admin        = "admin"
	ClusterOwner = "cluster-owner"
	ProjectOwner = "project-owner"
)

// read are the verbs that change nothing, unbinding those of roles and their bindings without escalate and bind, by which a user
// would give more than they have.
const (
	read      = "get list watch"
	unbinding = read + " create update patch delete deletecollection"
)

// on is a rule on resources of a group, with verbs that are parted by spaces.
func on(group, verbs string, resources ...string) Rule {
	return Rule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(verbs)}
}

// membership is what any role in a cluster or in one of its projects brings with it.
func membership() Rule { return on(Management, read, "clusters") }

// clustersCreate is what making clusters takes, with the Secrets and ConfigMaps that they refer to, which are then their maker's.
func clustersCreate() []Rule {
	return []Rule{on(Management, "create", "clusters"), on(Provisioning, "create", "clusters"), on(Drover, "create", "objects")}
}

// Builtin finds a role that comes with the server.
func Builtin(kind Kind, id string) (Role, bool) {
	all := globalRoles
	if kind == RoleTemplate {
		all = roleTemplates
	}
	i := slices.IndexFunc(all, func(r Role) bool { return r.ID == id })
	if i < 0 {
		return Role{}, false
	}
	return all[i], true
}

// Builtins are all roles of a kind that come with the server.
func Builtins(kind Kind) []Role {
	if kind == RoleTemplate {
		return slices.Clone(roleTemplates)
	}
	return slices.Clone(globalRoles)
}

// globalRoles never change.
var globalRoles = builtin(Global,
	Role{ID: Admin, Name: "Admin", Description: "Everything", Rules: everything()},
	Role{
		ID: "user", Name: "User", Description: "Create clusters, and see those that others let them in", NewUserDefault: true,
		Rules: append(clustersCreate(), on(Management, read, "roletemplates", "principals", "settings", "features")),
	},
	Role{ID: "user-base", Name: "User Base", Description: "Log in", Rules: []Rule{on(Management, read, "settings", "features")}},
	Role{ID: "clusters-create", Name: "Create Clusters", Rules: clustersCreate()},
	Role{
		ID: "users-manage", Name: "Manage Users",
		Rules: []Rule{on(Management, "*", "users", "globalrolebindings"), on(Management, read, "globalroles")},
	},
	Role{ID: "roles-manage", Name: "Manage Roles", Rules: []Rule{on(Management, "*", "roletemplates")}},
	Role{ID: "settings-manage", Name: "Manage Settings", Rules: []Rule{on(Management, "*", "settings")}},
)

// roleTemplates never change.
var roleTemplates = slices.Concat(
	builtin(Cluster,
		Role{ID: ClusterOwner, Name: "Cluster Owner", Description: "Everything in the cluster and on its record", ClusterCreatorDefault: true, Rules: everything()},
		Role{
			ID: "cluster-member", Name: "Cluster Member", Description: "See the cluster, its nodes and who has a role in it, and create projects",
			Rules: []Rule{
				on(Management, read, "clusterroletemplatebindings", "nodes", "nodepools"), on(Management, "create", "projects"),
				on(Machines, "get", "machines"), on(Provisioning, read, "clusters"), on(Drover, read, "operations", "events"),
				on("", read, "persistentvolumes"), on("storage.k8s.io", read, "storageclasses"),
			},
		},
		Role{ID: "projects-create", Name: "Create Projects", Rules: []Rule{on(Management, "create", "projects")}},
		Role{ID: "projects-view", Name: "View All Projects", Rules: []Rule{on(Management, read, "projects", "projectroletemplatebindings"), on("", read, "namespaces")}},
		Role{ID: "nodes-manage", Name: "Manage Nodes", Rules: []Rule{on(Management, "*", "nodes", "nodepools"), on(Machines, "*", "machines"), on("", "*", "nodes")}},
		Role{ID: "nodes-view", Name: "View Nodes", Rules: []Rule{on(Management, read, "nodes", "nodepools"), on(Machines, read, "machines"), on("", read, "nodes")}},
		Role{ID: "clusterroletemplatebindings-manage", Name: "Manage Cluster Members", Rules: []Rule{on(Management, "*", "clusterroletemplatebindings")}},
		Role{ID: "clusterroletemplatebindings-view", Name: "View Cluster Members", Rules: []Rule{on(Management, read, "clusterroletemplatebindings")}},
		Role{ID: "backups-manage", Name: "Manage Cluster Backups", Rules: []Rule{on(Management, "*", "etcdbackups")}},
		Role{ID: "storage-manage", Name: "Manage Storage", Rules: []Rule{on("", "*", "persistentvolumes"), on("storage.k8s.io", "*", "storageclasses")}},
	),
	builtin(Project,
		Role{
			ID: ProjectOwner, Name: "Project Owner", Description: "Everything in the project, and who has a role in it", ProjectCreatorDefault: true, Kubernetes: "admin",
			Rules: slices.Concat([]Rule{
				on(Management, "get list watch update patch delete", "projects"), on(Management, "*", "projectroletemplatebindings"),
				on("", "*", "namespaces"), on("rbac.authorization.k8s.io", unbinding, "roles", "rolebindings"),
			}, storage(), editing()),
		},
		Role{
			ID: "project-member", Name: "Project Member", Description: "Workloads, services and secrets in the project", Kubernetes: "edit",
			Rules: slices.Concat([]Rule{on(Management, read, "projects", "projectroletemplatebindings"), on("", "get list watch create", "namespaces")}, storage(), editing()),
		},
		Role{
			ID: "read-only", Name: "Read Only", Description: "See the project and what runs in it, without secrets", Kubernetes: "view",
			Rules: append([]Rule{on(Management, read, "projects", "projectroletemplatebindings"), on("", read, "namespaces")}, viewing()...),
		},
		Role{ID: "create-ns", Name: "Create Namespaces", Rules: []Rule{on("", "create", "namespaces")}},
	),
	byName("workloads", "Workloads", workloads),
	byName("secrets", "Secrets", single("", "secrets")),
	byName("services", "Services", single("", "services", "endpoints")),
	byName("configmaps", "ConfigMaps", single("", "configmaps")),
	byName("ingress", "Ingress", single("networking.k8s.io", "ingresses")),
	byName("persistentvolumeclaims", "Persistent Volume Claims", single("", "persistentvolumeclaims")),
	byName("serviceaccounts", "Service Accounts", single("", "serviceaccounts")),
	byName("projectroletemplatebindings", "Project Members", single(Management, "projectroletemplatebindings")),
)

// builtin marks roles as such.
func builtin(context Context, all ...Role) []Role {
	for i := range all {
		all[i].Context, all[i].Builtin = context, true
	}
	return all
}

// byName is the two roles of projects that manage and view some resources.
func byName(id, name string, rules func(verbs string) []Rule) []Role {
	return builtin(Project,
		Role{ID: id + "-manage", Name: "Manage " + name, Rules: rules("*")},
		Role{ID: id + "-view", Name: "View " + name, Rules: rules(read)})
}

func single(group string, resources ...string) func(verbs string) []Rule {
	return func(verbs string) []Rule { return []Rule{on(group, verbs, resources...)} }
}

func workloads(verbs string) []Rule {
	return []Rule{
		on("", verbs, "pods", "pods/log", "pods/exec", "pods/attach", "pods/portforward", "pods/eviction", "replicationcontrollers", "replicationcontrollers/scale"),
		on("apps", verbs, "daemonsets", "deployments", "deployments/scale", "deployments/rollback", "replicasets", "replicasets/scale", "statefulsets", "statefulsets/scale"),
		on("batch", verbs, "cronjobs", "jobs"),
		on("autoscaling", verbs, "horizontalpodautoscalers"),
		on("policy", verbs, "poddisruptionbudgets"),
	}
}

// storage is what a user has to see who writes a claim; it is in no namespace.
func storage() []Rule {
	return []Rule{on("", read, "persistentvolumes"), on("storage.k8s.io", read, "storageclasses")}
}

// editing is what Kubernetes' edit allows, for the check that no user gives more than they have.
func editing() []Rule {
	return append(workloads("*"),
		on("", "*", "configmaps", "endpoints", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"),
		on("networking.k8s.io", "*", "ingresses", "networkpolicies"),
		on("", read, "events", "limitranges", "resourcequotas"))
}

// viewing is what Kubernetes' view allows: no secrets, and no way into a pod.
func viewing() []Rule {
	return []Rule{
		on("", read, "pods", "pods/log", "replicationcontrollers", "replicationcontrollers/scale", "configmaps", "endpoints", "persistentvolumeclaims",
			"serviceaccounts", "services", "events", "limitranges", "resourcequotas"),
		on("apps", read, "daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets", "statefulsets/scale"),
		on("batch", read, "cronjobs", "jobs"),
		on("autoscaling", read, "horizontalpodautoscalers"),
		on("policy", read, "poddisruptionbudgets"),
		on("networking.k8s.io", read, "ingresses", "networkpolicies"),
	}
}
