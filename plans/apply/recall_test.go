package apply_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// TestRecall: the next life reports how plans ended as the life before did.
func TestRecall(t *testing.T) {
	h := newHost(t)
	now := noon
	h.options.Now = func() time.Time { return now }
	talk := shell("talk", "echo hello; sleep 0.3; echo oh >&2")
	for _, d := range []struct {
		source string
		in     []plans.OneTimeInstruction
	}{
		{"local", []plans.OneTimeInstruction{shell("quiet", "exit 1")}},
		{"remote", []plans.OneTimeInstruction{talk, shell("breaks", "echo why; exit 3"), shell("never", "")}},
	} {
		h.apply(plans.Plan{Instructions: d.in}, func(to *apply.Delivery) { to.Source = d.source })
		now = now.Add(time.Hour)
	}
	var seen observer
	if err := h.engine().Recall(seen.observe); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`apply-ended -1  attempt=0 code=1 "instruction quiet: exit code 1" [] succeeded=false`,
		`instruction-attached 0 talk attempt=1 code=0 "" []`,
		"output 0 stdout reported=true at 0: hello\noh\n",
		`instruction-ended 0 talk attempt=1 code=0 "" []`,
		`instruction-attached 1 breaks attempt=1 code=0 "" []`,
		"output 1 stdout reported=true at 0: why\n",
		`instruction-ended 1 breaks attempt=1 code=3 "exit code 3" []`,
		`apply-ended -1  attempt=0 code=3 "instruction breaks: exit code 3" [] succeeded=false`,
	}
	if diff := cmp.Diff(want, seen.reported()); diff != "" {
		t.Error(diff)
	}
	last := seen.all()[len(seen.all())-1]
	if f := last.Result.Failure; !last.Time.Equal(noon.Add(time.Hour)) || f.Instruction != "breaks" || string(f.Output) != "why\n" || f.ExitCode != 3 {
		t.Errorf("%+v of %+v", f, last)
	}
}

// TestRecallWithoutOutputs: where the work directory was removed, it is still known how it ended, and
// a ledger that cannot be read hides no other.
func TestRecallWithoutOutputs(t *testing.T) {
	h := newHost(t)
	h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{shell("talk", "echo hello; exit 3")}})
	h.remove("work")
	e := h.engine()
	if err := os.WriteFile(filepath.Join(h.options.LedgerDir, "damaged.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen observer
	if err := e.Recall(seen.observe); err == nil || !strings.Contains(err.Error(), "damaged.json") {
		t.Errorf("err = %v", err)
	}
	want := []string{
		`instruction-attached 0 talk attempt=1 code=0 "" []`,
		`instruction-ended 0 talk attempt=1 code=3 "exit code 3" []`,
		`apply-ended -1  attempt=0 code=3 "instruction talk: exit code 3" [] succeeded=false`,
	}
	if diff := cmp.Diff(want, seen.reported()); diff != "" {
		t.Error(diff)
	}
}
