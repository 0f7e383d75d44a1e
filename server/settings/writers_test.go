package settings

import "testing"

// TestEverySettingSaysWhoWritesIt: a line of the table without it would be no decision.
func TestEverySettingSaysWhoWritesIt(t *testing.T) {
	for name, by := range writersOf() {
		if by != administrators && by != managers {
			t.Errorf("setting %s: its line in the table lacks by", name)
		}
	}
}
