package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
)

// person makes a user with global roles over the API and logs them in.
func (b *bench) person(name string, globalRoles ...string) (id, token string) {
	b.t.Helper()
	r := b.want(http.StatusCreated, "POST", "/v3/users", fmt.Sprintf(`{"username":%q,"password":"correct horse %s"}`, name, name))
	id = r.text("id")
	for _, role := range globalRoles {
		b.bind("globalrolebindings", fmt.Sprintf(`{"globalRoleId":%q,"userId":%q}`, role, id))
	}
	return id, b.token(id, records.Token{})
}

func (b *bench) bind(plural, body string) (id string) {
	b.t.Helper()
	return b.want(http.StatusCreated, "POST", "/v3/"+plural, body).text("id")
}

// administrated makes the bench's administrator one by a binding, as a start of the server does.
func administrated(b *bench) {
	b.t.Helper()
	if _, err := b.auth.Bootstrap(b.t.Context(), "", ""); err != nil {
		b.t.Fatal(err)
	}
	b.give("user-admin", "the administrator's own") // who could not log in would not count as the last one
}

// TestTwoPeople has two people of different roles in one server: what each makes and is let into is theirs to
// see, at once, and nothing else is.
func TestTwoPeople(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	annID, ann := b.person("ann", "user")
	benID, ben := b.person("ben", "user-base")
	doc := `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"%s"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	status := func(token, method, target, body string, want int) result {
		t.Helper()
		r := b.request(method, target, token, body)
		if r.status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.status, want, r.raw)
		}
		return r
	}
	status(ben, "POST", "/v1-drover/apply", fmt.Sprintf(doc, "ours"), 403)
	status(ann, "POST", "/v1-drover/apply", fmt.Sprintf(doc, "ours"), 200)
	d, _ := b.st.Clusters.Get("fleet-default/ours")
	ours := d.Value.ID

	// Who makes a cluster owns it, with the answer.
	if got := status(ann, "GET", "/v3/clusters", "", 200).ids(); got != ours {
		t.Errorf("ann sees %s", got)
	}
	if r := status(ann, "GET", "/v1-drover/clusters", "", 200); r.body["total"] != float64(1) {
		t.Errorf("ann's own list: %s", r.raw)
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
	if r := status(ann, "GET", "/v1-drover/machines", "", 200); r.body["total"] != float64(0) {
		t.Errorf("ann sees machines of another cluster: %s", r.raw)
	}

	// Ben is let in, by ann, as a member.
	status(ben, "GET", "/v3/clusters/"+ours, "", 404)
	binding := status(ann, "POST", "/v3/clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, ours, benID), 201)
	if id := binding.text("id"); !strings.HasPrefix(id, ours+":crtb-") || binding.text("userPrincipalId") != "local://"+benID {
		t.Errorf("binding %s", binding.raw)
	}
	seen := status(ben, "GET", "/v3/clusters/"+ours, "", 200)
	if seen.has("links", "update") || seen.has("links", "remove") || !seen.has("actions", "generateKubeconfig") || seen.has("actions", "exportYaml") {
		t.Errorf("ben is offered %s", seen.raw)
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
	status(ben, "DELETE", "/v3/clusterroletemplatebindings/"+binding.text("id"), "", 403)
	status(ann, "DELETE", "/v3/clusterroletemplatebindings/"+binding.text("id"), "", 204)
	status(ben, "GET", "/v3/clusters/"+ours, "", 404)
	if r := status(ann, "GET", "/v1-drover/whoami", "", 200); r.text("username") != "ann" || !strings.Contains(string(r.raw), `"clusterName":"ours"`) || r.text("userId") != annID {
		t.Errorf("whoami: %s", r.raw)
	}

	// A project shows its cluster's record and nothing else of it.
	project := d.Value.Projects.Default
	status(ann, "POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userPrincipalId":"local://%s"}`, project, benID), 201)
	if r := status(ben, "GET", "/v3/projects", "", 200); r.ids() != project {
		t.Errorf("ben's projects: %s", r.raw)
	}
	status(ben, "GET", "/v3/clusters/"+ours, "", 200)
	status(ben, "GET", "/v1/provisioning.cattle.io.clusters/fleet-default/ours", "", 404)
}

// TestBadBindings: what is refused, with code and field.
func TestBadBindings(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	annID, ann := b.person("ann", "user")
	_, manager := b.person("mia", "users-manage")
	_, maker := b.person("rob", "roles-manage")
	const harbourID = "c-m-h4rb0r55"
	b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"clusterroletemplatebindings-manage","userId":%q}`, harbourID, annID))
	adminBinding := b.adminBindings()["user-admin"]
	crtb := func(role, rest string) string {
		return fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":%q%s}`, harbourID, role, rest)
	}
	toAnn := fmt.Sprintf(`,"userId":%q`, annID)
	for _, c := range []struct {
		name, token, method, target, body string
		status                            int
		code, field, text                 string
	}{
		{"no subject", b.admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", ""), 422, "InvalidBodyContent", "userId", "names none"},
		{"two subjects", b.admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", toAnn+`,"groupPrincipalId":"x://y"`), 422, "InvalidBodyContent", "userId", "names both"},
		{"a user who is not there", b.admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", `,"userId":"u-nobody"`), 422, "InvalidReference", "userId", "no user"},
		{"a role that is not there", b.admin, "POST", "clusterroletemplatebindings", crtb("nothing", toAnn), 422, "InvalidReference", "roleTemplateId", "no role"},
		{"a role of another context", b.admin, "POST", "clusterroletemplatebindings", crtb("read-only", toAnn), 422, "InvalidOption", "roleTemplateId", "of a project"},
		{"a cluster that is not there", b.admin, "POST", "clusterroletemplatebindings", `{"clusterId":"c-zzzzz","roleTemplateId":"cluster-member"` + toAnn + `}`, 422, "InvalidReference", "clusterId", "no cluster"},
		{"a project that is not there", b.admin, "POST", "projectroletemplatebindings", `{"projectId":"c-m-h4rb0r55:p-zzzzz","roleTemplateId":"read-only"` + toAnn + `}`, 422, "InvalidReference", "projectId", "no project"},
		{"a group of a directory", b.admin, "POST", "clusterroletemplatebindings", crtb("cluster-member", `,"groupPrincipalId":"openldap_group://cn=ops"`), 201, "", "", ""},
		{"a cluster that one does not see", ann, "POST", "clusterroletemplatebindings", `{"clusterId":"c-m-qqqqqqqq","roleTemplateId":"cluster-member"` + toAnn + `}`, 422, "InvalidReference", "clusterId", "no cluster"},
		{"more than one has", ann, "POST", "clusterroletemplatebindings", crtb("cluster-owner", toAnn), 403, "PermissionDenied", "", "allows more than user ann has"},
		{"what one has", ann, "POST", "clusterroletemplatebindings", crtb("clusterroletemplatebindings-view", toAnn), 201, "", "", ""},
		{"administration by a manager of users", manager, "POST", "globalrolebindings", `{"globalRoleId":"admin"` + toAnn + `}`, 403, "PermissionDenied", "", "allows more than user mia has"},
		{"taking administration away", manager, "DELETE", "globalrolebindings/" + adminBinding, "", 403, "PermissionDenied", "", "taken away"},
		{"the password of an administrator", manager, "POST", "users/user-admin?action=setpassword", `{"newPassword":"battery staple"}`, 403, "PermissionDenied", "", "may not"},
		{"an administrator is not disabled by less", manager, "PUT", "users/user-admin", `{"enabled":false}`, 403, "PermissionDenied", "", "may not"},
		{"the last administrator's role", b.admin, "DELETE", "globalrolebindings/" + adminBinding, "", 422, "InvalidState", "", "no one would be left"},
		{"oneself", b.admin, "DELETE", "users/user-admin", "", 422, "InvalidAction", "", "themselves"},
		{"oneself, for now", b.admin, "PUT", "users/user-admin", `{"enabled":false}`, 422, "InvalidAction", "enabled", "themselves"},
		{"a role of everything by a maker of roles", maker, "POST", "roletemplates", `{"name":"x","context":"cluster","rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`, 403, "PermissionDenied", "", "allows more than user rob has"},
		{"inherited by it", maker, "POST", "roletemplates", `{"name":"x","context":"cluster","roleTemplateIds":["cluster-owner"]}`, 403, "PermissionDenied", "", "allows more than user rob has"},
		{"a role without verbs", b.admin, "POST", "roletemplates", `{"name":"x","context":"cluster","rules":[{"apiGroups":[""],"resources":["pods"]}]}`, 422, "InvalidBodyContent", "rules[0].verbs", "at least one verb"},
		{"a rule of unknown fields", b.admin, "POST", "roletemplates", `{"name":"x","rules":[{"apigroup":[""]}]}`, 422, "InvalidFormat", "rules", "apigroup"},
		{"a built-in role", b.admin, "PUT", "roletemplates/cluster-member", `{"rules":[]}`, 422, "InvalidState", "rules", "comes with the server"},
		{"a built-in role, away", b.admin, "DELETE", "roletemplates/cluster-member", "", 422, "InvalidState", "", "comes with the server"},
		{"a role of the planet", b.admin, "POST", "roletemplates", `{"name":"x","context":"planet"}`, 422, "InvalidOption", "context", "neither cluster nor project"},
		{"a name that is taken", b.admin, "POST", "users", `{"username":"ANN","password":"correct horse battery"}`, 422, "NotUnique", "username", "already"},
		{"a name with a space", b.admin, "POST", "users", `{"username":"a b","password":"correct horse battery"}`, 422, "InvalidBodyContent", "username", "valid name"},
		{"a short password", b.admin, "POST", "users", `{"username":"eve","password":"short"}`, 422, "InvalidBodyContent", "newPassword", "at least 12"},
		{"a user by a user", ann, "POST", "users", `{"username":"eve","password":"correct horse battery"}`, 403, "PermissionDenied", "", "create"},
		{"a global role by a user", ann, "POST", "globalroles", `{"name":"x"}`, 403, "PermissionDenied", "", "globalRole"},
		{"a foreign binding", ann, "GET", "globalrolebindings/" + adminBinding, "", 404, "NotFound", "", "no globalRoleBinding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.request(c.method, "/v3/"+c.target, c.token, c.body)
			field, _ := r.body["fieldName"].(string)
			code := ""
			if r.status >= 400 {
				code = r.text("code")
			}
			if r.status != c.status || code != c.code || field != c.field || c.text != "" && !strings.Contains(r.text("message"), c.text) {
				t.Errorf("%d %s %q: %s", r.status, code, field, r.raw)
			}
		})
	}
}

// TestLivesOfUsers follows a user from the first login to the end.
func TestLivesOfUsers(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	id, api := b.person("ann", "user", "admin") // of two administrators one may go
	login := func(password string) result {
		return b.request("POST", "/v3-public/localProviders/local?action=login", "", fmt.Sprintf(`{"username":"ann","password":%q}`, password))
	}
	session := login("correct horse ann").text("token")
	status := func(token string) int { return b.request("GET", "/v3/users?me=true", token, "").status }
	if status(session) != 200 || status(api) != 200 {
		t.Fatal("a new user is not let in")
	}
	b.want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":false,"description":"on leave"}`)
	if status(session) != 401 || status(api) != 401 || login("correct horse ann").status != 403 {
		t.Error("a disabled user is let in")
	}
	b.want(http.StatusUnprocessableEntity, "DELETE", "/v3/globalrolebindings/"+b.adminBindings()["user-admin"], "") // ann cannot log in, and does not count
	b.want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":true}`)
	if status(session) != 401 || status(api) != 200 {
		t.Error("a session outlives being disabled, or a token does not")
	}
	b.want(http.StatusOK, "POST", "/v3/users/"+id+"?action=setpassword", `{"newPassword":"battery staple ann"}`)
	if login("correct horse ann").status != 401 || login("battery staple ann").status != 201 {
		t.Error("the new password is not the one")
	}
	b.want(http.StatusNoContent, "DELETE", "/v3/users/"+id, "")
	if status(api) != 401 || login("battery staple ann").status != 401 || len(b.st.TokensByUser.Find(id)) != 0 || len(b.st.BindingsBySubject.Find("local://"+id)) != 0 {
		t.Error("something of a removed user is left")
	}
	if r := b.request("POST", "/v3/users", b.admin, `{"username":"Ann","password":"correct horse again"}`); r.status != 201 {
		t.Errorf("the name is not free again: %s", r.raw)
	}
}

// adminBindings are the bindings to the role admin by user.
func (b *bench) adminBindings() map[string]string {
	all := map[string]string{}
	for _, d := range b.st.Bindings.List() {
		if id, ok := roles.LocalUserID(d.Value.User); ok && d.Value.Role == roles.Admin {
			all[id] = d.Key
		}
	}
	return all
}

// TestRolesAreKept: a role is made, inherited, given, and goes when no user has it.
func TestRolesAreKept(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	id, ann := b.person("ann", "user")
	made := b.want(http.StatusCreated, "POST", "/v3/roletemplates",
		`{"name":"Watch nodes","context":"cluster","rules":[{"apiGroups":["management.cattle.io"],"resources":["nodes"],"verbs":["get","list"]}]}`).text("id")
	more := b.want(http.StatusCreated, "POST", "/v3/roletemplates", fmt.Sprintf(`{"name":"More","context":"cluster","roleTemplateIds":[%q]}`, made)).text("id")
	binding := b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":%q,"userPrincipalId":"local://%s"}`, more, id))
	nodes := func() int { return len(b.request("GET", "/v3/nodes", ann, "").data()) }
	if nodes() == 0 {
		t.Error("what a role inherits is not given")
	}
	if r := b.request("PUT", "/v3/roletemplates/"+made, b.admin, fmt.Sprintf(`{"roleTemplateIds":[%q]}`, more)); r.status != 422 || !strings.Contains(r.text("message"), "inherit itself") {
		t.Errorf("a cycle: %s", r.raw)
	}
	b.want(http.StatusUnprocessableEntity, "DELETE", "/v3/roletemplates/"+made, "")
	b.want(http.StatusUnprocessableEntity, "DELETE", "/v3/roletemplates/"+more, "")
	b.want(http.StatusOK, "PUT", "/v3/roletemplates/"+made, `{"rules":[{"apiGroups":["management.cattle.io"],"resources":["nodepools"],"verbs":["get"]}]}`)
	if nodes() != 0 {
		t.Error("a changed role gives what it gave")
	}
	b.want(http.StatusOK, "PUT", "/v3/roletemplates/"+more, `{"locked":true}`)
	b.want(http.StatusUnprocessableEntity, "POST", "/v3/clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":%q,"userId":%q}`, more, id))
	b.want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+binding, "")
	b.want(http.StatusNoContent, "DELETE", "/v3/roletemplates/"+more, "")
	b.want(http.StatusNoContent, "DELETE", "/v3/roletemplates/"+made, "")
	found := b.want(http.StatusOK, "POST", "/v3/principals?action=search", `{"name":"AN"}`)
	var list struct {
		Data []struct {
			ID, LoginName string
			Me            bool
		}
	}
	if err := json.Unmarshal(found.raw, &list); err != nil || len(list.Data) != 1 || list.Data[0].ID != "local://"+id || list.Data[0].LoginName != "ann" {
		t.Errorf("search: %v %s", err, found.raw)
	}
	if r := b.request("GET", "/v3/principals/local:%2F%2F"+id, ann, ""); r.status != 200 || r.body["me"] != true {
		t.Errorf("one's own principal: %s", r.raw)
	}
}

// TestTerraformChangesUsers: the provider sends the password with each change, and a user without a name is shown by the login name.
func TestTerraformChangesUsers(t *testing.T) {
	b := newBench(t)
	administrated(b)
	id, tessa := b.person("tessa", "user")
	at := "/v3/users/" + id
	for range 2 {
		b.want(http.StatusOK, "POST", at+"?action=setpassword", `{"newPassword":"correct horse tessa"}`)
	}
	r := b.want(http.StatusOK, "PUT", at, `{"username":"tessa","enabled":true,"labels":{"team":"a","old":"x"},"annotations":{"by":"terraform"}}`)
	if !r.has("labels", "team") || !r.has("annotations", "by") || r.body["ignoredFields"] != nil {
		t.Errorf("%s", r.raw)
	}
	if r := b.want(http.StatusOK, "PUT", at, `{"labels":{"old":null}}`); r.has("labels", "old") || !r.has("labels", "team") || !r.has("annotations", "by") {
		t.Errorf("%s", r.raw)
	}
	if r := b.request("POST", "/v3/users?action=changepassword", tessa, `{"currentPassword":"correct horse tessa","newPassword":"correct horse tessa"}`); r.status != 422 || !strings.Contains(r.text("message"), "is the current one") {
		t.Errorf("changepassword: %d %s", r.status, r.raw)
	}
	own := b.request("GET", "/v3/principals", tessa, "").data()
	if len(own) != 1 || own[0]["name"] != "tessa" || own[0]["loginName"] != "tessa" {
		t.Errorf("principals: %v", own)
	}
	b.want(http.StatusOK, "PUT", at, `{"name":"Tessa T"}`)
	if own := b.request("GET", "/v3/principals", tessa, "").data(); own[0]["name"] != "Tessa T" {
		t.Errorf("principals: %v", own)
	}
}
