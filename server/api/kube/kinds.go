// The table of resources: what each is called, what can be done with it, what people see of it
// in a table, and what it is made of.

package kube

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/discovery"
)

// Definition is what a resource is called and how it looks.
type Definition struct {
	Group, Version, Kind string
	// Plural is the resource in paths; Short are abbreviations.
	Plural, Singular string
	Short            []string
	Namespaced       bool
	// Of is what auth.May knows the objects by.
	Of      auth.Kind
	Verbs   metav1.Verbs
	Columns []metav1.TableColumnDefinition
	Schema  *discovery.Schema
}

// GVK is group, version and kind.
func (d Definition) GVK() kschema.GroupVersionKind {
	return kschema.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind}
}

// APIVersion is that of the objects.
func (d Definition) APIVersion() string {
	if d.Group == "" {
		return d.Version
	}
	return d.Group + "/" + d.Version
}

// namespaceDefinition are those of the core group, of which package planapi has the rest.
func namespaceDefinition() Definition {
	return Definition{
		Version: "v1", Kind: "Namespace", Plural: "namespaces", Singular: "namespace", Short: []string{"ns"}, Of: auth.Namespace,
		Verbs: metav1.Verbs{"get", "list", "watch"}, Columns: columns("Name", "Status", "Age"),
	}
}

// SecretDefinition are those of people, also of the core group.
func SecretDefinition() Definition {
	return Definition{
		Version: "v1", Kind: "Secret", Plural: "secrets", Singular: "secret", Namespaced: true, Of: auth.SharedObject,
		Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}, Columns: columns("Name", "Type", "Data#", "Age"),
	}
}

// definitions in the order in which clients look for a name: "clusters" are those of provisioning.cattle.io.
func definitions() []Definition {
	return append([]Definition{
		{
			Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster", Plural: "clusters", Singular: "cluster", Namespaced: true, Of: auth.ProvisionedCluster,
			Verbs:   metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			Columns: columns("Name", "Ready", "State", "Version", "Machines#", "Age", "Id+", "Message+"), Schema: clusterSchema(),
		},
		{
			Group: "management.cattle.io", Version: "v3", Kind: "Cluster", Plural: "clusters", Singular: "cluster", Of: auth.Cluster,
			Verbs:   metav1.Verbs{"delete", "get", "list", "watch"},
			Columns: columns("Name", "Display name", "Ready", "State", "Provider", "Version", "Machines#", "Age"), Schema: managementSchema(),
		},
		{
			Group: "management.cattle.io", Version: "v3", Kind: "Setting", Plural: "settings", Singular: "setting", Of: auth.Setting,
			Verbs:   metav1.Verbs{"get", "list", "patch", "update", "watch"},
			Columns: columns("Name", "Value", "Source"), Schema: settingSchema(),
		},
		{
			Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine", Plural: "machines", Singular: "machine", Short: []string{"ma"}, Namespaced: true, Of: auth.ClusterMachine,
			Verbs:   metav1.Verbs{"get", "list", "watch"},
			Columns: columns("Name", "Cluster", "Node", "Roles", "Phase", "State", "Age", "Version+", "Message+"), Schema: machineSchema(),
		},
	}, ofPeople()...)
}

// columns by their names: those with + are shown with -o wide, and those with # are numbers.
func columns(names ...string) []metav1.TableColumnDefinition {
	list := make([]metav1.TableColumnDefinition, len(names))
	for i, name := range names {
		one := metav1.TableColumnDefinition{Name: name, Type: "string"}
		switch name[len(name)-1] {
		case '+':
			one.Name, one.Priority = name[:len(name)-1], 1
		case '#':
			one.Name, one.Type = name[:len(name)-1], "integer"
		}
		if one.Name == "Name" {
			one.Format = "name"
		}
		list[i] = one
	}
	return list
}

// definitionOf is the definition of a resource.
func definitionOf(group, plural string) Definition {
	for _, d := range definitions() {
		if d.Group == group && d.Plural == plural {
			return d
		}
	}
	return Definition{}
}

// Groups are what discovery shows, in the order in which clients look for a name.
func Groups() []discovery.Group {
	var groups []discovery.Group
	kinds := map[string][]discovery.SchemaKind{}
	at := map[string]int{}
	for _, d := range definitions() {
		gv := d.Group + "/" + d.Version
		if _, known := at[gv]; !known {
			at[gv] = len(groups)
			groups = append(groups, discovery.Group{Name: d.Group, Version: d.Version})
		}
		one := &groups[at[gv]]
		one.Resources = append(one.Resources, metav1.APIResource{
			Name: d.Plural, SingularName: d.Singular, Namespaced: d.Namespaced, Kind: d.Kind, ShortNames: d.Short, Verbs: d.Verbs, Categories: []string{"drover"},
		})
		kinds[gv] = append(kinds[gv], discovery.SchemaKind{
			GVK: discovery.GVK{Group: d.Group, Version: d.Version, Kind: d.Kind}, Plural: d.Plural, Namespaced: d.Namespaced,
			Changes: d.changes(), Schema: d.Schema,
		})
		one.OpenAPI = discovery.OpenAPI(kinds[gv]...)
	}
	return append(groups, reviewGroups()...)
}

// changes says whether objects are written by patches.
func (d Definition) changes() bool {
	return slices.Contains(d.Verbs, "patch")
}

func objectSchema(description string, more map[string]*discovery.Schema) *discovery.Schema {
	s := discovery.Struct(description, map[string]*discovery.Schema{
		"apiVersion": discovery.Text("The group and version of the object."), "kind": discovery.Text("The kind of the object."), "metadata": metadataSchema(),
	})
	maps.Copy(s.Properties, more)
	return s
}

func metadataSchema() *discovery.Schema {
	return discovery.Struct("What all objects have.", map[string]*discovery.Schema{
		"name": discovery.Text("The name, which never changes."), "namespace": discovery.Text("The namespace; clusters are in fleet-default unless they say otherwise."),
		"labels": discovery.Texts("Labels, which selectors match."), "annotations": discovery.Texts("Annotations."),
		"uid": discovery.Text("Stable for the life of the object."), "resourceVersion": discovery.Text("Changes whenever the object does."),
		"generation": discovery.Whole("Grows with each change of what is wanted."), "creationTimestamp": discovery.Time("When the object was made."),
		"deletionTimestamp": discovery.Time("When its removal was asked for."), "deletionGracePeriodSeconds": discovery.Whole("Not used."),
		"finalizers":    discovery.List("What has to be done before the object is gone; the server does it and keeps this list.", discovery.Text("")),
		"managedFields": discovery.List("Who set which field; see server-side apply.", discovery.Open("")), "ownerReferences": discovery.List("Not supported.", discovery.Open("")),
		"generateName": discovery.Text("Not supported: names are not generated."), "selfLink": discovery.Text("Not used."),
	})
}

func conditionsSchema() *discovery.Schema {
	return discovery.List("How the object stands, one condition for each thing.", discovery.Struct("", map[string]*discovery.Schema{
		"type": discovery.Text("The name of the condition, such as Ready."), "status": discovery.Text("True, False or Unknown."),
		"reason": discovery.Text("A word for programs."), "message": discovery.Text("A sentence for people: what is waited for, or what went wrong."),
		"lastUpdateTime": discovery.Time("Since when."), "lastTransitionTime": discovery.Time("Since when."),
	}))
}

func clusterSchema() *discovery.Schema {
	spec := *discovery.SchemaOf(reflect.TypeFor[clusterspec.Spec](), discovery.Comments(), reflect.TypeFor[*clusterspec.RancherKubernetesEngineConfig]())
	spec.Description = "What is wanted of the cluster."
	return objectSchema("A cluster of k3s or RKE2 on hosts that register themselves, as its owner wants it and as it is.", map[string]*discovery.Schema{
		"spec": &spec,
		"status": {
			Type: "object", Description: "How the cluster is. The server writes it; what others write is left out.", Free: true,
			Properties: map[string]*discovery.Schema{
				"clusterName": discovery.Text("The id by which the management API knows the cluster."), "ready": discovery.Flag("Whether the cluster's own API answers through the server."),
				"agentDeployed": discovery.Flag("Whether a tunnel to its control plane is open."), "observedGeneration": discovery.Whole("The generation that the planner has looked at."),
				"fleetWorkspaceName": discovery.Text("The namespace."), "conditions": conditionsSchema(),
			},
		},
	})
}

func managementSchema() *discovery.Schema {
	return objectSchema("A cluster as the management API knows it, by its id. Its document is the Cluster of provisioning.cattle.io.", map[string]*discovery.Schema{
		"spec": discovery.Struct("Who it is.", map[string]*discovery.Schema{
			"displayName": discovery.Text("The cluster's name."), "description": discovery.Text("A few words about it."), "fleetWorkspaceName": discovery.Text("Its namespace."),
			"internal": discovery.Flag("Never true."),
		}),
		"status": {Type: "object", Description: "How the cluster is.", Free: true, Properties: map[string]*discovery.Schema{
			"driver": discovery.Text("How it is provisioned; empty before its first host joins."), "provider": discovery.Text("Its distribution."), "nodeCount": discovery.Whole("How many machines it has."),
			"apiEndpoint": discovery.Text("The URL of its own API, on a host."), "conditions": conditionsSchema(),
		}},
	})
}

func settingSchema() *discovery.Schema {
	return objectSchema("A setting of the server. All of them exist always; an empty value is the default.", map[string]*discovery.Schema{
		"value": discovery.Text("What was set; empty for the default."), "default": discovery.Text("What counts while nothing is set."),
		"customized": discovery.Flag("Whether the value that counts is not the default."), "source": discovery.Text("Where the value that counts is from: default, db or env."),
	})
}

func machineSchema() *discovery.Schema {
	return objectSchema("A host that registered for a cluster. Its label cluster.x-k8s.io/cluster-name is the cluster's name.", map[string]*discovery.Schema{
		"spec": {Type: "object", Description: "What it belongs to.", Free: true, Properties: map[string]*discovery.Schema{
			"clusterName": discovery.Text("The cluster's name."), "providerID": discovery.Text("The node's id."),
		}},
		"status": {Type: "object", Description: "How it is.", Free: true, Properties: map[string]*discovery.Schema{
			"phase":      discovery.Text("Pending, Provisioning, Provisioned, Running, Deleting or Failed."),
			"nodeRef":    discovery.Open("The node of the cluster that it is."),
			"addresses":  discovery.List("Where it is.", discovery.Open("")),
			"conditions": conditionsSchema(),
		}},
	})
}

// ofPeople are those of people, in the order in which clients look for a name.
func ofPeople() []Definition {
	verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	one := func(kind, plural, singular string, namespaced bool, of auth.Kind, s *discovery.Schema, columnNames ...string) Definition {
		return Definition{
			Group: "management.cattle.io", Version: "v3", Kind: kind, Plural: plural, Singular: singular, Namespaced: namespaced, Of: of,
			Verbs: verbs, Columns: columns(columnNames...), Schema: s,
		}
	}
	return []Definition{
		one("User", "users", "user", false, auth.User, userSchema(), "Name", "Username", "Display name", "Enabled", "Age", "Principals+"),
		one("GlobalRole", "globalroles", "globalrole", false, auth.GlobalRole, roleSchema(false), "Name", "Display name", "Builtin", "New users", "Age"),
		one("GlobalRoleBinding", "globalrolebindings", "globalrolebinding", false, auth.GlobalRoleBinding, bindingSchema("globalRoleName", nil), "Name", "Role", "For", "Age"),
		one("RoleTemplate", "roletemplates", "roletemplate", false, auth.RoleTemplate, roleSchema(true), "Name", "Display name", "Context", "Builtin", "Locked", "Age"),
		one("ClusterRoleTemplateBinding", "clusterroletemplatebindings", "clusterroletemplatebinding", true, auth.ClusterBinding,
			bindingSchema("roleTemplateName", map[string]*discovery.Schema{"clusterName": discovery.Text("The id of the cluster, which is the namespace, too.")}), "Name", "Role", "For", "Age"),
		one("ProjectRoleTemplateBinding", "projectroletemplatebindings", "projectroletemplatebinding", true, auth.ProjectBinding,
			bindingSchema("roleTemplateName", map[string]*discovery.Schema{"projectName": discovery.Text("The id of the project, such as c-m-7hq2kq2k:p-4xk2v. The namespace is the same with a dash.")}), "Name", "Project", "Role", "For", "Age"),
		one("Project", "projects", "project", true, auth.Project, projectSchema(), "Name", "Display name", "Age"),
	}
}

func userSchema() *discovery.Schema {
	return objectSchema("A user, who may log in. A password is no part of it: drover users passwd sets one.", map[string]*discovery.Schema{
		"username": discovery.Text("The login name, which never changes."), "displayName": discovery.Text("Their name."), "description": discovery.Text("A few words about them."),
		"principalIds": discovery.List("By what this server and directories know them.", discovery.Text("")),
		"enabled":      discovery.Flag("Whether they may log in; true unless it is said."), "mustChangePassword": discovery.Flag("Whether they have to choose another password at their next login."),
	})
}

func rulesSchema() *discovery.Schema {
	texts := func(description string) *discovery.Schema { return discovery.List(description, discovery.Text("")) }
	return discovery.List("What it allows.", discovery.Struct("", map[string]*discovery.Schema{
		"apiGroups": texts("Groups of resources; \"\" is the core group, * all."), "resources": texts("Plurals in lower case, or *."), "verbs": texts("Verbs, or *."),
		"resourceNames": texts("Objects by name; none is all."), "nonResourceURLs": texts("Paths; one that ends in * stands for all that begin so."),
	}))
}

func roleSchema(template bool) *discovery.Schema {
	fields := map[string]*discovery.Schema{
		"displayName": discovery.Text("Its name for people."), "description": discovery.Text("What it is for."), "rules": rulesSchema(),
		"builtin": discovery.Flag("Whether it comes with the server: nothing of it changes but its defaults."),
	}
	if !template {
		fields["newUserDefault"] = discovery.Flag("Whether new users get it.")
		fields["inheritedClusterRoles"] = discovery.List("Not supported: bind a role template in each cluster.", discovery.Text(""))
		return objectSchema("A role at the server.", fields)
	}
	fields["context"] = discovery.Text("cluster or project: where it is given.")
	fields["roleTemplateNames"] = discovery.List("Role templates of the same context whose rules it has, too.", discovery.Text(""))
	fields["locked"] = discovery.Flag("Whether no new binding may give it.")
	fields["clusterCreatorDefault"], fields["projectCreatorDefault"] = discovery.Flag("Whether who makes a cluster gets it there."), discovery.Flag("Whether who makes a project gets it there.")
	fields["administrative"], fields["external"], fields["hidden"] = discovery.Flag("Not supported."), discovery.Flag("Not supported: give the rules."), discovery.Flag("Not supported.")
	return objectSchema("A role that is given in clusters, or in projects.", fields)
}

func bindingSchema(role string, place map[string]*discovery.Schema) *discovery.Schema {
	fields := map[string]*discovery.Schema{
		role:       discovery.Text("The role that is given, by its name."),
		"userName": discovery.Text("The user who gets it, by the name of the object."), "userPrincipalName": discovery.Text("The same by a principal, such as local://u-7hq2k or that of a directory."),
		"groupName": discovery.Text("The same as groupPrincipalName."), "groupPrincipalName": discovery.Text("The group that gets it, by the principal that its directory has."),
	}
	maps.Copy(fields, place)
	return objectSchema("Gives a role to a user or a group. Nothing of it changes but labels and annotations.", fields)
}

func projectSchema() *discovery.Schema {
	return objectSchema("Namespaces of one cluster under one name, with roles of their own. Its namespace is the id of the cluster.", map[string]*discovery.Schema{
		"spec": discovery.Struct("What is wanted.", map[string]*discovery.Schema{
			"displayName": discovery.Text("Its name for people."), "description": discovery.Text("What it is for."), "clusterName": discovery.Text("The id of the cluster, which is the namespace, too."),
			"resourceQuota": discovery.Open("Not supported: nothing would enforce it."), "namespaceDefaultResourceQuota": discovery.Open("Not supported."), "containerDefaultResourceLimit": discovery.Open("Not supported."),
		}),
		"status": {Type: "object", Description: "How it is.", Free: true, Properties: map[string]*discovery.Schema{"backingNamespace": discovery.Text("The namespace of its bindings.")}},
	})
}
