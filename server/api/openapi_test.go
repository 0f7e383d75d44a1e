package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/test/apibed"
	"github.com/drover-project/drover/test/openapi"
)

// TestOpenAPI: docs/reference/openapi.yaml is current; `go generate ./server/api` renews it.
func TestOpenAPI(t *testing.T) {
	if diff := cmp.Diff(drovers(api.Outline()), slices.Sorted(maps.Keys(descriptions()))); diff != "" {
		t.Errorf("routes of the table and of the description differ:\n%s", diff)
	}
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "reference", "openapi.yaml")
	if apibed.Rewriting() {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run `go generate ./server/api`:\n%s", diff)
	}
}

// TestOpenAPIHasAllRoutes: each row of the table is in the document, with each of its methods and actions.
func TestOpenAPIHasAllRoutes(t *testing.T) {
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Access     any               `yaml:"x-drover-access"`
			Actions    map[string]string `yaml:"x-drover-actions"`
			Parameters []struct{ Name, In string }
		}
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	described := 0
	for _, row := range api.Outline() {
		if undescribed(row.Pattern) {
			continue
		}
		described++
		_, action, _ := strings.Cut(row.Pattern, "?action=")
		for _, method := range openapi.Methods(row) {
			operation, ok := document.Paths[openapi.Path(row.Pattern)][method]
			if !ok || operation.Access == nil || action != "" && operation.Actions[action] == "" {
				t.Errorf("%s %s is not described", method, row.Pattern)
			}
			for _, p := range operation.Parameters {
				if p.In == "path" && !strings.Contains(openapi.Path(row.Pattern), "{"+p.Name+"}") {
					t.Errorf("%s %s has no parameter %s", method, row.Pattern, p.Name)
				}
			}
		}
	}
	if described < 250 {
		t.Errorf("only %d routes are described", described)
	}
	if schema := string(text); !strings.Contains(schema, "v3.clusterRoleTemplateBinding:") || !strings.Contains(schema, "mustChangePassword:") {
		t.Error("the types of /v3 are missing")
	}
}

// TestOpenAPIIsServed: to everybody who is logged in.
func TestOpenAPIIsServed(t *testing.T) {
	b := apibed.New(t)
	if r := b.Request("GET", "/v3/openapi.json", "", ""); r.Status != 401 {
		t.Errorf("to anybody: %d", r.Status)
	}
	if r := b.Want(200, "GET", "/v3/openapi.json", ""); r.Text("openapi") != "3.0.3" || !r.Has("paths", "/v3/clusters/{id}") {
		t.Errorf("%.300s", r.Raw)
	}
}

// OpenAPI describes all routes in YAML.
func OpenAPI() ([]byte, error) {
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(describe())
	return []byte(out.String()), err
}

// drovers are the rows that OpenAPI describes.
func drovers(rows []route.Row) []string {
	var patterns []string
	for _, row := range rows {
		if strings.HasPrefix(row.Pattern, "/v1-drover/") && !strings.Contains(row.Pattern, "...") && !strings.Contains(row.Pattern, "/relay") {
			patterns = append(patterns, row.Pattern)
		}
	}
	slices.Sort(patterns)
	return patterns
}

// TestVerbs: the server does something for each verb, and for no other; and all that people ask of one object is a verb.
func TestVerbs(t *testing.T) {
	places := map[string]bool{}
	for _, v := range api.AllVerbs() {
		if v.Do == nil {
			t.Errorf("the server does nothing for %s at %s", v.Name, v.At())
		}
		places[v.At()] = true
	}
	// What makes an object, takes a document, or needs a right to something else.
	others := []string{"clusters/import-rke", "clusters/join/rotate", "fleets/join", "fleets/plan"}
	keys := strings.NewReplacer("/v1-drover/", "", "/{namespace}", "", "/{name}", "", "/{id}", "")
	for _, row := range api.Outline() {
		kind, _, _ := strings.Cut(strings.TrimPrefix(row.Pattern, "/v1-drover/"), "/")
		at := keys.Replace(row.Pattern)
		if row.Method == "POST" && slices.Contains([]string{"clusters", "fleets", "machines", "operations"}, kind) && !places[at] && !slices.Contains(others, at) {
			t.Errorf("%s is a POST on one object, and apitypes/verbs has no verb for it", row.Pattern)
		}
	}
	if handled := slices.Sorted(maps.Keys(native.API{}.VerbHandlers())); !slices.Equal(handled, slices.Sorted(maps.Keys(places))) {
		t.Errorf("verbs are at %q, and something is done at %q", slices.Sorted(maps.Keys(places)), handled)
	}
}

// TestAMadeUpVerbIsDescribed with what its value says; see cmd/drover/cli for the route, the page and the command.
func TestAMadeUpVerbIsDescribed(t *testing.T) {
	made := verbs.Verb{
		Name: "greet", Of: verbs.Cluster, Path: "greet", Right: "update", Summary: "Greet a cluster", Body: apitypes.AskedPin{}, Answer: apitypes.Paused{},
		Inputs: []verbs.Input{{Name: "loud", Query: true, Kind: verbs.Tick, Help: "so that all hear it"}},
	}
	text, err := yaml.Marshal(describe(made)["paths"].(map[string]any)[made.Pattern()])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"post:", "Greet a cluster", "name: loud", "so that all hear it", "#/components/schemas/Paused", "requestBody", "x-drover-access"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}
