package steps

import (
	"testing"

	"github.com/drover-project/drover/server/operations"
)

// TestEachKindInStepsHasItsValue, and no other kind has one.
func TestEachKindInStepsHasItsValue(t *testing.T) {
	for _, k := range operations.Kinds() {
		of, known := kinds[k]
		if known != operations.Stepped(k) {
			t.Errorf("%s is done in steps: %v, and has a value of them: %v", k, operations.Stepped(k), known)
		}
		if known && (of.plan == nil || Title(k, "fleet-default/harbour", Request{Agent: &Agent{}}) == "") {
			t.Errorf("%s has no steps or no title", k)
		}
	}
}
