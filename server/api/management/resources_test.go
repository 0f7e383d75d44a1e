package management_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/test/apibed"
)

func TestSettings(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{Environ: map[string]string{"CATTLE_UI_BRAND": "suse"}})
	for _, c := range []struct {
		name, setting, body string
		status              int
		code                string
	}{
		{"no scheme", "server-url", `{"value":"foo"}`, 422, "InvalidFormat"},
		{"with a path", "server-url", `{"value":"https://a.example/x"}`, 422, "InvalidFormat"},
		{"good", "server-url", `{"value":"https://a.example"}`, 200, ""},
		{"back to the default", "server-url", `{"value":""}`, 200, ""},
		{"no value", "server-url", `{}`, 422, "MissingRequired"},
		{"a number", "server-url", `{"value":3}`, 422, "InvalidFormat"},
		{"of the environment", "ui-brand", `{"value":"x"}`, 405, "MethodNotAllow"},
		{"never written", "cacerts", `{"value":"x"}`, 405, "MethodNotAllow"},
		{"unknown", "nothing", `{"value":"x"}`, 404, "NotFound"},
		{"as clients send back what they read", "ui-pl", `{"id":"ui-pl","name":"ui-pl","value":"y","default":"drover","customized":false,"links":{},"actions":{}}`, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Request("PUT", "/v3/settings/"+c.setting, b.Admin, c.body)
			if r.Status != c.status || r.Text("code") != c.code {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
		})
	}
	if r := b.Get("/v3/settings/ui-brand"); r.Text("source") != "env" || r.Text("value") != "suse" || r.Body["customized"] != true {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Get("/v3/settings?source=db"); r.IDs() != "ui-pl" {
		t.Errorf("stored: %s", r.IDs())
	}
	// Terraform reads these when it starts.
	for _, name := range []string{"k8s-version", "server-version", "server-url", "telemetry-opt", "ui-default-landing", "install-uuid"} {
		b.Want(http.StatusOK, "GET", "/v3/settings/"+name, "")
	}
}

func TestRegistrationTokens(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	const types = "/v3/clusterregistrationtokens"
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"named", `{"clusterId":"c-m-h4rb0r55","name":"ci"}`, 201, ""},
		{"again", `{"clusterId":"c-m-h4rb0r55","name":"ci"}`, 409, "AlreadyExists"},
		{"default-token exists", `{"clusterId":"c-m-h4rb0r55","name":"default-token"}`, 409, "AlreadyExists"},
		{"no cluster", `{"name":"x"}`, 422, "MissingRequired"},
		{"unknown cluster", `{"clusterId":"c-m-none"}`, 422, "InvalidReference"},
		{"bad name", `{"clusterId":"c-m-h4rb0r55","name":"a/b"}`, 422, "InvalidCharacters"},
		{"without a name", `{"clusterId":"c-m-h4rb0r55"}`, 201, ""},
	} {
		r := b.Request("POST", types, b.Admin, c.body)
		if r.Status != c.status || r.Text("code") != c.code {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Raw)
		}
		if c.status == 201 && (len(r.Text("token")) != 54 || !strings.Contains(r.Text("nodeCommand"), r.Text("token")) || !strings.Contains(r.Text("command"), "is not imported") || r.Text("insecureCommand") != r.Text("command") || r.Text("state") != "active") {
			t.Errorf("%s: %s", c.name, r.Raw)
		}
	}
	named := b.Get(types + "/c-m-h4rb0r55:ci")
	if named.Text("token") == b.Get(types+"/c-m-h4rb0r55:default-token").Text("token") || !strings.Contains(named.Text("nodeCommand"), named.Text("token")) {
		t.Errorf("two tokens are the same: %s", named.Raw)
	}
	b.Want(http.StatusNoContent, "DELETE", types+"/c-m-h4rb0r55:ci", "")
	b.Want(http.StatusNotFound, "GET", types+"/c-m-h4rb0r55:ci", "")

	before := b.Get(types + "/c-m-h4rb0r55:default-token").Text("token")
	b.Want(http.StatusNoContent, "DELETE", types+"/c-m-h4rb0r55:default-token", "")
	after := b.Get(types + "/c-m-h4rb0r55:default-token").Text("token")
	if len(after) != 54 || after == before {
		t.Errorf("the default token was not rotated")
	}

	expired := registration.NewToken(cl, "old", apibed.Start)
	expired.Expires = apibed.Start.Add(time.Hour)
	if _, err := b.State.RegistrationTokens.Create(t.Context(), expired.Key(), expired); err != nil {
		t.Fatal(err)
	}
	b.Pass(time.Hour)
	if r := b.Get(types + "/c-m-h4rb0r55:old"); r.Text("transitioning") != "error" || r.Text("expiresAt") != "2026-09-01T11:00:00Z" {
		t.Errorf("expired: %s", r.Raw)
	}
}

func TestRegistrationTokenWithoutServerURL(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{})
	b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	r := b.Get("/v3/clusterregistrationtokens/c-m-h4rb0r55:default-token")
	if r.Text("command") != "" || r.Text("nodeCommand") != "" || r.Text("transitioning") != "error" || r.Text("transitioningMessage") != "setting server-url is empty" {
		t.Errorf("%s", r.Raw)
	}
	b.Want(http.StatusOK, "PUT", "/v3/settings/server-url", `{"value":"https://late.example"}`)
	r = b.Get("/v3/clusterregistrationtokens/c-m-h4rb0r55:default-token")
	if !strings.Contains(r.Text("nodeCommand"), "--server https://late.example ") || r.Text("state") != "active" {
		t.Errorf("%s", r.Raw)
	}
}

// TestASpentRegistrationTokenIsShownAsSuch, in /v3 and to the command line.
func TestASpentRegistrationTokenIsShownAsSuch(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("office", "c-0ff1c", func(c *records.Cluster) { c.Spec = clusterspec.Spec{} })
	show := func() (v3, native apibed.Result) {
		return b.Get("/v3/clusterregistrationtokens/c-0ff1c:default-token"), b.Get("/v1-drover/clusters/fleet-default/office/join")
	}
	if v3, native := show(); v3.Text("spentAt") != "" || v3.Text("transitioningMessage") != "" || strings.Contains(string(native.Raw), `"spent"`) {
		t.Errorf("before: %s %s", v3.Raw, native.Raw)
	}
	is := records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: "ca", Admitted: apibed.Start, Seen: apibed.Start.Add(time.Hour)}
	if _, err := b.State.ClusterAgents.Create(t.Context(), "fleet-default/office", is); err != nil {
		t.Fatal(err)
	}
	at := apibed.Start.UTC().Format(time.RFC3339)
	if v3, native := show(); v3.Text("spentAt") != at || v3.Text("state") != "active" || !strings.Contains(v3.Text("transitioningMessage"), "spent at "+at) || v3.Text("command") == "" ||
		!strings.Contains(string(native.Raw), `"spent":"`+at) && !strings.Contains(string(native.Raw), `"spent": "`+at) {
		t.Errorf("after: %s %s", v3.Raw, native.Raw)
	}
}

func TestKubeconfigs(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{})
	b.AddCluster("harbour", "c-m-h4rb0r55", func(c *records.Cluster) { c.Status.State, c.Status.Ready = "unavailable", false })
	const target = "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig"
	read := func() management.Kubeconfig {
		r := b.Want(http.StatusOK, "POST", target, "")
		var k management.Kubeconfig
		if err := yaml.Unmarshal([]byte(r.Text("config")), &k); err != nil || r.Text("type") != "generateKubeconfigOutput" {
			t.Fatalf("%v: %s", err, r.Raw)
		}
		return k
	}
	k := read()
	if k.Clusters[0].Cluster.Server != "https://drover.example/k8s/clusters/c-m-h4rb0r55" { // without server-url, as the client sees the server
		t.Errorf("%+v", k)
	}
	// Its token is good for this cluster, and for nothing else: neither another cluster, nor the server, nor a new token.
	b.AddCluster("other", "c-m-other234", apibed.Active)
	for _, asked := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/k8s/clusters/c-m-h4rb0r55/version", http.StatusServiceUnavailable}, {"GET", "/k8s/clusters/c-m-other234/version", http.StatusUnauthorized},
		{"GET", "/v3/clusters", http.StatusUnauthorized}, {"POST", "/v3/tokens", http.StatusUnauthorized}, {"POST", target, http.StatusUnauthorized},
		{"GET", "/v1-drover/clusters", http.StatusUnauthorized}, {"GET", "/v1/provisioning.cattle.io.clusters", http.StatusUnauthorized},
		{"GET", "/apis/management.cattle.io/v3/clusters", http.StatusUnauthorized}, {"GET", "/k8s/clusters/local/apis/management.cattle.io/v3/clusters", http.StatusUnauthorized},
		{"POST", "/apis/ext.cattle.io/v1/tokens", http.StatusUnauthorized},
	} {
		if r := b.Request(asked.method, asked.path, k.Users[0].User.Token, ""); r.Status != asked.status {
			t.Errorf("%s %s: %d, want %d: %s", asked.method, asked.path, r.Status, asked.status, r.Raw)
		}
	}
	if r := b.Get("/v3/tokens?userId=user-admin"); !strings.Contains(r.IDs(), "kubeconfig-user-admin") {
		t.Errorf("tokens %s", r.IDs())
	}
	b.Want(http.StatusOK, "PUT", "/v3/settings/kubeconfig-generate-token", `{"value":"false"}`)
	b.Want(http.StatusOK, "PUT", "/v3/settings/server-url", `{"value":"https://d.example:8443"}`)
	before := len(b.Auth.Tokens())
	k = read()
	if k.Users[0].User.Token != "" || k.Users[0].User.Exec == nil || fmt.Sprint(k.Users[0].User.Exec.Args) != "[token --server=d.example:8443 --user=user-admin --cluster=c-m-h4rb0r55]" {
		t.Errorf("%+v", k.Users)
	}
	if len(b.Auth.Tokens()) != before {
		t.Error("a token was made that nobody has")
	}
	if r := b.Request("POST", "/v1/management.cattle.io.clusters/c-m-h4rb0r55?action=generateKubeconfig", b.Admin, ""); r.Status != http.StatusTemporaryRedirect ||
		r.Header.Get("Location") != "https://drover.example"+target {
		t.Errorf("%d %v", r.Status, r.Header)
	}
}

const document = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: %s
spec:
  kubernetesVersion: v1.34.4+k3s1
  rkeConfig:
    machineGlobalConfig:
      tls-san: [%s]
`

func TestApply(t *testing.T) {
	b := apibed.New(t)
	one, two := fmt.Sprintf(document, "one-1", "a"), fmt.Sprintf(document, "two-2", "a")
	actions := func(r apibed.Result) string {
		results, _ := r.Body["results"].([]any)
		s := []string{}
		for _, x := range results {
			m, _ := x.(map[string]any)
			s = append(s, fmt.Sprint(m["name"], " ", m["action"]))
		}
		return strings.Join(s, ", ")
	}
	if r := b.Want(200, "POST", "/v1-drover/apply?dryRun=true", one+"---\n"+two); actions(r) != "one-1 created, two-2 created" || r.Body["dryRun"] != true {
		t.Errorf("dry run: %s", r.Raw)
	}
	if n := len(b.State.Clusters.List()); n != 0 {
		t.Fatalf("a dry run stored %d clusters", n)
	}
	r := b.Request("POST", "/v1-drover/apply", b.Admin, one+"---\n"+strings.Replace(two, "tls-san: [a]", "tls-sann: [a]", 1))
	errs, _ := r.Body["errors"].([]any)
	if r.Status != 422 || len(errs) == 0 {
		t.Fatalf("%d %s", r.Status, r.Raw)
	}
	first, _ := errs[0].(map[string]any)
	if first["path"] != "spec.rkeConfig.machineGlobalConfig.tls-sann" || first["line"] != 19.0 || first["reason"] == "" {
		t.Errorf("%v", first)
	}
	if n := len(b.State.Clusters.List()); n != 0 {
		t.Fatalf("half of it was stored: %d clusters", n)
	}
	if r := b.Want(200, "POST", "/v1-drover/apply", one+"---\n"+two); actions(r) != "one-1 created, two-2 created" {
		t.Errorf("apply: %s", r.Raw)
	}
	if r := b.Want(200, "POST", "/v1-drover/apply?dryRun=true", one+"---\n"+two); actions(r) != "one-1 unchanged, two-2 unchanged" {
		t.Errorf("preview after the apply: %s", r.Raw)
	}
	if r := b.Want(200, "POST", "/v1-drover/apply", fmt.Sprintf(document, "one-1", "b")); actions(r) != "one-1 configured" {
		t.Errorf("change: %s", r.Raw)
	}
	if r := b.Request("POST", "/v1-drover/apply?dryRun=maybe", b.Admin, one); r.Status != 422 || r.Text("fieldName") != "dryRun" {
		t.Errorf("%s", r.Raw)
	}
	// What belongs to a cluster is there with it.
	id := b.Get("/v1/provisioning.cattle.io.clusters/fleet-default/one-1").Body["status"].(map[string]any)["clusterName"].(string)
	if r := b.Get("/v3/clusterregistrationtokens?clusterId=" + id); r.IDs() != id+":default-token" {
		t.Errorf("registration tokens: %s", r.IDs())
	}
	if r := b.Get("/v3/projects?clusterId=" + id); len(r.Data()) != 2 {
		t.Errorf("projects: %s", r.IDs())
	}
	key := "fleet-default/one-1"
	if _, err := b.State.Clusters.Modify(t.Context(), key, func(c records.Cluster) (records.Cluster, error) { c.Deleting = apibed.Start; return c, nil }); err != nil {
		t.Fatal(err)
	}
	if r := b.Request("POST", "/v1-drover/apply", b.Admin, one); r.Status != 409 || r.Text("code") != "Conflict" {
		t.Errorf("while it is being removed: %d %s", r.Status, r.Raw)
	}
}

func TestSteveClusters(t *testing.T) {
	for _, base := range []string{"/v1", "/k8s/clusters/local/v1"} {
		t.Run(base, func(t *testing.T) {
			b := apibed.New(t)
			types := base + "/provisioning.cattle.io.clusters"
			body := `{"metadata":{"name":"harbour","namespace":"fleet-default","labels":{"a":"1"}},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"machineGlobalConfig":{"tls-san":["a"]}}}}`
			r := b.Want(http.StatusCreated, "POST", types, body)
			links, _ := r.Body["links"].(map[string]any)
			self := "https://drover.example" + types + "/fleet-default/harbour"
			if r.Text("id") != "fleet-default/harbour" || r.Text("type") != "provisioning.cattle.io.cluster" || links["self"] != self || links["update"] != self || links["remove"] != self {
				t.Errorf("%s", r.Raw)
			}
			if r := b.Request("POST", types, b.Admin, body); r.Status != 409 || r.Text("code") != "AlreadyExists" {
				t.Errorf("again: %d %s", r.Status, r.Raw)
			}
			target := types + "/fleet-default/harbour"
			read := string(b.Get(target).Raw)
			changed := strings.Replace(read, `"tls-san":["a"]`, `"tls-san":["b"]`, 1)
			if changed == read {
				t.Fatal("the test changes nothing")
			}
			if r := b.Want(http.StatusOK, "PUT", target, changed); !strings.Contains(string(r.Raw), `"tls-san":["b"]`) {
				t.Errorf("PUT: %s", r.Raw)
			}
			if r := b.Request("PUT", target, b.Admin, changed); r.Status != 409 || r.Text("code") != "Conflict" {
				t.Errorf("PUT of what was read before: %d %s", r.Status, r.Raw)
			}
			if r := b.Want(http.StatusOK, "PUT", target, string(b.Get(target).Raw)); r.Header.Get("X-Drover-Result") != "unchanged" {
				t.Errorf("PUT of what was just read: %v", r.Header)
			}
			for name, c := range map[string]struct {
				contentType, body string
				status            int
				has               string
			}{
				"merge":             {"application/merge-patch+json", `{"spec":{"rkeConfig":{"machineGlobalConfig":{"tls-san":["c"]}}}}`, 200, `"tls-san":["c"]`},
				"JSON":              {"application/json-patch+json", `[{"op":"replace","path":"/spec/rkeConfig/machineGlobalConfig/tls-san/0","value":"d"}]`, 200, `"tls-san":["d"]`},
				"JSON without path": {"application/json-patch+json", `[{"op":"remove","path":"/spec/nothing"}]`, 422, "InvalidBodyContent"},
				"test fails":        {"application/json-patch+json", `[{"op":"test","path":"/kind","value":"x"}]`, 422, "InvalidBodyContent"},
				"not JSON":          {"application/merge-patch+json", `{`, 422, "InvalidBodyContent"},
				"unknown kind":      {"application/strategic-merge-patch+json", `{}`, 415, "InvalidType"},
				"unknown field":     {"application/merge-patch+json", `{"spec":{"rkeConfig":{"nothing":1}}}`, 422, "spec.rkeConfig.nothing"},
				"another name":      {"application/merge-patch+json", `{"metadata":{"name":"other"}}`, 422, "InvalidOption"},
				"an old version":    {"application/merge-patch+json", `{"metadata":{"resourceVersion":"1"}}`, 409, "Conflict"},
			} {
				if r := b.Request("PATCH", target, b.Admin, c.body, "Content-Type", c.contentType); r.Status != c.status || !strings.Contains(string(r.Raw), c.has) {
					t.Errorf("patch %s: %d %s", name, r.Status, r.Raw)
				}
			}
			if r := b.Request("PUT", target, b.Admin, `{"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`); r.Status != 422 || r.Text("fieldName") != "metadata.resourceVersion" {
				t.Errorf("PUT without a version: %d %s", r.Status, r.Raw)
			}
			if r := b.Request("POST", types, b.Admin, `{"metadata":{"generateName":"x-"},"spec":{}}`); r.Status != 422 || r.Text("fieldName") != "metadata.generateName" {
				t.Errorf("generateName: %d %s", r.Status, r.Raw)
			}
			if r := b.Request("POST", types, b.Admin, `{"metadata":{"name":"x-1"},"spec":{"kubernetesVersion":"v9.9.9+k3s1","rkeConfig":{}}}`); r.Status != 422 || r.Text("fieldName") != "spec.kubernetesVersion" {
				t.Errorf("unknown version: %d %s", r.Status, r.Raw)
			}
			if r := b.Want(http.StatusOK, "DELETE", target, ""); !strings.Contains(string(r.Raw), `"deletionTimestamp":"2026-09-01T10:00:00Z"`) || !strings.Contains(string(r.Raw), `"name":"removing"`) {
				t.Errorf("DELETE: %s", r.Raw)
			}
		})
	}
}

// TestCopiesInPatches: a few lines that copy copies do not become gigabytes.
func TestCopiesInPatches(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	ops := []string{`{"op":"add","path":"/spec/x","value":{"a":"` + strings.Repeat("x", 1000) + `"}}`}
	for i := range 40 {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/spec/x","path":"/spec/x/%d"}`, i))
	}
	r := b.Request("PATCH", "/v1/provisioning.cattle.io.clusters/fleet-default/harbour", b.Admin, "["+strings.Join(ops, ",")+"]", "Content-Type", "application/json-patch+json")
	if r.Status != 422 {
		t.Errorf("%d", r.Status)
	}
}
