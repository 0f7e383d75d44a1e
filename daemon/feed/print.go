// Records as lines for people, as the journal has them.

package feed

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Printer writes records as lines: "install[stdout]: text".
type Printer struct {
	w    io.Writer
	part map[string][]byte // of incomplete lines, by stream
	name string
}

// NewPrinter makes a printer.
func NewPrinter(w io.Writer) *Printer { return &Printer{w: w, part: map[string][]byte{}} }

// Print writes what is complete of a record.
func (p *Printer) Print(r Record) {
	if r.Kind != Output {
		p.Flush()
	}
	p.name = r.Name
	switch r.Kind {
	case Began:
		p.line("instruction %s of plan %s begins, try %d", r.Name, r.Plan[:min(len(r.Plan), 12)], max(r.Attempt, 1))
	case Progress:
		p.line("%s: %s", r.Name, r.Text)
	case Gone:
		p.line("%s: %d bytes of output are not kept", r.Name, r.Bytes)
	case Ended:
		if r.ExitCode == 0 && r.Text == "" {
			p.line("instruction %s ended well", r.Name)
			return
		}
		p.line("instruction %s FAILED with exit code %d: %s", r.Name, r.ExitCode, r.Text)
	case Output:
		p.output(r)
	}
}

func (p *Printer) output(r Record) {
	data := r.Data
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		part := append(p.part[r.Stream], line...)
		if !whole && len(part) < maxPiece {
			p.part[r.Stream] = part
			return
		}
		p.line("%s[%s]: %s", r.Name, r.Stream, part)
		p.part[r.Stream] = part[:0]
		if !whole {
			return
		}
		data = rest
	}
}

// Flush writes incomplete lines.
func (p *Printer) Flush() {
	for _, stream := range []string{"stdout", "stderr"} {
		if part := p.part[stream]; len(part) > 0 {
			p.line("%s[%s]: %s", p.name, stream, part)
			delete(p.part, stream)
		}
	}
}

// line writes one line that a terminal shows and does not obey.
func (p *Printer) line(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return '·'
		}
		return r
	}, fmt.Sprintf(format, args...))
	fmt.Fprintln(p.w, strings.TrimRight(text, "·")) // programs that draw end their lines with a carriage return
}
