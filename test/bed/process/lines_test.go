package process

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	many := strings.Repeat("noise\n", keptLines)
	tests := []struct {
		name   string
		writes []string
		found  bool // whether "needle" at the beginning of a line is found at the end
	}{
		{"one line", []string{"needle\n"}, true},
		{"a line in pieces", []string{"nee", "dle", "\n"}, true},
		{"several lines in one piece", []string{"a\nneedle 1\nb\n"}, true},
		{"an unfinished line", []string{"a\nneedle"}, true},
		{"after many", []string{many, "needle\n"}, true},
		{"before too many", []string{"needle\n", many}, false},
		{"within a line without end", []string{strings.Repeat("x", longestLine), "needle"}, true},
		{"never", []string{"a needle\n"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			l := newLines(&log)
			for _, text := range test.writes {
				fmt.Fprint(l, text)
			}
			l.end()
			match, _, changed := l.find(regexp.MustCompile("^needle"), 0)
			if (match != nil) != test.found {
				t.Errorf("found %q, want %v", match, test.found)
			}
			if changed != nil {
				t.Error("more is expected after the end")
			}
			if log.String() != strings.Join(test.writes, "") {
				t.Error("the log is not what was written")
			}
		})
	}
}

// TestFindGoesOn looks at lines as a waiter does: never twice, and also when some were dropped between its looks.
func TestFindGoesOn(t *testing.T) {
	l := newLines(new(bytes.Buffer))
	needle := regexp.MustCompile("^needle")
	fmt.Fprintln(l, "first")
	_, next, changed := l.find(needle, 0)
	if next != 1 {
		t.Errorf("goes on from %d, want 1", next)
	}
	fmt.Fprint(l, strings.Repeat("noise\n", 2*keptLines))
	select {
	case <-changed:
	default:
		t.Error("a waiter is not notified of new lines")
	}
	_, next, _ = l.find(needle, next)
	fmt.Fprintln(l, "needle")
	if match, _, _ := l.find(needle, next); match == nil {
		t.Error("not found")
	}
	if got := strings.Count(l.tail(), "\n") + 1; got != tailLines {
		t.Errorf("the tail has %d lines, want %d", got, tailLines)
	}
}
