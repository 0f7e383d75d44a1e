package clusterspec

import (
	"testing"

	"github.com/drover-project/drover/installers/versions"
)

// TestNumbersAndMapsOfTheData: what the data call a number or a mapping is taken as one, and nothing else is.
func TestNumbersAndMapsOfTheData(t *testing.T) {
	for _, tc := range []struct {
		kind  versions.ArgType
		value any
		want  string
	}{
		{"int", int64(7), ""}, {"int", "7", "is 7 where a whole number belongs"}, {"int", 7.5, "is 7.5 where a whole number belongs"},
		{"map", map[string]any{"a": int64(1)}, ""}, {"map", "a", "is a where a mapping belongs"},
		{"string", int64(7), ""}, {"string", true, ""}, {"string", 1.5, ""}, {"string", []any{"a"}, "is a list or a mapping where text belongs"},
		{"array", []any{int64(1)}, "item 0 is 1 where text belongs"},
	} {
		if got := argFault(versions.Arg{Type: tc.kind}, tc.value); got != tc.want {
			t.Errorf("%s of %v: %q, want %q", tc.kind, tc.value, got, tc.want)
		}
	}
}
