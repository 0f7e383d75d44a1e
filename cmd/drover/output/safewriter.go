package output

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/drover-project/drover/plans"
)

// safeWriter writes text to a terminal with plans.Instead for what is not safe. Line breaks and tabs pass, and a carriage return before a
// line break is left out.
type safeWriter struct {
	to    io.Writer
	marks []string
	rest  []byte // the begin of a character, or a carriage return, whose other bytes are still to come
}

// newSafeWriter makes a safeWriter. The marks are the sequences of control characters that pass as they are, when they are written in
// one piece: the colours of the program that writes.
func newSafeWriter(to io.Writer, marks ...string) *safeWriter {
	return &safeWriter{to: to, marks: marks}
}

// Write implements io.Writer. It counts the bytes that were taken, which is all of them unless the terminal refuses.
func (w *safeWriter) Write(p []byte) (int, error) {
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
		case r == '\n', r == '\t', plans.Safe(r):
			safe.Write(text[:size])
		case r == '\r' && text[1] == '\n':
		default:
			safe.WriteRune(plans.Instead)
		}
		text = text[size:]
	}
	if _, err := w.to.Write(safe.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// mark is the length of the mark that a text begins with, 0 for none.
func (w *safeWriter) mark(text []byte) int {
	for _, m := range w.marks {
		if bytes.HasPrefix(text, []byte(m)) {
			return len(m)
		}
	}
	return 0
}
