package catalogue

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "renew docs/reference/causes.md")

// TestDocument: docs/reference/causes.md is current; `go generate ./server/decide/catalogue` renews it.
func TestDocument(t *testing.T) {
	var got bytes.Buffer
	Document(&got)
	path := filepath.Join("..", "..", "..", "docs", "reference", "causes.md")
	if *rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run `go generate ./server/decide/catalogue`:\n%s", diff)
	}
}

//go:generate go test -run TestDocument -update .

// Document writes the catalogue in Markdown. The heading of each row is its code, and so is its anchor.
func Document(w io.Writer) {
	fmt.Fprint(w, "# Causes, and what to do\n\n"+
		"What machines and clusters wait for or fail by, by the code that `drover why NAME` shows. Generated from the\n"+
		"catalogue in `server/decide/catalogue` by `go generate ./server/decide/catalogue`.\n\n"+
		"`drover why` lists causes first cause first: failures, what is lost, what is being done, and then what waits for\n"+
		"others. Programs compare codes, which stay; the words may change.\n\n"+
		"| code | of | meaning |\n|---|---|---|\n")
	for _, row := range catalogue {
		fmt.Fprintf(w, "| [%s](#%s) | %s | %s |\n", row.Code, row.Code, row.subject(), row.Title)
	}
	for _, row := range catalogue {
		fmt.Fprintf(w, "\n## %s\n\n**%s.** %s\n\nWhat to do: %s\n", row.Code, row.Title, row.Explanation, row.Fix)
	}
}

func (r Row) subject() string {
	if r.Cluster {
		return "cluster"
	}
	return "machine"
}
