package plans_test

import (
	"testing"

	"github.com/drover-project/drover/plans"
)

// TestTransitions walks every pair of states, known or not, for both parties.
func TestTransitions(t *testing.T) {
	type move struct {
		by       plans.Actor
		from, to plans.State
	}
	allowed := map[move]bool{
		{plans.Agent, "pending", "in-progress"}:     true,
		{plans.Agent, "in-progress", "in-progress"}: true,
		{plans.Agent, "in-progress", "succeeded"}:   true,
		{plans.Agent, "in-progress", "failed"}:      true,
	}
	states := append(plans.States(), "of a newer server")
	for _, from := range states {
		allowed[move{plans.Server, from, "pending"}] = true
		allowed[move{plans.Server, from, "cancelled"}] = true
	}
	walked := 0
	for _, by := range []plans.Actor{plans.Server, plans.Agent, "somebody"} {
		for _, from := range states {
			for _, to := range states {
				walked++
				if got := plans.MayMove(by, from, to); got != allowed[move{by, from, to}] && by != "somebody" {
					t.Errorf("%s moves %q to %q: %v", by, from, to, got)
				}
			}
		}
	}
	if walked != 3*7*7 {
		t.Errorf("walked %d moves", walked)
	}
}

func TestStates(t *testing.T) {
	type is struct{ terminal, wanted bool }
	want := map[plans.State]is{
		"": {}, "pending": {wanted: true}, "in-progress": {wanted: true},
		"succeeded": {terminal: true}, "failed": {terminal: true}, "cancelled": {terminal: true}, "unknown": {},
	}
	for state, is := range want {
		if state.Terminal() != is.terminal || state.Wanted() != is.wanted {
			t.Errorf("%q: terminal %v, wanted %v", state, state.Terminal(), state.Wanted())
		}
	}
	if list := plans.States(); len(list) != 6 {
		t.Errorf("%v", list)
	}
	plans.States()[0] = "changed"
	if plans.States()[0] != plans.StateNone {
		t.Error("a caller changed the list")
	}
}
