package usageerr

import "testing"

func TestHint(t *testing.T) {
	few := []string{"harbour", "wharf", "pier"}
	many := []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "production"}
	for _, test := range []struct {
		name  string
		known []string
		want  string
	}{
		{"harbor", few, "did you mean harbour?"},
		{"HARBOUR", few, "did you mean harbour?"},
		{"hrabour", few, "did you mean harbour?"},
		{"peir", few, "did you mean pier?"},
		{"harb", few, "did you mean harbour?"},
		{"a", many, "did you mean a1 or a2 or a3?"},
		{"prod", many, "did you mean production?"},
		{"staging", few, "there are: harbour, wharf, pier"},
		{"staging", many, "`drover clusters ls` shows the 9 there are"},
		{"x", nil, ""},
		{"", few, "there are: harbour, wharf, pier"},
		{"wharf", []string{"wharf", "wharf"}, "did you mean wharf?"},
	} {
		if got := Hint(test.name, test.known, "drover clusters ls"); got != test.want {
			t.Errorf("%q: %s, not %s", test.name, got, test.want)
		}
	}
}
