package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

// TestProjectsOfOnesOwn: a member of a cluster makes a project, owns it with the answer, lets another user in, and removes it
// with all roles in it.
func TestProjectsOfOnesOwn(t *testing.T) {
	b := newBench(t)
	administrated(b)
	cl, _ := harbour(b)
	annID, ann := b.person("ann", "user")
	benID, ben := b.person("ben", "user-base")
	b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, annID))
	status := func(token, method, target, body string, want int) result {
		t.Helper()
		r := b.request(method, target, token, body)
		if r.status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.status, want, r.raw)
		}
		return r
	}
	first := cl.Projects.Default
	if got := status(ann, "GET", "/v3/projects", "", 200); got.ids() != "" || !got.has("createTypes", "project") {
		t.Errorf("ann sees %s", got.raw)
	}
	made := status(ann, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"shop","description":"what we sell","labels":{"team":"a"}}`, cl.ID), 201)
	id := made.text("id")
	if !strings.HasPrefix(id, cl.ID+":p-") || made.text("name") != "shop" || !made.has("links", "update") || !made.has("links", "remove") || !made.has("labels", "team") {
		t.Errorf("made %s", made.raw)
	}
	if got := status(ann, "GET", "/v3/projects?clusterId="+cl.ID+"&name=shop", "", 200).ids(); got != id {
		t.Errorf("ann sees %s", got)
	}
	roles := status(ann, "GET", "/v3/projectroletemplatebindings?projectId="+id, "", 200)
	if len(roles.data()) != 1 || roles.data()[0]["roleTemplateId"] != "project-owner" || roles.data()[0]["userId"] != annID {
		t.Errorf("the maker has %s", roles.raw)
	}
	changed := status(ann, "PUT", "/v3/projects/"+id, `{"name":"store","labels":{"team":null}}`, 200)
	if changed.text("name") != "store" || changed.text("description") != "what we sell" || changed.has("labels", "team") {
		t.Errorf("changed to %s", changed.raw)
	}

	status(ben, "GET", "/v3/projects/"+id, "", 404)
	status(ann, "POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userId":%q}`, id, benID), 201)
	if seen := status(ben, "GET", "/v3/projects/"+id, "", 200); seen.has("links", "remove") || seen.has("links", "update") {
		t.Errorf("ben is offered %s", seen.raw)
	}
	status(ben, "GET", "/v3/project/"+id+"/schemas", "", 200)
	status(ben, "DELETE", "/v3/projects/"+id, "", 403)
	status(ben, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"mine"}`, cl.ID), 403)
	status(ben, "POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userId":%q}`, id, benID), 403)

	status(ann, "DELETE", "/v3/projects/"+id, "", 204)
	status(ann, "GET", "/v3/projects/"+id, "", 404)
	status(ben, "GET", "/v3/clusters/"+cl.ID, "", 404) // which the project let him see
	for _, d := range b.st.Bindings.List() {
		if d.Value.ProjectID == id {
			t.Errorf("%s is left", d.Key)
		}
	}
	status(b.admin, "DELETE", "/v3/projects/"+first, "", 422)
}

// TestBadProjects: what is refused, with code and field.
func TestBadProjects(t *testing.T) {
	b := newBench(t)
	cl, _ := harbour(b)
	b.addCluster("leaving", "c-m-l34v1ng5", func(c *records.Cluster) { c.Deleting = start })
	first := cl.Projects.Default
	id := b.want(201, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"shop"}`, cl.ID)).text("id")
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
			r := b.request(c.method, "/v3/projects"+c.target, b.admin, c.body)
			field, _ := r.body["fieldName"].(string)
			if r.status != 422 || r.text("code") != c.code || field != c.field {
				t.Errorf("%d %s", r.status, r.raw)
			}
		})
	}
}
