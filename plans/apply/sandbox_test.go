package apply_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// TestEachRunHasADirectoryOfItsOwn, also of plans that come within one tick of the clock,
// and of one-time and periodic instructions with the same number.
func TestEachRunHasADirectoryOfItsOwn(t *testing.T) {
	h := newHost(t)
	h.options.Now = func() time.Time { return noon }
	e := h.engine()
	note := "pwd >> " + h.path("where")
	p := plans.Plan{
		Instructions:         []plans.OneTimeInstruction{shell("a", note)},
		PeriodicInstructions: []plans.PeriodicInstruction{periodic("a", note)},
	}
	for _, source := range []string{"one", "two", "three", "four"} {
		d := delivery(t, p, of(source, "uid-1"))
		if r, err := e.Apply(t.Context(), d); err != nil || !r.Succeeded {
			t.Fatal(r, err)
		}
		e.Periodic(t.Context(), standing(d.Plan), nil, true)
	}
	seen := map[string]bool{}
	for dir := range strings.Lines(h.content(h.path("where"))) {
		if seen[dir] {
			t.Errorf("%s was used twice", dir)
		}
		seen[dir] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d directories: %v", len(seen), seen)
	}
}

// TestAnImageStaysInItsSandbox whatever an instruction before put into its place.
func TestAnImageStaysInItsSandbox(t *testing.T) {
	h := newHost(t)
	if err := os.Mkdir(h.path("outside"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.options.Images = stager(func(_ context.Context, _, dir string) error {
		return os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\npwd -P\n"), 0o755)
	})
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{
		shell("trap", `ln -s `+h.path("outside")+` "${CATTLE_AGENT_EXECUTION_PWD%_0}_1"`),
		{Instruction: plans.Instruction{Name: "staged", Image: "i:1"}, SaveOutput: true},
	}}
	r := h.apply(p)
	if !r.Succeeded || !strings.HasPrefix(string(r.Outputs["staged"]), h.path("work")) {
		t.Errorf("%+v", r)
	}
	if entries, err := os.ReadDir(h.path("outside")); err != nil || len(entries) != 0 {
		t.Errorf("written outside: %v %v", entries, err)
	}
}
