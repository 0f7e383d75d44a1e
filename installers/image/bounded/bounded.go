// Package bounded reads what others wrote: counted, ended when it is no longer wanted,
// checked against the digest and size that were promised, and decompressed with bounded memory.
package bounded

import (
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

// Zstd decompresses with at most 128 MiB of memory. A stream that needs more ends with an error of the decoder.
func Zstd(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderMaxWindow(128<<20))
}

// Counter counts what is read, and ends when it is no longer wanted.
type Counter struct {
	Reader io.Reader
	N      int64 // bytes so far
	// Stopped says why reading is to end; nil goes on.
	Stopped func() error
}

// Read is of io.Reader.
func (c *Counter) Read(p []byte) (int, error) {
	if err := c.Stopped(); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(p)
	c.N += int64(n)
	if stopped := c.Stopped(); stopped != nil {
		err = stopped // what the reader says is only the consequence
	}
	return n, err
}

// Checked compares stored bytes with the digest and size that were promised.
type Checked struct {
	r    io.Reader
	hash hash.Hash // nil when no digest is known
	want v1.Hash
	size int64
	n    int64
}

// NewChecked reads r; the zero hash and a size of -1 are not checked.
func NewChecked(r io.Reader, want v1.Hash, size int64) *Checked {
	c := &Checked{r: r, want: want, size: size}
	if h, err := v1.Hasher(want.Algorithm); err == nil {
		c.hash = h
	}
	return c
}

// Read is of io.Reader.
func (c *Checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.hash != nil {
		c.hash.Write(p[:n])
	}
	if c.size >= 0 && c.n > c.size {
		return n, fmt.Errorf("the layer %s has more than the %d bytes that its manifest says", c.want, c.size)
	}
	return n, err
}

// Finish says, after everything was read, whether it was what was promised. The error is io.ErrUnexpectedEOF where less came, or says that the digest
// is another.
func (c *Checked) Finish() error {
	switch {
	case c.size >= 0 && c.n != c.size:
		return fmt.Errorf("the layer %s ended after %d of %d bytes: %w", c.want, c.n, c.size, io.ErrUnexpectedEOF)
	case c.hash != nil && fmt.Sprintf("%x", c.hash.Sum(nil)) != c.want.Hex:
		return fmt.Errorf("what came as the layer %s has another digest", c.want)
	}
	return nil
}
