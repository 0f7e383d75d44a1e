package management_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestProjectSecrets: who may see and change secrets in a project does so at the server, others learn nothing of them, and
// what Terraform's rancher2_secret sends is answered as it reads it.
func TestProjectSecrets(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	id := b.Want(201, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"shop"}`, cl.ID)).Text("id")
	short := strings.TrimPrefix(id, cl.ID+":")
	other := b.Want(201, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"bank"}`, cl.ID)).Text("id")
	member := func(name, role, project string) string {
		userID, token := b.Person(name, "user-base")
		b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":%q,"userId":%q}`, project, role, userID))
		return token
	}
	ann, ben, cas := member("ann", "project-member", id), member("ben", "read-only", id), member("cas", "project-owner", other)
	status := func(token, method, target, body string, want int) apibed.Result {
		t.Helper()
		r := b.Request(method, target, token, body)
		if r.Status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.Status, want, r.Raw)
		}
		return r
	}
	at := "/v3/projects/" + id + "/secrets"

	made := status(ann, "POST", at, fmt.Sprintf(`{"type":"secret","name":"mirror","projectId":%q,"description":"d","data":{"user":"YW5u"},"labels":{"team":"a"}}`, id), 201)
	if made.Text("id") != short+":mirror" || made.Text("type") != "secret" || made.Text("kind") != "Opaque" || made.Text("projectId") != id ||
		made.Body["data"].(map[string]any)["user"] != "YW5u" || !made.Has("links", "update") || !made.Has("links", "remove") || !made.Has("labels", "team") {
		t.Errorf("made %s", made.Raw)
	}
	self, _ := made.Body["links"].(map[string]any)["self"].(string)
	if !strings.HasSuffix(self, "/v3/project/"+id+"/secrets/"+short+":mirror") {
		t.Errorf("itself is at %s", self)
	}
	if got := status(ann, "GET", self[strings.Index(self, "/v3/"):], "", 200); got.Text("name") != "mirror" {
		t.Errorf("at its own link there is %s", got.Raw)
	}
	if got := status(ann, "GET", at, "", 200); got.IDs() != short+":mirror" || !got.Has("createTypes", "secret") {
		t.Errorf("ann sees %s", got.Raw)
	}
	changed := status(ann, "PUT", at+"/"+short+":mirror", `{"data":{"password":"aHVudGVyMg=="},"labels":{"team":null}}`, 200)
	if data := changed.Body["data"].(map[string]any); data["password"] != "aHVudGVyMg==" || data["user"] != nil || changed.Text("description") != "d" || changed.Has("labels", "team") {
		t.Errorf("changed to %s", changed.Raw)
	}
	added := status(ann, "PUT", at+"/mirror", `{"stringData":{"more":"x"}}`, 200)
	if data := added.Body["data"].(map[string]any); data["password"] != "aHVudGVyMg==" || data["more"] != "eA==" {
		t.Errorf("changed to %s", added.Raw)
	}
	if kept, ok := b.State.ProjectSecrets.Get(records.ProjectSecretKey(id, "mirror")); !ok || string(kept.Value.Data["password"]) != "hunter2" {
		t.Errorf("kept %v", kept.Value.Data)
	}

	// Who reads all but secrets sees that there may be some, and none of them.
	if got := status(ben, "GET", at, "", 200); got.IDs() != "" || got.Has("createTypes", "secret") {
		t.Errorf("ben sees %s", got.Raw)
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
	if !strings.Contains(string(schemas.Raw), `"pluralName":"secrets"`) {
		t.Error("the type is not published")
	}

	status(ann, "POST", at, `{"name":"second"}`, 201)
	status(ann, "DELETE", at+"/"+short+":mirror", "", 204)
	status(ann, "GET", at+"/"+short+":mirror", "", 404)
	b.Want(204, "DELETE", "/v3/projects/"+id, "")
	if left := b.State.ProjectSecrets.List(); len(left) != 0 {
		t.Errorf("%v are left of a project that was removed", left)
	}
}

// TestBadProjectSecrets: what is refused, with code and field, and without a value in the answer.
func TestBadProjectSecrets(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	first := cl.Projects.Default
	at := "/v3/project/" + first + "/secrets"
	b.Want(201, "POST", at, `{"name":"is","kind":"kubernetes.io/basic-auth","stringData":{"username":"ann","password":"hunter2"}}`)
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
			r := b.Request(c.method, at+c.target, b.Admin, c.body)
			field, _ := r.Body["fieldName"].(string)
			if r.Status != 422 || r.Text("code") != c.code || field != c.field {
				t.Errorf("%d %.500s", r.Status, r.Raw)
			}
			if text := string(r.Raw); strings.Contains(text, "hunter2") || strings.Contains(text, "424242") {
				t.Errorf("a value is in the answer: %.500s", r.Raw)
			}
		})
	}
	for i := len(b.State.ProjectSecrets.List()); i < 200; i++ {
		b.Want(201, "POST", at, fmt.Sprintf(`{"name":"n-%d"}`, i))
	}
	if r := b.Request("POST", at, b.Admin, `{"name":"more"}`); r.Status != 422 || r.Text("code") != "MaxLimitExceeded" {
		t.Errorf("one too many: %d %s", r.Status, r.Raw)
	}
}
