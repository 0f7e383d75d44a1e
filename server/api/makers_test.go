package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/test/apibed"
)

// administrators says of a kind that no standard user makes objects of it.
const administrators = "made by administrators and managers of people alone, who see all of it"

// TestMakersSeeWhatTheyMake has a standard user make one object of each kind on each surface, and looks at the answer: it has the
// object and what its maker may do with it, and the next request finds it. Each row of the table by which something is made has to
// be one of the cases, or is named with the reason.
func TestMakersSeeWhatTheyMake(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user")
	cluster := b.Request("POST", "/v3/clusters", ann, `{"name":"hers"}`).Text("id")
	project := b.Request("POST", "/v3/projects", ann, fmt.Sprintf(`{"clusterId":%q,"name":"hers"}`, cluster)).Text("id")
	inProject := strings.Replace(project, ":", "-", 1)
	b.InCluster()

	const document = `{"metadata":{"name":"NAME","namespace":"fleet-default"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	const secret = `{"type":"Opaque","metadata":{"name":"NAME","namespace":"fleet-default"},"data":{"key":"dmFsdWU="}}`
	const people = "/apis/management.cattle.io/v3/"
	provisioned := "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"
	clusterBinding := fmt.Sprintf(`{"metadata":{"name":"NAME","namespace":%q},"clusterName":%[1]q,"roleTemplateName":"cluster-member","userName":"USER"}`, cluster)
	projectBinding := fmt.Sprintf(`{"metadata":{"name":"NAME","namespace":%q},"projectName":%q,"roleTemplateName":"read-only","userName":"USER"}`, inProject, project)
	projectObject := fmt.Sprintf(`{"metadata":{"name":"p-NAME","namespace":%q},"spec":{"displayName":"NAME","clusterName":%[1]q}}`, cluster)
	all, removable := []string{"update", "remove"}, []string{"remove"}
	covered := map[string]string{
		"/v3/etcdbackups": "of a cluster that its caller sees already",
		"/dashboard/new":  "a form of the page, which goes on to the cluster",
		"/v3/users":       administrators, "/v3/globalroles": administrators, "/v3/roletemplates": administrators, "/v3/globalrolebindings": administrators,
		people + "users": administrators, people + "globalroles": administrators, people + "roletemplates": administrators, people + "globalrolebindings": administrators,
		"/v1-drover/fleets/{name}/join": administrators,
	}
	made := 0
	for _, c := range []struct {
		pattern, target, body string
		// links are those that the answer has beside self; on /apis, again is where the object is, without its name.
		links []string
		again string
	}{
		{"", "/v3/clusters", `{"name":"NAME"}`, all, ""},
		{"", "/v3/clusters", `{"name":"NAME","rancherKubernetesEngineConfig":{"nodes":[]}}`, all, ""},
		{"", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":"NAME"}`, cluster), all, ""},
		{"", "/v3/tokens", `{}`, all, ""},
		{"/v3/clusters/{context}/tokens", "/v3/clusters/" + cluster + "/tokens", fmt.Sprintf(`{"clusterId":%q}`, cluster), all, ""},
		{"", "/v3/preferences", `{"name":"NAME","value":"dark"}`, all, ""},
		{"", "/v3/clusterregistrationtokens", fmt.Sprintf(`{"clusterId":%q}`, cluster), removable, ""},
		{"/v3/clusters/{context}/clusterregistrationtokens", "/v3/clusters/" + cluster + "/clusterregistrationtokens", fmt.Sprintf(`{"clusterId":%q}`, cluster), removable, ""},
		{"/v3/clusters/{context}/namespaces", "/v3/clusters/" + cluster + "/namespaces", fmt.Sprintf(`{"name":"NAME","projectId":%q}`, project), all, ""},
		{"/v3/projects/{context}/secrets", "/v3/projects/" + project + "/secrets", `{"name":"NAME","data":{"key":"dmFsdWU="}}`, all, ""},
		{"", "/v3/clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"userId":"USER","roleTemplateId":"cluster-member"}`, cluster), all, ""},
		{"", "/v3/projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"userId":"USER","roleTemplateId":"project-member"}`, project), all, ""},
		{"", "/v3/cloudcredentials", `{"type":"cloudCredential","name":"NAME","s3credentialConfig":{"accessKey":"a","secretKey":"s","defaultBucket":"snaps"}}`, all, ""},
		{"", "/v1/secrets", secret, []string{}, ""},
		{"/v1/secrets/{namespace}", "/v1/secrets/fleet-default", secret, []string{}, ""},
		{"", "/v1/provisioning.cattle.io.clusters", document, all, ""},
		{"/v1/provisioning.cattle.io.clusters/{namespace}", "/v1/provisioning.cattle.io.clusters/fleet-default", document, all, ""},
		{"", "/apis/provisioning.cattle.io/v1/clusters", document, nil, provisioned},
		{"/apis/provisioning.cattle.io/v1/namespaces/{namespace}/clusters", provisioned, document, nil, provisioned},
		{"", "/apis/ext.cattle.io/v1/tokens", `{}`, nil, "/apis/ext.cattle.io/v1/tokens"},
		{"", "/apis/ext.cattle.io/v1/kubeconfigs", fmt.Sprintf(`{"spec":{"clusters":[%q]}}`, cluster), nil, ""},
		{"", people + "projects", projectObject, nil, people + "namespaces/" + cluster + "/projects"},
		{people + "namespaces/{namespace}/projects", people + "namespaces/" + cluster + "/projects", projectObject, nil, people + "namespaces/" + cluster + "/projects"},
		{"", people + "clusterroletemplatebindings", clusterBinding, nil, people + "namespaces/" + cluster + "/clusterroletemplatebindings"},
		{people + "namespaces/{namespace}/clusterroletemplatebindings", people + "namespaces/" + cluster + "/clusterroletemplatebindings", clusterBinding, nil, people + "namespaces/" + cluster + "/clusterroletemplatebindings"},
		{"", people + "projectroletemplatebindings", projectBinding, nil, people + "namespaces/" + inProject + "/projectroletemplatebindings"},
		{people + "namespaces/{namespace}/projectroletemplatebindings", people + "namespaces/" + inProject + "/projectroletemplatebindings", projectBinding, nil, people + "namespaces/" + inProject + "/projectroletemplatebindings"},
	} {
		if c.pattern == "" {
			c.pattern = c.target
		}
		covered[c.pattern] = "a case"
		for _, local := range []string{"", "/k8s/clusters/local"} {
			if local != "" && (strings.HasPrefix(c.target, "/v3/") || strings.HasPrefix(c.target, "/apis/ext.")) {
				continue // which are not served there
			}
			made++
			name := fmt.Sprintf("a%04d", made)
			user, _ := b.Person("somebody-"+name, "user-base")
			t.Run(name+" "+local+c.pattern, func(t *testing.T) {
				r := b.Request("POST", local+c.target, ann, strings.NewReplacer("NAME", name, "USER", user).Replace(c.body))
				if r.Status != http.StatusCreated || len(r.Body) == 0 {
					t.Fatalf("%d: %s", r.Status, r.Raw)
				}
				links, _ := r.Body["links"].(map[string]any)
				for _, link := range c.links {
					if links[link] == nil {
						t.Errorf("no link %s: %v", link, links)
					}
				}
				at := ""
				if meta, ok := r.Body["metadata"].(map[string]any); ok && c.again != "" {
					at = fmt.Sprint(local, c.again, "/", meta["name"])
				} else if self, ok := links["self"].(string); ok {
					at = apibed.Path(t, self)
				} else if c.again != "" || c.links != nil {
					t.Fatalf("the answer does not say where the object is: %s", r.Raw)
				}
				if at != "" {
					if seen := b.Request("GET", at, ann, ""); seen.Status != http.StatusOK {
						t.Errorf("GET %s: %d: %s", at, seen.Status, seen.Raw)
					}
				}
			})
		}
	}
	for _, row := range api.Rows(b.API) {
		if row.Method == "POST" && row.Access.Verb == auth.Create && covered[strings.TrimPrefix(row.Pattern, "/k8s/clusters/local")] == "" {
			t.Errorf("POST %s makes something and is no case of this test", row.Pattern)
		}
	}
	// Two ways that are no POST of the kind.
	for target, read := range map[string]string{
		"/v1-drover/apply": "/v1-drover/clusters/fleet-default/applied",
		provisioned + "/sideways?fieldManager=kubectl": provisioned + "/sideways",
	} {
		method, want, body := "POST", http.StatusOK, strings.Replace(document, "NAME", "applied", 1)
		header := []string{}
		if strings.Contains(target, "sideways") {
			method, want, header = "PATCH", http.StatusCreated, []string{"Content-Type", "application/apply-patch+yaml"}
			body = strings.Replace(document, "NAME", "sideways", 1)
		}
		body = strings.Replace(body, "{", `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster",`, 1)
		if r := b.Request(method, target, ann, body, header...); r.Status != want || len(r.Body) == 0 {
			t.Errorf("%s: %d: %s", target, r.Status, r.Raw)
		}
		if r := b.Request("GET", read, ann, ""); r.Status != http.StatusOK {
			t.Errorf("GET %s: %d: %s", read, r.Status, r.Raw)
		}
	}
}
