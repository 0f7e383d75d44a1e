package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

// TestKubePeople: users and bindings as objects of Kubernetes are decided on as those of /v3 are.
func TestKubePeople(t *testing.T) {
	b := newBench(t)
	administrated(b)
	cl, _ := harbour(b)
	const users, grants = "/apis/management.cattle.io/v3/users", "/apis/management.cattle.io/v3/globalrolebindings"
	body := func(kind, name, more string) string {
		return `{"apiVersion":"management.cattle.io/v3","kind":"` + kind + `","metadata":{"name":"` + name + `"}` + more + `}`
	}
	b.want(http.StatusCreated, "POST", users+"?dryRun=All", body("User", "u-carla", `,"username":"carla"`))
	b.want(http.StatusNotFound, "GET", users+"/u-carla", "")
	b.want(http.StatusCreated, "POST", users, body("User", "u-carla", `,"username":"carla"`))
	b.want(http.StatusConflict, "POST", users, body("User", "u-carla", `,"username":"carla2"`))
	b.want(http.StatusUnprocessableEntity, "POST", users, body("User", "Carla!", `,"username":"carla3"`))
	b.want(http.StatusCreated, "POST", grants, body("GlobalRoleBinding", "carla-rules", `,"globalRoleName":"admin","userName":"u-carla"`))

	// A user who has no password cannot be the last administrator.
	for _, one := range b.get("/v3/globalrolebindings?globalRoleId=admin").data() {
		if one["userId"] != "u-carla" {
			if r := b.request("DELETE", grants+"/"+one["id"].(string), b.admin, ""); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "no one would be left") {
				t.Errorf("the last administrator goes: %d %s", r.status, r.raw)
			}
		}
	}

	// What was seen is what is changed.
	version := b.get(users + "/u-carla").body["metadata"].(map[string]any)["resourceVersion"].(string)
	put := func(more string) result {
		return b.request("PUT", users+"/u-carla", b.admin, `{"apiVersion":"management.cattle.io/v3","kind":"User","metadata":{"name":"u-carla","resourceVersion":"`+version+`"},"username":"carla"`+more+`}`)
	}
	if r := put(`,"displayName":"Carla"`); r.status != http.StatusOK || r.text("displayName") != "Carla" {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := put(`,"displayName":"Other"`); r.status != http.StatusConflict {
		t.Errorf("of an old revision: %d %s", r.status, r.raw)
	}

	// Who may give roles in one cluster gives them there, no more than they have.
	_, ann := b.person("ann", "user")
	b.bind("clusterroletemplatebindings", `{"roleTemplateId":"cluster-owner","clusterId":"`+cl.ID+`","userId":"`+b.get("/v3/users?username=ann").data()[0]["id"].(string)+`"}`)
	in := "/apis/management.cattle.io/v3/namespaces/" + cl.ID + "/clusterroletemplatebindings"
	if r := b.request("POST", in, ann, body("ClusterRoleTemplateBinding", "carla-in", `,"roleTemplateName":"cluster-member","userName":"u-carla"`)); r.status != http.StatusCreated {
		t.Errorf("an owner gives a role: %d %s", r.status, r.raw)
	}
	_, ben := b.person("ben", "user-base")
	for method, target := range map[string]string{"POST": in, "GET": in + "/carla-in", "DELETE": in + "/carla-in"} {
		want := map[string]int{"POST": http.StatusForbidden}[method]
		if want == 0 {
			want = http.StatusNotFound
		}
		if r := b.request(method, target, ben, body("ClusterRoleTemplateBinding", "more", `,"roleTemplateName":"cluster-member","userName":"u-carla"`)); r.status != want {
			t.Errorf("%s by somebody else: %d, want %d: %s", method, r.status, want, r.raw)
		}
	}
	if r := b.request("POST", grants, ann, body("GlobalRoleBinding", "x", `,"globalRoleName":"admin","userName":"u-carla"`)); r.status != http.StatusForbidden {
		t.Errorf("an owner makes an administrator: %d %s", r.status, r.raw)
	}
}

// TestKubePeopleKeep: what a binding gives to whom stays, and a role has no field that is not acted on.
func TestKubePeopleKeep(t *testing.T) {
	b := newBench(t)
	administrated(b)
	const at = "/apis/management.cattle.io/v3/"
	body := func(kind, name, more string) string {
		return `{"apiVersion":"management.cattle.io/v3","kind":"` + kind + `","metadata":{"name":"` + name + `"}` + more + `}`
	}
	id, _ := b.person("ann", "user")
	b.want(http.StatusCreated, "POST", at+"globalrolebindings", body("GlobalRoleBinding", "grant", `,"globalRoleName":"user-base","userName":"`+id+`"`))
	patch := func(target, change string) result {
		return b.request("PATCH", at+target, b.admin, change, "Content-Type", "application/merge-patch+json")
	}
	for _, more := range []string{`{"globalRoleName":"admin"}`, `{"userName":"user-admin"}`, `{"groupPrincipalName":"github_team://1"}`} {
		r := patch("globalrolebindings/grant", more)
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "cannot be changed") {
			t.Errorf("a binding with %s: %d %s", more, r.status, r.raw)
		}
	}
	const rules = `,"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`
	b.want(http.StatusCreated, "POST", at+"roletemplates", body("RoleTemplate", "pods", `,"displayName":"Pods","context":"cluster"`+rules))
	for _, field := range []string{"external", "administrative"} {
		for what, r := range map[string]result{
			"a new role": b.request("POST", at+"roletemplates", b.admin, body("RoleTemplate", "more", `,"displayName":"More","context":"cluster","`+field+`":true`+rules)),
			"a change":   patch("roletemplates/pods", `{"`+field+`":true}`),
		} {
			if r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "not supported") {
				t.Errorf("%s with %s: %d %s", what, field, r.status, r.raw)
			}
		}
	}
}

// TestKubePasswords: a password by an object of its own, of oneself and of others.
func TestKubePasswords(t *testing.T) {
	b := newBench(t)
	administrated(b)
	annID, ann := b.person("ann", "user")
	const at = "/apis/ext.cattle.io/v1/passwordchangerequests"
	for _, c := range []struct {
		token, spec string
		status      int
	}{
		{ann, `{"currentPassword":"wrong","newPassword":"a long new password"}`, 422},
		{ann, `{"currentPassword":"correct horse ann","newPassword":"short"}`, 422},
		{ann, `{"currentPassword":"correct horse ann","newPassword":"a long new password"}`, 201},
		{ann, `{"userID":"user-admin","newPassword":"a long new password"}`, 422},
		{b.admin, `{"userID":"` + annID + `","newPassword":"another long one"}`, 201},
		{b.admin, `{"userID":"u-nobody","newPassword":"another long one"}`, 404},
	} {
		r := b.request("POST", at, c.token, `{"apiVersion":"ext.cattle.io/v1","kind":"PasswordChangeRequest","spec":`+c.spec+`}`)
		if r.status != c.status || strings.Contains(string(r.raw), "long") {
			t.Errorf("%s: %d, want %d: %s", c.spec, r.status, c.status, r.raw)
		}
		if c.token == ann && r.status == 201 {
			ann = b.token(annID, records.Token{}) // the change has ended the other
		}
	}
	if r := b.request("POST", "/apis/ext.cattle.io/v1/selfusers", ann, `{}`); r.status != 201 || !strings.Contains(string(r.raw), annID) {
		t.Errorf("self: %d %s", r.status, r.raw)
	}
}
