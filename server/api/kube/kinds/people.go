// Users, roles, who has them, and projects: their definitions.

package kinds

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/api/kube/schema"
	"github.com/drover-project/drover/server/auth"
)

// ofPeople are those of people, in the order in which clients look for a name.
func ofPeople() []Definition {
	verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	one := func(kind, plural, singular string, namespaced bool, of auth.Kind, s *schema.Schema, columnNames ...string) Definition {
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
			bindingSchema("roleTemplateName", map[string]*schema.Schema{"clusterName": schema.Text("The id of the cluster, which is the namespace, too.")}), "Name", "Role", "For", "Age"),
		one("ProjectRoleTemplateBinding", "projectroletemplatebindings", "projectroletemplatebinding", true, auth.ProjectBinding,
			bindingSchema("roleTemplateName", map[string]*schema.Schema{"projectName": schema.Text("The id of the project, such as c-m-7hq2kq2k:p-4xk2v. The namespace is the same with a dash.")}), "Name", "Project", "Role", "For", "Age"),
		one("Project", "projects", "project", true, auth.Project, projectSchema(), "Name", "Display name", "Age"),
	}
}

func userSchema() *schema.Schema {
	return objectSchema("A user, who may log in. A password is no part of it: drover users passwd sets one.", map[string]*schema.Schema{
		"username": schema.Text("The login name, which never changes."), "displayName": schema.Text("Their name."), "description": schema.Text("A few words about them."),
		"principalIds": schema.List("By what this server and directories know them.", schema.Text("")),
		"enabled":      schema.Flag("Whether they may log in; true unless it is said."), "mustChangePassword": schema.Flag("Whether they have to choose another password at their next login."),
	})
}

func rulesSchema() *schema.Schema {
	texts := func(description string) *schema.Schema { return schema.List(description, schema.Text("")) }
	return schema.List("What it allows.", schema.Struct("", map[string]*schema.Schema{
		"apiGroups": texts("Groups of resources; \"\" is the core group, * all."), "resources": texts("Plurals in lower case, or *."), "verbs": texts("Verbs, or *."),
		"resourceNames": texts("Objects by name; none is all."), "nonResourceURLs": texts("Paths; one that ends in * stands for all that begin so."),
	}))
}

func roleSchema(template bool) *schema.Schema {
	fields := map[string]*schema.Schema{
		"displayName": schema.Text("Its name for people."), "description": schema.Text("What it is for."), "rules": rulesSchema(),
		"builtin": schema.Flag("Whether it comes with the server: nothing of it changes but its defaults."),
	}
	if !template {
		fields["newUserDefault"] = schema.Flag("Whether new users get it.")
		fields["inheritedClusterRoles"] = schema.List("Not supported: bind a role template in each cluster.", schema.Text(""))
		return objectSchema("A role at the server.", fields)
	}
	fields["context"] = schema.Text("cluster or project: where it is given.")
	fields["roleTemplateNames"] = schema.List("Role templates of the same context whose rules it has, too.", schema.Text(""))
	fields["locked"] = schema.Flag("Whether no new binding may give it.")
	fields["clusterCreatorDefault"], fields["projectCreatorDefault"] = schema.Flag("Whether who makes a cluster gets it there."), schema.Flag("Whether who makes a project gets it there.")
	fields["administrative"], fields["external"], fields["hidden"] = schema.Flag("Not supported."), schema.Flag("Not supported: give the rules."), schema.Flag("Not supported.")
	return objectSchema("A role that is given in clusters, or in projects.", fields)
}

func bindingSchema(role string, place map[string]*schema.Schema) *schema.Schema {
	fields := map[string]*schema.Schema{
		role:       schema.Text("The role that is given, by its name."),
		"userName": schema.Text("The user who gets it, by the name of the object."), "userPrincipalName": schema.Text("The same by a principal, such as local://u-7hq2k or that of a directory."),
		"groupName": schema.Text("The same as groupPrincipalName."), "groupPrincipalName": schema.Text("The group that gets it, by the principal that its directory has."),
	}
	maps.Copy(fields, place)
	return objectSchema("Gives a role to a user or a group. Nothing of it changes but labels and annotations.", fields)
}

func projectSchema() *schema.Schema {
	return objectSchema("Namespaces of one cluster under one name, with roles of their own. Its namespace is the id of the cluster.", map[string]*schema.Schema{
		"spec": schema.Struct("What is wanted.", map[string]*schema.Schema{
			"displayName": schema.Text("Its name for people."), "description": schema.Text("What it is for."), "clusterName": schema.Text("The id of the cluster, which is the namespace, too."),
			"resourceQuota": schema.Open("Not supported: nothing would enforce it."), "namespaceDefaultResourceQuota": schema.Open("Not supported."), "containerDefaultResourceLimit": schema.Open("Not supported."),
		}),
		"status": {Type: "object", Description: "How it is.", Free: true, Properties: map[string]*schema.Schema{"backingNamespace": schema.Text("The namespace of its bindings.")}},
	})
}
