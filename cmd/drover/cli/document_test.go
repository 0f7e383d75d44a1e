package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "write generated files anew")

// TestDocument: docs/reference/cli.md is current; `go generate ./cmd/drover/cli` renews it.
func TestDocument(t *testing.T) {
	var got strings.Builder
	Document(&got)
	path := filepath.Join("..", "..", "..", "docs", "reference", "cli.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run `go generate ./cmd/drover/cli`:\n%s", diff)
	}
}
