// What a line prints, on its way to its reader.

package kubectl

import "io"

// plain is text without what a terminal would obey: sequences that colour, move or rename, and all control characters but
// tabs and ends of lines. What is printed can come from any pod that has a log.
type plain struct {
	to   io.Writer
	left int64
	// over is called when there is more than left, or no reader is left.
	over  func(why error)
	state state
}

// state is where in a sequence the text is.
type state int

const (
	text state = iota
	// escape is behind ESC, control in a sequence that ends in a letter, named in one that ends in BEL or ESC \.
	escape
	control
	named
	namedEscape
	// twoBytes is behind the first byte of U+0080 to U+00BF, half of which are control characters, too.
	twoBytes
)

// Write implements io.Writer.
func (p *plain) Write(b []byte) (int, error) {
	kept := make([]byte, 0, len(b)+1)
	for _, one := range b {
		kept = p.next(kept, one)
	}
	over := int64(len(kept)) > p.left
	if over {
		kept = kept[:p.left]
	}
	p.left -= int64(len(kept))
	if _, err := p.to.Write(kept); err != nil {
		p.over(err)
		return 0, err
	}
	if over {
		p.over(errOutput)
		return 0, errOutput
	}
	return len(b), nil
}

// next adds what is to be seen of one more byte.
func (p *plain) next(kept []byte, b byte) []byte {
	const esc, bell = 0x1b, 0x07
	now := p.state
	p.state = text
	switch {
	case now == twoBytes && b >= 0x80 && b < 0xa0:
		return kept
	case now == twoBytes:
		return p.next(append(kept, 0xc2), b)
	case now == named && b == esc:
		p.state = namedEscape
	case now == named && b != bell, now == namedEscape && b != '\\' && b != esc:
		p.state = named
	case now == named || now == namedEscape && b == '\\':
	case b == esc:
		p.state = escape
	case now == escape && b == '[', now == control && b >= 0x20 && b < 0x40:
		p.state = control
	case now == escape && (b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'):
		p.state = named
	case now == escape && b >= 0x20 && b < 0x30:
		p.state = escape // one of more characters
	case now == escape && b < 0x7f && b >= 0x30, now == control && b >= 0x40 && b < 0x7f:
	case b == 0xc2:
		p.state = twoBytes
	case b >= ' ' && b != 0x7f || b == '\n' || b == '\t':
		return append(kept, b)
	}
	return kept
}
