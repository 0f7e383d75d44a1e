package registry

// Images out of archives, as `docker save` writes them.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PushArchive stores all images of an archive under their names, without the registries in them. Their layers are not
// compressed: they are pulled on this machine.
func (r *Registry) PushArchive(ctx context.Context, path string) error {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return fmt.Errorf("read the images of %s: %w", path, err)
	}
	for _, described := range manifest {
		for _, ref := range described.RepoTags {
			if err := r.pushFrom(ctx, path, ref); err != nil {
				return fmt.Errorf("store the image %s of %s: %w", ref, path, err)
			}
		}
	}
	return nil
}

func (r *Registry) pushFrom(ctx context.Context, path, ref string) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	packed, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		return err
	}
	image, err := plain(packed)
	if err != nil {
		return err
	}
	return r.push(ctx, tag, image)
}

// plain is the same image with layers that are not compressed.
func plain(image v1.Image) (v1.Image, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	for i, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return nil, err
		}
		size, err := io.Copy(io.Discard, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
		layers[i] = plainLayer{layer, size}
	}
	image, err = mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, config)
}

// plainLayer is a layer that is stored as it is unpacked.
type plainLayer struct {
	v1.Layer
	size int64
}

// Digest is the checksum of what is stored.
func (l plainLayer) Digest() (v1.Hash, error) { return l.DiffID() }

// Compressed is what is stored.
func (l plainLayer) Compressed() (io.ReadCloser, error) { return l.Uncompressed() }

// Size is that of what is stored, in bytes.
func (l plainLayer) Size() (int64, error) { return l.size, nil }

// MediaType says that it is not compressed.
func (l plainLayer) MediaType() (types.MediaType, error) { return types.DockerUncompressedLayer, nil }
