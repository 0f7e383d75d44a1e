package cli

import (
	"bytes"
	"testing"
)

// TestALineBreakInACellStaysInItsRow: an error of a host may have several lines.
func TestALineBreakInACellStaysInItsRow(t *testing.T) {
	var out bytes.Buffer
	a := &app{}
	a.Out = &out
	err := a.show(nil, func(t *table) {
		t.row("NAME", "CAUSE", "SINCE")
		t.row("pier-1", "cannot start:\nexit status 1\n", "4s")
		t.row("pier-2", "a\tb\r\nc", "5s")
	})
	const want = "NAME     CAUSE                         SINCE\npier-1   cannot start: exit status 1   4s\npier-2   a b c                         5s\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}
