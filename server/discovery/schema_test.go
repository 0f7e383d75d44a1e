package discovery

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/spec3"
)

type inner struct {
	Deep string `json:"deep,omitempty"`
}

type embedded struct {
	FromInside bool `json:"fromInside,omitempty"`
}

type sample struct {
	Name  string            `json:"name"`
	Count *int              `json:"count,omitempty"`
	List  []inner           `json:"list,omitempty"`
	Texts map[string]string `json:"texts,omitempty"`
	Free  map[string]any    `json:"free,omitempty"`
	By    map[string]inner  `json:"by,omitempty"`
	Left  json.RawMessage   `json:"left,omitempty"`
	Not   string            `json:"-"`
	embedded
}

func TestOf(t *testing.T) {
	s := SchemaOf(reflect.TypeFor[sample](), map[string]string{"discovery.sample.Name": "what it is called", "discovery.inner": "one of them"}, reflect.TypeFor[json.RawMessage]())
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	deep := `{"description":"one of them","type":"object","properties":{"deep":{"type":"string"}}}`
	want := `{"type":"object","properties":{"by":{"type":"object","additionalProperties":` + deep + `},"count":{"type":"integer","format":"int64"},` +
		`"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"fromInside":{"type":"boolean"},"list":{"type":"array","items":` + deep + `},` +
		`"name":{"description":"what it is called","type":"string"},"texts":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestUnknown(t *testing.T) {
	s := SchemaOf(reflect.TypeFor[sample](), nil)
	object := map[string]any{
		"name": "x", "nme": "y", "free": map[string]any{"any": "thing"}, "texts": map[string]any{"k": "v"},
		"list": []any{map[string]any{"deep": "1", "deeper": "2"}}, "by": map[string]any{"k": map[string]any{"wrong": true}},
		"kept": map[string]any{"x": 1}, "count": map[string]any{"not": "a number"},
	}
	gone := s.Unknown(object, func(path string) bool { return path == "kept" })
	if diff := cmp.Diff([]string{"by.k.wrong", "list[].deeper", "nme"}, gone); diff != "" {
		t.Error(diff)
	}
	want := map[string]any{
		"name": "x", "free": map[string]any{"any": "thing"}, "texts": map[string]any{"k": "v"}, "list": []any{map[string]any{"deep": "1"}},
		"by": map[string]any{"k": map[string]any{}}, "kept": map[string]any{"x": 1}, "count": map[string]any{"not": "a number"},
	}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentIsOpenAPI(t *testing.T) {
	text := OpenAPI(SchemaKind{
		GVK: GVK{Group: "a.b.c", Version: "v1", Kind: "Thing"}, Plural: "things", Namespaced: true, Changes: true,
		Schema: Struct("A thing.", map[string]*Schema{"at": Time("when"), "n": Whole("how many"), "ok": Flag("whether"), "more": Open("anything"), "labels": Texts("of it"), "all": List("some", Text("one"))}),
	})
	var document spec3.OpenAPI
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	path := document.Paths.Paths["/apis/a.b.c/v1/namespaces/{namespace}/things/{name}"]
	if path == nil || path.Patch == nil || !strings.Contains(string(text), `"fieldValidation"`) {
		t.Fatalf("%s", text)
	}
	if s := document.Components.Schemas["c.b.a.v1.Thing"]; s == nil || s.Properties["at"].Format != "date-time" || s.Extensions["x-kubernetes-group-version-kind"] == nil {
		t.Errorf("%s", text)
	}
}
