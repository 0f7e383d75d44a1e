package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/docs"
	"github.com/drover-project/drover/plans/drop"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
)

// TestExamples: what people copy is taken. Cluster documents are applied with --dry-run and then in earnest, so that Secrets, ConfigMaps and
// clusters of a file are known to fit.
func TestExamples(t *testing.T) {
	l := startLive(t)
	const examples = "../../../examples"
	index, err := os.ReadFile(filepath.Join(examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	applied, read := 0, 0
	err = fs.WalkDir(os.DirFS(examples), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		path := filepath.Join(examples, name)
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(content)
		listed, _, below := strings.Cut(name, "/")
		if !strings.Contains(string(index), "("+listed) {
			t.Errorf("examples/README.md does not lead to %s", name)
		}
		switch {
		case strings.Contains(text, "kind: Kustomization"): // kubectl's; what it names is applied here
			for _, resource := range []string{"north.yaml", "south.yaml"} {
				if !strings.Contains(text, resource) {
					t.Errorf("%s does not name %s", name, resource)
				}
			}
		case strings.Contains(text, "kind: Cluster"):
			if out := l.drover("apply", "-f", path, "--dry-run"); !strings.Contains(out, "created (dry run)") || strings.Contains(out, "warning") {
				t.Errorf("%s: %s", name, out)
			}
			if out := l.drover("apply", "-f", path); !strings.Contains(out, "created") || strings.Contains(out, "warning") {
				t.Errorf("%s: %s", name, out)
			}
			applied++
		case strings.HasPrefix(listed, "directory-") && !below:
			if _, err := directories.Read(content, func(string) (records.Directory, bool) { return records.Directory{}, false }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			read++
		default:
			if _, err := drop.ReadPlanFile(path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			read++
		}
		return nil
	})
	if err != nil || applied < 11 || read < 3 {
		t.Errorf("%d applied, %d read, %v", applied, read, err)
	}
}

// TestDocumentsOfDocumentation: cluster documents on the pages are whole, so that a user can copy them.
func TestDocumentsOfDocumentation(t *testing.T) {
	l := startLive(t)
	found := 0
	err := fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		text, err := docs.Files.ReadFile(name)
		for i, block := range strings.Split(string(text), "\n```") {
			document, isYAML := strings.CutPrefix(block, "yaml\n")
			if !isYAML || !strings.Contains(document, "kind: Cluster\n") {
				continue
			}
			found++
			path := filepath.Join(t.TempDir(), fmt.Sprint(i, ".yaml"))
			if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
				return err
			}
			if out := l.drover("apply", "-f", path, "--dry-run"); !strings.Contains(out, "created (dry run)") || strings.Contains(out, "warning") {
				t.Errorf("%s: %s", name, out)
			}
		}
		return err
	})
	if err != nil || found < 2 {
		t.Errorf("%d documents, %v", found, err)
	}
}
