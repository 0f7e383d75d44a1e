package plans

// Text from elsewhere (names, messages and logs of hosts, clusters and people) is made safe to print: a terminal shows it and does
// nothing else by it.

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Instead stands for a character that is not safe, and for a byte that is not UTF-8.
const Instead = '·'

// Safe says that a character is shown, and neither obeyed by a terminal (the control characters of C0 and C1, and DEL) nor able
// to reorder or hide what stands beside it (marks of direction, separators of lines and paragraphs, invisible tags).
func Safe(r rune) bool {
	switch {
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
		return false
	case r == '\u2028', r == '\u2029', r == '\ufeff', r >= 0xE0000 && r <= 0xE007F:
		return false
	}
	return true
}

// SafeText says that all characters of a text are safe, which must be UTF-8.
func SafeText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !Safe(r) })
}

// SafeLine is a text as one line: tabs become spaces, and what is not safe becomes Instead.
func SafeLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !Safe(r):
			return Instead
		}
		return r
	}, s)
}

// maxLine bounds a line of text from outside, in bytes.
const maxLine = 300

// OneLine makes text from outside fit for a log line.
func OneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !Safe(r) }), " ")
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + " …"
	}
	return s
}
