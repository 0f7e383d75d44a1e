package airgap

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// load pushes all images of a site to a registry, host:port or host:port/prefix, under the paths that they have. What is there already is not
// pushed again. Its error names the image.
func (s *site) load(ctx context.Context, to string, transport http.RoundTripper, say func(format string, args ...any)) error {
	address, insecure := strings.CutPrefix(to, "http://")
	var how []name.Option
	if insecure {
		how = append(how, name.Insecure)
	}
	prefix := strings.TrimSuffix(strings.TrimPrefix(address, "https://"), "/") + "/"
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(transport)}
	for i, d := range s.index.Manifests {
		image := d.Annotations[nameKey]
		_, rest, _ := strings.Cut(image, "/")
		ref, err := name.ParseReference(prefix+rest, how...)
		if err != nil {
			return fmt.Errorf("load %s: %w", image, err)
		}
		err = s.visit(d, map[v1.Hash]bool{}, 0, func(child v1.Descriptor, manifest []byte) error {
			if manifest == nil {
				layer, err := partial.CompressedToLayer(layerOf{s, child})
				if err != nil {
					return err
				}
				return remote.WriteLayer(ref.Context(), layer, options...)
			}
			if child.Digest == d.Digest {
				return nil // behind its children, see below
			}
			return remote.Put(ref.Context().Digest(child.Digest.String()), manifestOf{child.MediaType, manifest}, options...)
		})
		if err == nil {
			err = s.tag(ref, d, options)
		}
		if err != nil {
			return fmt.Errorf("load %s: %w", image, err)
		}
		say("%d of %d  %s", i+1, len(s.index.Manifests), ref)
	}
	return nil
}

// tag pushes the manifest that has the image's name. Registries refuse an index of which parts are missing: with one platform that was saved
// its manifest gets the name, with more an index of those, whose digest is another one.
func (s *site) tag(ref name.Reference, d v1.Descriptor, options []remote.Option) error {
	b, err := s.manifest(d.Digest)
	if err != nil {
		return err
	}
	if !d.MediaType.IsIndex() {
		return remote.Put(ref, manifestOf{d.MediaType, b}, options...)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(b, &index); err != nil {
		return err
	}
	all := len(index.Manifests)
	index.Manifests = slices.DeleteFunc(index.Manifests, func(child v1.Descriptor) bool {
		_, there := s.parts[blobFile(child.Digest)]
		return !there
	})
	switch {
	case len(index.Manifests) == all:
	case len(index.Manifests) == 1:
		return s.tag(ref, index.Manifests[0], options)
	default:
		if b, err = json.Marshal(index); err != nil {
			return err
		}
	}
	return remote.Put(ref, manifestOf{d.MediaType, b}, options...)
}

// layerOf is a blob of a site as what a registry takes.
type layerOf struct {
	site *site
	d    v1.Descriptor
}

// Digest is that of the manifest that names the blob; a registry compares it.
func (l layerOf) Digest() (v1.Hash, error) { return l.d.Digest, nil }

// Compressed is the blob as it is. The error is that the site does not have it.
func (l layerOf) Compressed() (io.ReadCloser, error) {
	r, err := l.site.open(blobFile(l.d.Digest))
	if err != nil {
		return nil, err
	}
	return io.NopCloser(r), nil
}

// Size is in bytes.
func (l layerOf) Size() (int64, error) { return l.d.Size, nil }

// MediaType is that of the manifest that names the blob.
func (l layerOf) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }

// manifestOf is a manifest as what a registry takes.
type manifestOf struct {
	media types.MediaType
	raw   []byte
}

// RawManifest is its bytes.
func (m manifestOf) RawManifest() ([]byte, error) { return m.raw, nil }

// MediaType is what its index says.
func (m manifestOf) MediaType() (types.MediaType, error) { return m.media, nil }
