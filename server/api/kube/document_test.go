package kube

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/discovery"
)

var rewrite = flag.Bool("update", false, "renew docs/reference/cluster-document.md")

//go:generate go test -run TestClusterDocument -update .

// TestClusterDocument: docs/reference/cluster-document.md has each field of the types that cluster documents are read into, with what
// it means; `go generate ./server/api/kube` renews it.
func TestClusterDocument(t *testing.T) {
	var got bytes.Buffer
	spec := clusterSchema().Properties["spec"]
	fmt.Fprint(&got, clusterDocumentHead)
	for _, fault := range writeFields(&got, "spec", spec) {
		t.Errorf("%s has no comment: people who look it up find nothing", fault)
	}
	path := filepath.Join("..", "..", "..", "docs", "reference", "cluster-document.md")
	if *rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil { // a file of the source
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run `go generate ./server/api/kube`:\n%s", diff)
	}
}

const clusterDocumentHead = `# Cluster documents, field by field

A cluster of k3s or RKE2 is a document of ` + "`provisioning.cattle.io/v1`" + `, kind ` + "`Cluster`" + `: the form that Rancher's users have. ` + "`drover apply -f FILE`" + `
takes it, ` + "`drover apply --dry-run -f FILE`" + ` shows what it would change, and what is wrong in it is named by its line. A field that is not on
this page is refused. ` + "[Examples](../../examples/README.md)" + ` are there to be copied; ` + "`kubectl explain clusters.provisioning.cattle.io.spec`" + ` prints the same as
this page, which is generated from the types (` + "`go generate ./server/api/kube`" + `).

All fields are there since 0.1.0. A cluster of Docker hosts is a document of ` + "`management.cattle.io/v3`" + ` ([RKE1 under a server](../how-to/keep-rke1-clusters.md)).

| field of ` + "`metadata`" + ` | |
|---|---|
| ` + "`name`" + ` | the cluster's name, which never changes; lower-case letters, digits and dashes |
| ` + "`namespace`" + ` | where the cluster lives; ` + "`fleet-default`" + ` without it |
| ` + "`labels`, `annotations`" + ` | yours; lists are asked for by labels |
`

// writeFields writes a table for an object and, below it, for each object in it. It returns the fields without a description.
func writeFields(w io.Writer, at string, s *discovery.Schema) []string {
	if len(s.Properties) == 0 {
		return nil
	}
	var silent []string
	fmt.Fprintf(w, "\n## %s\n\n| field | type | | default | example |\n|---|---|---|---|---|\n", at)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		one := s.Properties[name]
		about, fallback, example := parts(one.Description)
		if about == "" {
			silent = append(silent, at+"."+name)
		}
		about = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(about, name+" "), "is "), "are ")
		if slices.Contains(s.Required, name) {
			about += " Required."
		}
		link := "`" + name + "`"
		if below, in := inside(at+"."+name, one); len(in.Properties) > 0 {
			link = fmt.Sprintf("[`%s`](#%s)", name, anchor(below))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", link, typeOf(one), cell(about), code(fallback), code(example))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		below, in := inside(at+"."+name, s.Properties[name])
		silent = append(silent, writeFields(w, below, in)...)
	}
	return silent
}

// inside is the object in a value: the value itself, an item of a list, or a value of a mapping.
func inside(at string, s *discovery.Schema) (string, *discovery.Schema) {
	switch {
	case s.Items != nil:
		return inside(at+"[]", s.Items)
	case s.Values != nil:
		return inside(at+".*", s.Values)
	}
	return at, s
}

// parts takes default and example off a comment, which stand behind it.
func parts(comment string) (about, fallback, example string) {
	about, example, _ = strings.Cut(comment, " Example: ")
	about, fallback, _ = strings.Cut(about, " Default: ")
	return about, fallback, example
}

func typeOf(s *discovery.Schema) string {
	switch {
	case s.Items != nil:
		return "list of " + typeOf(s.Items)
	case s.Values != nil:
		return "mapping of " + typeOf(s.Values)
	case s.Free && s.Type == "object":
		return "mapping"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, heading)
}
