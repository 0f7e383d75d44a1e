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

func decodeText(t *testing.T, text string, o Options) (sample, *Document, Errors) {
	t.Helper()
	docs, err := Read(Source{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var s sample
	errs := docs[0].Decode(&s, o)
	return s, docs[0], errs
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
		if got := d.LineOf(path); got != line {
			t.Errorf("LineOf(%s) = %d, want %d", path, got, line)
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
		{"number in quotes", "count: '3'", `line 1: count: is the text "3" where a whole number belongs; write it without quotes`},
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

func TestDecodeOptions(t *testing.T) {
	loose := Options{AsWritten: true, YesNo: true, Ignore: IgnoreAll}
	s, _, errs := decodeText(t, "name: 0644\non: yes\nlater: 1\nlabels: {a: true, b: 2006-01-02}\n", loose)
	if errs != nil || s.Name != "0644" || !*s.On || s.Labels["a"] != "true" || s.Labels["b"] != "2006-01-02" {
		t.Errorf("%+v, %v", s, errs)
	}
	if _, _, errs := decodeText(t, "on: \"yes\"\n", loose); errs.Error() != `line 1: on: is the text "yes" where true or false belongs; write it without quotes` {
		t.Errorf("a text in quotes: %v", errs)
	}
	if _, _, errs := decodeText(t, "name: !!binary eA==\n", loose); errs == nil {
		t.Error("a tag of somebody's is taken as text")
	}
	_, _, errs = decodeText(t, "other-thing: 1\nhelm: 2\n", Options{Unknown: func(path string) string {
		if path == "helm" {
			return "is not supported"
		}
		return ""
	}})
	if want := "line 1: other-thing: is not a field here\nline 2: helm: is not supported"; errs.Error() != want {
		t.Errorf("%v, want %s", errs, want)
	}
}

func TestPrivateTextsAreNotRepeated(t *testing.T) {
	for _, text := range []string{
		"count: hunter2", "name: [hunter2]", "on: hunter2", "labels: hunter2", "items: hunter2", "a: b: hunter2", "a: *hunter2",
		"free: !!binary hunter2", "free: 0hunter2: x", `{"count": "hunter2"}`, "count: hunter2 # hunter2",
	} {
		docs, err := Read(Source{Private: true}, []byte(text))
		if err == nil {
			var s sample
			if errs := docs[0].Decode(&s, Options{}); errs != nil {
				err = errs
			}
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("k", 9000)
	_, _, errs := decodeText(t, `{"items": [`+strings.Repeat(`{"`+long+`": 1},`, 200)+`{}]}`, Options{})
	if len(errs) != maxErrors || len(errs.Error()) > maxErrors*(maxPath+maxQuoted+500) {
		t.Errorf("%d errors of %d bytes", len(errs), len(errs.Error()))
	}
}

func TestDecodeByAnotherTag(t *testing.T) {
	docs, err := Read(Source{}, []byte("max_pods: 3\nmaxPods: 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		MaxPods int `json:"maxPods" yaml:"max_pods,omitempty"`
	}
	errs := docs[0].Decode(&v, Options{Tag: "yaml"})
	if v.MaxPods != 3 || len(errs) != 1 || errs[0].Path != "maxPods" {
		t.Errorf("read %+v with %v", v, errs)
	}
}

func TestDecodeMergesKeys(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       map[string]string
		fails      string
	}{
		{"one", "free: &l {a: l, b: l}\nlabels:\n  b: own\n  <<: *l", map[string]string{"a": "l", "b": "own"}, ""},
		{"two, the first of which wins", "free: {l: &l {a: l}, m: &m {a: m, b: m}}\nlabels:\n  <<: [*l, *m]", map[string]string{"a": "l", "b": "m"}, ""},
		{"one within another", "free: {l: &l {a: l, b: l}, m: &m {b: m, <<: *l}}\nlabels: {<<: *m}", map[string]string{"a": "l", "b": "m"}, ""},
		{"not a mapping", "free: {l: &l x}\nlabels: {<<: *l}", map[string]string{}, "labels: is the text \"x\" where a mapping belongs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, errs := decodeText(t, tc.text, Options{MergeKeys: true})
			if diff := cmp.Diff(tc.want, s.Labels); diff != "" {
				t.Error(diff)
			}
			if got := errs.Error(); !strings.Contains(got, tc.fails) || tc.fails == "" && got != "" {
				t.Errorf("errors are %q, want %q", got, tc.fails)
			}
		})
	}
}

func TestWriteIsReadAgain(t *testing.T) {
	type inner struct {
		Text string         `yaml:"text"`
		Free map[string]any `yaml:"free,omitempty"`
	}
	type outer struct {
		inner  `yaml:",inline"`
		List   []inner           `yaml:"list,omitempty"`
		Off    *bool             `yaml:"off,omitempty"`
		Labels map[string]string `yaml:"labels,omitempty"`
		None   []string          `yaml:"none,omitempty"`
		Zero   int               `yaml:"zero"`
	}
	off := false
	v := outer{
		inner:  inner{Text: "\n two\nlines", Free: map[string]any{"n": nil, "f": 1.5, "l": []any{"<<", int64(7)}}},
		List:   []inner{{Text: "a\nb\n"}, {Text: "yes"}},
		Off:    &off,
		Labels: map[string]string{"b": "2", "a": "~", "<<": "x"},
		None:   []string{},
	}
	text, err := Write(v)
	if err != nil {
		t.Fatal(err)
	}
	const want = `text: "\n two\nlines"
free:
  f: 1.5
  l:
    - "<<"
    - 7
  "n": null
list:
  - text: |
      a
      b
  - text: "yes"
"off": false
labels:
  "<<": x
  a: "~"
  b: "2"
zero: 0
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	docs, err := Read(Source{}, text)
	if err != nil {
		t.Fatal(err)
	}
	var again outer
	if errs := docs[0].Decode(&again, Options{Tag: "yaml", MergeKeys: true}); errs != nil {
		t.Fatal(errs)
	}
	v.None = nil
	if diff := cmp.Diff(v, again, cmp.AllowUnexported(outer{}, inner{})); diff != "" {
		t.Error(diff)
	}
}
