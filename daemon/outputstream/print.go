// Records as lines for people, as the journal has them.

package outputstream

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
)

// Printer writes records as lines: "install[stdout]: text".
type Printer struct {
	w     io.Writer
	parts []*part // of incomplete lines
}

// part is the beginning of a line. Tries and runs go on beside each other.
type part struct {
	key          Key
	name, stream string
	text         []byte
}

// NewPrinter makes a printer.
func NewPrinter(w io.Writer) *Printer { return &Printer{w: w} }

// Print writes what is complete of a record.
func (p *Printer) Print(r Record) {
	if r.Kind != Output {
		p.flush(func(one *part) bool { return one.key == r.Key })
	}
	what := "instruction"
	if r.Periodic() {
		what = "periodic instruction"
	}
	switch r.Kind {
	case Began:
		p.line("%s %s of plan %s begins, try %d", what, r.Name, r.Plan[:min(len(r.Plan), 12)], max(r.Attempt, 1))
	case Progress:
		p.line("%s: %s", r.Name, r.Text)
	case Gone:
		p.line("%s: %d bytes of output are not kept", r.Name, r.Bytes)
	case Ended:
		if r.ExitCode == 0 && r.Text == "" {
			p.line("%s %s ended well", what, r.Name)
			return
		}
		p.line("%s %s FAILED with exit code %d: %s", what, r.Name, r.ExitCode, r.Text)
	case Output:
		p.output(r)
	}
}

func (p *Printer) output(r Record) {
	one := p.part(r)
	for data := r.Data; ; {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		one.text = append(one.text, line...)
		if !whole && len(one.text) < maxPiece {
			return
		}
		p.line("%s[%s]: %s", r.Name, r.Stream, one.text)
		one.text = one.text[:0]
		if !whole {
			return
		}
		data = rest
	}
}

// part finds the incomplete line that a record goes on with.
func (p *Printer) part(r Record) *part {
	for _, one := range p.parts {
		if one.key == r.Key && one.stream == r.Stream {
			return one
		}
	}
	one := &part{key: r.Key, name: r.Name, stream: r.Stream}
	p.parts = append(p.parts, one)
	return one
}

// Flush writes incomplete lines.
func (p *Printer) Flush() { p.flush(func(*part) bool { return true }) }

func (p *Printer) flush(which func(*part) bool) {
	p.parts = slices.DeleteFunc(p.parts, func(one *part) bool {
		if !which(one) {
			return false
		}
		if len(one.text) > 0 {
			p.line("%s[%s]: %s", one.name, one.stream, one.text)
		}
		return true
	})
}

// line writes one line that a terminal shows and does not obey.
func (p *Printer) line(format string, args ...any) {
	text := plans.SafeLine(fmt.Sprintf(format, args...))
	fmt.Fprintln(p.w, strings.TrimRight(text, "·")) // programs that draw end their lines with a carriage return
}
