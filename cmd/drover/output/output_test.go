package output

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type thing struct {
	Type string            `json:"type,omitempty"`
	ID   string            `json:"id"`
	Name string            `json:"name"`
	More map[string]string `json:"more,omitempty"`
	Size int64             `json:"size"`
}

func fill(t *Table) {
	wide := t.Wide(2)
	state := "active"
	if wide {
		state = "Failed: no\ndisk"
	}
	t.Row("NAME", "STATE", "SIZE")
	t.Row("a", state, "1")
	t.Row("active", "Registering", "12345678901")
}

func TestFormats(t *testing.T) {
	value := []thing{{ID: "1", Name: "a", Size: 1}, {ID: "2", Name: "<b>", Size: 12345678901, More: map[string]string{"k": "v"}}}
	for format, want := range map[string]string{
		"":                    "NAME     STATE\na        active\nactive   Registering\n",
		"wide":                "NAME     STATE             SIZE\na        Failed: no disk   1\nactive   Registering       12345678901\n",
		"json":                "[\n  {\n    \"id\": \"1\",\n    \"name\": \"a\",\n    \"size\": 1\n  },\n  {\n    \"id\": \"2\",\n    \"name\": \"<b>\",\n    \"more\": {\n      \"k\": \"v\"\n    },\n    \"size\": 12345678901\n  }\n]\n",
		"yaml":                "- id: \"1\"\n  name: a\n  size: 1\n- id: \"2\"\n  more:\n    k: v\n  name: <b>\n  size: 12345678901\n",
		"name":                "a\n<b>\n",
		"jsonpath={[*].name}": "a <b>\n",
		"jsonpath={range [*]}{.name}={.size};{end}": "a=1;<b>=12345678901;\n",
		`jsonpath={range [*]}{.id}{"\n"}{end}`:      "1\n2\n",
		"jsonpath={[1].more.k}":                     "v\n",
		"jsonpath={[0].nothing}":                    "\n",
		`jsonpath={[?(@.name=="a")].id}`:            "1\n",
	} {
		f, err := Parse(format)
		if err != nil {
			t.Errorf("-o %s: %v", format, err)
			continue
		}
		var out strings.Builder
		if err := (Printer{Out: &out, Format: f}).Show(value, fill); err != nil || out.String() != want {
			t.Errorf("-o %s: %v\n%s\nnot\n%s", format, err, out.String(), want)
		}
	}
}

func TestPathOfOneThing(t *testing.T) {
	f, err := Parse("jsonpath=.more.k")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (Printer{Out: &out, Format: f}).Show(thing{More: map[string]string{"k": "v"}}, nil); err != nil || out.String() != "v\n" {
		t.Errorf("%v %q", err, out.String())
	}
}

func TestRefusedFormats(t *testing.T) {
	for format, want := range map[string]string{
		"xml":             "-o xml: the formats are table, wide, json, yaml, name, or jsonpath=",
		"jsonpath":        "needs a template",
		"jsonpath=":       "needs a template",
		"jsonpath={.name": "is not a JSONPath template",
		"JSON":            "-o JSON: the formats are",
	} {
		if _, err := Parse(format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-o %s: %v", format, err)
		}
	}
}

func TestNames(t *testing.T) {
	for want, value := range map[string]any{
		"c":               map[string]any{"type": "cluster", "id": "c-m-1", "name": "c"},
		"ann":             map[string]any{"type": "user", "id": "u-1", "name": "Ann Example", "username": "ann"},
		"u-2":             map[string]any{"type": "user", "id": "u-2", "name": "A program"},
		"cluster-owner":   map[string]any{"type": "roleTemplate", "id": "cluster-owner", "name": "Cluster Owner"},
		"secret/ns/x":     map[string]any{"kind": "Secret", "namespace": "ns", "name": "x", "type": "Opaque"},
		"v1.34.4+k3s1":    map[string]any{"version": "v1.34.4+k3s1"},
		"op-1":            map[string]any{"type": "operation", "id": "op-1", "kind": "apply"},
		"of-the-document": map[string]any{"kind": "Cluster", "metadata": map[string]any{"name": "of-the-document"}},
	} {
		if got := names(value); len(got) != 1 || got[0] != want {
			t.Errorf("%v is named %q, not %q", value, got, want)
		}
	}
	if got := names([]any{"text", nil, map[string]any{}}); len(got) != 0 {
		t.Errorf("what has no name is named %q", got)
	}
}

// TestColours are of the heading and of the state, and not of a cell that looks like one.
func TestColours(t *testing.T) {
	var out strings.Builder
	err := Printer{Out: &out, Colour: true}.Show(nil, fill)
	want := "\x1b[1mNAME     STATE\x1b[0m\na        \x1b[32mactive\x1b[0m\nactive   \x1b[33mRegistering\x1b[0m\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%q, not\n%q", err, out.String(), want)
	}
	out.Reset()
	err = Printer{Out: &out, Colour: true}.Show(nil, func(t *Table) { t.Row("name", "state"); t.Row("state", "Error") })
	if want := "name    state\nstate   \x1b[31mError\x1b[0m\n"; err != nil || out.String() != want {
		t.Errorf("%v\n%q, not\n%q", err, out.String(), want)
	}
}

// TestColoursAreForTerminals: and for those alone whose owner wants them.
func TestColoursAreForTerminals(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		name    string
		out     io.Writer
		environ map[string]string
		want    bool
	}{
		{"a terminal", terminal, map[string]string{"TERM": "xterm"}, true},
		{"a terminal whose owner wants none", terminal, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{"a terminal that has none", terminal, map[string]string{"TERM": "dumb"}, false},
		{"a file", file, map[string]string{"TERM": "xterm"}, false},
		{"a program", &strings.Builder{}, map[string]string{"TERM": "xterm"}, false},
	} {
		if got := Coloured(c.out, func(name string) string { return c.environ[name] }); got != c.want {
			t.Errorf("%s is coloured: %t", c.name, got)
		}
	}
}

// TestALineBreakInACellStaysInItsRow: an error of a host may have several lines, and marks for terminals.
func TestALineBreakInACellStaysInItsRow(t *testing.T) {
	var out strings.Builder
	err := Printer{Out: &out}.Show(nil, func(t *Table) {
		t.Row("NAME", "CAUSE", "SINCE")
		t.Row("pier-1", "cannot start:\nexit status 1\n", "4s")
		t.Row("pier-2", "a\tb\r\n\x1b[31mc", "5s")
	})
	const want = "NAME     CAUSE                         SINCE\npier-1   cannot start: exit status 1   4s\npier-2   a b ·[31mc                    5s\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}
