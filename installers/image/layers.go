// From the stored bytes of layers to entries: counted, checked against their digest,
// decompressed, and only so long as it stays within bounds.

package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxLayers bounds an image; container engines allow 127.
	maxLayers = 1000
	// A layer may unpack to freeExpansion bytes however small it is stored, beyond that to
	// maxRatio times its stored size. Real layers stay below 20.
	freeExpansion = 64 << 20
	maxRatio      = 100
)

// picture is an image that was found: what is needed to unpack it.
type picture struct {
	from   string // an archive's path or a registry's URL
	layers []stored
	keep   bool // its layers belong into the cache
}

// stored is one layer as it is kept somewhere.
type stored struct {
	digest v1.Hash // of the stored bytes; the zero hash where nobody tells it
	diffID v1.Hash // of the unpacked tar; the zero hash where nobody tells it
	size   int64   // of the stored bytes; -1 where nobody tells it
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// unpack flattens the image into dir.
func (s *Stager) unpack(ctx context.Context, p *picture, dir string, told *teller) error {
	if len(p.layers) > maxLayers {
		return refused("the image has %d layers, more than %d", len(p.layers), maxLayers)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &unpackError{err}
	}
	defer root.Close()
	u := &unpacker{root: root, bytes: orDefault(s.MaxBytes, defaultMaxBytes), entries: orDefault(s.MaxEntries, defaultMaxEntries)}
	u.maxBytes, u.maxEntries, u.content = u.bytes, u.entries, u.bytes
	for i, l := range p.layers {
		if l.size > u.maxBytes {
			return refused("layer %d of the image has %d bytes; an image may have %d", i+1, l.size, u.maxBytes)
		}
		at := &layerAt{teller: told, number: i + 1, of: len(p.layers), size: l.size}
		if err := s.layer(ctx, u, l, p.keep, at); err != nil {
			return err
		}
	}
	if u.skipped > 0 {
		s.log().Warn("devices, pipes and the like of the image were left out", "image", told.image, "entries", u.skipped, "first", u.firstSkipped)
	}
	return nil
}

// layer unpacks one layer, by way of the cache where there is one.
func (s *Stager) layer(ctx context.Context, u *unpacker, l stored, keep bool, at *layerAt) error {
	if keep && s.cacheable(l) {
		f, err := s.cached(ctx, l, at)
		if err != nil {
			return err
		}
		if f != nil {
			defer f.Close()
			at.say("unpacking layer %d of %d", at.number, at.of)
			return u.layer(ctx, f, v1.Hash{})
		}
		at.done = 0
	}
	content, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer content.Close()
	checked := newChecked(io.TeeReader(content, at), l.digest, l.size)
	if err := u.layer(ctx, checked, l.diffID); err != nil {
		return err
	}
	if err := checked.finish(); err != nil {
		return err
	}
	at.ended("unpacked")
	return nil
}

// layer unpacks the stored bytes of one layer and reads them to the end. diffID is the
// digest that its tar has to have; the zero hash is any.
func (u *unpacker) layer(ctx context.Context, r io.Reader, diffID v1.Hash) error {
	stored := &counted{r: r, stopped: func() error { return context.Cause(ctx) }}
	buffered := bufio.NewReaderSize(stored, 64<<10)
	plain, err := decompressed(buffered)
	if err != nil {
		return err
	}
	defer plain.Close()
	u.made = map[string]bool{}
	tarred := newChecked(&bound{r: plain, u: u, stored: stored}, diffID, -1)
	if err := u.tar(tar.NewReader(tarred)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, tarred); err != nil {
		return err
	}
	if err := tarred.finish(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered)
	return err
}

// decompressed is the tar of a layer: what it is stored as is told by its first bytes, for
// media types are often wrong.
func decompressed(r *bufio.Reader) (io.ReadCloser, error) {
	magic, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := newZstd(r)
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

func newZstd(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderMaxWindow(128<<20))
}

// counted counts what is read, and ends when it is no longer wanted.
type counted struct {
	r       io.Reader
	n       int64
	stopped func() error
}

// Read is of io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if err := c.stopped(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if stopped := c.stopped(); stopped != nil {
		err = stopped // what the reader says is only the consequence
	}
	return n, err
}

// bound reads a layer's tar within what the image may still unpack to.
type bound struct {
	r      io.Reader
	u      *unpacker
	stored *counted
	n      int64
}

// Read is of io.Reader.
func (b *bound) Read(p []byte) (int, error) {
	u := b.u
	if u.bytes < 0 {
		return 0, refused("the image is larger than %d bytes", u.maxBytes)
	}
	if b.n > freeExpansion && b.n > maxRatio*b.stored.n {
		return 0, refused("a layer of the image unpacks to more than %d times its size", maxRatio)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), u.bytes+1)])
	u.bytes -= int64(n)
	b.n += int64(n)
	return n, err
}

// checked compares stored bytes with the digest and size that were promised.
type checked struct {
	r    io.Reader
	hash hash.Hash // nil when no digest is known
	want v1.Hash
	size int64
	n    int64
}

func newChecked(r io.Reader, want v1.Hash, size int64) *checked {
	c := &checked{r: r, want: want, size: size}
	if h, err := v1.Hasher(want.Algorithm); err == nil {
		c.hash = h
	}
	return c
}

// Read is of io.Reader.
func (c *checked) Read(p []byte) (int, error) {
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

// finish says, after everything was read, whether it was what was promised.
func (c *checked) finish() error {
	switch {
	case c.size >= 0 && c.n != c.size:
		return fmt.Errorf("the layer %s ended after %d of %d bytes: %w", c.want, c.n, c.size, io.ErrUnexpectedEOF)
	case c.hash != nil && fmt.Sprintf("%x", c.hash.Sum(nil)) != c.want.Hex:
		return fmt.Errorf("what came as the layer %s has another digest", c.want)
	}
	return nil
}
