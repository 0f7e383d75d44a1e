package api_test

// The request sequences of the original CLI's commands about people, projects and namespaces, and of Terraform's
// resources, with values decoded into the types that those clients have.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

type typedRole struct {
	typedResource
	Description, Context    string
	Builtin, Locked, Hidden bool
	RoleTemplateIDs         []string `json:"roleTemplateIds"`
	Rules                   []struct{ APIGroups, Resources, Verbs, ResourceNames []string }
}

type typedBinding struct {
	typedResource
	ClusterID, ProjectID, RoleTemplateID, UserID, UserPrincipalID, GroupPrincipalID string
}

type typedPrincipal struct {
	typedResource
	LoginName, PrincipalType, Provider string
	Me, MemberOf                       bool
}

// as decodes an answer into the type of a client; a field of another type fails the test.
func as[T any](t *testing.T, r apibed.Result, status int) T {
	t.Helper()
	var value T
	if r.Status != status {
		t.Fatalf("status %d, want %d: %s", r.Status, status, r.Raw)
	}
	if len(r.Raw) > 0 {
		if err := json.Unmarshal(r.Raw, &value); err != nil {
			t.Fatalf("%v: %s", err, r.Raw)
		}
	}
	return value
}

// TestCLIMembers: add-member-role, list-members, list-roles and delete-member-role of clusters and projects.
func TestCLIMembers(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	project := cl.Projects.Default
	annID, _ := b.Person("ann", "user")
	for _, of := range []struct{ plural, context, field, id, role string }{
		{"clusterroletemplatebindings", "cluster", "clusterId", cl.ID, "cluster-member"},
		{"projectroletemplatebindings", "project", "projectId", project, "read-only"},
	} {
		t.Run(of.context, func(t *testing.T) {
			roles := as[typedCollection[typedRole]](t, b.Get("/v3/roletemplates?context="+of.context+"&hidden=false&"+apibed.ListQ), 200)
			if len(roles.Data) < 5 || roles.Data[0].Context != of.context || roles.Data[0].Name == "" {
				t.Errorf("roles %+v", roles.Data)
			}
			found := as[typedCollection[typedPrincipal]](t, b.Get("/v3/principals?ID=nonsense&"+apibed.ListQ), 200)
			people := as[typedCollection[typedPrincipal]](t, b.Request("POST", apibed.Path(t, found.Actions["search"]), b.Admin, `{"name":"ann"}`), 200)
			if len(people.Data) != 1 || people.Data[0].PrincipalType != "user" || people.Data[0].LoginName != "ann" {
				t.Fatalf("found %+v", people.Data)
			}
			body := fmt.Sprintf(`{"links":null,"actions":null,%q:%q,"roleTemplateId":%q,"userPrincipalId":%q}`, of.field, of.id, of.role, people.Data[0].ID)
			made := as[typedBinding](t, b.Request("POST", "/v3/"+of.plural, b.Admin, body), 201)
			if made.UserID != annID || made.Created == nil {
				t.Errorf("made %+v", made)
			}
			all := as[typedCollection[typedBinding]](t, b.Get("/v3/"+of.plural+"?"+of.field+"="+url.QueryEscape(of.id)+"&"+apibed.ListQ), 200)
			if len(all.Data) != 1 || all.Data[0].RoleTemplateID != of.role {
				t.Fatalf("members %+v", all.Data)
			}
			who := as[typedPrincipal](t, b.Get("/v3/principals/"+url.PathEscape(all.Data[0].UserPrincipalID)), 200)
			if who.Name != "ann" && who.LoginName != "ann" {
				t.Errorf("member %+v", who)
			}
			mine := b.Get("/v3/" + of.plural + "?" + of.field + "=" + url.QueryEscape(of.id) + "&roleTemplateId=" + of.role + "&userPrincipalId=" + url.QueryEscape(made.UserPrincipalID) + "&" + apibed.ListQ)
			for _, one := range as[typedCollection[typedBinding]](t, mine, 200).Data {
				as[struct{}](t, b.Request("DELETE", apibed.Path(t, one.Links["remove"]), b.Admin, ""), 204)
			}
			as[struct{}](t, b.Request("GET", apibed.Path(t, made.Links["self"]), b.Admin, ""), 404)
		})
	}
}

// TestCLIProjects: projects create, ls and delete, and namespaces ls, create, move and delete.
func TestCLIProjects(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	first := cl.Projects.Default
	b.InCluster(namespaceIn("web", first))
	c := newCLI(b, b.Admin)
	c.context = cl.ID + ":" + strings.TrimPrefix(first, cl.ID+":")
	if err := c.preamble(); err != nil {
		t.Fatal(err)
	}
	collection := func(name string) string {
		t.Helper()
		s, err := c.schema(name)
		if err != nil {
			t.Fatal(err)
		}
		return s.Links["collection"]
	}
	made, err := c.one("POST", collection("project"), fmt.Sprintf(`{"links":null,"actions":null,"clusterId":%q,"name":"shop","description":"x"}`, cl.ID))
	if err != nil || made.Name != "shop" || made.ClusterID != cl.ID {
		t.Fatalf("%+v %v", made, err)
	}
	if list, err := c.list(collection("project") + "?clusterId=" + cl.ID + "&" + apibed.ListQ); err != nil || len(list) != 3 {
		t.Errorf("%d projects, %v", len(list), err)
	}
	all, err := c.list(collection("namespace") + "?" + apibed.ListQ)
	if err != nil || len(all) != 1 || all[0].Name != "web" || all[0].State != "active" {
		t.Fatalf("%+v %v", all, err)
	}
	if n, err := c.one("POST", collection("namespace"), fmt.Sprintf(`{"links":null,"actions":null,"name":"web-2","projectId":%q,"description":""}`, first)); err != nil || n.ID != "web-2" {
		t.Fatalf("%+v %v", n, err)
	}
	found, err := c.lookup("web-2", "namespace")
	if err != nil {
		t.Fatal(err)
	}
	target, err := c.lookup("shop", "project")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.one("POST", found.Actions["move"], fmt.Sprintf(`{"projectId":%q}`, target.ID)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.do("DELETE", found.Links["self"], ""); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, _, err := c.do("DELETE", target.Links["self"], ""); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.lookup("shop", "project"); err == nil {
		t.Error("the project is still there")
	}
}

// TestTerraformResources: the steps of Terraform's resources in their order.
func TestTerraformResources(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	ask := func(method, target, body string) apibed.Result { return b.Request(method, target, b.Admin, body) }
	t.Run("client start", func(t *testing.T) {
		if r := ask("GET", "/ping", ""); string(r.Raw) != "pong" {
			t.Errorf("%q", r.Raw)
		}
		root := ask("GET", "/v3", "")
		as[typedCollection[typedSchema]](t, ask("GET", apibed.Path(t, root.Header.Get("X-API-Schemas")), ""), 200)
		as[typedSetting](t, ask("GET", "/v3/settings/k8s-version", ""), 200)
		if v := as[typedSetting](t, ask("GET", "/v3/settings/server-version", ""), 200); !strings.HasPrefix(v.Value, "v2.") {
			t.Errorf("server-version %q", v.Value)
		}
		as[struct{}](t, ask("GET", "/v3/clusters/local", ""), 404)
		known := as[typedCollection[typedSystemImage]](t, ask("GET", "/v3/rkek8ssystemimages", ""), 200)
		if len(known.Data) < 5 || !strings.HasPrefix(known.Data[0].Name, "v1.") {
			t.Errorf("versions %+v", known.Data)
		}
	})
	t.Run("token", func(t *testing.T) {
		made := as[typedToken](t, ask("POST", "/v3/tokens", `{"description":"tf","ttl":60000}`), 201)
		read := as[typedToken](t, ask("GET", "/v3/tokens/"+made.ID, ""), 200)
		if !read.Enabled || read.Expired || made.Token == "" || read.TTL != 60000 {
			t.Errorf("%+v %+v", made, read)
		}
		as[struct{}](t, ask("DELETE", "/v3/tokens/"+made.ID, ""), 204)
		as[struct{}](t, ask("GET", "/v3/tokens/"+made.ID, ""), 404)
	})
	t.Run("cluster (rke)", func(t *testing.T) {
		made := as[typedCluster](t, ask("POST", "/v3/clusters", `{"type":"cluster","name":"quarry","rancherKubernetesEngineConfig":{"network":{"plugin":"canal"}}}`), 201)
		read := as[typedCluster](t, ask("GET", "/v3/clusters/"+made.ID, ""), 200)
		if made.State != "provisioning" || read.State != "provisioning" || read.Transitioning != "yes" {
			t.Errorf("states %s, %s", made.State, read.State)
		}
		if tok := as[typedRegistrationToken](t, ask("GET", "/v3/clusterregistrationtokens/"+made.ID+":default-token", ""), 200); tok.NodeCommand == "" {
			t.Error("no node command")
		}
		as[struct{}](t, ask("POST", "/v3/clusterregistrationtokens", fmt.Sprintf(`{"clusterId":%q,"name":"default-token"}`, made.ID)), 409)
		if two := as[typedCollection[typedProject]](t, ask("GET", "/v3/projects?clusterId="+made.ID, ""), 200); len(two.Data) != 2 {
			t.Errorf("projects %+v", two.Data)
		}
		as[typedCluster](t, ask("PUT", "/v3/clusters/"+made.ID, `{"name":"quarry","description":"stones"}`), 200)
		if r := ask("DELETE", "/v3/clusters/"+made.ID, ""); r.Status != 200 && r.Status != 204 {
			t.Errorf("delete: %d", r.Status)
		}
	})
	t.Run("cluster_v2", func(t *testing.T) {
		const at = "/k8s/clusters/local/v1/provisioning.cattle.io.clusters"
		body := func(ignore string) string {
			drain := `{"enabled":true,"force":false,"ignoreDaemonSets":true,"IgnoreErrors":` + ignore + `,"deleteEmptyDirData":false,"disableEviction":false,"gracePeriod":0,"timeout":300,"skipWaitForDeleteTimeoutSeconds":0}`
			return `{"metadata":{"name":"pier","namespace":"fleet-default"},"type":"provisioning.cattle.io.cluster","spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{` +
				`"upgradeStrategy":{"controlPlaneConcurrency":"1","controlPlaneDrainOptions":` + drain + `,"workerConcurrency":"10%","workerDrainOptions":` + drain + `}}}}`
		}
		if r := ask("POST", at, body("true")); r.Status != 422 || !strings.Contains(string(r.Raw), "workerDrainOptions.IgnoreErrors") || !strings.Contains(string(r.Raw), "cannot be true") {
			t.Errorf("errors ignored: %d %s", r.Status, r.Raw)
		}
		made := as[typedProvisioned](t, ask("POST", at, body("false")), 201)
		read := as[typedProvisioned](t, ask("GET", at+"/fleet-default/pier", ""), 200)
		if made.ID != "fleet-default/pier" || !slices.ContainsFunc(read.Status.Conditions, func(c typedCondition) bool {
			return c.Type == "Created" && c.Status == "True" && c.LastUpdateTime != ""
		}) {
			t.Errorf("%+v %+v", made, read)
		}
		const objects = "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"
		as[struct{}](t, ask("POST", objects+"?fieldValidation=Strict", strings.NewReplacer(`"pier"`, `"jetty"`, `"type":"provisioning.cattle.io.cluster",`, "").Replace(body("false"))), 201)
		as[typedProvisioned](t, ask("PUT", at+"/fleet-default/pier", strings.Replace(body("false"), `"metadata":{`, `"metadata":{"resourceVersion":"`+read.Metadata.ResourceVersion+`",`, 1)), 200)
		for _, name := range []string{"pier", "jetty"} {
			if r := ask("DELETE", at+"/fleet-default/"+name, ""); r.Status != 200 && r.Status != 204 {
				t.Errorf("delete %s: %d", name, r.Status)
			}
		}
	})
	cl, _ := apibed.Harbour(b)
	t.Run("project, namespace and binding", func(t *testing.T) {
		made := as[typedProject](t, ask("POST", "/v3/projects", fmt.Sprintf(`{"type":"project","clusterId":%q,"name":"tf"}`, cl.ID)), 201)
		if read := as[typedProject](t, ask("GET", "/v3/projects/"+made.ID, ""), 200); read.State != "active" {
			t.Errorf("state %s", read.State)
		}
		as[typedProject](t, ask("PUT", "/v3/projects/"+made.ID, `{"name":"tf","description":"y"}`), 200)
		b.InCluster()
		at := "/v3/cluster/" + cl.ID + "/namespaces"
		n := as[typedNamespace](t, ask("POST", at, fmt.Sprintf(`{"type":"namespace","name":"tf","projectId":%q}`, made.ID)), 201)
		if n.ProjectID == nil || *n.ProjectID != made.ID || n.State != "active" {
			t.Errorf("%+v", n)
		}
		user := as[typedUser](t, ask("POST", "/v3/users", `{"type":"user","username":"tf-user","password":"correct horse battery","name":"TF"}`), 201)
		global := as[typedBinding](t, ask("POST", "/v3/globalrolebindings", fmt.Sprintf(`{"name":"of tf","globalRoleId":"user","userId":%q}`, user.ID)), 201)
		if read := as[typedBinding](t, ask("GET", "/v3/globalrolebindings/"+global.ID, ""), 200); global.Name != "of tf" || read.Name != "of tf" || read.ID == read.Name {
			t.Errorf("%+v %+v", global, read)
		}
		if r := ask("POST", "/v3/globalrolebindings", fmt.Sprintf(`{"name":"a\nb","globalRoleId":"user","userId":%q}`, user.ID)); r.Status != 422 || r.Text("fieldName") != "name" {
			t.Errorf("a name of two lines: %d %s", r.Status, r.Raw)
		}
		role := as[typedRole](t, ask("POST", "/v3/roletemplates", `{"type":"roleTemplate","name":"tf","context":"project","rules":[{"type":"policyRule","apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`), 201)
		bound := as[typedBinding](t, ask("POST", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":%q,"userId":%q}`, made.ID, role.ID, user.ID)), 201)
		const members = "/v3/projectroletemplatebindings/"
		if labelled := as[typedBinding](t, ask("PUT", members+bound.ID, fmt.Sprintf(`{"name":%q,"labels":{"a":"b"}}`, bound.ID)), 200); bound.Name != bound.ID || labelled.Labels["a"] != "b" {
			t.Errorf("%+v %+v", bound, labelled)
		}
		if r := ask("PUT", members+bound.ID, `{"name":"other"}`); r.Status != 422 {
			t.Errorf("another name: %d %s", r.Status, r.Raw)
		}
		as[struct{}](t, ask("DELETE", members+bound.ID, ""), 204)
		as[struct{}](t, ask("DELETE", "/v3/roletemplates/"+role.ID, ""), 204)
		as[struct{}](t, ask("DELETE", at+"/tf", ""), 204)
		as[struct{}](t, ask("GET", at+"/tf", ""), 404)
		as[struct{}](t, ask("DELETE", "/v3/projects/"+made.ID, ""), 204)
		as[struct{}](t, ask("GET", "/v3/projects/"+made.ID, ""), 404)
		as[struct{}](t, ask("DELETE", "/v3/users/"+user.ID, ""), 204)
	})
	t.Run("cluster_sync", func(t *testing.T) {
		read := as[typedCluster](t, ask("GET", "/v3/clusters/"+cl.ID, ""), 200)
		connected := false
		for _, one := range read.Conditions {
			if one.Type == "Connected" && one.Status == "True" && one.LastUpdateTime != "" {
				connected = true
			}
		}
		if read.State != "active" || !connected {
			t.Errorf("state %s, connected %v", read.State, connected)
		}
		as[typedCollection[typedProject]](t, ask("GET", "/v3/projects?clusterId="+cl.ID, ""), 200)
		if nodes := as[typedCollection[typedNode]](t, ask("GET", "/v3/nodes?clusterId="+cl.ID, ""), 200); len(nodes.Data) != 9 {
			t.Errorf("%d nodes", len(nodes.Data))
		}
	})
}

// TestSubscribeTellsOfALostRight: who loses a role, or whose role loses what it allowed, is told which resources are not theirs
// to see any more, by id and type alone; who gets one is shown what they see by it.
func TestSubscribeTellsOfALostRight(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, machines := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user-base")
	role := b.Want(http.StatusCreated, "POST", "/v3/roletemplates", `{"name":"nodes","context":"cluster","rules":[{"apiGroups":["management.cattle.io"],"resources":["nodes"],"verbs":["get"]}]}`).Text("id")
	conn, _ := socket(b, serveBench(b), "/v3/subscribe?resourceTypes=node", ann)
	comes := func(by string) {
		t.Helper()
		for range machines {
			if f := read(t, conn); f.Name != "resource.change" || f.Data["clusterId"] != cl.ID {
				t.Errorf("%s: %+v", by, f)
			}
		}
	}
	goes := func(by string) {
		t.Helper()
		for range machines {
			if f := read(t, conn); f.Name != "resource.remove" || f.Data["type"] != "node" || f.Data["id"] == nil || len(f.Data) != 2 {
				t.Errorf("%s: %+v", by, f)
			}
		}
	}
	id := b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":%q,"userId":%q}`, cl.ID, role, annID))
	comes("a binding that is made")
	b.Want(http.StatusOK, "PUT", "/v3/roletemplates/"+role, `{"rules":[]}`)
	goes("a role that allows nothing any more")
	b.Want(http.StatusOK, "PUT", "/v3/roletemplates/"+role, `{"rules":[{"apiGroups":["management.cattle.io"],"resources":["nodes"],"verbs":["get"]}]}`)
	comes("a role that allows it again")
	b.Want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+id, "")
	goes("a binding that is removed")
}
