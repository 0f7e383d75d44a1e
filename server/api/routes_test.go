package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestAccessOfEveryRoute asks for each row of the table as each kind of caller and holds
// the status that each gets, in testdata/access.txt. 418 is the answer of a room that
// checks its own credential and is not in this test; who is let in there is held by the
// room's own tests.
func TestAccessOfEveryRoute(t *testing.T) {
	b := apibed.New(t)
	cl, machines := apibed.Harbour(b)
	const machineToken = "drover-machine.fleet-default.custom-0f31c2aa9d10.secret"
	if _, err := b.State.Machines.Modify(t.Context(), machines[0].Key(), func(m records.Machine) (records.Machine, error) {
		m.TokenHash = randomid.Hash(machineToken)
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	secret := records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: machines[0].PlanSecretName()}}
	if _, err := b.State.PlanSecrets.Create(t.Context(), secret.Key(), secret); err != nil {
		t.Fatal(err)
	}
	expired := b.Token("user-admin", records.Token{TTLMillis: 1000})
	b.Pass(time.Minute)
	callers := []struct{ name, token string }{
		{"nobody", ""}, {"wrong", "token-admin:x"}, {"expired", expired}, {"registration", strings.Repeat("x7", 27)}, {"machine", machineToken},
		{"user", b.User}, {"cluster", b.Token("user-admin", records.Token{ClusterID: cl.ID})}, {"admin", b.Admin},
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%-7s %-78s", "METHOD", "ROUTE")
	for _, who := range callers {
		fmt.Fprintf(&out, " %12s", who.name)
	}
	for _, row := range api.Rows(b.API) {
		method := strings.Replace(row.Method, "*", "GET", 1)
		fmt.Fprintf(&out, "\n%-7s %-78s", row.Method, row.Pattern)
		for i, who := range callers {
			target, body := example(t, b, method, row.Pattern, i)
			fmt.Fprintf(&out, " %12d", b.Request(method, target, who.token, body).Status)
		}
	}
	out.WriteByte('\n')
	path := filepath.Join("testdata", "access.txt")
	if apibed.Rewriting() {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// example is a request that the pattern matches, about something that exists. What may go
// with the request is made anew for each caller.
func example(t *testing.T, b *apibed.Bed, method, pattern string, n int) (target, body string) {
	t.Helper()
	pattern = strings.TrimPrefix(pattern, "/k8s/clusters/local")
	body = "{}"
	values := map[string]string{
		"{namespace}": "fleet-default", "{name}": "harbour", "{context}": "c-m-h4rb0r55", "{id}": "c-m-h4rb0r55",
		"{group}": "provisioning.cattle.io", "{schema}": "cluster", "{version}": "v1.34.4+k3s1", "{rest...}": "nothing", "{link...}": "nothing",
	}
	switch {
	case strings.HasPrefix(pattern, "/dashboard/assets"):
		values["{name}"] = "style.css"
	case strings.Contains(pattern, "machines/"):
		values["{name}"] = "custom-0f31c2aa9d10"
	case strings.Contains(pattern, "secrets"):
		values["{name}"] = "custom-0f31c2aa9d10-machine-plan"
	case strings.HasPrefix(pattern, "/v1/management"), strings.HasPrefix(pattern, "/apis/management.cattle.io/v3/clusters"):
		values["{name}"] = "c-m-h4rb0r55"
	case strings.HasPrefix(pattern, "/apis/management.cattle.io/v3/settings"):
		values["{name}"] = "ui-pl"
	case strings.HasPrefix(pattern, "/apis/{group}") || strings.HasPrefix(pattern, "/openapi"):
		values["{version}"], values["{rest...}"] = "v1", "apis/provisioning.cattle.io/v1"
	case strings.HasPrefix(pattern, "/v3/nodes"):
		values["{id}"] = "c-m-h4rb0r55:m-0f31c2aa9d10"
	case strings.HasPrefix(pattern, "/v3/clusters/{context}/namespaces/{id}"):
		values["{id}"] = "default"
	case strings.HasPrefix(pattern, "/apis/ext.cattle.io"):
		values["{name}"] = "token-admin"
	case strings.HasPrefix(pattern, "/v3/projects"):
		values["{id}"] = b.Get("/v3/projects").Data()[0]["id"].(string)
		values["{context}"] = values["{id}"]
	case strings.HasPrefix(pattern, "/v3/clusterregistrationtokens"):
		values["{id}"] = "c-m-h4rb0r55:default-token"
	case strings.HasPrefix(pattern, "/v3/settings"):
		values["{id}"] = "ui-pl"
		if method == "PUT" {
			body = `{"value":"x"}`
		}
	case strings.HasPrefix(pattern, "/v3/tokens"):
		values["{id}"] = "token-admin"
	case strings.HasPrefix(pattern, "/v3/users"):
		values["{id}"] = "user-admin"
	case strings.HasPrefix(pattern, "/v1-rke2-release"):
		values["{version}"] = "v1.34.4+rke2r1"
	}
	if strings.Contains(pattern, "objects/") {
		o := objects.Object{Kind: objects.Secret, Metadata: objects.Metadata{Namespace: "fleet-default", Name: fmt.Sprintf("s-%d", b.State.Store.Revision())}}
		if _, err := b.State.Objects.Create(t.Context(), o.Key(), o); err != nil {
			t.Fatal(err)
		}
		values["{kind}"], values["{name}"] = o.Kind, o.Name
	}
	if strings.Contains(pattern, "operations/") {
		values["{id}"] = b.AddOperation(fmt.Sprintf("op-%08d", b.State.Store.Revision()), func(o *operations.Operation) {
			o.Subject = fmt.Sprintf("fleet-default/made-%d", b.State.Store.Revision())
			if strings.HasSuffix(pattern, "retry") {
				o.State = operations.Failed
			}
		}).ID
	}
	name := fmt.Sprintf("made-%d-%d", b.State.Store.Revision(), n)
	switch {
	case strings.HasPrefix(pattern, "/v3/clusters/{context}/namespaces"):
	case method == "DELETE" && strings.Contains(pattern, "clusters"):
		cl := b.AddCluster(name, fmt.Sprintf("c-m-%08d", b.State.Store.Revision()), nil)
		values["{id}"], values["{name}"] = cl.ID, name
		if strings.HasPrefix(pattern, "/apis/management") {
			values["{name}"] = cl.ID
		}
		if strings.Contains(pattern, "tokens") {
			values["{id}"] += ":default-token"
		}
	case method == "DELETE" && strings.HasPrefix(pattern, "/apis/ext.cattle.io"):
		values["{name}"] = strings.Split(b.Token("user-admin", records.Token{}), ":")[0]
	case method == "DELETE" && strings.HasPrefix(pattern, "/v3/nodes"):
		d, _ := b.State.Clusters.Get("fleet-default/harbour")
		short := fmt.Sprintf("%012x", b.State.Store.Revision())
		b.AddMachine(d.Value, short, nil)
		values["{id}"] = "c-m-h4rb0r55:m-" + short
	case method == "DELETE" && strings.HasPrefix(pattern, "/v3/tokens"):
		values["{id}"] = strings.Split(b.Token("user-admin", records.Token{}), ":")[0]
	}
	switch {
	case strings.HasPrefix(pattern, "/v3/clusters") && method == "PUT":
		body = `{"name":"harbour"}`
	case strings.HasPrefix(pattern, "/apis/provisioning") && method == "PUT":
		d, _ := b.State.Clusters.Get("fleet-default/harbour")
		body = fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`, d.Revision)
	case strings.HasPrefix(pattern, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"):
		body = `{"spec":{"resourceAttributes":{"verb":"get","resource":"secrets"}}}`
	case strings.HasPrefix(pattern, "/v1/provisioning") && method == "POST" || strings.HasPrefix(pattern, "/apis/provisioning") && method == "POST" || strings.HasSuffix(pattern, "apply"):
		body = `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"` + name + `"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	case pattern == "/v3/clusters" && method == "POST":
		body = `{"name":"` + name + `","rancherKubernetesEngineConfig":{}}`
	case pattern == "/v3/projects" && method == "POST":
		body = `{"clusterId":"c-m-h4rb0r55","name":"shop"}`
	case strings.Contains(pattern, "kubeconfigs"):
		body = `{"spec":{"clusters":["c-m-h4rb0r55"]}}`
	case strings.Contains(pattern, "clusterregistrationtokens"):
		body = `{"clusterId":"c-m-h4rb0r55"}`
	}
	for placeholder, value := range values {
		pattern = strings.ReplaceAll(pattern, placeholder, value)
	}
	return pattern, body
}

// TestUnlisted: what has no row is not served, even by a room that would know the path.
func TestUnlisted(t *testing.T) {
	b := apibed.New(t)
	for _, target := range []string{"/nothing", "/v2", "/PING/x", "/openapi/v2", "/v1-drover", "/k8s", "/k8s/clusters", "/apis/apps/v1", "/debug/pprof/"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Header.Set("Authorization", "Bearer "+b.Admin)
		b.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, w.Code)
		}
	}
}

// TestWaysInAreRecorded walks the table for what only reads and leads to a host, shows what is on one, or hands out what opens
// one: the audit log has each use of it. A new row below a machine or a cluster is one of these, or is named here with the reason.
func TestWaysInAreRecorded(t *testing.T) {
	b := apibed.New(t)
	harmless := map[string]string{
		"machines/status": "the agent's own words of what it does", "clusters/preview": "what the server would do",
		"clusters/window": "a record", "clusters/rehearsals": "a record", "clusters/snapshots": "their records", "clusters/document": "without secrets",
	}
	checked := map[string]bool{}
	for _, row := range api.Rows(b.API) {
		if row.Method != http.MethodGet && row.Method != "*" {
			continue
		}
		of, what := "", ""
		for _, kind := range []string{"machines", "clusters"} {
			if rest, ok := strings.CutPrefix(row.Pattern, "/v1-drover/"+kind+"/{namespace}/{name}/"); ok {
				of, what = kind, kind+"/"+rest
			}
		}
		way := of != "" && harmless[what] == "" || strings.HasPrefix(row.Pattern, "/k8s/clusters/{id}") || row.Pattern == "/v1-drover/backup" ||
			row.Access.Kind == auth.RegistrationToken || row.Access.Kind == auth.PlanSecret
		if what != "" {
			checked[what] = true
		}
		if way && !row.Access.WayIn() {
			t.Errorf("%s %s is not recorded: it lacks Reveals, Opens or Passes", row.Method, row.Pattern)
		}
	}
	for _, what := range []string{"machines/why", "machines/containers", "machines/logs", "machines/dial", "clusters/why", "clusters/join"} {
		if !checked[what] {
			t.Errorf("there is no row %s", what)
		}
	}
	for what := range harmless {
		if !checked[what] {
			t.Errorf("there is no row %s any more: take it out here", what)
		}
	}
}
