package apply_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

func TestSources(t *testing.T) {
	dir := t.TempDir()
	e, err := apply.New(apply.Options{WorkDir: filepath.Join(dir, "work"), LedgerDir: filepath.Join(dir, "ledgers"), Supervisor: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	sources := []string{"deep/b.yaml", "remote", "x.plan"}
	for _, source := range []string{"x.plan", "remote", "deep/b.yaml"} {
		d := apply.Delivery{Source: source, ID: "1", Checksum: "c", Plan: &plans.Plan{}}
		if r, err := e.Apply(t.Context(), d); err != nil || !r.Succeeded {
			t.Fatal(r, err)
		}
	}
	for name, content := range map[string]string{"damaged.json": "{", "copy.json": `{"schema":1,"source":"copy-of","run":"x"}`, "note.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, "ledgers", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := e.Sources()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sources, got); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if err := e.Forget("x.plan"); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Sources(); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
