// Package printable makes text from elsewhere (names, messages and logs of hosts, clusters and people) safe to print: a
// terminal shows it and does nothing else by it.
package printable

import (
	"bytes"
	"io"
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

// Text says that all characters of a text are safe, which must be UTF-8.
func Text(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !Safe(r) })
}

// Line is a text as one line: tabs become spaces, and what is not safe becomes Instead.
func Line(s string) string {
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

// Writer writes text to a terminal with Instead for what is not safe. Line breaks and tabs pass, and a carriage return before a
// line break is left out.
type Writer struct {
	to    io.Writer
	marks []string
	rest  []byte // the begin of a character, or a carriage return, whose other bytes are still to come
}

// NewWriter makes a Writer. The marks are the sequences of control characters that pass as they are, when they are written in
// one piece: the colours of the program that writes.
func NewWriter(to io.Writer, marks ...string) *Writer { return &Writer{to: to, marks: marks} }

// Write implements io.Writer. It counts the bytes that were taken, which is all of them unless the terminal refuses.
func (w *Writer) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	var safe bytes.Buffer
	for w.rest = nil; len(text) > 0; {
		if mark := w.mark(text); mark > 0 {
			safe.Write(text[:mark])
			text = text[mark:]
			continue
		}
		if !utf8.FullRune(text) || len(text) == 1 && text[0] == '\r' {
			w.rest = bytes.Clone(text)
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n', r == '\t', Safe(r):
			safe.Write(text[:size])
		case r == '\r' && text[1] == '\n':
		default:
			safe.WriteRune(Instead)
		}
		text = text[size:]
	}
	if _, err := w.to.Write(safe.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// mark is the length of the mark that a text begins with, 0 for none.
func (w *Writer) mark(text []byte) int {
	for _, m := range w.marks {
		if bytes.HasPrefix(text, []byte(m)) {
			return len(m)
		}
	}
	return 0
}
