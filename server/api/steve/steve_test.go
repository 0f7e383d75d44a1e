package steve

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func object(name, namespace string, more ...any) Object {
	o := Object{"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"a.b/c": name + "-label"}}}
	for i := 0; i < len(more); i += 2 {
		key, _ := more[i].(string)
		o[key] = more[i+1]
	}
	return o
}

func TestAt(t *testing.T) {
	o := object("one", "ns", "spec", map[string]any{
		"n": 3, "on": true, "list": []any{map[string]any{"image": "a"}, map[string]any{"image": "b"}}, "plain": []any{"x", "y"}, "none": nil,
	})
	for path, want := range map[string]string{
		"metadata.name": "[one]", "metadata.labels[a.b/c]": "[one-label]", "spec.n": "[3]", "spec.on": "[true]", "spec.list.image": "[a b]",
		"spec.plain": "[x y]", "spec.none": "[]", "spec.none.x": "[]", "nothing": "[]", "metadata": "[]", "": "[]", "metadata.labels[a.b/c": "[]", "[": "[]", "..": "[]",
	} {
		if got := fmt.Sprint(o.At(path)); got != want {
			t.Errorf("%q is %s, want %s", path, got, want)
		}
	}
}

func names(objects []Object) string {
	var list []string
	for _, o := range objects {
		list = append(list, o.text("metadata.name"))
	}
	return strings.Join(list, " ")
}

func TestSelect(t *testing.T) {
	all := []Object{object("a1", "x"), object("a2", "y"), object("b1", "x"), object("b2", "y"), object("c", "x")}
	for _, c := range []struct {
		query, want  string
		count, pages int
		more         string
	}{
		{"", "a1 a2 b1 b2 c", 5, 1, ""},
		{"filter=metadata.name=a", "a1 a2", 2, 1, ""},
		{"filter=metadata.name='a'", "", 0, 1, ""},
		{"filter=metadata.name='a1'", "a1", 1, 1, ""},
		{`filter=metadata.name="a"`, "a1 a2", 2, 1, ""},
		{"filter=metadata.name=a,metadata.name=c", "a1 a2 c", 3, 1, ""},
		{"filter=metadata.name=a&filter=metadata.namespace=x", "a1", 1, 1, ""},
		{"filter=metadata.name!=a", "b1 b2 c", 3, 1, ""},
		{"filter=metadata.labels[a.b/c]=c-", "c", 1, 1, ""},
		{"filter=nonsense", "a1 a2 b1 b2 c", 5, 1, ""},
		{"filter=", "a1 a2 b1 b2 c", 5, 1, ""},
		{"sort=-metadata.name", "c b2 b1 a2 a1", 5, 1, ""},
		{"sort=metadata.namespace,-metadata.name", "c b1 a1 b2 a2", 5, 1, ""},
		{"limit=2", "a1 a2", 5, 1, "2"},
		{"limit=2&continue=2", "b1 b2", 5, 1, "4"},
		{"limit=2&continue=4", "c", 5, 1, ""},
		{"limit=-1", "a1 a2 b1 b2 c", 5, 1, ""},
		{"limit=0", "a1 a2 b1 b2 c", 5, 1, ""},
		{"continue=99", "", 5, 1, ""},
		{"continue=-3", "a1 a2 b1 b2 c", 5, 1, ""},
		{"pagesize=2", "a1 a2", 5, 3, ""},
		{"pagesize=2&page=3", "c", 5, 3, ""},
		{"pagesize=2&page=9", "", 5, 3, ""},
		{"pagesize=9223372036854775807&page=9223372036854775807", "", 5, 1, ""},
		{"projectsornamespaces=x&system=false&state_ne=removing", "a1 a2 b1 b2 c", 5, 1, ""},
	} {
		t.Run(c.query, func(t *testing.T) {
			values, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			p := Select(all, values)
			if names(p.Objects) != c.want || p.Count != c.count || p.Pages != c.pages || p.Continue != c.more {
				t.Errorf("%s, count %d, pages %d, continue %q", names(p.Objects), p.Count, p.Pages, p.Continue)
			}
		})
	}
	if names(all) != "a1 a2 b1 b2 c" {
		t.Error("the list that was given is changed")
	}
}

func TestWithout(t *testing.T) {
	o := object("a", "x", "spec", map[string]any{"big": 1, "small": 2})
	got := Without(o, url.Values{"exclude": {"spec.big", "metadata.labels", "nothing.x", "spec.small.x"}})
	want := Object{"metadata": map[string]any{"name": "a", "namespace": "x"}, "spec": map[string]any{"small": 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(o.At("metadata.labels[a.b/c]")) != 1 || len(o.At("spec.big")) != 1 {
		t.Error("the object that was given is changed")
	}
}

func TestPresent(t *testing.T) {
	s := Schema{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster", Resource: "clusters", Namespaced: true}
	got := s.Present("https://h/v1", object("a b", "x"), "x/a b", Links{Remove: true})
	self := "https://h/v1/provisioning.cattle.io.clusters/x/a%20b"
	want := map[string]string{"self": self, "view": self, "remove": self}
	if diff := cmp.Diff(want, got["links"]); diff != "" || got["id"] != "x/a b" || got["type"] != "provisioning.cattle.io.cluster" {
		t.Errorf("%v %s", got, diff)
	}
}

func FuzzSelect(f *testing.F) {
	f.Add("filter=metadata.labels[a.b/c]=x,y!='z'&sort=-a[b],c&limit=1&continue=1&pagesize=2&page=3&exclude=a.b")
	f.Add("filter=[=&sort=[")
	all := []Object{object("a1", "x"), object("b1", "y", "spec", map[string]any{"l": []any{1, "2"}})}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		p := Select(all, values)
		if len(p.Objects) > p.Count || p.Count > len(all) {
			t.Errorf("%d of %d", len(p.Objects), p.Count)
		}
		Without(all[1], values)
	})
}
