package airgap

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The files of a site beside its blobs: an OCI image layout (https://github.com/opencontainers/image-spec, image-layout.md) in a tar file,
// and the signature of its index.
const (
	layoutFile    = "oci-layout"
	indexFile     = "index.json"
	signatureFile = "index.json.sig"
	layoutText    = `{"imageLayoutVersion":"1.0.0"}`
	blobsOf       = "blobs/sha256/"
)

// Annotations of the index: nameKey has the name of an image as containerd takes it, platformsKey the platforms that were saved of it, and
// versionsKey on the index itself the versions of Kubernetes that the site was saved for.
const (
	nameKey      = "io.containerd.image.name"
	platformsKey = "dev.drover.platforms"
	versionsKey  = "dev.drover.kubernetes"
)

// Bounds of a site that is read: files in it, bytes of an index or a manifest, and how deep indexes are in each other.
const (
	maxFiles    = 100_000
	maxManifest = 4 << 20
	maxDepth    = 4
)

// site is a file of images that is open for reading.
type site struct {
	file  *os.File
	path  string
	parts map[string]part
	raw   []byte // index.json
	index v1.IndexManifest
}

// part is where a file of the tar is.
type part struct{ offset, size int64 }

// openSite reads where everything is. Its error says what is not as it is in the file of a site; whether blobs are whole, verify says.
func openSite(path string) (_ *site, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the site: %w", err)
	}
	s := &site{file: f, path: path, parts: map[string]part{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("read the site %s: %w", path, err), f.Close())
		}
	}()
	if err := s.scan(); err != nil {
		return nil, err
	}
	if s.raw, err = s.small(indexFile); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(s.raw, &s.index); err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	seen := map[string]bool{}
	for _, d := range s.index.Manifests {
		full, err := fullName(d.Annotations[nameKey])
		if err != nil || full != d.Annotations[nameKey] || seen[full] {
			return nil, fmt.Errorf("%s has %.200q as the name of an image, which is none, not in full, or there twice", indexFile, d.Annotations[nameKey])
		}
		seen[full] = true
	}
	return s, nil
}

// scan notes where the files are: plain ones of known names alone, each once.
func (s *site) scan() error {
	for r := tar.NewReader(s.file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s.cutOff()
		}
		if err != nil {
			return fmt.Errorf("it is not a tar file, or was cut off: %w", err)
		}
		at, err := s.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		_, twice := s.parts[h.Name]
		digest, blob := strings.CutPrefix(h.Name, blobsOf)
		known := h.Name == layoutFile || h.Name == indexFile || h.Name == signatureFile || blob && isSum(digest)
		if !known || twice || h.Typeflag != tar.TypeReg || len(s.parts) == maxFiles {
			return fmt.Errorf("%.200q does not belong into it, or is there twice", h.Name)
		}
		s.parts[h.Name] = part{at, h.Size}
	}
}

// cutOff says whether the file ends before what its headers promise: skipping what is behind the end gives no error.
func (s *site) cutOff() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	for name, p := range s.parts {
		if p.offset+p.size > info.Size() {
			return fmt.Errorf("it was cut off in %s", name)
		}
	}
	if _, there := s.parts[indexFile]; !there {
		return fmt.Errorf("it has no %s: it is not a site, or was cut off", indexFile)
	}
	return nil
}

func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size && strings.ToLower(text) == text
}

// Close closes the file.
func (s *site) Close() error { return s.file.Close() }

// open is a file of the site. The error of one that is not there is fs.ErrNotExist.
func (s *site) open(name string) (*io.SectionReader, error) {
	p, there := s.parts[name]
	if !there {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NewSectionReader(s.file, p.offset, p.size), nil
}

// small is the content of a file of bounded size.
func (s *site) small(name string) ([]byte, error) {
	r, err := s.open(name)
	if err != nil {
		return nil, err
	}
	if r.Size() > maxManifest {
		return nil, fmt.Errorf("%s has %d bytes, and a manifest may have %d", name, r.Size(), maxManifest)
	}
	return io.ReadAll(r)
}

// blobFile is the name of a blob in the site.
func blobFile(h v1.Hash) string { return blobsOf + h.Hex }

// manifest is a manifest whose bytes are those of its digest.
func (s *site) manifest(h v1.Hash) ([]byte, error) {
	if h.Algorithm != "sha256" || !isSum(h.Hex) {
		return nil, fmt.Errorf("%.100q is not the digest of a manifest", h)
	}
	b, err := s.small(blobFile(h))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != h.Hex {
		return nil, fmt.Errorf("manifest %s was changed or damaged", h)
	}
	return b, nil
}

// visit calls each for what an image consists of, children first: manifests with their bytes, other blobs without. Of an index, manifests
// that were not saved are left out: they are of other platforms. What is in seen was visited before, however often it is referred to.
func (s *site) visit(d v1.Descriptor, seen map[v1.Hash]bool, depth int, each func(d v1.Descriptor, manifest []byte) error) error {
	if seen[d.Digest] {
		return nil
	}
	seen[d.Digest] = true
	if depth > maxDepth {
		return fmt.Errorf("manifest %s: indexes are more than %d deep in each other", d.Digest, maxDepth)
	}
	b, err := s.manifest(d.Digest)
	if err != nil {
		return err
	}
	children, err := childrenOf(d.MediaType, b)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	saved := 0
	for _, child := range children.manifests {
		if _, there := s.parts[blobFile(child.Digest)]; !there {
			continue
		}
		saved++
		if err := s.visit(child, seen, depth+1, each); err != nil {
			return err
		}
	}
	if saved == 0 && len(children.manifests) > 0 {
		return fmt.Errorf("manifest %s: the site has no platform of it", d.Digest)
	}
	for _, blob := range children.blobs {
		if err := each(blob, nil); err != nil {
			return err
		}
	}
	return each(d, b)
}

// children are what a manifest refers to.
type children struct{ manifests, blobs []v1.Descriptor }

// childrenOf reads an index or a manifest. Layers that are fetched from elsewhere, such as those of Windows, are no blobs of it.
func childrenOf(media types.MediaType, b []byte) (children, error) {
	if media.IsIndex() {
		var m v1.IndexManifest
		err := json.Unmarshal(b, &m)
		return children{manifests: m.Manifests}, err
	}
	if !media.IsImage() {
		return children{}, fmt.Errorf("%.100q is not the type of an image", media)
	}
	var m v1.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return children{}, err
	}
	all := children{blobs: []v1.Descriptor{m.Config}}
	for _, layer := range m.Layers {
		if layer.MediaType.IsDistributable() {
			all.blobs = append(all.blobs, layer)
		}
	}
	for _, blob := range all.blobs {
		if blob.Digest.Algorithm != "sha256" || !isSum(blob.Digest.Hex) {
			return children{}, fmt.Errorf("%.100q is not the digest of a blob", blob.Digest)
		}
	}
	return all, nil
}
