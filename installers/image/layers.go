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
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-project/drover/installers/image/bounded"
	"github.com/drover-project/drover/installers/image/manifest"
)

const (
	// maxLayers bounds an image; container engines allow 127.
	maxLayers = 1000
	// A layer may unpack to freeExpansion bytes however small it is stored, beyond that to
	// maxRatio times its stored size. Real layers stay below 20.
	freeExpansion = 64 << 20
	maxRatio      = 100
)

// unpack flattens the image into dir.
func (s *Stager) unpack(ctx context.Context, p *manifest.Image, dir string, report *progress) error {
	if len(p.Layers) > maxLayers {
		return refused("the image has %d layers, more than %d", len(p.Layers), maxLayers)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &unpackError{err}
	}
	defer root.Close()
	u := &unpacker{root: root, bytes: orDefault(s.MaxBytes, defaultMaxBytes), entries: orDefault(s.MaxEntries, defaultMaxEntries), names: maxNames}
	u.maxBytes, u.maxEntries, u.content = u.bytes, u.entries, u.bytes
	for i, l := range p.Layers {
		if l.Size > u.maxBytes {
			return refused("layer %d of the image has %d bytes; an image may have %d", i+1, l.Size, u.maxBytes)
		}
		at := &layerAt{progress: report, number: i + 1, of: len(p.Layers), size: l.Size}
		if err := s.layer(ctx, u, l, p.Keep, at); err != nil {
			return err
		}
	}
	if u.skipped > 0 {
		s.log().Warn("devices, pipes and the like of the image were left out", "image", report.image, "entries", u.skipped, "first", u.firstSkipped)
	}
	return nil
}

// layer unpacks one layer, by way of the cache where there is one.
func (s *Stager) layer(ctx context.Context, u *unpacker, l manifest.Layer, keep bool, at *layerAt) error {
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
	content, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer content.Close()
	checked := bounded.NewChecked(io.TeeReader(content, at), l.Digest, l.Size)
	if err := u.layer(ctx, checked, l.DiffID); err != nil {
		return err
	}
	if err := checked.Finish(); err != nil {
		return err
	}
	at.ended("unpacked")
	return nil
}

// layer unpacks the stored bytes of one layer and reads them to the end. diffID is the
// digest that its tar has to have; the zero hash is any.
func (u *unpacker) layer(ctx context.Context, r io.Reader, diffID v1.Hash) error {
	stored := &bounded.Counter{Reader: r, Stopped: func() error { return context.Cause(ctx) }}
	buffered := bufio.NewReaderSize(stored, 64<<10)
	plain, err := decompressed(buffered)
	if err != nil {
		return err
	}
	defer plain.Close()
	u.made = map[string]bool{}
	tarred := bounded.NewChecked(&bound{r: plain, u: u, stored: stored}, diffID, -1)
	if err := u.tar(tar.NewReader(tarred)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, tarred); err != nil {
		return err
	}
	if err := tarred.Finish(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered)
	return err
}

// decompressed is the tar of a layer: its first bytes show what it is stored as, for
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
		d, err := bounded.Zstd(r)
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// bound reads a layer's tar within what the image may still unpack to.
type bound struct {
	r      io.Reader
	u      *unpacker
	stored *bounded.Counter
	n      int64
}

// Read is of io.Reader.
func (b *bound) Read(p []byte) (int, error) {
	u := b.u
	if u.bytes < 0 {
		return 0, refused("the image is larger than %d bytes", u.maxBytes)
	}
	if b.n > freeExpansion && b.n > maxRatio*b.stored.N {
		return 0, refused("a layer of the image unpacks to more than %d times its size", maxRatio)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), u.bytes+1)])
	u.bytes -= int64(n)
	b.n += int64(n)
	return n, err
}
