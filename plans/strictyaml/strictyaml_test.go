package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tower is a text whose aliases, seven floors of ten, stand for ten million values.
func tower() string {
	text := "free:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	last := "a"
	for _, next := range []string{"b", "c", "d", "e", "f", "g"} {
		text += "  " + next + ": &" + next + " [" + strings.Repeat("*"+last+",", 9) + "*" + last + "]\n"
		last = next
	}
	return text
}

// TestReadIsBounded: each text is refused, with its line and place, before anything of it is
// decoded, in no time and with little memory.
func TestReadIsBounded(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"too long", strings.Repeat("#", 3<<20), "3145728 bytes are more than the 2097152 allowed"},
		{"deep lists", "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "line 1: a" + strings.Repeat("[0]", 99) + ": mappings and lists stand more than 100 deep in one another"},
		{"deep in JSON", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "line 1: mappings and lists stand more than 100 deep in one another"},
		{"deeper than the parser goes", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "line 1: not YAML: exceeded max depth of 10000"},
		{"deep by aliases", "a: &a {x: {x: {x: {x: {x: {x: {x: {x: {x: {x: 1}}}}}}}}}}\n" + aliasChain(), "mappings and lists stand more than 100 deep in one another"},
		{"an alias of itself", "a: 1\nfree:\n- &a [*a]\n", "line 3: free[0][0]: the alias stands inside of what it repeats"},
		{"an alias of what is around it", "a: &a\n  b:\n    c: *a\n", "line 3: a.b.c: the alias stands inside of what it repeats"},
		{"an alias as a key of itself", "&a {*a : 1}\n", "line 1: the alias stands inside of what it repeats"},
		{"many values by aliases", tower(), "line 2: free.e[7][8][8][8][2]: the file has more than 100000 values, those of aliases counted each time"},
		{"much text by aliases", "a: [&a " + strings.Repeat("x", 100_000) + strings.Repeat(", *a", 100) + "]\n", "line 1: a[41]: the file has more than 4194304 bytes of text, that of aliases counted each time"},
		{"much text by keys", "a: &a {" + strings.Repeat("x", 1000) + ": 1}\nb: &b [" + strings.Repeat("*a, ", 90) + "]\nc: [" + strings.Repeat("*b, ", 90) + "]\n", "the file has more than 4194304 bytes of text"},
		{"many aliases", "a: &a 1\nb: [" + strings.Repeat("*a, ", 1001) + "]\n", "line 2: b[1000]: the document has more than 1000 aliases"},
		{"many values in many documents", strings.Repeat("---\n["+strings.Repeat("1,", 1000)+"]\n", 101), "the file has more than 100000 values"},
		{"no YAML", "a:\n  b: c: d\n", "line 2: not YAML: mapping values are not allowed in this context"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := Read(Source{}, []byte(tc.text))
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %.300v\n want %s", err, tc.want)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 200<<20 {
				t.Errorf("allocated %d MiB", allocated>>20)
			}
		})
	}
}

// aliasChain nests fifteen anchors of ten levels in one another.
func aliasChain() string {
	var b strings.Builder
	last := "a"
	for i := range 15 {
		next := fmt.Sprintf("n%d", i)
		fmt.Fprintf(&b, "%s: &%s {x: {x: {x: {x: {x: {x: {x: {x: {x: *%s}}}}}}}}}\n", next, next, last)
		last = next
	}
	return b.String()
}

func TestReadDocuments(t *testing.T) {
	docs, err := Read(Source{}, []byte("---\na: 1\n---\n# nothing\n---\nb: 2\n"))
	if err != nil || len(docs) != 2 || docs[1].Line() != 6 {
		t.Fatalf("docs = %d, err = %v", len(docs), err)
	}
	if _, err := Read(Source{}, []byte("a: [1")); err == nil {
		t.Error("a broken document was read")
	}
	if one, err := ReadOne(Source{}, []byte("# nothing\n---\n")); err != nil || !one.Empty() || !one.Root().Empty() {
		t.Errorf("%+v, %v", one, err)
	}
	_, err = ReadOne(Source{File: "x.yaml"}, []byte("a: 1\n---\n\nb: 1\n"))
	if err == nil || err.Error() != "x.yaml:2: a second document begins, where one is expected" {
		t.Errorf("error %v", err)
	}
}

// TestJSON: JSON is read as JSON, with the lines that YAML has.
func TestJSON(t *testing.T) {
	text := "{\n\t\"name\": \"\\ud83d\\ude00\",\n\t\"count\": 7, \"free\": {\"a\": [1, 2.5, 1e3, true, null, \"x\"]},\n\t\"items\": [\n\t\t{\"path\": \"/a\"}\n\t]\n}\n"
	s, d, errs := decodeText(t, text, Options{})
	want := sample{Name: "😀", Count: 7, Free: map[string]any{"a": []any{int64(1), 2.5, 1000.0, true, nil, "x"}}, Items: []item{{"/a"}}}
	if diff := cmp.Diff(want, s); diff != "" || errs != nil {
		t.Errorf("%v %s", errs, diff)
	}
	if got := d.LineOf("items[0].path"); got != 5 {
		t.Errorf("line %d", got)
	}
	_, _, errs = decodeText(t, "{\"name\": \"a\",\n\"name\": \"b\", \"nmae\": 1}", Options{})
	if want := "line 2: name: stands here a second time, first on line 1\nline 2: nmae: is not a field here; did you mean name?"; errs.Error() != want {
		t.Errorf("%v, want %s", errs, want)
	}
}

func TestLineOf(t *testing.T) {
	docs, err := Read(Source{}, []byte("\nprobes:\n  web:\n    httpGet:\n      url: x\na: {b.c: 1}\na.b:\n  c:\n    d: 1\nlist: [[1,\n 2]]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"": 2, "nowhere": 2, "probes[web].httpGet.url": 5, "probes.web.httpGet.nothing": 4, "a.b.c": 6, "a.b.c.d": 9,
		"list[0][1]": 11, "list[0][9]": 10, "list[x]": 10,
	} {
		if got := docs[0].LineOf(path); got != want {
			t.Errorf("LineOf(%s) = %d, want %d", path, got, want)
		}
	}
}

// FuzzStrictYAML: whatever is read is bounded, can be walked and decoded, and is bounded as JSON too.
func FuzzStrictYAML(f *testing.F) {
	for _, seed := range []string{
		"name: a\nfree: {a: [1, {b: c}]}", "a: &a\n  b: *a", "&a [*a]", "--- !!map\n? [a]\n: x\n---\n<<: {a: b}", tower(),
		`{"name": "x", "items": [{"path": "\ud83d"}], "free": {"a": 1e9}}`, "free: &x {a: 0o17, b: .inf, c: 2001-01-01, d: ~, <<: {}}\nitems: [*x]",
		"a: |\n  text\nb: >-\n  more\n", "%YAML 1.2\n---\n{}\n...\n",
	} {
		f.Add(seed)
	}
	limits := Limits{Bytes: 1 << 16, Depth: 20, Aliases: 50, Values: 2000, Expanded: 1 << 16}
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := Read(Source{Limits: limits}, []byte(text))
		if err != nil {
			all, _ := errors.AsType[Errors](err)
			for _, e := range all {
				if e.Reason == "" {
					t.Errorf("%+v", e)
				}
			}
			return
		}
		for _, doc := range docs {
			var s sample
			for _, e := range doc.Decode(&s, Options{}) {
				if e.Line < 1 || e.Reason == "" {
					t.Errorf("%+v", e)
				}
				doc.LineOf(e.Path)
			}
			var loose any
			if errs := doc.Decode(&loose, Options{AsWritten: true}); errs == nil {
				b, err := json.Marshal(loose)
				if err != nil || len(b) > 40*limits.Expanded {
					t.Errorf("%d bytes as JSON, %v", len(b), err)
				}
			}
			walk(doc.Root())
		}
	})
}

func walk(n *Node) {
	n.Text()
	n.Bool()
	n.Pairs(func(_ string, _, value *Node) error { walk(value); return nil })
	n.Items(1000, func(item *Node) error { walk(item); return nil })
}
