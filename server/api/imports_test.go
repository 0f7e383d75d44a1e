package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// TestAClusterIsImportedOverV3, as the rancher command line and Terraform do it.
func TestAClusterIsImportedOverV3(t *testing.T) {
	b := newBench(t)
	made := b.request("POST", "/v3/clusters", b.admin, `{"name":"office","description":"of the office"}`)
	id := made.text("id")
	if made.status != 201 || !strings.HasPrefix(id, "c-") || strings.HasPrefix(id, "c-m-") || made.text("driver") != "" || made.text("state") != "pending" || made.text("description") != "of the office" {
		t.Fatalf("%d %s", made.status, made.raw)
	}
	token := b.get("/v3/clusterregistrationtokens/" + id + ":default-token")
	manifest := token.text("manifestUrl")
	if !strings.HasSuffix(manifest, "/v3/import/"+token.text("token")+"_"+id+".yaml") || token.text("command") != "kubectl apply -f "+manifest ||
		token.text("insecureCommand") != "curl --insecure -sfL "+manifest+" | kubectl apply -f -" || token.text("nodeCommand") == "" {
		t.Errorf("token: %s", token.raw)
	}
	if again := b.get("/v3/clusterregistrationtokens/" + id + ":default-token"); again.text("command") != token.text("command") {
		t.Error("the command is another one the second time")
	}
	for body, code := range map[string]string{
		`{"name":"office"}`: "NotUnique", `{}`: "MissingRequired", `{"name":"other","rke2Config":{}}`: "InvalidOption",
	} {
		if r := b.request("POST", "/v3/clusters", b.admin, body); r.status != 422 || r.text("code") != code {
			t.Errorf("%s: %d %s", body, r.status, r.raw)
		}
	}
	if join := b.get("/v1-drover/clusters/fleet-default/office/join"); !strings.Contains(join.text("command"), "kubectl apply -f") || !strings.Contains(join.text("command"), manifest) {
		t.Errorf("join: %s", join.raw)
	}
	if r := b.request("POST", "/v1-drover/clusters/fleet-default/office/agent/forget", b.admin, ""); r.status != 200 {
		t.Errorf("forget: %d %s", r.status, r.raw)
	}
	if r := b.request("DELETE", "/v3/clusters/"+id, b.admin, ""); r.status != 200 && r.status != 204 {
		t.Errorf("remove: %d %s", r.status, r.raw)
	}
}

// TestTerraformChangesAnImportedCluster plays rancher2_cluster: each change sends all that the configuration could have, with what is left out as
// null, "", false and empty maps, and a plan that follows finds no difference.
func TestTerraformChangesAnImportedCluster(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, ann := b.person("ann", "user")
	ask := func(status int, method, path, body string) result {
		t.Helper()
		r := b.request(method, path, ann, body)
		if r.status != status {
			t.Fatalf("%s %s: %d %s", method, path, r.status, r.raw)
		}
		return r
	}
	made := ask(201, "POST", "/v3/clusters", `{"type":"cluster","driver":"imported","name":"office","agentEnvVars":[{"name":"HTTP_PROXY","value":"http://proxy.lan"}],"enableNetworkPolicy":false,"fleetWorkspaceName":"fleet-default"}`)
	at := "/v3/clusters/" + made.text("id")
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
		if got := fmt.Sprint(read.body["agentEnvVars"]); got != c.is || read.text("description") != c.description || !read.has("labels", "site") || read.text("state") != "pending" {
			t.Errorf("%s, %q: %s", c.env, c.description, read.raw)
		}
		// What the provider waits for whenever it reads a cluster.
		token := ask(200, "GET", "/v3/clusterregistrationtokens/"+made.text("id")+":default-token", "")
		if token.text("command") == "" || token.text("nodeCommand") == "" || !read.has("actions", "generateKubeconfig") {
			t.Errorf("%s %s", token.raw, read.raw)
		}
	}
}

// TestFieldsThatNothingActsOnAreNotTaken: what Rancher acts on and this server does not is refused with the field, in the same
// words on all surfaces, when something is made and when it is changed, and values that ask for nothing are not.
func TestFieldsThatNothingActsOnAreNotTaken(t *testing.T) {
	b := newBench(t)
	made := b.want(http.StatusCreated, "POST", "/v3/clusters", `{"name":"office","importedConfig":{"privateRegistryURL":"","kubeConfig":""},"enableNetworkPolicy":false,"localClusterAuthEndpoint":{"enabled":false},"desiredAgentImage":"","agentEnvVars":[{"name":"HTTP_PROXY","value":"http://proxy.lan"}]}`)
	office := "/v3/clusters/" + made.text("id")
	if !strings.Contains(string(made.raw), "http://proxy.lan") {
		t.Errorf("made: %s", made.raw)
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
		for surface, r := range map[string]result{
			"POST /v3": b.request("POST", "/v3/clusters", b.admin, fmt.Sprintf(`{"name":%q,%q:%s}`, name, c.field, c.value)),
			"PUT /v3":  b.request("PUT", office, b.admin, fmt.Sprintf(`{"name":"office",%q:%s}`, c.field, c.value)),
		} {
			if r.status != 422 || r.body["fieldName"] != c.field || !strings.Contains(string(r.raw), c.words) {
				t.Errorf("%s %s: %d %s", surface, c.field, r.status, r.raw)
			}
		}
		if !c.spec {
			continue
		}
		doc := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"fleet-default"},"spec":{%q:%s}}`, name, c.field, c.value)
		for _, surface := range []string{"/v1/provisioning.cattle.io.clusters", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"} {
			if r := b.request("POST", surface, b.admin, doc); r.status != 422 || !strings.Contains(string(r.raw), "spec."+c.field) || !strings.Contains(string(r.raw), c.words) || strings.Contains(r.text("message"), "line ") {
				t.Errorf("%s %s: %d %s", surface, c.field, r.status, r.raw)
			}
		}
	}
	// What an imported cluster has of its document can be changed, and the rest of it stays.
	changed := b.want(http.StatusOK, "PUT", office, `{"name":"office","labels":{"site":"b"},"agentEnvVars":[{"name":"NO_PROXY","value":"10.0.0.0/8"}]}`)
	if text := string(changed.raw); !strings.Contains(text, "NO_PROXY") || strings.Contains(text, "HTTP_PROXY") || !strings.Contains(text, `"site":"b"`) {
		t.Errorf("changed: %s", changed.raw)
	}
	if r := b.want(http.StatusOK, "PUT", office, `{"name":"office","agentEnvVars":[]}`); strings.Contains(string(r.raw), "NO_PROXY") || !strings.Contains(string(r.raw), `"site":"b"`) {
		t.Errorf("emptied: %s", r.raw)
	}
	if r := b.request("PUT", office, b.admin, `{"name":"office","agentEnvVars":[{"name":"not a name","value":""}]}`); r.status != 422 {
		t.Errorf("bad variable: %d %s", r.status, r.raw)
	}
	// What a provisioned cluster has of its document is changed there; sent back as it was read it is no change.
	cl := b.addCluster("harbour", "c-m-h4rb0r55", func(cl *records.Cluster) {
		cl.Spec.AgentEnvVars = []clusterspec.EnvVar{{Name: "A", Value: "b"}}
	})
	for body, want := range map[string]int{
		`{"name":"harbour","agentEnvVars":[{"name":"A","value":"b"}]}`: 200, `{"name":"harbour","agentEnvVars":[{"name":"A","value":"c"}]}`: 422, `{"name":"harbour","localClusterAuthEndpoint":{"enabled":true}}`: 422,
	} {
		if r := b.request("PUT", "/v3/clusters/"+cl.ID, b.admin, body); r.status != want || want == 422 && !strings.Contains(string(r.raw), "part of its document") {
			t.Errorf("%s: %d %s", body, r.status, r.raw)
		}
	}
}

// TestFieldsWithoutEffectAreNamedInTheAnswer for each kind of /v3: every field that its schema says can be given comes back, and
// what is not kept is named.
func TestFieldsWithoutEffectAreNamedInTheAnswer(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", active)
	user, _ := b.person("ann", "user")
	for _, c := range []struct{ plural, body string }{
		{"clusters", `"name":"office"`}, {"projects", `"name":"shop","clusterId":"` + cl.ID + `"`}, {"users", `"username":"ben","password":"correct horse ben"`},
		{"tokens", `"description":"x"`}, {"preferences", `"name":"theme","value":"dark"`}, {"clusterregistrationtokens", `"clusterId":"` + cl.ID + `"`},
		{"globalroles", `"name":"r","rules":[]`}, {"roletemplates", `"name":"r","context":"cluster","rules":[]`}, {"globalrolebindings", `"globalRoleId":"user-base","userId":"` + user + `"`},
		{"clusterroletemplatebindings", `"clusterId":"` + cl.ID + `","roleTemplateId":"cluster-member","userId":"` + user + `"`},
		{"projects/" + cl.ID + ":p-8lsr5/secrets", `"name":"s","data":{"k":"dg=="}`},
	} {
		t.Run(c.plural, func(t *testing.T) {
			r := b.request("POST", "/v3/"+c.plural, b.admin, `{`+c.body+`,"windowsPreferedCluster":true,"creatorId":"u-bob","labels":{"made":"here"},"annotations":{"made":"here"}}`)
			if r.status != http.StatusCreated {
				t.Fatalf("%d %s", r.status, r.raw)
			}
			ignored := fmt.Sprint(r.body["ignoredFields"])
			if !strings.Contains(ignored, "windowsPreferedCluster") {
				t.Errorf("ignored: %s", ignored)
			}
			for _, field := range []string{"labels", "annotations"} {
				if kept := r.has(field, "made"); kept == strings.Contains(ignored, field) {
					t.Errorf("%s are kept: %v, ignored: %s", field, kept, ignored)
				}
			}
			links, _ := r.body["links"].(map[string]any)
			update, _ := links["update"].(string)
			if update == "" {
				return
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(c.body, `"name":`), ",")
			body := `"labels":{"made":"there"}`
			if strings.HasPrefix(c.body, `"name":`) {
				body += `,"name":` + name
			}
			if r := b.want(http.StatusOK, "PUT", path(t, update), `{`+body+`}`); r.body["ignoredFields"] == nil != strings.Contains(string(r.raw), `"made":"there"`) {
				t.Errorf("changed: %s", r.raw)
			}
		})
	}
}
