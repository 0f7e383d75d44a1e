package strictyaml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type sample struct {
	Name   string            `json:"name"`
	Count  int               `json:"count"`
	On     *bool             `json:"on"`
	Labels map[string]string `json:"labels"`
	Free   map[string]any    `json:"free"`
	Items  []item            `json:"items"`
}

type item struct {
	Path string `json:"path"`
}

func decodeText(t *testing.T, text string, o Options) (sample, Decoded, Errors) {
	t.Helper()
	docs, err := Documents([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var s sample
	d, errs := Decode(docs[0], &s, o)
	return s, d, errs
}

func TestDecodeReadsEveryShape(t *testing.T) {
	s, d, errs := decodeText(t, `
name: a
count: 3
on: true
labels: {x: "1"}
free:
  list: [a, 1, 2.5, true, null]
  deep: {er: text}
items:
- path: /one
- path: /two
`, Options{})
	if errs != nil {
		t.Fatal(errs)
	}
	on := true
	want := sample{
		Name: "a", Count: 3, On: &on, Labels: map[string]string{"x": "1"},
		Free:  map[string]any{"list": []any{"a", int64(1), 2.5, true, nil}, "deep": map[string]any{"er": "text"}},
		Items: []item{{"/one"}, {"/two"}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for path, line := range map[string]int{"items[1].path": 11, "free.deep.er": 8, "free.deep.missing": 8, "name": 2} {
		if got := d.Line(path); got != line {
			t.Errorf("Line(%s) = %d, want %d", path, got, line)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       string
	}{
		{"unknown field", "name: a\ncuont: 1", "line 2: cuont: is not a field here; did you mean count?"},
		{"unknown nested field", "items:\n- {path: /a, mode: 1}", "line 2: items[0].mode: is not a field here"},
		{"number for text", "name: 1.30", `line 1: name: is the number 1.30 where text belongs; write it in quotes: "1.30"`},
		{"text for number", "count: many", `line 1: count: is the text "many" where a whole number belongs`},
		{"text for truth", "on: yes", `line 1: on: is the text "yes" where true or false belongs`},
		{"text for mapping", "labels: x", `line 1: labels: is the text "x" where a mapping belongs`},
		{"mapping for list", "items: {a: b}", "line 1: items: is a mapping where a list belongs"},
		{"repeated key", "name: a\nname: b", "line 2: name: stands here a second time, first on line 1"},
		{"merge key", "labels: &l {a: b}\nfree:\n  <<: *l", "line 3: free: has a key that is not plain text; write the fields out"},
		{"all of them at once", "nmae: a\ncount: x", "line 1: nmae: is not a field here; did you mean name?\nline 2: count: is the text \"x\" where a whole number belongs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, errs := decodeText(t, tc.text, Options{})
			if errs == nil || errs.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", errs, tc.want)
			}
		})
	}
}

func TestDecodeBoundsAliases(t *testing.T) {
	text := "free:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	last := "a"
	for _, next := range []string{"b", "c", "d", "e", "f", "g"} {
		text += "  " + next + ": &" + next + " [" + strings.Repeat("*"+last+",", 9) + "*" + last + "]\n"
		last = next
	}
	_, _, errs := decodeText(t, text, Options{})
	if errs == nil || !strings.Contains(errs.Error(), "more than 100000 values") {
		t.Errorf("a tower of aliases was read: %v", errs)
	}
}

func TestDocuments(t *testing.T) {
	docs, err := Documents([]byte("---\na: 1\n---\n# nothing\n---\nb: 2\n"))
	if err != nil || len(docs) != 2 || docs[1].Line != 6 {
		t.Fatalf("docs = %d, err = %v", len(docs), err)
	}
	if _, err := Documents([]byte("a: [1")); err == nil {
		t.Error("a broken document was read")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("name: a\nfree: {a: [1, {b: c}]}")
	f.Add("a: &a\n  b: *a")
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := Documents([]byte(text))
		if err != nil {
			return
		}
		for _, doc := range docs {
			var s sample
			Decode(doc, &s, Options{})
		}
	})
}
