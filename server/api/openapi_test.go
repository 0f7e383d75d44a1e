package api

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOpenAPI: docs/openapi.yaml is current; `go generate ./server/api` renews it.
func TestOpenAPI(t *testing.T) {
	if diff := cmp.Diff(described(table(handlers{})), slices.Sorted(maps.Keys(descriptions()))); diff != "" {
		t.Errorf("routes of the table and of the description differ:\n%s", diff)
	}
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "openapi.yaml")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run `go generate ./server/api`:\n%s", diff)
	}
}
