// Users, roles, who has them, and projects: their definitions.

package kube

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/discovery"
)

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
