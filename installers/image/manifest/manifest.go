// Package manifest is what an image is, wherever it was found: its layers, for which
// platform it was made, and how its manifest is picked from an index.
package manifest

import (
	"context"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is an image that was found: what is needed to unpack it.
type Image struct {
	From   string // an archive's path or a registry's URL
	Layers []Layer
	Keep   bool // its layers belong into the cache
}

// Layer is one layer as it is stored somewhere.
type Layer struct {
	Digest v1.Hash // of the stored bytes; the zero hash where it is not known
	DiffID v1.Hash // of the unpacked tar; the zero hash where it is not known
	Size   int64   // of the stored bytes; -1 where it is not known
	// Open gives the stored bytes; the caller closes them.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Check refuses a layer that a manifest describes wrongly.
func Check(d v1.Descriptor) error {
	if _, err := v1.Hasher(d.Digest.Algorithm); err != nil || d.Size < 0 {
		return errors.New("its manifest has a layer without a digest that we know, or with a negative size")
	}
	return nil
}
