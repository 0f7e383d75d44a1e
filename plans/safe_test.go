package plans

import (
	"testing"
)

// TestSafeLine: what a terminal would obey, or what would show a text as another one, is not in the line.
func TestSafeLine(t *testing.T) {
	for in, want := range map[string]string{
		"n1": "n1", "größer 中文 👩‍🔧": "größer 中文 👩‍🔧", "a\tb": "a b",
		"\x1b[31mred\x1b[0m": "·[31mred·[0m", "\x1b]0;title\x07": "·]0;title·", "\u009b31m": "·31m", "a\nb\r": "a·b·", "\x7f": "·",
		"n1\u202etxt.exe": "n1·txt.exe", "\u2066a\u2069": "·a·", "\u200e\u200f\u061c": "···", "a\u2028b": "a·b", "\xff\xfe": "··", "\U000E0041": "·", "\ufeffa": "·a",
	} {
		if got := SafeLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if safe := in == want; SafeText(in) != safe {
			t.Errorf("%q: safe is %t", in, !safe)
		}
	}
}
