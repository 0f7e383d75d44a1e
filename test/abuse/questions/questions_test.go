package questions

import (
	"regexp"
	"strings"
	"testing"
)

// TestEveryQuestionHasALiar: what the product asks of hosts and clusters is in the table, each question with what a liar is
// asked there or why it is not.
func TestEveryQuestionHasALiar(t *testing.T) {
	found, err := Find("../../..")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]Question{}
	for _, q := range Questions {
		if _, twice := listed[q.Place]; twice {
			t.Errorf("%s is in the table twice", q.Place)
		}
		listed[q.Place] = q
		if (len(q.Asked) == 0) == (q.Why == "") {
			t.Errorf("%s needs what a liar is asked there, or why it is not", q.Place)
		}
		for _, asked := range q.Asked {
			if _, err := regexp.Compile(asked); err != nil {
				t.Errorf("%s: %v", q.Place, err)
			}
		}
		if found[q.Place] == nil {
			t.Errorf("%s asks nothing any more: take it out of Questions in test/abuse/questions/table.go", q.Place)
		}
	}
	for place, calls := range found {
		switch q, ok := listed[place]; {
		case !ok:
			t.Errorf("%s asks hosts or clusters (%s) and no liar knows it: its answer is hostile, so bound it, and add a row to "+
				"Questions in test/abuse/questions/table.go with what test/abuse is asked there", place, strings.Join(calls, " "))
		case q.Calls != strings.Join(calls, " "):
			t.Errorf("%s asks %q now, and the table says %q: bound the new answer and change the row in test/abuse/questions/table.go",
				place, strings.Join(calls, " "), q.Calls)
		}
	}
}

func TestSeen(t *testing.T) {
	if all := Seen(Cluster); len(all) < 10 {
		t.Errorf("liars are asked %v alone", all)
	}
}
