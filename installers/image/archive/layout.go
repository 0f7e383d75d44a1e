// Archives of the OCI image layout: index.json names manifests, everything else is a blob
// called by its digest. (OCI image specification, "Image Layout".)

package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-project/drover/installers/image/manifest"
)

const (
	// fullName is what containerd and Docker write an image's whole name to.
	fullName = "io.containerd.image.name"
	// refName is the specification's own; some write a whole name to it and some only a tag.
	refName = "org.opencontainers.image.ref.name"
	// maxManifests bounds the manifests looked at for one pinned by its digest.
	maxManifests = 1000
)

// inLayout finds an image by tag or digest; nil when it is not there.
func (a *Archive) inLayout(ctx context.Context, raw []byte, ref name.Reference, p manifest.Platform) (*manifest.Image, error) {
	var index struct {
		Manifests []v1.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, errors.New("its index.json is not the JSON of an index")
	}
	chosen, err := a.choose(ctx, index.Manifests, ref)
	if chosen == nil || err != nil {
		return nil, err
	}
	top, err := a.manifest(ctx, *chosen)
	if err != nil {
		return nil, err
	}
	m, err := p.Manifest(ctx, top, a.manifest)
	if err != nil {
		return nil, err
	}
	found := &manifest.Image{From: a.path}
	for _, d := range m.Layers {
		if err := manifest.Check(d); err != nil {
			return nil, err
		}
		found.Layers = append(found.Layers, manifest.Layer{Digest: d.Digest, Size: d.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return a.blob(ctx, blobName(d.Digest))
		}})
	}
	return found, nil
}

// choose is the digest of the wanted manifest; nil when it is not there. A pinned one may be
// listed by an index that is listed.
func (a *Archive) choose(ctx context.Context, all []v1.Descriptor, ref name.Reference) (*v1.Hash, error) {
	pinned, ok := ref.(name.Digest)
	if !ok {
		for _, d := range all {
			if names(d.Annotations[fullName], ref) || names(d.Annotations[refName], ref) {
				return &d.Digest, nil
			}
		}
		return nil, nil
	}
	for looked := 0; len(all) > 0 && looked < maxManifests; looked++ {
		d := all[0]
		all = all[1:]
		if d.Digest.String() == pinned.DigestStr() {
			return &d.Digest, nil
		}
		if !d.MediaType.IsIndex() {
			continue
		}
		raw, err := a.manifest(ctx, d.Digest)
		if err != nil {
			continue // archives of one platform list indexes that they do not have
		}
		var index struct {
			Manifests []v1.Descriptor `json:"manifests"`
		}
		if json.Unmarshal(raw, &index) == nil {
			all = append(all, index.Manifests...)
		}
	}
	return nil, nil
}

// names says whether a text is the tag, however it is written.
func names(text string, ref name.Reference) bool {
	if text == "" {
		return false
	}
	tag, err := name.NewTag(text)
	return err == nil && tag.Name() == ref.Name()
}

// manifest reads a manifest and checks that it is the one.
func (a *Archive) manifest(ctx context.Context, digest v1.Hash) ([]byte, error) {
	b, err := a.read(ctx, blobName(digest))
	if err != nil {
		return nil, err
	}
	if err := is(b, digest); err != nil {
		return nil, err
	}
	return b, nil
}

// is says whether bytes have a digest.
func is(b []byte, digest v1.Hash) error {
	h, err := v1.Hasher(digest.Algorithm)
	if err != nil {
		return err
	}
	h.Write(b)
	if fmt.Sprintf("%x", h.Sum(nil)) != digest.Hex {
		return fmt.Errorf("what is stored as %s has another digest", digest)
	}
	return nil
}

func blobName(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
