package people_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/test/apibed"
)

const objectsOfPeople = "/apis/management.cattle.io/v3/"

// kubeBody is an object of management.cattle.io in JSON.
func kubeBody(kind, name, more string) string {
	return `{"apiVersion":"management.cattle.io/v3","kind":"` + kind + `","metadata":{"name":"` + name + `"}` + more + `}`
}

// ask is one request of a table, with the answer that it has to get.
type ask struct {
	name, token, method, target, body string
	status                            int
	text                              string
}

func asks(t *testing.T, b *apibed.Bed, all []ask) {
	t.Helper()
	for _, a := range all {
		var header []string
		if a.method == "PATCH" {
			header = []string{"Content-Type", "application/merge-patch+json"}
		}
		r := b.Request(a.method, a.target, a.token, a.body, header...)
		if r.Status != a.status || !strings.Contains(string(r.Raw), a.text) {
			t.Errorf("%s: %d, want %d and %q: %s", a.name, r.Status, a.status, a.text, r.Raw)
		}
	}
}

// TestNobodyLinksThemselvesUp: the groups of a directory, and what bindings give to one of its people, come with its principal.
func TestNobodyLinksThemselvesUp(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	miaID, mia := b.Person("mia", "users-manage")
	b.Bind("globalrolebindings", `{"globalRoleId":"admin","userPrincipalId":"openldap_user://uid=boss"}`)
	const boss = `"principalIds":["openldap_user://uid=boss"]`
	const refused = "administrators alone link people"
	asks(t, b, []ask{
		{"herself", mia, "PUT", "/v3/users/" + miaID, `{` + boss + `}`, 403, refused},
		{"herself, as an object", mia, "PATCH", objectsOfPeople + "users/" + miaID, `{` + boss + `}`, 403, refused},
		{"a new user", mia, "POST", objectsOfPeople + "users", kubeBody("User", "u-eve", `,"username":"eve",`+boss), 403, refused},
		{"a new user, tried", mia, "POST", objectsOfPeople + "users?dryRun=All", kubeBody("User", "u-eve", `,"username":"eve",`+boss), 403, refused},
		{"nobody is left of it", mia, "GET", objectsOfPeople + "users/u-eve", "", 404, ""},
		{"a new user without", mia, "POST", objectsOfPeople + "users", kubeBody("User", "u-eve", `,"username":"eve","principalIds":["local://u-eve"]`), 201, ""},
	})
	if _, held := b.State.UsersByPrincipal.First("openldap_user://uid=boss"); held {
		t.Error("somebody is boss")
	}
	asks(t, b, []ask{
		{"an administrator", b.Admin, "PUT", "/v3/users/" + miaID, `{"principalIds":["openldap_user://uid=mia"]}`, 200, "uid=mia"},
		{"what is there comes back", mia, "PUT", "/v3/users/" + miaID, `{"principalIds":["local://` + miaID + `","openldap_user://uid=mia"]}`, 200, "uid=mia"},
		{"one more with it", mia, "PUT", "/v3/users/" + miaID, `{"principalIds":["openldap_user://uid=mia","github_user://1"]}`, 403, refused},
		{"out of it", mia, "PUT", "/v3/users/" + miaID, `{"principalIds":[]}`, 200, ""},
		{"and not back", mia, "PUT", "/v3/users/" + miaID, `{"principalIds":["openldap_user://uid=mia"]}`, 403, refused},
		{"an object with one, by an administrator", b.Admin, "POST", objectsOfPeople + "users", kubeBody("User", "u-boss", `,"username":"boss",`+boss), 201, "uid=boss"},
	})
}

// TestNamesThatNobodyGets: those of users are who a user is inside clusters, those of role templates the names of roles there.
func TestNamesThatNobodyGets(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	var all []ask
	for i, name := range []string{"kube-apiserver", "admin", "user", "u", "system-node-1", "cattle-admin", "ux-1"} {
		all = append(all, ask{"user " + name, b.Admin, "POST", objectsOfPeople + "users", kubeBody("User", name, fmt.Sprintf(`,"username":"eve%d"`, i)), 422, "begins with u- or user-"})
	}
	for i, name := range []string{"u-eve", "user-eve"} {
		all = append(all, ask{"user " + name, b.Admin, "POST", objectsOfPeople + "users", kubeBody("User", name, fmt.Sprintf(`,"username":"eva%d"`, i)), 201, ""})
	}
	role := func(name string) string {
		return kubeBody("RoleTemplate", name, `,"displayName":"x","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`)
	}
	for _, name := range []string{"edit", "view", "admin", "cluster-admin", "cattle-admin", "cattle-impersonation-u-1", "proxy-clusterrole-kubeapiserver", "p-web01-namespaces-readonly", "p-web01-namespaces-edit", "x-promoted"} {
		all = append(all, ask{"role " + name, b.Admin, "POST", objectsOfPeople + "roletemplates", role(name), 422, "choose another one"})
	}
	all = append(all,
		ask{"a role with a colon", b.Admin, "POST", objectsOfPeople + "roletemplates", role("system:node"), 422, ""},
		ask{"a role that is there", b.Admin, "POST", objectsOfPeople + "roletemplates", role("create-ns"), 409, ""},
		ask{"a role", b.Admin, "POST", objectsOfPeople + "roletemplates", role("editor"), 201, ""},
		ask{"a role at the server is none in clusters", b.Admin, "POST", objectsOfPeople + "globalroles", kubeBody("GlobalRole", "edit", `,"displayName":"x"`), 201, ""})
	asks(t, b, all)
}

// TestChangesOfRoles: a role is changed and removed by who has all that it allows, before and after.
func TestChangesOfRoles(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, rob := b.Person("rob", "roles-manage")
	const own, all = `"rules":[{"apiGroups":["management.cattle.io"],"resources":["roletemplates"],"verbs":["get"]}]`, `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`
	const wider = `"rules":[{"apiGroups":["management.cattle.io"],"resources":["roletemplates"],"verbs":["*"]}]`
	made := b.Request("POST", "/v3/roletemplates", rob, `{"name":"own","context":"cluster",`+own+`}`).Text("id")
	strong := b.Want(http.StatusCreated, "POST", "/v3/roletemplates", `{"name":"strong","context":"cluster",`+all+`}`).Text("id")
	const refused = "allows more than user rob has"
	asks(t, b, []ask{
		{"more by PUT", rob, "PUT", "/v3/roletemplates/" + made, `{` + all + `}`, 403, refused},
		{"more by PATCH", rob, "PATCH", objectsOfPeople + "roletemplates/" + made, `{` + all + `}`, 403, refused},
		{"more by inheritance", rob, "PUT", "/v3/roletemplates/" + made, `{"roleTemplateIds":["cluster-owner"]}`, 403, refused},
		{"more by inheritance and PATCH", rob, "PATCH", objectsOfPeople + "roletemplates/" + made, `{"roleTemplateNames":["cluster-owner"]}`, 403, refused},
		{"more by a new one", rob, "POST", objectsOfPeople + "roletemplates", kubeBody("RoleTemplate", "robs", `,"displayName":"x",`+all), 403, refused},
		{"what they have", rob, "PUT", "/v3/roletemplates/" + made, `{` + wider + `}`, 200, ""},
		{"what they have by PATCH", rob, "PATCH", objectsOfPeople + "roletemplates/" + made, `{` + own + `}`, 200, ""},
		{"rules of a stronger role", rob, "PUT", "/v3/roletemplates/" + strong, `{` + own + `}`, 403, refused},
		{"rules of a stronger role by PATCH", rob, "PATCH", objectsOfPeople + "roletemplates/" + strong, `{` + own + `}`, 403, refused},
		{"a lock on a stronger role", rob, "PUT", "/v3/roletemplates/" + strong, `{"locked":true}`, 403, refused},
		{"a lock on a built-in role", rob, "PATCH", objectsOfPeople + "roletemplates/cluster-owner", `{"locked":true}`, 403, refused},
		{"a default for who makes clusters", rob, "PUT", "/v3/roletemplates/" + strong, `{"clusterCreatorDefault":true}`, 403, refused},
		{"a stronger role, away", rob, "DELETE", "/v3/roletemplates/" + strong, "", 403, refused},
		{"a stronger object, away", rob, "DELETE", objectsOfPeople + "roletemplates/" + strong, "", 403, refused},
		{"their own, away", rob, "DELETE", "/v3/roletemplates/" + made, "", 204, ""},
	})
}

// TestGivingToGroups: a role that a group gets is given as one that a user gets, no further.
func TestGivingToGroups(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	_, mia := b.Person("mia", "users-manage")
	const cluster = "c-m-h4rb0r55"
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"clusterroletemplatebindings-manage","userId":%q}`, cluster, annID))
	project := b.Get("/v3/projects?clusterId=" + cluster).Data()[0]["id"].(string)
	for _, role := range []string{"read-only", "projectroletemplatebindings-manage"} { // to see it, and to let others in
		b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":%q,"userId":%q}`, project, role, annID))
	}
	const group = "openldap_group://cn=ops"
	in, inProject := objectsOfPeople+"namespaces/"+cluster+"/clusterroletemplatebindings", objectsOfPeople+"namespaces/"+strings.Replace(project, ":", "-", 1)+"/projectroletemplatebindings"
	norman := func(of, role string) string {
		return fmt.Sprintf(`{%s,"groupPrincipalId":%q}`, strings.Replace(of, "ROLE", role, 1), group)
	}
	kube := func(kind, name, of string) string {
		return kubeBody(kind, name, fmt.Sprintf(`,%s,"groupPrincipalName":%q`, of, group))
	}
	inCluster, within := fmt.Sprintf(`"clusterId":%q,"roleTemplateId":"ROLE"`, cluster), fmt.Sprintf(`"projectId":%q,"roleTemplateId":"ROLE"`, project)
	byName := fmt.Sprintf(`"projectName":%q,"roleTemplateName":`, project)
	const more = "allows more than user"
	asks(t, b, []ask{
		{"a cluster", ann, "POST", "/v3/clusterroletemplatebindings", norman(inCluster, "cluster-owner"), 403, more},
		{"a cluster, no more than she has", ann, "POST", "/v3/clusterroletemplatebindings", norman(inCluster, "clusterroletemplatebindings-view"), 201, group},
		{"a cluster, as an object", ann, "POST", in, kube("ClusterRoleTemplateBinding", "a", `"roleTemplateName":"cluster-owner"`), 403, more},
		{"a cluster, as an object, no more than she has", ann, "POST", in, kube("ClusterRoleTemplateBinding", "a", `"roleTemplateName":"clusterroletemplatebindings-view"`), 201, group},
		{"a project", ann, "POST", "/v3/projectroletemplatebindings", norman(within, "project-owner"), 403, more},
		{"a project, no more than she has", ann, "POST", "/v3/projectroletemplatebindings", norman(within, "projectroletemplatebindings-view"), 201, group},
		{"a project, as an object", ann, "POST", inProject, kube("ProjectRoleTemplateBinding", "a", byName+`"project-owner"`), 403, more},
		{"a project, as an object, no more than she has", ann, "POST", inProject, kube("ProjectRoleTemplateBinding", "a", byName+`"projectroletemplatebindings-view"`), 201, group},
		{"the server", mia, "POST", "/v3/globalrolebindings", norman(`"globalRoleId":"ROLE"`, "admin"), 403, more},
		{"the server, no more than she has", mia, "POST", "/v3/globalrolebindings", norman(`"globalRoleId":"ROLE"`, "users-manage"), 201, group},
		{"the server, as an object", mia, "POST", objectsOfPeople + "globalrolebindings", kube("GlobalRoleBinding", "a", `"globalRoleName":"admin"`), 403, more},
		{"the server, as an object, no more than she has", mia, "POST", objectsOfPeople + "globalrolebindings", kube("GlobalRoleBinding", "a", `"globalRoleName":"users-manage"`), 201, group},
		{"a user of a directory who never came", mia, "POST", "/v3/globalrolebindings", `{"globalRoleId":"admin","userPrincipalId":"openldap_user://uid=mia"}`, 403, more},
	})
}

// TestGlobalRoles: who may make them makes some that allow what they have themselves, also as what new users get.
func TestGlobalRoles(t *testing.T) {
	b, g := outsiders(t, "")
	const rules = `"rules":[{"apiGroups":["management.cattle.io"],"resources":["globalroles"],"verbs":["*"]},{"apiGroups":["management.cattle.io"],"resources":["settings"],"verbs":["get"]}]`
	const less, more = `"rules":[{"apiGroups":["management.cattle.io"],"resources":["settings"],"verbs":["get"]}]`, `"rules":[{"apiGroups":["management.cattle.io"],"resources":["settings"],"verbs":["*"]}]`
	_, gus := b.Person("gus", b.Want(http.StatusCreated, "POST", "/v3/globalroles", `{"name":"Makers",`+rules+`}`).Text("id"))
	made := b.Request("POST", "/v3/globalroles", gus, `{"name":"less","newUserDefault":true,`+less+`}`).Text("id")
	const refused = "allows more than user gus has"
	asks(t, b, []ask{
		{"what he has, as an object", gus, "POST", objectsOfPeople + "globalroles", kubeBody("GlobalRole", "less-too", `,"displayName":"x",`+less), 201, ""},
		{"more", gus, "POST", "/v3/globalroles", `{"name":"more",` + more + `}`, 403, refused},
		{"more, as an object", gus, "POST", objectsOfPeople + "globalroles", kubeBody("GlobalRole", "more", `,"displayName":"x",`+more), 403, refused},
		{"more by PUT", gus, "PUT", "/v3/globalroles/" + made, `{` + more + `}`, 403, refused},
		{"more by PATCH", gus, "PATCH", objectsOfPeople + "globalroles/less-too", `{` + more + `}`, 403, refused},
		{"administration for new users", gus, "PUT", "/v3/globalroles/admin", `{"newUserDefault":true}`, 403, refused},
		{"administration for new users by PATCH", gus, "PATCH", objectsOfPeople + "globalroles/admin", `{"newUserDefault":true}`, 403, refused},
		{"his own for new users by PATCH", gus, "PATCH", objectsOfPeople + "globalroles/less-too", `{"newUserDefault":true}`, 200, ""},
		{"no more user by an administrator", b.Admin, "PATCH", objectsOfPeople + "globalroles/user", `{"newUserDefault":false}`, 200, ""},
	})
	id, _ := enter(b, g)
	var held []string
	for _, d := range b.State.BindingsBySubject.Find(roles.LocalUser(id)) {
		held = append(held, d.Value.Role)
	}
	if want := []string{made, "less-too"}; len(held) != 2 || !slices.Contains(held, want[0]) || !slices.Contains(held, want[1]) {
		t.Errorf("a new user has %q, want %q", held, want)
	}
}

// TestTheLastAdministratorStays, no matter who else may do everything.
func TestTheLastAdministratorStays(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, gus := b.Person("gus", b.Want(http.StatusCreated, "POST", "/v3/globalroles", `{"name":"All","rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]},{"nonResourceURLs":["*"],"verbs":["*"]}]}`).Text("id"))
	const stays = "no one would be left"
	asks(t, b, []ask{
		{"disabled", gus, "PUT", "/v3/users/user-admin", `{"enabled":false}`, 422, stays},
		{"disabled, as an object", gus, "PATCH", objectsOfPeople + "users/user-admin", `{"enabled":false}`, 422, stays},
		{"removed", gus, "DELETE", "/v3/users/user-admin", "", 422, stays},
		{"unbound", gus, "DELETE", objectsOfPeople + "globalrolebindings/" + adminBindings(b)["user-admin"], "", 422, stays},
	})
}

// TestTwoAdministratorsUnbindEachOther at the same moment: one stays.
func TestTwoAdministratorsUnbindEachOther(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	annID, ann := b.Person("ann", "admin")
	tokens := map[string]string{annID: ann, "user-admin": b.Admin}
	for range 10 {
		bindings := adminBindings(b)
		if len(bindings) != 2 {
			t.Fatalf("administrators are %v", bindings)
		}
		var done sync.WaitGroup
		status := [2]int{}
		for i, of := range []string{annID, "user-admin"} {
			by := map[string]string{annID: b.Admin, "user-admin": ann}[of]
			done.Go(func() { status[i] = b.Request("DELETE", "/v3/globalrolebindings/"+bindings[of], by, "").Status })
		}
		done.Wait()
		left := adminBindings(b)
		if len(left) != 1 || (status[0] == 204) == (status[1] == 204) {
			t.Fatalf("%v, and administrators are %v", status, left)
		}
		for id := range tokens {
			if left[id] == "" { // the administrator who stays takes the other one in again
				stays := map[string]string{annID: b.Admin, "user-admin": ann}[id]
				if r := b.Request("POST", "/v3/globalrolebindings", stays, fmt.Sprintf(`{"globalRoleId":"admin","userId":%q}`, id)); r.Status != http.StatusCreated {
					t.Fatal(string(r.Raw))
				}
			}
		}
	}
}
