// An index is a list of images, one a platform. Ours is picked here.

package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	// MaxSize bounds a manifest or an index, in bytes.
	MaxSize = 8 << 20
	// maxNested bounds indexes within indexes.
	maxNested = 4
)

// Platform is what an image has to be made for.
type Platform struct{ OS, Architecture string }

// ThisHost is the platform that this program runs on.
func ThisHost() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

// String is of the form linux/amd64.
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// ours are the variants of an architecture that run everywhere; the first is preferred.
var ours = map[string][]string{"amd64": {"", "v1"}, "arm64": {"v8", ""}}

// manifest is the image's manifest, where raw may also be an index. fetch reads the
// manifest with a digest, from where raw came from. The error says what is not of the form, that no image fits the platform, or is that of fetch.
func (p Platform) Manifest(ctx context.Context, raw []byte, fetch func(context.Context, v1.Hash) ([]byte, error)) (*v1.Manifest, error) {
	for range maxNested {
		var kind struct {
			Manifests []v1.Descriptor `json:"manifests"`
			Schema    int             `json:"schemaVersion"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, errors.New("the manifest is not the JSON of an image or an index")
		}
		if kind.Schema == 1 {
			return nil, errors.New("the image is stored in the old form \"schema 1\", which no tool pushes any more; push it again")
		}
		if kind.Manifests == nil {
			m, err := v1.ParseManifest(bytes.NewReader(raw))
			if err != nil {
				return nil, errors.New("the manifest is not the JSON of an image or an index")
			}
			return m, nil
		}
		digest, err := p.pick(kind.Manifests)
		if err != nil {
			return nil, err
		}
		if raw, err = fetch(ctx, digest); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("there are more than %d indexes within one another", maxNested)
}

// pick is the digest of the platform's image in an index.
func (p Platform) pick(all []v1.Descriptor) (v1.Hash, error) {
	variants, ok := ours[p.Architecture]
	if !ok {
		variants = []string{""}
	}
	for _, variant := range variants {
		for _, d := range all {
			if d.Platform != nil && d.Platform.OS == p.OS && d.Platform.Architecture == p.Architecture && d.Platform.Variant == variant {
				return d.Digest, nil
			}
		}
	}
	if len(all) == 1 && all[0].Platform == nil {
		return all[0].Digest, nil // an index of one that does not say for what it is made
	}
	return v1.Hash{}, fmt.Errorf("there is no image for %s in it, only for %s", p, offered(all))
}

// offered lists the platforms of an index.
func offered(all []v1.Descriptor) string {
	var names []string
	for _, d := range all {
		if d.Platform == nil || d.Platform.OS == "unknown" {
			continue // attestations
		}
		name := d.Platform.OS + "/" + d.Platform.Architecture
		if d.Platform.Variant != "" {
			name += "/" + d.Platform.Variant
		}
		if len(name) < 60 && len(names) < 20 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no platform that is named"
	}
	return strings.Join(names, ", ")
}
