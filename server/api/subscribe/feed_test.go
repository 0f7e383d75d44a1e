package subscribe

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/roles"
)

// TestWhoTheyWereBefore: changes are shown beside what the caller might do before them, those of one transaction that come in two batches
// beside what they might do before the first. What the caller lost is asked of the state, which may be ahead of the changes: until they
// have come to where it was, the rights of before count.
func TestWhoTheyWereBefore(t *testing.T) {
	in := func(clusters ...string) auth.Identity {
		g := &roles.Grants{Clusters: map[string][]roles.Rule{}}
		for _, id := range clusters {
			g.Clusters[id] = []roles.Rule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get"}}}
		}
		return auth.Identity{UserID: "u-ann", Grants: g}
	}
	var state int64
	rights := &Rights{newest: func() int64 { return state }, known: []identityAt{{Identity: in("a")}}}
	for _, step := range []struct {
		name        string
		first, last int64
		collection  string
		state       int64
		now         auth.Identity
		before      string
		changed     bool
	}{
		{"nothing of rights", 4, 4, Clusters, 4, in("a"), "a", false},
		{"rights that change with them", 5, 6, Bindings, 6, in("b"), "a", true},
		{"the rest of that transaction", 6, 6, Bindings, 6, in("b"), "a b", false},
		{"what comes next", 7, 7, Clusters, 7, in("b"), "b", false},
		{"rights that the state has first", 8, 8, Bindings, 11, in("c"), "b", true},
		{"what went before they changed", 9, 10, Bindings, 12, in("c"), "b c", false},
		{"rights that change again meanwhile", 10, 11, RoleTemplates, 14, in("d"), "b c", true},
		{"those which the second change is ahead of", 12, 14, Users, 14, in("d"), "c d", false},
		{"when all is shown", 15, 15, GlobalRoles, 15, in("d"), "d", false},
	} {
		state = step.state
		before := rights.Before([]Change{{Revision: step.first}, {Revision: step.last}})
		if got := strings.Join(slices.Sorted(maps.Keys(before.Grants.Clusters)), " "); got != step.before {
			t.Errorf("%s: shown beside rights in %q, want %q", step.name, got, step.before)
		}
		if _, changed := rights.Changed(step.now, Change{Revision: step.last, Collection: step.collection}); changed != step.changed {
			t.Errorf("%s: rights changed: %v", step.name, changed)
		}
	}
}
