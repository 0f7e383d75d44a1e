package verdict

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "renew docs/troubleshooting.md")

// TestDocument: docs/troubleshooting.md is current; `go generate ./server/planner/verdict` renews it.
func TestDocument(t *testing.T) {
	var got bytes.Buffer
	Document(&got)
	path := filepath.Join("..", "..", "..", "docs", "troubleshooting.md")
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
		t.Errorf("run `go generate ./server/planner/verdict`:\n%s", diff)
	}
}
