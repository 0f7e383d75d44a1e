package catalogue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/docs"
)

// TestPage: the page has nothing but its introduction, its table and its sections in the order of that, in the form in which the catalogue
// reads them.
func TestPage(t *testing.T) {
	text, err := docs.Files.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	intro, _, ok := strings.Cut(string(text), "|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("the page has no table")
	}
	want := intro + "|---|---|---|---|---|\n"
	for _, row := range All() {
		if row.Kind < Failure || row.Kind > Turn {
			t.Errorf("%s has a kind that there is not", row.Code)
			continue
		}
		of, log := "machine", ""
		if row.Cluster {
			of = "cluster"
		}
		if row.Host {
			log = "host"
		}
		want += fmt.Sprintf("| [%s](#%s) | %s | %s | %s | %s |\n", row.Code, row.Code, of, kinds[row.Kind], log, row.Title)
	}
	for _, row := range All() {
		want += fmt.Sprintf("\n## %s\n\n**%s.** %s\n\nWhat to do: %s\n", row.Code, row.Title, row.Explanation, row.Fix)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("-as the catalogue reads it +page\n%s", diff)
	}
}
