package norman

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func TestFilters(t *testing.T) {
	pets := []Object{
		{ID: "a", Fields: map[string]any{"name": "Rex", "state": "active", "homeId": "h1"}},
		{ID: "b", Fields: map[string]any{"name": "Ida", "state": "removing", "legs": 3, "tame": false}},
		{ID: "c", Fields: map[string]any{"name": "Rex", "state": "inactive", "tag_id": "Ida"}},
	}
	for _, c := range []struct{ name, query, want string }{
		{"none", "", "[a b c]"},
		{"equal", "state=active", "[a]"},
		{"by id", "id=b", "[b]"},
		{"repeated equal is any of them", "state=active&state=removing", "[a b]"},
		{"repeated ne is none of them", "state_ne=inactive&state_ne=stopped&state_ne=removing", "[a]"},
		{"what the CLI always sends", "limit=-1&removed_null=1&state_ne=inactive&state_ne=stopped&state_ne=removing&system=false", "[a]"},
		{"in", "state_in=active,removing", "[a b]"},
		{"notin", "state_notin=active,removing", "[c]"},
		{"an int compares as text", "legs=3", "[b]"},
		{"missing takes the default", "legs=4", "[a c]"},
		{"boolean default", "tame=true", "[a c]"},
		{"reference", "homeId=h1", "[a]"},
		{"missing reference is empty", "homeId=", "[b c]"},
		{"alias looks at both fields", "name=Ida", "[b c]"},
		{"split at the last underscore", "tag_id_ne=Ida", "[a b]"},
		{"unknown field", "colour=red", "[a b c]"},
		{"unknown modifier", "name_like=R", "[a b c]"},
		{"a list cannot be filtered", "tags=x", "[a b c]"},
		{"a boolean has no in", "tame_in=false", "[a b c]"},
		{"options are no filters", "_format=json&action=x&link=y&_edit=1", "[a b c]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(ids(pet().selectPage(pets, pet().ParseQuery(values)).items)); got != c.want {
				t.Errorf("%s gives %s, want %s", c.query, got, c.want)
			}
		})
	}
}

func ids(items []Object) []string {
	var list []string
	for _, o := range items {
		list = append(list, o.ID)
	}
	return list
}

func TestOrder(t *testing.T) {
	pets := []Object{
		{ID: "b", Fields: map[string]any{"name": "Rex"}}, {ID: "c", Fields: map[string]any{"name": "Ida"}}, {ID: "a", Fields: map[string]any{"name": "Rex"}},
	}
	for query, want := range map[string]string{
		"": "[a b c]", "order=desc": "[c b a]", "sort=name": "[c a b]", "sort=name&order=desc": "[b a c]", "sort=tags": "[a b c]", "order=up": "[a b c]",
	} {
		values, _ := url.ParseQuery(query)
		if got := fmt.Sprint(ids(pet().selectPage(pets, pet().ParseQuery(values)).items)); got != want {
			t.Errorf("%q gives %s, want %s", query, got, want)
		}
	}
}

// TestPages follows next until there is none: every object is seen once, in order.
func TestPages(t *testing.T) {
	var pets []Object
	for i := range 2500 {
		pets = append(pets, Object{ID: fmt.Sprintf("p-%04d", i), Fields: map[string]any{}})
	}
	list := List{URLs: here, Values: url.Values{"limit": {"1000"}, "state_ne": {"removing"}}, Show: func(o Object) map[string]any { return map[string]any{"id": o.ID} }}
	var seen []string
	for pages := 1; ; pages++ {
		answer := pet().Collection(pets, list)
		data, _ := answer["data"].([]map[string]any)
		for _, one := range data {
			seen = append(seen, fmt.Sprint(one["id"]))
		}
		p, _ := answer["pagination"].(map[string]any)
		if p["total"] != 2500 || p["partial"] != true {
			t.Fatalf("pagination %v", p)
		}
		next, more := p["next"].(string)
		if !more {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			if p["previous"] == nil || p["first"] == nil || p["last"] == nil {
				t.Errorf("the last page lacks links: %v", p)
			}
			break
		}
		u, err := url.Parse(next)
		if err != nil {
			t.Fatal(err)
		}
		list.Values = u.Query()
	}
	if diff := cmp.Diff(ids(pets), seen); diff != "" {
		t.Error(diff)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		query string
		limit int
	}{{"", 1000}, {"limit=-1", 10000}, {"limit=20000", 10000}, {"limit=7", 7}, {"limit=x", 1000}} {
		values, _ := url.ParseQuery(c.query)
		if got := pet().ParseQuery(values).Limit; got != c.limit {
			t.Errorf("%q gives %d, want %d", c.query, got, c.limit)
		}
	}
}

func TestCollectionEnvelope(t *testing.T) {
	pets := []Object{{ID: "a", Fields: map[string]any{"name": "Rex"}}, {ID: "b", Fields: map[string]any{"name": "Ida"}}, {ID: "c", Fields: map[string]any{"name": "Ina"}}}
	show := func(o Object) map[string]any { return pet().Present(o, here, Allowed{}) }
	golden(t, "collection.json", pet().Collection(pets, List{
		URLs: here, Values: url.Values{"limit": {"1"}, "marker": {"b"}, "name_ne": {"Otto"}}, Creates: true, Actions: []string{"search"}, Show: show,
	}))
}

func TestEmptyCollectionIsNotNull(t *testing.T) {
	for _, all := range [][]Object{nil, {}} {
		answer := pet().Collection(all, List{URLs: here, Values: url.Values{}, Show: func(Object) map[string]any { return nil }})
		if data, ok := answer["data"].([]map[string]any); !ok || data == nil {
			t.Errorf("data is %#v", answer["data"])
		}
		if _, ok := answer["createTypes"]; ok {
			t.Error("createTypes without the right to create")
		}
	}
}

func FuzzListParameters(f *testing.F) {
	f.Add("limit=1&marker=b&sort=name&order=desc&name_ne=x")
	f.Add("limit=0&tag_id_in=,&_=1")
	pets := []Object{{ID: "a", Fields: map[string]any{"name": "Rex"}}, {ID: "b", Fields: map[string]any{}}}
	f.Fuzz(func(t *testing.T, query string) {
		values := httptest.NewRequest("GET", "/", nil).URL.Query()
		if parsed, err := url.ParseQuery(query); err == nil {
			values = parsed
		}
		answer := pet().Collection(pets, List{URLs: here, Values: values, Show: func(o Object) map[string]any { return map[string]any{"id": o.ID} }})
		if data, ok := answer["data"].([]map[string]any); !ok || data == nil || len(data) > 2 {
			t.Errorf("data is %v", answer["data"])
		}
	})
}
