package airgap

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// archive takes the images of an archive that `docker save` or drover's release made, and is how the index names them.
func (s *saver) archive(path string) ([]v1.Descriptor, error) {
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	manifest, err := tarball.LoadManifest(open)
	if err != nil {
		return nil, fmt.Errorf("read the archive %s: %w; it has to be one of docker save", path, err)
	}
	var all []v1.Descriptor
	for _, one := range manifest {
		for _, text := range one.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				return nil, fmt.Errorf("read the archive %s: %.200q is not the name of an image", path, text)
			}
			d, err := s.unpack(open, tag)
			if err != nil {
				return nil, fmt.Errorf("read %s of the archive %s: %w", tag, path, err)
			}
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the archive %s has no image with a name", path)
	}
	return all, nil
}

// unpack keeps all blobs of an image of an archive.
func (s *saver) unpack(open tarball.Opener, tag name.Tag) (v1.Descriptor, error) {
	image, err := tarball.Image(open, &tag)
	if err != nil {
		return v1.Descriptor{}, err
	}
	layers, err := image.Layers()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return v1.Descriptor{}, err
		}
		size, err := layer.Size()
		if err != nil {
			return v1.Descriptor{}, err
		}
		if err := keep(s.member(digest), size, layer.Compressed); err != nil {
			return v1.Descriptor{}, err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	media, err := image.MediaType()
	if err != nil {
		return v1.Descriptor{}, err
	}
	var top v1.Hash
	for _, b := range [][]byte{config, manifest} {
		if top, _, err = v1.SHA256(bytes.NewReader(b)); err != nil {
			return v1.Descriptor{}, err
		}
		if err := keep(s.member(top), int64(len(b)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }); err != nil {
			return v1.Descriptor{}, err
		}
	}
	full, err := fullName(tag.String())
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: media, Digest: top, Size: int64(len(manifest)), Annotations: map[string]string{
		nameKey: full, "org.opencontainers.image.ref.name": tag.TagStr(),
	}}, nil
}
