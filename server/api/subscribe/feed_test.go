package subscribe

import (
	"testing"

	"github.com/drover-project/drover/server/auth"
)

// TestWhoTheyWereBefore: changes are shown beside what the caller might do before them, those of one transaction that come in two batches
// beside what they might do before the first.
func TestWhoTheyWereBefore(t *testing.T) {
	as := func(name string) auth.Identity { return auth.Identity{UserID: "u-ann", Username: name} }
	who, before, s := as("at first"), auth.Identity{}, &Session{}
	remember(s, Viewer{Who: &who, Before: &before})
	for _, step := range []struct {
		now         string
		first, last int64
		before      string
	}{{"then", 5, 6, "at first"}, {"later", 6, 6, "at first"}, {"at last", 7, 9, "later"}, {"at last", 10, 10, "at last"}} {
		who = as(step.now)
		if s.Batch(step.first, false); before.Username != step.before {
			t.Errorf("changes from %d on are shown beside %q, want %q", step.first, before.Username, step.before)
		}
		s.Batch(step.last, true)
	}
}
