package traces

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/traces"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// lines are spans as a person would note them, with seconds after noon.
func lines(all []span) (text []string) {
	for _, s := range all {
		line := fmt.Sprintf("%s %v-%v", s.name, s.begin.Sub(noon).Seconds(), s.end.Sub(noon).Seconds())
		if s.failed != "" {
			line += ": " + s.failed
		}
		text = append(append(text, line), lines(s.parts)...)
	}
	return text
}

func TestSpansOfPlans(t *testing.T) {
	const plan = `{"instructions":[{"name":"a"},{"name":"b"}]}`
	report := func(instruction string, since int) string {
		return fmt.Sprintf(`{"plan":%q,"instruction":%q,"since":%q}`, plans.Checksum([]byte(plan)), instruction, noon.Add(time.Duration(since)*time.Second).Format(time.RFC3339))
	}
	data := func(state plans.State, report string) map[string][]byte {
		return map[string][]byte{plans.KeyPlan: []byte(plan), plans.KeyPlanState: []byte(state), plans.KeyHostReport: []byte(report)}
	}
	legacy := data(plans.StateNone, "")
	legacy[plans.KeyAppliedChecksum] = []byte(plans.Checksum([]byte(plan)))
	other := data(plans.StateInProgress, report("a", 2))
	other[plans.KeyPlan] = []byte(`{}`)
	bare := data(plans.StateSucceeded, "")
	for name, c := range map[string]struct {
		before, after map[string][]byte
		unmarked      bool
		want          []string
	}{
		"an instruction after the other":      {before: data(plans.StateInProgress, report("a", 2)), after: data(plans.StateInProgress, report("b", 5)), want: []string{"instruction a 2-5"}},
		"it goes on":                          {before: data(plans.StateInProgress, report("a", 2)), after: data(plans.StateInProgress, report("a", 2))},
		"the last one, and the plan":          {before: data(plans.StateInProgress, report("b", 5)), after: data(plans.StateSucceeded, ""), want: []string{"instruction b 5-10", "plan 1-10"}},
		"a plan that failed":                  {before: data(plans.StateInProgress, ""), after: data(plans.StateFailed, ""), want: []string{"plan 1-10: the plan failed"}},
		"a host whose clock is in the past":   {before: data(plans.StateInProgress, report("a", -9000)), after: data(plans.StateInProgress, report("b", -8000)), want: []string{"instruction a 1-10"}},
		"a host whose clock is in the future": {before: data(plans.StateInProgress, report("a", 9000)), after: data(plans.StateInProgress, report("b", 9001)), want: []string{"instruction a 10-10"}},
		"over already":                        {before: bare, after: data(plans.StateSucceeded, "")},
		"an agent that knows no states":       {before: data(plans.StateNone, ""), after: legacy, want: []string{"plan 1-10"}},
		"a report of another plan":            {before: other, after: data(plans.StateInProgress, "")},
		"a report that cannot be read":        {before: data(plans.StateInProgress, "{"), after: data(plans.StateInProgress, "")},
		"a plan that is in no trace":          {before: data(plans.StateInProgress, report("b", 5)), after: data(plans.StateSucceeded, ""), unmarked: true},
	} {
		after := records.PlanSecret{Data: c.after}
		if !c.unmarked {
			after = traces.Mark(t.Context(), after, noon.Add(time.Second))
		}
		e := store.Event[records.PlanSecret]{Type: store.Put, Key: "fleet-default/custom-1-machine-plan", Value: after, Old: &records.PlanSecret{Data: c.before}}
		if diff := cmp.Diff(c.want, lines(ofSecret(e, noon.Add(10*time.Second)))); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		e.Old = nil
		if got := ofSecret(e, noon); got != nil {
			t.Errorf("%s: of a Secret that is new there is %v", name, got)
		}
	}
}

func TestSpansOfOperations(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	running := operations.Operation{Kind: operations.KindPlan, State: operations.Running, Created: at(1), Tasks: []operations.Task{
		{ID: "one", State: operations.TaskSucceeded, Started: at(2), Ended: at(3)}, {ID: "two", State: operations.TaskFailed, Started: at(3), Ended: at(4), Message: "no\xff " + strings.Repeat("é", maxText)}, {ID: "three"},
	}}
	ended := running
	ended.State, ended.Ended, ended.Reason = operations.Failed, at(5), "one failed"
	got := ofOperation(store.Event[operations.Operation]{Type: store.Put, Value: ended, Old: &running})
	if len(got) != 1 || len(got[0].parts) != 2 || !utf8.ValidString(got[0].parts[1].failed) || len(got[0].parts[1].failed) > maxText {
		t.Fatal(got)
	}
	got[0].parts[1].failed = "cut"
	if diff := cmp.Diff([]string{"operation plan 1-5: one failed", "task one 2-3", "task two 3-4: cut"}, lines(got)); diff != "" {
		t.Error(diff)
	}
	for name, e := range map[string]store.Event[operations.Operation]{
		"it runs": {Type: store.Put, Value: running, Old: &running}, "it had ended": {Type: store.Put, Value: ended, Old: &ended}, "an old one is dropped": {Type: store.Deleted, Value: ended, Old: &running},
	} {
		if got := ofOperation(e); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
