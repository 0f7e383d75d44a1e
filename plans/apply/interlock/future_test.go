package interlock_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply/interlock"
)

// TestAMarkOfTheFuture was dated by a clock that was wrong. It holds the agent up for as long
// as any other, and not until its time has come.
func TestAMarkOfTheFuture(t *testing.T) {
	dir := t.TempDir()
	pending := filepath.Join(dir, "restart-pending")
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	k := interlock.New(dir, func() time.Time { return now })
	if err := os.WriteFile(pending, []byte("Sun Nov 21 12:00:00 UTC 2027\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {interlock.Patience - time.Second, false}, {interlock.Patience + time.Second, true}} {
		now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(step.after)
		if ok, err := k.Enter(); ok != step.want || err != nil {
			t.Errorf("let in after %s: %v, %v", step.after, ok, err)
		}
	}
	if err := k.Leave(); err != nil {
		t.Error(err)
	}
}
