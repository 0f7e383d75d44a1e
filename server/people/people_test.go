package people_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/test/apibed"
)

// TestTwoPeople has two people of different roles in one server: what each makes and is let into is theirs to
// see, at once, and nothing else is.
func TestTwoPeople(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	benID, ben := b.Person("ben", "user-base")
	doc := `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"%s"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	status := func(token, method, target, body string, want int) apibed.Result {
		t.Helper()
		r := b.Request(method, target, token, body)
		if r.Status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.Status, want, r.Raw)
		}
		return r
	}
	status(ben, "POST", "/v1-drover/apply", fmt.Sprintf(doc, "ours"), 403)
	status(ann, "POST", "/v1-drover/apply", fmt.Sprintf(doc, "ours"), 200)
	d, _ := b.State.Clusters.Get("fleet-default/ours")
	ours := d.Value.ID

	// Who makes a cluster owns it, with the answer.
	if got := status(ann, "GET", "/v3/clusters", "", 200).IDs(); got != ours {
		t.Errorf("ann sees %s", got)
	}
	if r := status(ann, "GET", "/v1-drover/clusters", "", 200); r.Body["total"] != float64(1) {
		t.Errorf("ann's own list: %s", r.Raw)
	}
	status(ann, "POST", "/v3/clusterregistrationtokens", fmt.Sprintf(`{"clusterId":%q}`, ours), 201)
	status(ann, "GET", "/v1/provisioning.cattle.io.clusters/fleet-default/ours", "", 200)
	status(ann, "GET", "/v1/provisioning.cattle.io.clusters/fleet-default/harbour", "", 404)
	status(ann, "GET", "/v3/clusters/c-m-h4rb0r55", "", 404)
	status(ann, "PUT", "/v3/clusters/c-m-h4rb0r55", `{"name":"harbour"}`, 404)
	status(ann, "POST", "/v3/clusterregistrationtokens", `{"clusterId":"c-m-h4rb0r55"}`, 422)
	status(ann, "GET", "/v1-drover/machines/fleet-default/custom-000000000001", "", 404)
	status(ann, "POST", "/v1-drover/apply", fmt.Sprintf(doc, "harbour"), 422) // the name is taken, and no more is said
	status(ann, "POST", "/v1-drover/apply", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"fleet-default"},"stringData":{"a":"b"}}`, 200)
	status(ben, "POST", "/v1-drover/apply", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t","namespace":"fleet-default"},"stringData":{"a":"b"}}`, 403)
	for _, target := range []string{"/v1-drover/fleets", "/v1-drover/backups", "/metrics"} {
		status(ann, "GET", target, "", 403)
	}
	if r := status(ann, "GET", "/v1-drover/machines", "", 200); r.Body["total"] != float64(0) {
		t.Errorf("ann sees machines of another cluster: %s", r.Raw)
	}

	// Ben is let in, by ann, as a member.
	status(ben, "GET", "/v3/clusters/"+ours, "", 404)
	binding := status(ann, "POST", "/v3/clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, ours, benID), 201)
	if id := binding.Text("id"); !strings.HasPrefix(id, ours+":crtb-") || binding.Text("userPrincipalId") != "local://"+benID {
		t.Errorf("binding %s", binding.Raw)
	}
	seen := status(ben, "GET", "/v3/clusters/"+ours, "", 200)
	if seen.Has("links", "update") || seen.Has("links", "remove") || !seen.Has("actions", "generateKubeconfig") || seen.Has("actions", "exportYaml") {
		t.Errorf("ben is offered %s", seen.Raw)
	}
	status(ben, "PUT", "/v3/clusters/"+ours, `{"name":"ours"}`, 403)
	status(ben, "DELETE", "/v3/clusters/"+ours, "", 403)
	status(ben, "GET", "/v1-drover/clusters/fleet-default/ours", "", 200)
	status(ben, "POST", "/v1-drover/clusters/fleet-default/ours/pause", "", 403)
	status(ben, "POST", "/v1-drover/clusters/fleet-default/ours/token", "", 403)
	status(ben, "GET", "/v1-drover/clusters/fleet-default/ours/document", "", 403)
	status(ben, "GET", "/v1-drover/clusters/fleet-default/ours/join", "", 403)
	status(ben, "GET", "/v1-drover/clusters/fleet-default/ours/snapshots", "", 403)
	status(ben, "POST", "/v3/clusterregistrationtokens", fmt.Sprintf(`{"clusterId":%q}`, ours), 403)
	status(ben, "POST", "/v1-drover/apply", fmt.Sprintf(doc, "ours"), 403)
	status(ben, "GET", "/v1/provisioning.cattle.io.clusters", "", 200)
	status(ben, "GET", "/v1/cluster.x-k8s.io.machines", "", 404) // to be shown one by one only
	status(ben, "GET", "/v3/roletemplates/cluster-member", "", 404)

	// And out again; who is not in cannot be told from who never was.
	status(ben, "DELETE", "/v3/clusterroletemplatebindings/"+binding.Text("id"), "", 403)
	status(ann, "DELETE", "/v3/clusterroletemplatebindings/"+binding.Text("id"), "", 204)
	status(ben, "GET", "/v3/clusters/"+ours, "", 404)
	if r := status(ann, "GET", "/v1-drover/whoami", "", 200); r.Text("username") != "ann" || !strings.Contains(string(r.Raw), `"clusterName":"ours"`) || r.Text("userId") != annID {
		t.Errorf("whoami: %s", r.Raw)
	}

	// A project shows its cluster's record and nothing else of it.
	project := d.Value.Projects.Default
	status(ann, "POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userPrincipalId":"local://%s"}`, project, benID), 201)
	if r := status(ben, "GET", "/v3/projects", "", 200); r.IDs() != project {
		t.Errorf("ben's projects: %s", r.Raw)
	}
	status(ben, "GET", "/v3/clusters/"+ours, "", 200)
	status(ben, "GET", "/v1/provisioning.cattle.io.clusters/fleet-default/ours", "", 404)
}

// TestBadBindings: what is refused, with code and field.
func TestBadBindings(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	_, manager := b.Person("mia", "users-manage")
	_, maker := b.Person("rob", "roles-manage")
	const harbourID = "c-m-h4rb0r55"
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"clusterroletemplatebindings-manage","userId":%q}`, harbourID, annID))
	adminBinding := adminBindings(b)["user-admin"]
	crtb := func(role, rest string) string {
		return fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":%q%s}`, harbourID, role, rest)
	}
	toAnn := fmt.Sprintf(`,"userId":%q`, annID)
	for _, c := range []struct {
		name, token, method, target, body string
		status                            int
		code, field, text                 string
	}{
		{"no subject", b.Admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", ""), 422, "InvalidBodyContent", "userId", "names none"},
		{"two subjects", b.Admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", toAnn+`,"groupPrincipalId":"x://y"`), 422, "InvalidBodyContent", "userId", "names both"},
		{"a user who is not there", b.Admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", `,"userId":"u-nobody"`), 422, "InvalidReference", "userId", "no user"},
		{"a role that is not there", b.Admin, "POST", "clusterroletemplatebindings", crtb("nothing", toAnn), 422, "InvalidReference", "roleTemplateId", "no role"},
		{"a role of another context", b.Admin, "POST", "clusterroletemplatebindings", crtb("read-only", toAnn), 422, "InvalidOption", "roleTemplateId", "of a project"},
		{"a cluster that is not there", b.Admin, "POST", "clusterroletemplatebindings", `{"clusterId":"c-zzzzz","roleTemplateId":"cluster-member"` + toAnn + `}`, 422, "InvalidReference", "clusterId", "no cluster"},
		{"a project that is not there", b.Admin, "POST", "projectroletemplatebindings", `{"projectId":"c-m-h4rb0r55:p-zzzzz","roleTemplateId":"read-only"` + toAnn + `}`, 422, "InvalidReference", "projectId", "no project"},
		{"a group of a directory", b.Admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", `,"groupPrincipalId":"openldap_group://cn=ops"`), 201, "", "", ""},
		{"a cluster that one does not see", ann, "POST", "clusterroletemplatebindings", `{"clusterId":"c-m-qqqqqqqq","roleTemplateId":"cluster-member"` + toAnn + `}`, 422, "InvalidReference", "clusterId", "no cluster"},
		{"more than one has", ann, "POST", "clusterroletemplatebindings", crtb("cluster-owner", toAnn), 403, "PermissionDenied", "", "allows more than user ann has"},
		{"what one has", ann, "POST", "clusterroletemplatebindings", crtb("clusterroletemplatebindings-view", toAnn), 201, "", "", ""},
		{"administration by a manager of users", manager, "POST", "globalrolebindings", `{"globalRoleId":"admin"` + toAnn + `}`, 403, "PermissionDenied", "", "allows more than user mia has"},
		{"taking administration away", manager, "DELETE", "globalrolebindings/" + adminBinding, "", 403, "PermissionDenied", "", "taken away"},
		{"the password of an administrator", manager, "POST", "users/user-admin?action=setpassword", `{"newPassword":"battery staple"}`, 403, "PermissionDenied", "", "may not"},
		{"an administrator is not disabled by less", manager, "PUT", "users/user-admin", `{"enabled":false}`, 403, "PermissionDenied", "", "may not"},
		{"the last administrator's role", b.Admin, "DELETE", "globalrolebindings/" + adminBinding, "", 422, "InvalidState", "", "no one would be left"},
		{"oneself", b.Admin, "DELETE", "users/user-admin", "", 422, "InvalidAction", "", "themselves"},
		{"oneself, for now", b.Admin, "PUT", "users/user-admin", `{"enabled":false}`, 422, "InvalidAction", "enabled", "themselves"},
		{"a role of everything by a maker of roles", maker, "POST", "roletemplates", `{"name":"x","context":"cluster","rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`, 403, "PermissionDenied", "", "allows more than user rob has"},
		{"inherited by it", maker, "POST", "roletemplates", `{"name":"x","context":"cluster","roleTemplateIds":["cluster-owner"]}`, 403, "PermissionDenied", "", "allows more than user rob has"},
		{"a role without verbs", b.Admin, "POST", "roletemplates", `{"name":"x","context":"cluster","rules":[{"apiGroups":[""],"resources":["pods"]}]}`, 422, "InvalidBodyContent", "rules[0].verbs", "at least one verb"},
		{"a rule of unknown fields", b.Admin, "POST", "roletemplates", `{"name":"x","rules":[{"apigroup":[""]}]}`, 422, "InvalidFormat", "rules", "apigroup"},
		{"a built-in role", b.Admin, "PUT", "roletemplates/cluster-member", `{"rules":[]}`, 422, "InvalidState", "rules", "comes with the server"},
		{"a built-in role, away", b.Admin, "DELETE", "roletemplates/cluster-member", "", 422, "InvalidState", "", "comes with the server"},
		{"a role of the planet", b.Admin, "POST", "roletemplates", `{"name":"x","context":"planet"}`, 422, "InvalidOption", "context", "neither cluster nor project"},
		{"a name that is taken", b.Admin, "POST", "users", `{"username":"ANN","password":"correct horse battery"}`, 422, "NotUnique", "username", "already"},
		{"a name with a space", b.Admin, "POST", "users", `{"username":"a b","password":"correct horse battery"}`, 422, "InvalidBodyContent", "username", "valid name"},
		{"a short password", b.Admin, "POST", "users", `{"username":"eve","password":"short"}`, 422, "InvalidBodyContent", "newPassword", "at least 12"},
		{"a user by a user", ann, "POST", "users", `{"username":"eve","password":"correct horse battery"}`, 403, "PermissionDenied", "", "create"},
		{"a global role by a user", ann, "POST", "globalroles", `{"name":"x"}`, 403, "PermissionDenied", "", "globalRole"},
		{"a foreign binding", ann, "GET", "globalrolebindings/" + adminBinding, "", 404, "NotFound", "", "no globalRoleBinding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Request(c.method, "/v3/"+c.target, c.token, c.body)
			field, _ := r.Body["fieldName"].(string)
			code := ""
			if r.Status >= 400 {
				code = r.Text("code")
			}
			if r.Status != c.status || code != c.code || field != c.field || c.text != "" && !strings.Contains(r.Text("message"), c.text) {
				t.Errorf("%d %s %q: %s", r.Status, code, field, r.Raw)
			}
		})
	}
}

// TestLivesOfUsers follows a user from the first login to the end.
func TestLivesOfUsers(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	id, api := b.Person("ann", "user", "admin") // of two administrators one may go
	login := func(password string) apibed.Result {
		return b.Request("POST", "/v3-public/localProviders/local?action=login", "", fmt.Sprintf(`{"username":"ann","password":%q}`, password))
	}
	session := login("correct horse ann").Text("token")
	status := func(token string) int { return b.Request("GET", "/v3/users?me=true", token, "").Status }
	if status(session) != 200 || status(api) != 200 {
		t.Fatal("a new user is not let in")
	}
	b.Want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":false,"description":"on leave"}`)
	if status(session) != 401 || status(api) != 401 || login("correct horse ann").Status != 403 {
		t.Error("a disabled user is let in")
	}
	b.Want(http.StatusUnprocessableEntity, "DELETE", "/v3/globalrolebindings/"+adminBindings(b)["user-admin"], "") // ann cannot log in, and does not count
	b.Want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":true}`)
	if status(session) != 401 || status(api) != 200 {
		t.Error("a session outlives being disabled, or a token does not")
	}
	b.Want(http.StatusOK, "POST", "/v3/users/"+id+"?action=setpassword", `{"newPassword":"battery staple ann"}`)
	if login("correct horse ann").Status != 401 || login("battery staple ann").Status != 201 {
		t.Error("the new password is not the one")
	}
	b.Want(http.StatusNoContent, "DELETE", "/v3/users/"+id, "")
	if status(api) != 401 || login("battery staple ann").Status != 401 || len(b.State.TokensByUser.Find(id)) != 0 || len(b.State.BindingsBySubject.Find("local://"+id)) != 0 {
		t.Error("something of a removed user is left")
	}
	if r := b.Request("POST", "/v3/users", b.Admin, `{"username":"Ann","password":"correct horse again"}`); r.Status != 201 {
		t.Errorf("the name is not free again: %s", r.Raw)
	}
}

// adminBindings are the bindings to the role admin by user.
func adminBindings(b *apibed.Bed) map[string]string {
	all := map[string]string{}
	for _, d := range b.State.Bindings.List() {
		if id, ok := roles.LocalUserID(d.Value.User); ok && d.Value.Role == roles.Admin {
			all[id] = d.Key
		}
	}
	return all
}

// TestRolesAreKept: a role is made, inherited, given, and goes when no user has it.
func TestRolesAreKept(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	id, ann := b.Person("ann", "user")
	made := b.Want(http.StatusCreated, "POST", "/v3/roletemplates",
		`{"name":"Watch nodes","context":"cluster","rules":[{"apiGroups":["management.cattle.io"],"resources":["nodes"],"verbs":["get","list"]}]}`).Text("id")
	more := b.Want(http.StatusCreated, "POST", "/v3/roletemplates", fmt.Sprintf(`{"name":"More","context":"cluster","roleTemplateIds":[%q]}`, made)).Text("id")
	binding := b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":%q,"userPrincipalId":"local://%s"}`, more, id))
	nodes := func() int { return len(b.Request("GET", "/v3/nodes", ann, "").Data()) }
	if nodes() == 0 {
		t.Error("what a role inherits is not given")
	}
	if r := b.Request("PUT", "/v3/roletemplates/"+made, b.Admin, fmt.Sprintf(`{"roleTemplateIds":[%q]}`, more)); r.Status != 422 || !strings.Contains(r.Text("message"), "inherit itself") {
		t.Errorf("a cycle: %s", r.Raw)
	}
	b.Want(http.StatusUnprocessableEntity, "DELETE", "/v3/roletemplates/"+made, "")
	b.Want(http.StatusUnprocessableEntity, "DELETE", "/v3/roletemplates/"+more, "")
	b.Want(http.StatusOK, "PUT", "/v3/roletemplates/"+made, `{"rules":[{"apiGroups":["management.cattle.io"],"resources":["nodepools"],"verbs":["get"]}]}`)
	if nodes() != 0 {
		t.Error("a changed role gives what it gave")
	}
	b.Want(http.StatusOK, "PUT", "/v3/roletemplates/"+more, `{"locked":true}`)
	b.Want(http.StatusUnprocessableEntity, "POST", "/v3/clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":%q,"userId":%q}`, more, id))
	b.Want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+binding, "")
	b.Want(http.StatusNoContent, "DELETE", "/v3/roletemplates/"+more, "")
	b.Want(http.StatusNoContent, "DELETE", "/v3/roletemplates/"+made, "")
	found := b.Want(http.StatusOK, "POST", "/v3/principals?action=search", `{"name":"AN"}`)
	var list struct {
		Data []struct {
			ID, LoginName string
			Me            bool
		}
	}
	if err := json.Unmarshal(found.Raw, &list); err != nil || len(list.Data) != 1 || list.Data[0].ID != "local://"+id || list.Data[0].LoginName != "ann" {
		t.Errorf("search: %v %s", err, found.Raw)
	}
	if r := b.Request("GET", "/v3/principals/local:%2F%2F"+id, ann, ""); r.Status != 200 || r.Body["me"] != true {
		t.Errorf("one's own principal: %s", r.Raw)
	}
}

// TestTerraformChangesUsers: the provider sends the password with each change, and a user without a name is shown by the login name.
func TestTerraformChangesUsers(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	id, tessa := b.Person("tessa", "user")
	at := "/v3/users/" + id
	for range 2 {
		b.Want(http.StatusOK, "POST", at+"?action=setpassword", `{"newPassword":"correct horse tessa"}`)
	}
	r := b.Want(http.StatusOK, "PUT", at, `{"username":"tessa","enabled":true,"labels":{"team":"a","old":"x"},"annotations":{"by":"terraform"}}`)
	if !r.Has("labels", "team") || !r.Has("annotations", "by") || r.Body["ignoredFields"] != nil {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Want(http.StatusOK, "PUT", at, `{"labels":{"old":null}}`); r.Has("labels", "old") || !r.Has("labels", "team") || !r.Has("annotations", "by") {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Request("POST", "/v3/users?action=changepassword", tessa, `{"currentPassword":"correct horse tessa","newPassword":"correct horse tessa"}`); r.Status != 422 || !strings.Contains(r.Text("message"), "is the current one") {
		t.Errorf("changepassword: %d %s", r.Status, r.Raw)
	}
	own := b.Request("GET", "/v3/principals", tessa, "").Data()
	if len(own) != 1 || own[0]["name"] != "tessa" || own[0]["loginName"] != "tessa" {
		t.Errorf("principals: %v", own)
	}
	b.Want(http.StatusOK, "PUT", at, `{"name":"Tessa T"}`)
	if own := b.Request("GET", "/v3/principals", tessa, "").Data(); own[0]["name"] != "Tessa T" {
		t.Errorf("principals: %v", own)
	}
}
