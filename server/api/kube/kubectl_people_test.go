package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

func kubePerson(kind, namespace, name, more string) string {
	if namespace != "" {
		namespace = "  namespace: " + namespace + "\n"
	}
	return "apiVersion: management.cattle.io/v3\nkind: " + kind + "\nmetadata:\n  name: " + name + "\n" + namespace + more
}

// TestKubectlOfPeople: users, roles, bindings and projects by kubectl, with what their rules refuse.
func TestKubectlOfPeople(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	server := b.KubeServer(t, "")
	k := newKubectl(t, server)
	ann := kubePerson("User", "", "u-anna1", "username: anna\ndisplayName: Anna\n")
	k.fails(ann, "diff -f -", "+username: anna")
	k.run(ann, "apply -f -", "user.management.cattle.io/u-anna1 created")
	k.run(ann, "apply -f -", "unchanged")
	k.run(ann, "diff -f -")
	k.run(strings.Replace(ann, "Anna\n", "Anna B.\n", 1), "apply -f -", "configured")
	k.run(ann, "apply --server-side --field-manager=git --force-conflicts -f -", "serverside-applied")
	k.run("", "get users", "USERNAME", "anna", "u-anna1")
	k.run("", "get user u-anna1 -o yaml", "- local://u-anna1", "enabled: true")
	k.run("", "explain user.username", "never changes")
	k.run("", "explain roletemplate.rules.verbs", "Verbs, or *")
	k.fails(strings.Replace(ann, "username: anna", "username: other", 1), "apply -f -", "username", "cannot be changed")
	k.fails(kubePerson("User", "", "u-anna2", "username: Anna\n"), "create -f -", "there is a user")
	k.fails(kubePerson("User", "", "u-x", "username: x\npassword: hush\n"), "create -f -", `unknown field "password"`)
	k.fails("", "delete user user-admin", "no one removes themselves")

	// Without a password a user cannot log in; one is set by an object of its own, whose answer does not have it.
	login := func(password string, want int) {
		t.Helper()
		if r := b.Request("POST", "/v3-public/localProviders/local?action=login", "", `{"username":"anna","password":"`+password+`"}`); r.Status != want {
			t.Errorf("login: %d, want %d: %s", r.Status, want, r.Raw)
		}
	}
	login("anna", http.StatusUnauthorized)
	password := "apiVersion: ext.cattle.io/v1\nkind: PasswordChangeRequest\nmetadata: {name: anna}\nspec:\n  userID: u-anna1\n  newPassword: "
	k.fails(password+"short\n", "create -f -", "spec.newPassword")
	if out := k.run(password+"a long word of hers\n", "create -o yaml -f -", "Completed"); strings.Contains(out, "long word") {
		t.Errorf("the answer has the password: %s", out)
	}
	login("a long word of hers", http.StatusCreated)
	k.run("", "get tokens.ext.cattle.io -o name", "token.ext.cattle.io/token-admin")
	k.run("", "api-resources --api-group=ext.cattle.io", "kubeconfigs", "passwordchangerequests", "tokens")

	role := kubePerson("RoleTemplate", "", "pod-reader", "displayName: Pods\ncontext: cluster\nrules:\n- {apiGroups: [''], resources: [pods], verbs: [get, list]}\n")
	k.run(role, "apply -f -", "created")
	k.run(role, "apply -f -", "unchanged")
	k.run("", `patch roletemplate pod-reader --type=json -p [{"op":"add","path":"/rules/0/verbs/-","value":"watch"}]`, "patched")
	k.run("", "get roletemplates pod-reader cluster-owner", "pod-reader", "cluster", "cluster-owner")
	k.fails("", `patch roletemplate cluster-owner --type=merge -p {"rules":[]}`, "comes with the server")
	k.run(kubePerson("GlobalRole", "", "settings-reader", "displayName: S\nrules:\n- {apiGroups: [management.cattle.io], resources: [settings], verbs: [get]}\n"), "create -f -", "created")

	const cluster = "c-m-h4rb0r55"
	bound := kubePerson("ClusterRoleTemplateBinding", cluster, "anna-owns", "clusterName: "+cluster+"\nroleTemplateName: cluster-member\nuserName: u-anna1\n")
	k.fails(strings.Replace(bound, "u-anna1", "u-nobody", 1), "apply -f -", `there is no user "u-nobody"`)
	k.fails(strings.Replace(bound, "cluster-member", "no-role", 1), "apply -f -", `there is no role "no-role"`)
	k.fails(strings.Replace(bound, "clusterName: "+cluster, "clusterName: c-other", 1), "apply -f -", "is in the namespace of its cluster")
	k.fails(kubePerson("ClusterRoleTemplateBinding", "c-nothing", "x", "roleTemplateName: cluster-member\nuserName: u-anna1\n"), "apply -f -", "there is no cluster")
	hers := *server
	hers.BearerToken = b.Token("u-anna1", records.Token{Name: "token-anna"})
	anna := newKubectl(t, &hers)
	anna.run("", "get clusters -A", "No resources found")
	k.run(bound, "apply -f -", "created")
	k.run(bound, "apply -f -", "unchanged")
	anna.run("", "get clusters -A", "harbour")
	anna.fails(strings.Replace(bound, "anna-owns", "more", 1), "create -f -", "forbidden")
	anna.run("", "get users", "u-anna1")
	if out := anna.run("", "get users -o name"); strings.Contains(out, "user-admin") {
		t.Errorf("somebody else is shown: %s", out)
	}
	anna.fails("", "get user user-admin", "not found")
	k.run("", "get clusterroletemplatebindings -A", "anna-owns", "local://u-anna1")
	k.run("", "-n "+cluster+" delete clusterroletemplatebinding anna-owns", "deleted")
	anna.run("", "get clusters -A", "No resources found")

	project := kubePerson("Project", cluster, "p-infra", "spec:\n  displayName: Infrastructure\n  clusterName: "+cluster+"\n")
	k.fails(strings.Replace(project, "p-infra", "infra", 1), "apply -f -", "p- and five small letters or digits")
	k.fails(project+"  resourceQuota: {limit: {pods: '1'}}\n", "apply -f -", "is not enforced")
	k.run(project, "apply -f -", "created")
	k.run(project, "apply -f -", "unchanged")
	k.run("", "-n "+cluster+" get projects", "Infrastructure", "Default", "System")
	member := kubePerson("ProjectRoleTemplateBinding", cluster+"-p-infra", "anna-in", "projectName: "+cluster+":p-infra\nroleTemplateName: project-member\nuserName: u-anna1\n")
	k.run(member, "apply -f -", "created")
	if got := b.Get("/v3/projectroletemplatebindings?projectId=" + cluster + ":p-infra").Data(); len(got) != 2 { // hers, and that of the maker
		t.Errorf("/v3 has %v", got)
	}
	anna.run("", "get projects -A", "p-infra")
	k.run("", "-n "+cluster+" delete project p-infra", "deleted")
	k.fails("", "-n "+cluster+"-p-infra get projectroletemplatebinding anna-in", "not found")
	k.run("", "delete user u-anna1", "deleted")
	if r := b.Get("/v3/users/u-anna1"); r.Status != http.StatusNotFound {
		t.Errorf("after the removal: %d", r.Status)
	}
}
