package management_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestURLSpace: the many ways in which clients write one path.
func TestURLSpace(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	project := apibed.BuiltIn("c-m-h4rb0r55").Default
	for _, c := range []struct {
		target, schemas string
		status          int
	}{
		{"/v3", "/v3/schemas", 200},
		{"/v3/", "/v3/schemas", 200},
		{"//v3//clusters", "/v3/schemas", 200},
		{"/v3/cluster", "/v3/schemas", 200},
		{"/v3/CLUSTERS", "/v3/schemas", 200},
		{"/v3/clusters/", "/v3/cluster/schemas", 200},
		{"/v3/projects/", "/v3/project/schemas", 200},
		{"/v3/clusters/c-m-h4rb0r55", "/v3/cluster/c-m-h4rb0r55/schemas", 200},
		{"/v3/cluster/c-m-h4rb0r55/", "/v3/cluster/c-m-h4rb0r55/schemas", 200},
		{"/v3/clusters/c-m-h4rb0r55/schemas", "/v3/cluster/c-m-h4rb0r55/schemas", 200},
		{"/v3/cluster/c-m-h4rb0r55/schemas/namespace", "/v3/cluster/c-m-h4rb0r55/schemas", 200},
		{"/v3/clusters/c-m-h4rb0r55/nodes", "/v3/cluster/c-m-h4rb0r55/schemas", 200},
		{"/v3/projects/" + project, "/v3/project/" + project + "/schemas", 200},
		{"/v3/project/" + project + "/schemas", "/v3/project/" + project + "/schemas", 200},
		{"/v3/project/" + project + "/workloads", "/v3/project/" + project + "/schemas", 404},
		{"/v3/project/" + project + "/nodes", "/v3/project/" + project + "/schemas", 404},
		{"/v3/project/c-m-h4rb0r55:p-zzzzz", "/v3/schemas", 404},
		{"/v3/clusterRegistrationTokens/c-m-h4rb0r55:default-token", "/v3/schemas", 200},
		{"/v3/clusterregistrationtoken/c-m-h4rb0r55%3Adefault-token", "/v3/schemas", 200},
		{"/v3/clusterregistrationtoken/c-m-h4rb0r55%2Fdefault-token", "/v3/schemas", 404},
		{"/v3/clusters/local:%2F%2Fu-bob", "/v3/schemas", 404},
		{"/v3/schemas/CLUSTER", "/v3/schemas", 200},
		{"/v3/schemas/nothing", "/v3/schemas", 404},
		{"/v1", "/v1/schemas", 200},
		{"/v1/schemas/provisioning.cattle.io.cluster", "/v1/schemas", 200},
		{"/k8s/clusters/local/v1", "/k8s/clusters/local/v1/schemas", 200},
		{"/k8s/clusters/local/v1/schemas", "/k8s/clusters/local/v1/schemas", 200},
		{"/k8s/clusters/local/api/v1/nodes", "", 404},
		{"/v3-public", "/v3-public/schemas", 200},
		{"/v3-public/schemas", "", 200},
		{"/V3-PUBLIC/LOCALPROVIDERS/LOCAL", "", 200},
	} {
		r := b.Get(c.target)
		want := c.schemas
		if want != "" {
			want = "https://drover.example" + want
		}
		if r.Status != c.status || r.Header.Get("X-API-Schemas") != want {
			t.Errorf("%s: status %d, schemas at %q; want %d, %q", c.target, r.Status, r.Header.Get("X-API-Schemas"), c.status, want)
		}
		if want != "" { // what the header names has to answer
			if s := b.Get(strings.TrimPrefix(want, "https://drover.example")); s.Status != 200 || s.Text("type") != "collection" || s.Body["data"] == nil {
				t.Errorf("%s: its schemas: %d %s", c.target, s.Status, s.Raw)
			}
		}
	}
	if got := b.Get("/v3/clusters/c-m-h4rb0r55/nodes").Data(); len(got) != 9 {
		t.Errorf("%d nodes in the context of their cluster", len(got))
	}
	if got := b.Get("/v3/cluster/c-m-qqqqqqqq/nodes").Data(); len(got) != 0 {
		t.Errorf("%d nodes in the context of another cluster", len(got))
	}
	if got := b.Get("/v3/cluster/c-m-qqqqqqqq/projects").Data(); len(got) != 2 {
		t.Errorf("%d projects in the context of a cluster", len(got))
	}
}

// TestLinksCanBeFollowed: each link of each resource answers.
func TestLinksCanBeFollowed(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.InCluster()
	followed := 0
	for _, target := range []string{
		"/v3", "/v3/clusters", "/v3/nodes", "/v3/projects", "/v3/settings", "/v3/tokens", "/v3/users", "/v3/clusterregistrationtokens", "/v3/schemas",
		"/v1", "/v1/schemas", "/v1/provisioning.cattle.io.clusters", "/v1/cluster.x-k8s.io.machines", "/v1/management.cattle.io.clusters",
		"/k8s/clusters/local/v1/provisioning.cattle.io.clusters", "/v3-public", "/v3-public/authproviders",
	} {
		r := b.Get(target)
		for _, o := range append(r.Data(), r.Body) {
			links, _ := o["links"].(map[string]any)
			for name, link := range links {
				s, _ := link.(string)
				path, ours := strings.CutPrefix(s, "https://drover.example")
				if !ours {
					t.Fatalf("%s: link %s is %v", target, name, link)
				}
				if path == "" {
					path = "/"
				}
				want := 200
				if name == "subscribe" {
					want = http.StatusUpgradeRequired
				}
				if got := b.Get(path); got.Status != want {
					t.Errorf("%s: link %s, %s: status %d", target, name, path, got.Status)
				}
				followed++
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links", followed)
	}
}

func TestListParameters(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	for query, want := range map[string]string{
		"name=host-1":          "m-0f31c2aa9d10",
		"state=error":          "m-000000000006",
		"droverState=Removing": "m-000000000007",
		"limit=2":              "m-000000000001 m-000000000002",
		"sort=state&limit=1":   "m-0f31c2aa9d10",
		"clusterId=other":      "",
		"worker=false":         "",
		"limit=1&marker=" + cl.ID + ":m-000000000003": "m-000000000003",
	} {
		if got := strings.ReplaceAll(b.Get("/v3/nodes?"+query).IDs(), cl.ID+":", ""); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"filter=metadata.name=harb":                              "fleet-default/harbour",
		"filter=metadata.name='harb'":                            "",
		"filter=metadata.name=harb,metadata.name=quay":           "fleet-default/harbour fleet-default/quay",
		"filter=metadata.name!=harb":                             "fleet-default/quay",
		"filter=metadata.state.name=active&filter=spec.x!=y":     "fleet-default/harbour",
		"sort=-metadata.name":                                    "fleet-default/quay fleet-default/harbour",
		"limit=1":                                                "fleet-default/harbour",
		"limit=1&continue=1":                                     "fleet-default/quay",
		"pagesize=1&page=2":                                      "fleet-default/quay",
		"pagesize=1&page=9":                                      "",
		apibed.ListQ:                                             "fleet-default/harbour fleet-default/quay",
		"filter=status.conditions.type='Connected'&sort=a,-b[c]": "fleet-default/harbour fleet-default/quay",
	} {
		if got := b.Get("/v1/provisioning.cattle.io.clusters?" + query).IDs(); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := b.Get("/v1/provisioning.cattle.io.clusters/fleet-default").IDs(); got != "fleet-default/harbour fleet-default/quay" {
		t.Errorf("a namespace: %q", got)
	}
	if got := b.Get("/v1/provisioning.cattle.io.clusters/other").IDs(); got != "" {
		t.Errorf("another namespace: %q", got)
	}
	for _, o := range b.Get("/v1/provisioning.cattle.io.clusters?exclude=status.conditions&exclude=spec").Data() {
		status, _ := o["status"].(map[string]any)
		if o["spec"] != nil || status["conditions"] != nil || status["clusterName"] == nil {
			t.Errorf("excluded fields: %v", o)
		}
	}
}

// TestManyNodes follows next over 2500 nodes.
func TestManyNodes(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	b.AddMachines(cl, 2500)
	seen := map[string]bool{}
	for target := "/v3/nodes?limit=1000&clusterId=" + cl.ID; target != ""; {
		r := b.Want(http.StatusOK, "GET", target, "")
		for _, o := range r.Data() {
			seen[fmt.Sprint(o["id"])] = true
		}
		page, _ := r.Body["pagination"].(map[string]any)
		next, _ := page["next"].(string)
		if (next == "") != (len(seen) == 2500) || page["partial"] != true {
			t.Fatalf("after %d nodes: %v", len(seen), page)
		}
		target = strings.TrimPrefix(next, "https://drover.example")
	}
	if got := b.Get("/v3/clusters/" + cl.ID).Body["nodeCount"]; got != float64(2500) {
		t.Errorf("nodeCount %v", got)
	}
}

func TestFormsOfAnswers(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	if r := b.Request("GET", "/v3/clusters/c-m-h4rb0r55", b.Admin, "", "Accept", "application/yaml"); !strings.Contains(string(r.Raw), "\nnodeCount: 9\n") {
		t.Errorf("YAML: %.200s", r.Raw)
	}
	r := b.Request("GET", "/v3/clusters", b.Admin, "", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(string(r.Raw)))
	if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("gzip: %v %v", err, r.Header)
	}
	if text, err := io.ReadAll(z); err != nil || !strings.Contains(string(text), "c-m-h4rb0r55") {
		t.Errorf("gzip: %v", err)
	}
	schemas := b.Get("/v3/schemas")
	if again := b.Request("GET", "/v3/schemas", b.Admin, "", "If-None-Match", schemas.Header.Get("ETag")); again.Status != http.StatusNotModified || len(again.Raw) != 0 {
		t.Errorf("schemas again: %d", again.Status)
	}
	if r := b.Request("GET", "/v3", b.Admin, "", "User-Agent", "Mozilla/5.0", "Accept", "text/html,*/*"); !strings.Contains(r.Header.Get("Set-Cookie"), "CSRF=") {
		t.Errorf("a browser gets no CSRF cookie: %v", r.Header)
	}
	if r := b.Request("HEAD", "/v3/clusters", b.Admin, ""); r.Status != 200 {
		t.Errorf("HEAD: %d", r.Status)
	}
}

func TestBodies(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	r := b.Want(http.StatusOK, "PUT", "/v3/clusters/"+cl.ID, `{"name":"harbour","descriptoin":"x","nodeCount":7,"links":null,"actions":{},"Z":1}`)
	if got := r.Header.Get("X-Drover-Ignored-Fields"); got != "Z,descriptoin" {
		t.Errorf("ignored fields %q", got)
	}
	if r := b.Want(http.StatusOK, "PUT", "/v3/clusters/"+cl.ID, `{"name":"harbour"}`); r.Header.Get("X-Drover-Ignored-Fields") != "" {
		t.Error("fields are named that were not ignored")
	}
	for _, target := range []string{"/v3/settings/ui-pl", "/v3/clusters/" + cl.ID} {
		if r := b.Request("PUT", target, b.Admin, strings.Repeat("x", 3<<20)); r.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: 3 MiB: %d", target, r.Status)
		}
	}
	if r := b.Request("POST", "/v1-drover/apply", b.Admin, strings.Repeat("#", 3<<20)); r.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("3 MiB of YAML: %d", r.Status)
	}
	if r := b.Request("POST", "/v3-public/localProviders/local?action=login", "", strings.Repeat("x", 3<<19)); r.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("1.5 MiB before login: %d", r.Status)
	}
	if r := b.Request("POST", "/v3/settings/ui-pl?_method=PUT", b.Admin, `value=form`, "Content-Type", "application/x-www-form-urlencoded"); r.Text("value") != "form" {
		t.Errorf("an overridden method with a form: %s", r.Raw)
	}
	if r := b.Request("GET", "/v3/settings/ui-pl?_method=PUT", b.Admin, `{"value":"get"}`); r.Text("value") != "form" {
		t.Errorf("a GET changed something: %s", r.Raw)
	}
}

// TestTooLongBodyOverTheWire: a client that sends 3 MiB reads the answer, and its
// connection goes on; one that sends without end is cut off after the answer.
func TestTooLongBodyOverTheWire(t *testing.T) {
	b := apibed.New(t)
	server := httptest.NewUnstartedServer(b.Handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, c := range []struct {
		name string
		size int64
	}{{"3 MiB", 3 << 20}, {"endless", 1 << 30}} {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", server.URL+"/v3/settings/ui-pl", io.LimitReader(zeros{}, c.size))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.Admin)
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		apibed.Discard(response)
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %s", c.name, response.Status)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestSubscribeOverHTTP2 says what to do instead of breaking the connection.
func TestSubscribeOverHTTP2(t *testing.T) {
	b := apibed.New(t)
	server := httptest.NewUnstartedServer(b.Handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v3/subscribe", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.Admin)
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	apibed.Discard(response)
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusUpgradeRequired || response.Header.Get("Upgrade") != "" {
		t.Errorf("%s %s %v", response.Proto, response.Status, response.Header)
	}
}

func TestKubeProxyIsAsked(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Proxy: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.EscapedPath())
	})})
	if r := b.Get("/k8s/clusters/c-m-x/api/v1/namespaces/a%2Fb"); string(r.Raw) != "/k8s/clusters/c-m-x/api/v1/namespaces/a%2Fb" {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Get("/k8s/nothing"); r.Status != 404 {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}

func TestImportIsRefusedInPlainText(t *testing.T) {
	b := apibed.New(t)
	if r := b.Request("GET", "/v3/import/abc_c-m-x.yaml", "", ""); r.Status != 404 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Raw)
	}
}

func TestClusterChanges(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", func(c *records.Cluster) {
		apibed.Active(c)
		c.Labels, c.Annotations = map[string]string{"a": "1", "b": "2"}, map[string]string{"x": "y"}
	})
	target := "/v3/clusters/" + cl.ID
	r := b.Want(http.StatusOK, "PUT", target, `{"name":"harbour","description":"boats","labels":{"a":null,"c":"3"}}`)
	labels := fmt.Sprint(r.Body["labels"])
	if r.Text("description") != "boats" || labels != "map[b:2 c:3]" || fmt.Sprint(r.Body["annotations"]) != "map[field.cattle.io/description:boats x:y]" {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Want(http.StatusOK, "PUT", target+"?_replace=true", `{"name":"harbour","labels":{"d":"4"}}`); fmt.Sprint(r.Body["labels"]) != "map[d:4]" || r.Text("description") != "boats" {
		t.Errorf("%s", r.Raw)
	}
	for body, code := range map[string]string{
		`{}`: "MissingRequired", `{"name":"other"}`: "InvalidOption", `{"name":"harbour","labels":{"a":1}}`: "InvalidFormat",
		`{"name":"harbour","labels":[]}`: "InvalidFormat", `{"name":7}`: "InvalidFormat", `[]`: "InvalidBodyContent",
	} {
		if r := b.Request("PUT", target, b.Admin, body); r.Status != 422 || r.Text("code") != code {
			t.Errorf("%s: %s", body, r.Raw)
		}
	}
	if stored, _ := b.State.Clusters.Get(cl.Key()); stored.Value.Generation != 1 {
		t.Errorf("a description is a new generation, %d", stored.Value.Generation)
	}
	r = b.Want(http.StatusOK, "DELETE", target, "")
	if r.Text("state") != "removing" || r.Text("transitioning") != "yes" || r.Text("removed") == "" || r.Text("transitioningMessage") == "" {
		t.Errorf("%s", r.Raw)
	}
	if err := b.State.Clusters.Delete(t.Context(), cl.Key(), 0); err != nil {
		t.Fatal(err)
	}
	if r := b.Get(target); r.Status != 404 {
		t.Errorf("when it is gone: %d", r.Status)
	}
}

func BenchmarkThousandClusters(b *testing.B) {
	x := apibed.New(b)
	for i := range 1000 {
		cl := x.AddCluster(fmt.Sprintf("cluster-%d", i), fmt.Sprintf("c-m-%08d", i), apibed.Active)
		x.AddMachine(cl, fmt.Sprintf("%012x", i), nil)
	}
	for _, target := range []string{"/v3/clusters", "/v3/nodes", "/v1/provisioning.cattle.io.clusters"} {
		b.Run(target, func(b *testing.B) {
			for b.Loop() {
				x.Get(target)
			}
		})
	}
}

// BenchmarkClustersPage is the list that an open page shows, drawn again after a change of nothing that it shows.
func BenchmarkClustersPage(b *testing.B) {
	x := apibed.New(b)
	for i := range 200 {
		cl := x.AddCluster(fmt.Sprintf("cluster-%d", i), fmt.Sprintf("c-m-%08d", i), apibed.Active)
		for k := range 25 {
			x.AddMachine(cl, fmt.Sprintf("%012x", i*100+k), nil)
		}
	}
	for _, target := range []string{"/dashboard/clusters", "/dashboard/clusters/fleet-default/cluster-7", "/dashboard/machines"} {
		b.Run(target, func(b *testing.B) {
			for b.Loop() {
				if r := x.Request(http.MethodGet, target, "", "", "Cookie", auth.SessionCookie+"="+x.Admin, "Accept", "text/html"); r.Status != http.StatusOK {
					b.Fatal(r.Status)
				}
			}
		})
	}
}
