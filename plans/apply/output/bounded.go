// A buffer for output of unknown length: the beginning says what was tried, the end
// says how it went wrong, and the middle can be missed.

package output

import "fmt"

// Bounded keeps the first and the last half of what is written to it, within a limit.
type Bounded struct {
	half int
	head []byte
	tail []byte // up to twice half, so that it is seldom moved
	cut  int64
}

// NewBounded keeps at most limit bytes.
func NewBounded(limit int) *Bounded { return &Bounded{half: max(limit/2, 1)} }

// Write never fails and always takes all of p.
func (b *Bounded) Write(p []byte) (int, error) {
	n := len(p)
	if b.cut == 0 && len(b.tail) == 0 {
		k := min(b.half-len(b.head), len(p))
		b.head = append(b.head, p[:k]...)
		p = p[k:]
	}
	if over := len(p) - b.half; over > 0 {
		b.cut += int64(len(b.tail) + over)
		b.tail = b.tail[:0]
		p = p[over:]
	}
	if len(b.tail)+len(p) > 2*b.half {
		b.trim(b.half - len(p))
	}
	b.tail = append(b.tail, p...)
	return n, nil
}

// Skip notes n bytes of output that were lost here.
func (b *Bounded) Skip(n int64) {
	if n > 0 {
		b.trim(0)
		b.cut += n
	}
}

// Cut is how many bytes were not kept.
func (b *Bounded) Cut() int64 { return b.cut + int64(max(len(b.tail)-b.half, 0)) }

// Bytes is what was kept, with a line in the place of what was not.
func (b *Bounded) Bytes() []byte {
	b.trim(b.half)
	out := append([]byte{}, b.head...)
	if b.cut > 0 {
		out = fmt.Appendf(out, "\n[%d bytes cut]\n", b.cut)
	}
	return append(out, b.tail...)
}

// trim shortens the tail to its last n bytes.
func (b *Bounded) trim(n int) {
	if over := len(b.tail) - n; over > 0 {
		b.cut += int64(over)
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
}
