// Buffers of the sizes that frames have, so that a small frame does not hold a large one.

package mux

import (
	"math/bits"
	"sync"
)

const (
	smallestBuffer = 10 // as a power of two, in bytes
	largestBuffer  = 16
)

// Buffers are used again by all sessions that share them.
type Buffers struct {
	pools [largestBuffer - smallestBuffer + 1]sync.Pool
}

// NewBuffers makes an empty stock.
func NewBuffers() *Buffers { return &Buffers{} }

// chunk is data with room for the headers of its frame in front.
type chunk struct {
	buf  []byte
	r, w int // what is not read yet
}

func (c *chunk) unread() []byte { return c.buf[c.r:c.w] }
func (c *chunk) room() []byte   { return c.buf[c.w:] }

// get has room for so many bytes, and for less than twice as many.
func (b *Buffers) get(size int) *chunk {
	power := max(bits.Len(uint(size-1)), smallestBuffer)
	c, _ := b.pools[power-smallestBuffer].Get().(*chunk)
	if c == nil {
		c = &chunk{buf: make([]byte, headRoom+1<<power)}
	}
	c.r, c.w = headRoom, headRoom
	return c
}

func (b *Buffers) put(c *chunk) {
	power := bits.Len(uint(len(c.buf)-headRoom)) - 1
	b.pools[power-smallestBuffer].Put(c)
}
