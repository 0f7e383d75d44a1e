package airgap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// verify says what is wrong with a site: its signature where keys are given, blobs that are missing or are not those of their digests,
// blobs of no image, and images that are wanted and not there. It returns how many images and bytes there are.
func (s *site) verify(keysFile string, wanted []string) (images int, bytes int64, err error) {
	var wrong []error
	if keysFile != "" {
		signature, err := s.small(signatureFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong = append(wrong, errors.New("it is not signed"))
		case err != nil:
			wrong = append(wrong, err)
		default:
			if err := verifySignature(s.raw, signature, keysFile); err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	used := map[string]bool{layoutFile: true, indexFile: true, signatureFile: true}
	var names []string
	seen := map[v1.Hash]bool{}
	for _, d := range s.index.Manifests {
		image := d.Annotations[nameKey]
		names = append(names, image)
		err := s.visit(d, seen, 0, func(blob v1.Descriptor, manifest []byte) error {
			file := blobFile(blob.Digest)
			if used[file] {
				return nil
			}
			used[file] = true
			if manifest != nil {
				return nil // compared when it was read
			}
			return s.whole(blob)
		})
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", image, err))
		}
	}
	for _, image := range wanted {
		if !slices.Contains(names, image) {
			wrong = append(wrong, fmt.Errorf("%s is not in it", image))
		}
	}
	for file, p := range s.parts {
		bytes += p.size
		if !used[file] && len(wrong) == 0 {
			wrong = append(wrong, fmt.Errorf("%s belongs to no image", file))
		}
	}
	return len(names), bytes, errors.Join(wrong...)
}

// whole says whether a blob is the one of its digest.
func (s *site) whole(d v1.Descriptor) error {
	r, err := s.open(blobFile(d.Digest))
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err != nil {
		return err
	}
	if n != d.Size || hex.EncodeToString(sum.Sum(nil)) != d.Digest.Hex {
		return fmt.Errorf("blob %s was changed or damaged", d.Digest)
	}
	return nil
}

// kubernetes are the versions that the site was saved for.
func (s *site) kubernetes() []string {
	return strings.FieldsFunc(s.index.Annotations[versionsKey], func(r rune) bool { return r == ',' })
}
