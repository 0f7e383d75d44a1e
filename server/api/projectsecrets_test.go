package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

// TestProjectSecrets: who may see and change secrets in a project does so at the server, others learn nothing of them, and
// what Terraform's rancher2_secret sends is answered as it reads it.
func TestProjectSecrets(t *testing.T) {
	b := newBench(t)
	administrated(b)
	cl, _ := harbour(b)
	id := b.want(201, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"shop"}`, cl.ID)).text("id")
	short := strings.TrimPrefix(id, cl.ID+":")
	other := b.want(201, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"bank"}`, cl.ID)).text("id")
	member := func(name, role, project string) string {
		userID, token := b.person(name, "user-base")
		b.bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":%q,"userId":%q}`, project, role, userID))
		return token
	}
	ann, ben, cas := member("ann", "project-member", id), member("ben", "read-only", id), member("cas", "project-owner", other)
	status := func(token, method, target, body string, want int) result {
		t.Helper()
		r := b.request(method, target, token, body)
		if r.status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.status, want, r.raw)
		}
		return r
	}
	at := "/v3/projects/" + id + "/secrets"

	made := status(ann, "POST", at, fmt.Sprintf(`{"type":"secret","name":"mirror","projectId":%q,"description":"d","data":{"user":"YW5u"},"labels":{"team":"a"}}`, id), 201)
	if made.text("id") != short+":mirror" || made.text("type") != "secret" || made.text("kind") != "Opaque" || made.text("projectId") != id ||
		made.body["data"].(map[string]any)["user"] != "YW5u" || !made.has("links", "update") || !made.has("links", "remove") || !made.has("labels", "team") {
		t.Errorf("made %s", made.raw)
	}
	self, _ := made.body["links"].(map[string]any)["self"].(string)
	if !strings.HasSuffix(self, "/v3/project/"+id+"/secrets/"+short+":mirror") {
		t.Errorf("itself is at %s", self)
	}
	if got := status(ann, "GET", self[strings.Index(self, "/v3/"):], "", 200); got.text("name") != "mirror" {
		t.Errorf("at its own link there is %s", got.raw)
	}
	if got := status(ann, "GET", at, "", 200); got.ids() != short+":mirror" || !got.has("createTypes", "secret") {
		t.Errorf("ann sees %s", got.raw)
	}
	changed := status(ann, "PUT", at+"/"+short+":mirror", `{"data":{"password":"aHVudGVyMg=="},"labels":{"team":null}}`, 200)
	if data := changed.body["data"].(map[string]any); data["password"] != "aHVudGVyMg==" || data["user"] != nil || changed.text("description") != "d" || changed.has("labels", "team") {
		t.Errorf("changed to %s", changed.raw)
	}
	added := status(ann, "PUT", at+"/mirror", `{"stringData":{"more":"x"}}`, 200)
	if data := added.body["data"].(map[string]any); data["password"] != "aHVudGVyMg==" || data["more"] != "eA==" {
		t.Errorf("changed to %s", added.raw)
	}
	if kept, ok := b.st.ProjectSecrets.Get(records.ProjectSecretKey(id, "mirror")); !ok || string(kept.Value.Data["password"]) != "hunter2" {
		t.Errorf("kept %v", kept.Value.Data)
	}

	// Who reads all but secrets sees that there may be some, and none of them.
	if got := status(ben, "GET", at, "", 200); got.ids() != "" || got.has("createTypes", "secret") {
		t.Errorf("ben sees %s", got.raw)
	}
	status(ben, "GET", at+"/"+short+":mirror", "", 404)
	status(ben, "PUT", at+"/"+short+":mirror", `{"data":{}}`, 404)
	status(ben, "POST", at, `{"name":"x"}`, 403)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		status(cas, method, at+"/"+short+":mirror", `{}`, 404)
	}
	status(cas, "GET", "/v3/projects/"+other+"/secrets/"+short+":mirror", "", 404)
	status(cas, "GET", at, "", 404)
	schemas := status(ann, "GET", "/v3/project/"+id+"/schemas", "", 200)
	if !strings.Contains(string(schemas.raw), `"pluralName":"secrets"`) {
		t.Error("the type is not published")
	}

	status(ann, "POST", at, `{"name":"second"}`, 201)
	status(ann, "DELETE", at+"/"+short+":mirror", "", 204)
	status(ann, "GET", at+"/"+short+":mirror", "", 404)
	b.want(204, "DELETE", "/v3/projects/"+id, "")
	if left := b.st.ProjectSecrets.List(); len(left) != 0 {
		t.Errorf("%v are left of a project that was removed", left)
	}
}

// TestBadProjectSecrets: what is refused, with code and field, and without a value in the answer.
func TestBadProjectSecrets(t *testing.T) {
	b := newBench(t)
	cl, _ := harbour(b)
	first := cl.Projects.Default
	at := "/v3/project/" + first + "/secrets"
	b.want(201, "POST", at, `{"name":"is","kind":"kubernetes.io/basic-auth","stringData":{"username":"ann","password":"hunter2"}}`)
	for _, c := range []struct{ name, method, target, body, code, field string }{
		{"no name", "POST", "", `{"data":{}}`, "MissingRequired", "name"},
		{"a bad name", "POST", "", `{"name":"A_b"}`, "InvalidBodyContent", "name"},
		{"one that is there", "POST", "", `{"name":"is"}`, "NotUnique", "name"},
		{"not base64", "POST", "", `{"name":"x","data":{"a":"hunter2!"}}`, "InvalidBodyContent", "data"},
		{"not a text", "POST", "", `{"name":"x","data":{"a":424242}}`, "InvalidFormat", "data"},
		{"a bad key", "POST", "", `{"name":"x","stringData":{"a/b":"hunter2"}}`, "InvalidBodyContent", "stringData"},
		{"too much", "POST", "", `{"name":"x","stringData":{"a":"` + strings.Repeat("x", 1<<20+1) + `"}}`, "InvalidBodyContent", "data"},
		{"half a certificate", "POST", "", `{"name":"x","kind":"kubernetes.io/tls","stringData":{"tls.crt":"hunter2"}}`, "InvalidBodyContent", "data"},
		{"a token of a cluster", "POST", "", `{"name":"x","kind":"kubernetes.io/service-account-token"}`, "InvalidOption", "kind"},
		{"of one namespace", "POST", "", `{"name":"x","namespaceId":"web"}`, "InvalidOption", "namespaceId"},
		{"of another project", "POST", "", `{"name":"x","projectId":"c-abcde:p-other"}`, "InvalidOption", "projectId"},
		{"another type", "PUT", "/is", `{"kind":"Opaque"}`, "InvalidOption", "kind"},
		{"another name", "PUT", "/is", `{"name":"was"}`, "InvalidOption", "name"},
		{"less than its type needs", "PUT", "/is", `{"data":{}}`, "InvalidBodyContent", "data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.request(c.method, at+c.target, b.admin, c.body)
			field, _ := r.body["fieldName"].(string)
			if r.status != 422 || r.text("code") != c.code || field != c.field {
				t.Errorf("%d %.500s", r.status, r.raw)
			}
			if text := string(r.raw); strings.Contains(text, "hunter2") || strings.Contains(text, "424242") {
				t.Errorf("a value is in the answer: %.500s", r.raw)
			}
		})
	}
	for i := len(b.st.ProjectSecrets.List()); i < 200; i++ {
		b.want(201, "POST", at, fmt.Sprintf(`{"name":"n-%d"}`, i))
	}
	if r := b.request("POST", at, b.admin, `{"name":"more"}`); r.status != 422 || r.text("code") != "MaxLimitExceeded" {
		t.Errorf("one too many: %d %s", r.status, r.raw)
	}
}
