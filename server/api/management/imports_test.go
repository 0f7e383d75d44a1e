package management_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestAClusterIsImportedOverV3, as the rancher command line and Terraform do it.
func TestAClusterIsImportedOverV3(t *testing.T) {
	b := apibed.New(t)
	made := b.Request("POST", "/v3/clusters", b.Admin, `{"name":"office","description":"of the office"}`)
	id := made.Text("id")
	if made.Status != 201 || !strings.HasPrefix(id, "c-") || strings.HasPrefix(id, "c-m-") || made.Text("driver") != "" || made.Text("state") != "pending" || made.Text("description") != "of the office" {
		t.Fatalf("%d %s", made.Status, made.Raw)
	}
	token := b.Get("/v3/clusterregistrationtokens/" + id + ":default-token")
	manifest := token.Text("manifestUrl")
	if !strings.HasSuffix(manifest, "/v3/import/"+token.Text("token")+"_"+id+".yaml") || token.Text("command") != "kubectl apply -f "+manifest ||
		token.Text("insecureCommand") != "curl --insecure -sfL "+manifest+" | kubectl apply -f -" || token.Text("nodeCommand") == "" {
		t.Errorf("token: %s", token.Raw)
	}
	if again := b.Get("/v3/clusterregistrationtokens/" + id + ":default-token"); again.Text("command") != token.Text("command") {
		t.Error("the command is another one the second time")
	}
	for body, code := range map[string]string{
		`{"name":"office"}`: "NotUnique", `{}`: "MissingRequired", `{"name":"other","rke2Config":{}}`: "InvalidOption",
	} {
		if r := b.Request("POST", "/v3/clusters", b.Admin, body); r.Status != 422 || r.Text("code") != code {
			t.Errorf("%s: %d %s", body, r.Status, r.Raw)
		}
	}
	if join := b.Get("/v1-drover/clusters/fleet-default/office/join"); !strings.Contains(join.Text("command"), "kubectl apply -f") || !strings.Contains(join.Text("command"), manifest) {
		t.Errorf("join: %s", join.Raw)
	}
	if r := b.Request("POST", "/v1-drover/clusters/fleet-default/office/agent/forget", b.Admin, ""); r.Status != 200 {
		t.Errorf("forget: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("DELETE", "/v3/clusters/"+id, b.Admin, ""); r.Status != 200 && r.Status != 204 {
		t.Errorf("remove: %d %s", r.Status, r.Raw)
	}
}

// TestTerraformChangesAnImportedCluster plays rancher2_cluster: each change sends all that the configuration could have, with what is left out as
// null, "", false and empty maps, and a plan that follows finds no difference.
func TestTerraformChangesAnImportedCluster(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user")
	ask := func(status int, method, path, body string) apibed.Result {
		t.Helper()
		r := b.Request(method, path, ann, body)
		if r.Status != status {
			t.Fatalf("%s %s: %d %s", method, path, r.Status, r.Raw)
		}
		return r
	}
	made := ask(201, "POST", "/v3/clusters", `{"type":"cluster","driver":"imported","name":"office","agentEnvVars":[{"name":"HTTP_PROXY","value":"http://proxy.lan"}],"enableNetworkPolicy":false,"fleetWorkspaceName":"fleet-default"}`)
	at := "/v3/clusters/" + made.Text("id")
	for _, c := range []struct{ env, description, is string }{
		{`[{"name":"HTTP_PROXY","value":"http://proxy.lan"},{"name":"NO_PROXY","value":"lan"}]`, "of the office", `[map[name:HTTP_PROXY value:http://proxy.lan] map[name:NO_PROXY value:lan]]`},
		{`[{"name":"NO_PROXY","value":"lan"}]`, "of the office", `[map[name:NO_PROXY value:lan]]`},
		{`null`, "", `<nil>`},
		{`null`, "closed", `<nil>`},
	} {
		ask(200, "PUT", at, fmt.Sprintf(`{"name":"office","agentEnvVars":%s,"description":%q,"clusterAgentDeploymentCustomization":null,"fleetAgentDeploymentCustomization":null,`+
			`"defaultPodSecurityAdmissionConfigurationTemplateName":"","desiredAgentImage":"","desiredAuthImage":"","dockerRootDir":"","fleetWorkspaceName":"fleet-default",`+
			`"enableNetworkPolicy":false,"localClusterAuthEndpoint":{},"annotations":{},"labels":{"site":"b"}}`, c.env, c.description))
		read := ask(200, "GET", at, "")
		if got := fmt.Sprint(read.Body["agentEnvVars"]); got != c.is || read.Text("description") != c.description || !read.Has("labels", "site") || read.Text("state") != "pending" {
			t.Errorf("%s, %q: %s", c.env, c.description, read.Raw)
		}
		// What the provider waits for whenever it reads a cluster.
		token := ask(200, "GET", "/v3/clusterregistrationtokens/"+made.Text("id")+":default-token", "")
		if token.Text("command") == "" || token.Text("nodeCommand") == "" || !read.Has("actions", "generateKubeconfig") {
			t.Errorf("%s %s", token.Raw, read.Raw)
		}
	}
}

// TestFieldsThatNothingActsOnAreNotTaken: what Rancher acts on and this server does not is refused with the field, in the same
// words on all surfaces, when something is made and when it is changed, and values that ask for nothing are not.
func TestFieldsThatNothingActsOnAreNotTaken(t *testing.T) {
	b := apibed.New(t)
	made := b.Want(http.StatusCreated, "POST", "/v3/clusters", `{"name":"office","importedConfig":{"privateRegistryURL":"","kubeConfig":""},"enableNetworkPolicy":false,"localClusterAuthEndpoint":{"enabled":false},"desiredAgentImage":"","agentEnvVars":[{"name":"HTTP_PROXY","value":"http://proxy.lan"}]}`)
	office := "/v3/clusters/" + made.Text("id")
	if !strings.Contains(string(made.Raw), "http://proxy.lan") {
		t.Errorf("made: %s", made.Raw)
	}
	for i, c := range []struct {
		field, value, words string
		// spec is for those that documents can have, too.
		spec bool
	}{
		{"importedConfig", `{"privateRegistryURL":"registry.lan"}`, "takes no kubeconfig", false},
		{"desiredAgentImage", `"agent:1"`, "this server's release", false},
		{"eksConfig", `{"region":"x"}`, "cloud provider", false},
		{"clusterTemplateRevisionId", `"a:b"`, "cluster templates", false},
		{"localClusterAuthEndpoint", `{"enabled":true}`, "is not the server's to change", true},
		{"clusterAgentDeploymentCustomization", `{"appendTolerations":[{"key":"a"}]}`, "the deployment of the cluster agent cannot be changed", true},
		{"defaultPodSecurityAdmissionConfigurationTemplateName", `"strict"`, "pod security templates", true},
		{"defaultClusterRoleForProjectMembers", `"view"`, "clusterRoleTemplateBinding", true},
		{"enableNetworkPolicy", `true`, "project network policies", true},
	} {
		name := fmt.Sprintf("c%d", i)
		for surface, r := range map[string]apibed.Result{
			"POST /v3": b.Request("POST", "/v3/clusters", b.Admin, fmt.Sprintf(`{"name":%q,%q:%s}`, name, c.field, c.value)),
			"PUT /v3":  b.Request("PUT", office, b.Admin, fmt.Sprintf(`{"name":"office",%q:%s}`, c.field, c.value)),
		} {
			if r.Status != 422 || r.Body["fieldName"] != c.field || !strings.Contains(string(r.Raw), c.words) {
				t.Errorf("%s %s: %d %s", surface, c.field, r.Status, r.Raw)
			}
		}
		if !c.spec {
			continue
		}
		doc := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"fleet-default"},"spec":{%q:%s}}`, name, c.field, c.value)
		for _, surface := range []string{"/v1/provisioning.cattle.io.clusters", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"} {
			if r := b.Request("POST", surface, b.Admin, doc); r.Status != 422 || !strings.Contains(string(r.Raw), "spec."+c.field) || !strings.Contains(string(r.Raw), c.words) || strings.Contains(r.Text("message"), "line ") {
				t.Errorf("%s %s: %d %s", surface, c.field, r.Status, r.Raw)
			}
		}
	}
	// What an imported cluster has of its document can be changed, and the rest of it stays.
	changed := b.Want(http.StatusOK, "PUT", office, `{"name":"office","labels":{"site":"b"},"agentEnvVars":[{"name":"NO_PROXY","value":"10.0.0.0/8"}]}`)
	if text := string(changed.Raw); !strings.Contains(text, "NO_PROXY") || strings.Contains(text, "HTTP_PROXY") || !strings.Contains(text, `"site":"b"`) {
		t.Errorf("changed: %s", changed.Raw)
	}
	if r := b.Want(http.StatusOK, "PUT", office, `{"name":"office","agentEnvVars":[]}`); strings.Contains(string(r.Raw), "NO_PROXY") || !strings.Contains(string(r.Raw), `"site":"b"`) {
		t.Errorf("emptied: %s", r.Raw)
	}
	if r := b.Request("PUT", office, b.Admin, `{"name":"office","agentEnvVars":[{"name":"not a name","value":""}]}`); r.Status != 422 {
		t.Errorf("bad variable: %d %s", r.Status, r.Raw)
	}
	// What a provisioned cluster has of its document is changed there; sent back as it was read it is no change.
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", func(cl *records.Cluster) {
		cl.Spec.AgentEnvVars = []clusterspec.EnvVar{{Name: "A", Value: "b"}}
	})
	for body, want := range map[string]int{
		`{"name":"harbour","agentEnvVars":[{"name":"A","value":"b"}]}`: 200, `{"name":"harbour","agentEnvVars":[{"name":"A","value":"c"}]}`: 422, `{"name":"harbour","localClusterAuthEndpoint":{"enabled":true}}`: 422,
	} {
		if r := b.Request("PUT", "/v3/clusters/"+cl.ID, b.Admin, body); r.Status != want || want == 422 && !strings.Contains(string(r.Raw), "part of its document") {
			t.Errorf("%s: %d %s", body, r.Status, r.Raw)
		}
	}
}

// TestFieldsWithoutEffectAreNamedInTheAnswer for each kind of /v3: every field that its schema says can be given comes back, and
// what is not kept is named.
func TestFieldsWithoutEffectAreNamedInTheAnswer(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	user, _ := b.Person("ann", "user")
	for _, c := range []struct{ plural, body string }{
		{"clusters", `"name":"office"`}, {"projects", `"name":"shop","clusterId":"` + cl.ID + `"`}, {"users", `"username":"ben","password":"correct horse ben"`},
		{"tokens", `"description":"x"`}, {"preferences", `"name":"theme","value":"dark"`}, {"clusterregistrationtokens", `"clusterId":"` + cl.ID + `"`},
		{"globalroles", `"name":"r","rules":[]`}, {"roletemplates", `"name":"r","context":"cluster","rules":[]`}, {"globalrolebindings", `"globalRoleId":"user-base","userId":"` + user + `"`},
		{"clusterroletemplatebindings", `"clusterId":"` + cl.ID + `","roleTemplateId":"cluster-member","userId":"` + user + `"`},
		{"projects/" + cl.ID + ":p-8lsr5/secrets", `"name":"s","data":{"k":"dg=="}`},
	} {
		t.Run(c.plural, func(t *testing.T) {
			r := b.Request("POST", "/v3/"+c.plural, b.Admin, `{`+c.body+`,"windowsPreferedCluster":true,"creatorId":"u-bob","labels":{"made":"here"},"annotations":{"made":"here"}}`)
			if r.Status != http.StatusCreated {
				t.Fatalf("%d %s", r.Status, r.Raw)
			}
			ignored := fmt.Sprint(r.Body["ignoredFields"])
			if !strings.Contains(ignored, "windowsPreferedCluster") {
				t.Errorf("ignored: %s", ignored)
			}
			for _, field := range []string{"labels", "annotations"} {
				if kept := r.Has(field, "made"); kept == strings.Contains(ignored, field) {
					t.Errorf("%s are kept: %v, ignored: %s", field, kept, ignored)
				}
			}
			links, _ := r.Body["links"].(map[string]any)
			update, _ := links["update"].(string)
			if update == "" {
				return
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(c.body, `"name":`), ",")
			body := `"labels":{"made":"there"}`
			if strings.HasPrefix(c.body, `"name":`) {
				body += `,"name":` + name
			}
			if r := b.Want(http.StatusOK, "PUT", apibed.Path(t, update), `{`+body+`}`); r.Body["ignoredFields"] == nil != strings.Contains(string(r.Raw), `"made":"there"`) {
				t.Errorf("changed: %s", r.Raw)
			}
		})
	}
}
