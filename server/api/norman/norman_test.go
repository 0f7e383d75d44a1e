package norman

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// pet has one field of each kind that behaves differently.
func pet() Schema {
	return Schema{
		ID: "pet", Plural: "pets", Version: Version{Group: "example.io", Version: "v3", Path: "/v3"},
		CollectionMethods: []string{"GET", "POST"}, ResourceMethods: []string{"GET", "PUT"},
		Fields: Fields(map[string]Field{
			"name":   {Type: "string", Create: true, Update: true, Required: true},
			"legs":   {Type: "int", Default: 4},
			"tame":   {Type: "boolean", Default: true},
			"homeId": {Type: "reference[home]", Nullable: true},
			"tags":   {Type: "array[string]"},
			"tag_id": {Type: "string"},
			"secret": {Type: "password", Create: true, WriteOnly: true},
		}),
		ResourceActions: map[string]Action{"feed": {Input: "meal"}, "walk": {}},
		Aliases:         map[string][]string{"name": {"name", "tag_id"}},
	}
}

var here = URLs{Base: "https://drover.example"}

func golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestSchemaDocument(t *testing.T) {
	golden(t, "schema.json", pet().Document(here))
}

func TestSchemaWithoutListHasNoCollectionLink(t *testing.T) {
	s := pet()
	s.CollectionMethods = []string{"POST"}
	links, _ := s.Document(here)["links"].(map[string]string)
	want := map[string]string{"self": "https://drover.example/v3/schemas/pet"}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Error(diff)
	}
}

func TestPresent(t *testing.T) {
	born := time.Date(2026, 9, 1, 12, 0, 0, 500, time.FixedZone("", 7200))
	o := Object{
		ID: "farm:p/1", Actions: []string{"feed", "walk"},
		Fields: map[string]any{"name": "Rex", "created": born, "removed": time.Time{}},
		Links:  map[string]string{"home": "https://drover.example/v3/homes/h1"},
	}
	onlyWalk := func(name string) bool { return name == "walk" }
	for _, c := range []struct {
		name  string
		do    func(*Object)
		may   Allowed
		links []string
		acts  map[string]string
	}{
		{name: "reader", may: Allowed{}, links: []string{"home", "self"}, acts: map[string]string{}},
		{
			name: "owner", may: Allowed{Update: true, Remove: true, Action: onlyWalk}, links: []string{"home", "remove", "self", "update"},
			acts: map[string]string{"walk": "https://drover.example/v3/pets/farm:p%2F1?action=walk"},
		},
		{
			name: "fixed and kept", may: Allowed{Update: true, Remove: true}, links: []string{"home", "self"}, acts: map[string]string{},
			do: func(o *Object) { o.Fixed, o.Kept = true, true },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := o
			if c.do != nil {
				c.do(&o)
			}
			r := pet().Present(o, here, c.may)
			links, _ := r["links"].(map[string]string)
			if diff := cmp.Diff(c.links, sorted(links)); diff != "" {
				t.Errorf("links: %s", diff)
			}
			if diff := cmp.Diff(c.acts, r["actions"]); diff != "" {
				t.Errorf("actions: %s", diff)
			}
			want := map[string]any{"created": "2026-09-01T10:00:00Z", "createdTS": born.UnixMilli(), "removed": nil, "removedTS": nil}
			for k, v := range want {
				if r[k] != v {
					t.Errorf("%s is %v, want %v", k, r[k], v)
				}
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	in := Input{fields: map[string]any{
		"name": "x", "legs": json.Number("3"), "tame": false, "tags": []any{""}, "id": "pet-1", "links": nil, "actions": nil, "createdTS": 1, "nmae": "y", "a": 1, "labels": map[string]any{"b": "c"},
	}}
	unlabelled := pet()
	unlabelled.Fields["labels"] = Field{Type: "map[string]"}
	for _, c := range []struct {
		schema   Schema
		creating bool
		want     []string
	}{
		{pet(), false, []string{"a", "nmae"}}, {pet(), true, []string{"a", "legs", "nmae"}},
		{unlabelled, false, []string{"a", "labels", "nmae"}}, {unlabelled, true, []string{"a", "labels", "legs", "nmae"}},
		{Schema{Fields: pet().Fields}, true, []string{"a", "nmae"}}, // of an action
	} {
		if diff := cmp.Diff(c.want, c.schema.Ignored(in, c.creating)); diff != "" {
			t.Errorf("creating %v: %s", c.creating, diff)
		}
	}
}
