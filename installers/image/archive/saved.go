// Archives as "docker save" has always written them: manifest.json names the images and
// the files of their layers. They have no digest of a registry; one pinned by digest is
// found where the archive keeps the layers as the registry had them.

package archive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/drover-project/drover/installers/image/bounded"
	"github.com/drover-project/drover/installers/image/manifest"
)

// savedImage is one image of manifest.json.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// inSaved finds an image by tag or digest; nil when it is not there.
func (a *Archive) inSaved(ctx context.Context, raw []byte, ref name.Reference) (*manifest.Image, error) {
	var list []savedImage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("its manifest.json is not the JSON of a list of images")
	}
	for _, image := range list {
		ours, err := a.isSaved(ctx, image, ref)
		if err != nil {
			return nil, err
		}
		if ours {
			return a.saved(ctx, image)
		}
	}
	return nil, nil
}

func (a *Archive) isSaved(ctx context.Context, image savedImage, ref name.Reference) (bool, error) {
	pinned, ok := ref.(name.Digest)
	for _, text := range image.RepoTags {
		if !ok && names(text, ref) || ok && strings.HasSuffix(text, "@"+pinned.DigestStr()) {
			return true, nil
		}
	}
	if !ok {
		return false, nil
	}
	digest, err := a.rebuiltDigest(ctx, image)
	return digest == pinned.DigestStr(), err
}

func (a *Archive) saved(ctx context.Context, image savedImage) (*manifest.Image, error) {
	raw, err := a.read(ctx, image.Config)
	if err != nil {
		return nil, err
	}
	var config struct {
		RootFS struct {
			DiffIDs []v1.Hash `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("its entry %.300q is not the JSON of an image's configuration", image.Config)
	}
	if len(config.RootFS.DiffIDs) != len(image.Layers) {
		return nil, fmt.Errorf("its manifest.json has %d layers, and the configuration %.300q %d", len(image.Layers), image.Config, len(config.RootFS.DiffIDs))
	}
	found := &manifest.Image{From: a.path}
	for i, entry := range image.Layers {
		found.Layers = append(found.Layers, manifest.Layer{DiffID: config.RootFS.DiffIDs[i], Size: -1, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return a.blob(ctx, entry)
		}})
	}
	return found, nil
}

// rebuiltDigest is the digest of the manifest that a registry had of the image, if the
// layers are here as it had them and the manifest had nothing else; "" if they cannot be.
func (a *Archive) rebuiltDigest(ctx context.Context, image savedImage) (string, error) {
	sums, err := a.digests(ctx)
	if err != nil {
		return "", err
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Layers: []v1.Descriptor{}}
	var ok bool
	if m.Config, ok = a.described(sums, types.DockerConfigJSON, image.Config); !ok {
		return "", nil
	}
	for _, entry := range image.Layers {
		d, ok := a.described(sums, types.DockerLayer, entry)
		if !ok {
			return "", nil
		}
		m.Layers = append(m.Layers, d)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	return digestOf(raw).String(), nil
}

func (a *Archive) described(sums map[string]v1.Descriptor, kind types.MediaType, entry string) (v1.Descriptor, bool) {
	entry = path.Clean(entry)
	for range maxLinks {
		to, ok := a.links[entry]
		if !ok {
			break
		}
		entry = to
	}
	d, ok := sums[entry]
	d.MediaType = kind
	return d, ok
}

// digests reads the archive once more, for the digest and size of each entry.
func (a *Archive) digests(ctx context.Context) (map[string]v1.Descriptor, error) {
	if a.sums != nil {
		return a.sums, nil
	}
	a.sums = map[string]v1.Descriptor{}
	err := a.walk(ctx, func(entry string, h *tar.Header, content io.Reader) (bool, error) {
		if h.Typeflag != tar.TypeReg {
			return false, nil
		}
		sum := sha256.New()
		n, err := io.Copy(sum, &bounded.Counter{Reader: content, Stopped: func() error { return context.Cause(ctx) }})
		a.sums[entry] = v1.Descriptor{Size: n, Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}}
		return false, err
	})
	return a.sums, err
}

func digestOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
