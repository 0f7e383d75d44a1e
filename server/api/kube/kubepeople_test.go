package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestKubePeople: users and bindings as objects of Kubernetes are decided on as those of /v3 are.
func TestKubePeople(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	const users, grants = "/apis/management.cattle.io/v3/users", "/apis/management.cattle.io/v3/globalrolebindings"
	body := func(kind, name, more string) string {
		return `{"apiVersion":"management.cattle.io/v3","kind":"` + kind + `","metadata":{"name":"` + name + `"}` + more + `}`
	}
	b.Want(http.StatusCreated, "POST", users+"?dryRun=All", body("User", "u-carla", `,"username":"carla"`))
	b.Want(http.StatusNotFound, "GET", users+"/u-carla", "")
	b.Want(http.StatusCreated, "POST", users, body("User", "u-carla", `,"username":"carla"`))
	b.Want(http.StatusConflict, "POST", users, body("User", "u-carla", `,"username":"carla2"`))
	b.Want(http.StatusUnprocessableEntity, "POST", users, body("User", "Carla!", `,"username":"carla3"`))
	b.Want(http.StatusCreated, "POST", grants, body("GlobalRoleBinding", "carla-rules", `,"globalRoleName":"admin","userName":"u-carla"`))

	// A user who has no password cannot be the last administrator.
	for _, one := range b.Get("/v3/globalrolebindings?globalRoleId=admin").Data() {
		if one["userId"] != "u-carla" {
			if r := b.Request("DELETE", grants+"/"+one["id"].(string), b.Admin, ""); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "no one would be left") {
				t.Errorf("the last administrator goes: %d %s", r.Status, r.Raw)
			}
		}
	}

	// What was seen is what is changed.
	version := b.Get(users + "/u-carla").Body["metadata"].(map[string]any)["resourceVersion"].(string)
	put := func(more string) apibed.Result {
		return b.Request("PUT", users+"/u-carla", b.Admin, `{"apiVersion":"management.cattle.io/v3","kind":"User","metadata":{"name":"u-carla","resourceVersion":"`+version+`"},"username":"carla"`+more+`}`)
	}
	if r := put(`,"displayName":"Carla"`); r.Status != http.StatusOK || r.Text("displayName") != "Carla" {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := put(`,"displayName":"Other"`); r.Status != http.StatusConflict {
		t.Errorf("of an old revision: %d %s", r.Status, r.Raw)
	}

	// Who may give roles in one cluster gives them there, no more than they have.
	_, ann := b.Person("ann", "user")
	b.Bind("clusterroletemplatebindings", `{"roleTemplateId":"cluster-owner","clusterId":"`+cl.ID+`","userId":"`+b.Get("/v3/users?username=ann").Data()[0]["id"].(string)+`"}`)
	in := "/apis/management.cattle.io/v3/namespaces/" + cl.ID + "/clusterroletemplatebindings"
	if r := b.Request("POST", in, ann, body("ClusterRoleTemplateBinding", "carla-in", `,"roleTemplateName":"cluster-member","userName":"u-carla"`)); r.Status != http.StatusCreated {
		t.Errorf("an owner gives a role: %d %s", r.Status, r.Raw)
	}
	_, ben := b.Person("ben", "user-base")
	for method, target := range map[string]string{"POST": in, "GET": in + "/carla-in", "DELETE": in + "/carla-in"} {
		want := map[string]int{"POST": http.StatusForbidden}[method]
		if want == 0 {
			want = http.StatusNotFound
		}
		if r := b.Request(method, target, ben, body("ClusterRoleTemplateBinding", "more", `,"roleTemplateName":"cluster-member","userName":"u-carla"`)); r.Status != want {
			t.Errorf("%s by somebody else: %d, want %d: %s", method, r.Status, want, r.Raw)
		}
	}
	if r := b.Request("POST", grants, ann, body("GlobalRoleBinding", "x", `,"globalRoleName":"admin","userName":"u-carla"`)); r.Status != http.StatusForbidden {
		t.Errorf("an owner makes an administrator: %d %s", r.Status, r.Raw)
	}
}

// TestKubePeopleKeep: what a binding gives to whom stays, and a role has no field that is not acted on.
func TestKubePeopleKeep(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	const at = "/apis/management.cattle.io/v3/"
	body := func(kind, name, more string) string {
		return `{"apiVersion":"management.cattle.io/v3","kind":"` + kind + `","metadata":{"name":"` + name + `"}` + more + `}`
	}
	id, _ := b.Person("ann", "user")
	b.Want(http.StatusCreated, "POST", at+"globalrolebindings", body("GlobalRoleBinding", "grant", `,"globalRoleName":"user-base","userName":"`+id+`"`))
	patch := func(target, change string) apibed.Result {
		return b.Request("PATCH", at+target, b.Admin, change, "Content-Type", "application/merge-patch+json")
	}
	for _, more := range []string{`{"globalRoleName":"admin"}`, `{"userName":"user-admin"}`, `{"groupPrincipalName":"github_team://1"}`} {
		r := patch("globalrolebindings/grant", more)
		if r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "cannot be changed") {
			t.Errorf("a binding with %s: %d %s", more, r.Status, r.Raw)
		}
	}
	const rules = `,"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`
	b.Want(http.StatusCreated, "POST", at+"roletemplates", body("RoleTemplate", "pods", `,"displayName":"Pods","context":"cluster"`+rules))
	for _, field := range []string{"external", "administrative"} {
		for what, r := range map[string]apibed.Result{
			"a new role": b.Request("POST", at+"roletemplates", b.Admin, body("RoleTemplate", "more", `,"displayName":"More","context":"cluster","`+field+`":true`+rules)),
			"a change":   patch("roletemplates/pods", `{"`+field+`":true}`),
		} {
			if r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "not supported") {
				t.Errorf("%s with %s: %d %s", what, field, r.Status, r.Raw)
			}
		}
	}
}

// TestKubePasswords: a password by an object of its own, of oneself and of others.
func TestKubePasswords(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	annID, ann := b.Person("ann", "user")
	const at = "/apis/ext.cattle.io/v1/passwordchangerequests"
	for _, c := range []struct {
		token, spec string
		status      int
	}{
		{ann, `{"currentPassword":"wrong","newPassword":"a long new password"}`, 422},
		{ann, `{"currentPassword":"correct horse ann","newPassword":"short"}`, 422},
		{ann, `{"currentPassword":"correct horse ann","newPassword":"a long new password"}`, 201},
		{ann, `{"userID":"user-admin","newPassword":"a long new password"}`, 422},
		{b.Admin, `{"userID":"` + annID + `","newPassword":"another long one"}`, 201},
		{b.Admin, `{"userID":"u-nobody","newPassword":"another long one"}`, 404},
	} {
		r := b.Request("POST", at, c.token, `{"apiVersion":"ext.cattle.io/v1","kind":"PasswordChangeRequest","spec":`+c.spec+`}`)
		if r.Status != c.status || strings.Contains(string(r.Raw), "long") {
			t.Errorf("%s: %d, want %d: %s", c.spec, r.Status, c.status, r.Raw)
		}
		if c.token == ann && r.Status == 201 {
			ann = b.Token(annID, records.Token{}) // the change has ended the other
		}
	}
	if r := b.Request("POST", "/apis/ext.cattle.io/v1/selfusers", ann, `{}`); r.Status != 201 || !strings.Contains(string(r.Raw), annID) {
		t.Errorf("self: %d %s", r.Status, r.Raw)
	}
}
