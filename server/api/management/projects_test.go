package management_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestProjectsOfOnesOwn: a member of a cluster makes a project, owns it with the answer, lets another user in, and removes it
// with all roles in it.
func TestProjectsOfOnesOwn(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	benID, ben := b.Person("ben", "user-base")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, annID))
	status := func(token, method, target, body string, want int) apibed.Result {
		t.Helper()
		r := b.Request(method, target, token, body)
		if r.Status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.Status, want, r.Raw)
		}
		return r
	}
	first := cl.Projects.Default
	if got := status(ann, "GET", "/v3/projects", "", 200); got.IDs() != "" || !got.Has("createTypes", "project") {
		t.Errorf("ann sees %s", got.Raw)
	}
	made := status(ann, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"shop","description":"what we sell","labels":{"team":"a"}}`, cl.ID), 201)
	id := made.Text("id")
	if !strings.HasPrefix(id, cl.ID+":p-") || made.Text("name") != "shop" || !made.Has("links", "update") || !made.Has("links", "remove") || !made.Has("labels", "team") {
		t.Errorf("made %s", made.Raw)
	}
	if got := status(ann, "GET", "/v3/projects?clusterId="+cl.ID+"&name=shop", "", 200).IDs(); got != id {
		t.Errorf("ann sees %s", got)
	}
	roles := status(ann, "GET", "/v3/projectroletemplatebindings?projectId="+id, "", 200)
	if len(roles.Data()) != 1 || roles.Data()[0]["roleTemplateId"] != "project-owner" || roles.Data()[0]["userId"] != annID {
		t.Errorf("the maker has %s", roles.Raw)
	}
	changed := status(ann, "PUT", "/v3/projects/"+id, `{"name":"store","labels":{"team":null}}`, 200)
	if changed.Text("name") != "store" || changed.Text("description") != "what we sell" || changed.Has("labels", "team") {
		t.Errorf("changed to %s", changed.Raw)
	}

	status(ben, "GET", "/v3/projects/"+id, "", 404)
	status(ann, "POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userId":%q}`, id, benID), 201)
	if seen := status(ben, "GET", "/v3/projects/"+id, "", 200); seen.Has("links", "remove") || seen.Has("links", "update") {
		t.Errorf("ben is offered %s", seen.Raw)
	}
	status(ben, "GET", "/v3/project/"+id+"/schemas", "", 200)
	status(ben, "DELETE", "/v3/projects/"+id, "", 403)
	status(ben, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"mine"}`, cl.ID), 403)
	status(ben, "POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userId":%q}`, id, benID), 403)

	status(ann, "DELETE", "/v3/projects/"+id, "", 204)
	status(ann, "GET", "/v3/projects/"+id, "", 404)
	status(ben, "GET", "/v3/clusters/"+cl.ID, "", 404) // which the project let him see
	for _, d := range b.State.Bindings.List() {
		if d.Value.ProjectID == id {
			t.Errorf("%s is left", d.Key)
		}
	}
	status(b.Admin, "DELETE", "/v3/projects/"+first, "", 422)
}

// TestBadProjects: what is refused, with code and field.
func TestBadProjects(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	b.AddCluster("leaving", "c-m-l34v1ng5", func(c *records.Cluster) { c.Deleting = apibed.Start })
	first := cl.Projects.Default
	id := b.Want(201, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"shop"}`, cl.ID)).Text("id")
	for _, c := range []struct {
		name, method, target, body string
		code, field                string
	}{
		{"no cluster", "POST", "", `{"name":"x"}`, "MissingRequired", "clusterId"},
		{"a cluster that is not there", "POST", "", `{"name":"x","clusterId":"c-nope1"}`, "InvalidReference", "clusterId"},
		{"a cluster that goes", "POST", "", `{"name":"x","clusterId":"c-m-l34v1ng5"}`, "InvalidState", "clusterId"},
		{"no name", "POST", "", `{"clusterId":"` + cl.ID + `"}`, "MissingRequired", "name"},
		{"a long name", "POST", "", `{"clusterId":"` + cl.ID + `","name":"` + strings.Repeat("x", 300) + `"}`, "InvalidOption", "name"},
		{"one quota without the other", "POST", "", `{"clusterId":"` + cl.ID + `","name":"x","resourceQuota":{"limit":{"pods":"1"}}}`, "MissingRequired", "namespaceDefaultResourceQuota"},
		{"quotas", "POST", "", `{"clusterId":"` + cl.ID + `","name":"x","resourceQuota":{},"namespaceDefaultResourceQuota":{}}`, "InvalidOption", "resourceQuota"},
		{"to another cluster", "PUT", "/" + id, `{"clusterId":"c-m-l34v1ng5"}`, "InvalidOption", "clusterId"},
		{"the project of a cluster", "PUT", "/" + first, `{"name":"x"}`, "InvalidState", ""},
		{"the project of a cluster, away", "DELETE", "/" + first, "", "InvalidState", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Request(c.method, "/v3/projects"+c.target, b.Admin, c.body)
			field, _ := r.Body["fieldName"].(string)
			if r.Status != 422 || r.Text("code") != c.code || field != c.field {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
		})
	}
}
