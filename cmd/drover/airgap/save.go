package airgap

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/plans/fetch"
)

// atOnce is how many blobs are fetched at a time.
const atOnce = 4

// saver fetches images into a directory of blobs beside the file that it makes of them. What is there already, of a run that was
// interrupted or of another image, is not fetched again.
type saver struct {
	to       string
	arch     []string
	versions []string
	// archives are files with images that no registry has, such as the agents of a release of drover.
	archives []string
	// charts are charts of Helm that are in no registry; see chart.
	charts []string
	// mirrors are where registries are asked instead, by the registry's name: an http(s) address.
	mirrors   map[string]string
	transport http.RoundTripper
	say       func(format string, args ...any)

	blobs   string            // directory
	members map[string]string // blobs of the site: hex of the digest → file
	fetched map[v1.Hash]bool  // manifests that are there with all that they refer to, however often they are referred to
}

// save makes the file of a site of the images, signed where there is a key. Its error names the image, and what was fetched stays beside the file.
func (s *saver) save(ctx context.Context, images []string, keyFile string) (err error) {
	work := s.to + ".part"
	s.blobs, s.members = filepath.Join(work, "blobs"), map[string]string{}
	s.fetched = map[v1.Hash]bool{}
	if err := os.MkdirAll(s.blobs, 0o755); err != nil {
		return fmt.Errorf("save images: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(work, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("save images: %w", err)
	}
	defer lock.Close()
	if err := durable.TryLock(lock); err != nil {
		return fmt.Errorf("save images: another drover airgap save is writing %s: %w", s.to, err)
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json", Annotations: map[string]string{versionsKey: strings.Join(s.versions, ",")}}
	for _, path := range s.archives {
		more, err := s.archive(path)
		if err != nil {
			return err
		}
		for _, d := range more {
			index.Manifests = append(index.Manifests, d)
			s.say("%s: %s", path, d.Annotations[nameKey])
		}
	}
	for _, from := range s.charts {
		d, err := s.chart(ctx, from)
		if err != nil {
			return fmt.Errorf("save the chart %s: %w", fetch.Shown(from), err)
		}
		index.Manifests = append(index.Manifests, d)
		s.say("%s: %s", fetch.Shown(from), d.Annotations[nameKey])
	}
	for i, image := range images {
		d, err := s.image(ctx, image)
		if err != nil {
			return fmt.Errorf("save %s: %w; the same command goes on from here", image, err)
		}
		index.Manifests = append(index.Manifests, d)
		s.say("%d of %d  %s", i+1, len(images), image)
	}
	named := map[string]bool{}
	for _, d := range index.Manifests {
		image := d.Annotations[nameKey]
		if named[image] {
			return fmt.Errorf("save images: %s is there twice", image)
		}
		named[image] = true
	}
	if err := s.pack(ctx, index, keyFile); err != nil {
		return fmt.Errorf("save images: %w", err)
	}
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("save images: the site is in %s, and what it was made of stays: %w", s.to, err)
	}
	return nil
}

// source is where an image is fetched from, and what asks there.
func (s *saver) source(ctx context.Context, image string) (name.Reference, []remote.Option, error) {
	registry, rest, _ := strings.Cut(image, "/")
	var how []name.Option
	if mirror := s.mirrors[registry]; mirror != "" {
		address, insecure := strings.CutPrefix(mirror, "http://")
		if insecure {
			how = append(how, name.Insecure)
		}
		image = strings.TrimSuffix(strings.TrimPrefix(address, "https://"), "/") + "/" + rest
	}
	ref, err := name.ParseReference(image, how...)
	if err != nil {
		return nil, nil, err
	}
	return ref, []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(s.transport)}, nil
}

// image fetches all that an image consists of on the platforms that are wanted, and is how the index names it.
func (s *saver) image(ctx context.Context, image string) (v1.Descriptor, error) {
	ref, how, err := s.source(ctx, image)
	if err != nil {
		return v1.Descriptor{}, err
	}
	top, err := remote.Get(ref, how...)
	if err != nil {
		return v1.Descriptor{}, err
	}
	platforms, err := s.fetch(ctx, ref.Context(), how, top.Descriptor, top.Manifest, 0)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: top.MediaType, Digest: top.Digest, Size: top.Size, Annotations: map[string]string{nameKey: image}}
	if tag, ok := ref.(name.Tag); ok {
		d.Annotations["org.opencontainers.image.ref.name"] = tag.TagStr()
	}
	if len(platforms) > 0 {
		d.Annotations[platformsKey] = strings.Join(platforms, ",")
	}
	return d, nil
}

// fetch fetches what a manifest refers to, and keeps the manifest; of an index the platforms that are wanted, which it returns.
func (s *saver) fetch(ctx context.Context, repository name.Repository, how []remote.Option, d v1.Descriptor, manifest []byte, depth int) ([]string, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("indexes are more than %d deep in each other", maxDepth)
	}
	if len(manifest) > maxManifest {
		return nil, fmt.Errorf("manifest %s has %d bytes, and may have %d", d.Digest, len(manifest), maxManifest)
	}
	all, err := childrenOf(d.MediaType, manifest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	var platforms []string
	for _, child := range all.manifests {
		if child.Platform == nil || child.Platform.OS != "linux" || !slices.Contains(s.arch, child.Platform.Architecture) {
			continue
		}
		platforms = append(platforms, child.Platform.String())
		if s.fetched[child.Digest] {
			continue
		}
		s.fetched[child.Digest] = true
		m, err := remote.Get(repository.Digest(child.Digest.String()), how...)
		if err != nil {
			return nil, err
		}
		if _, err := s.fetch(ctx, repository, how, m.Descriptor, m.Manifest, depth+1); err != nil {
			return nil, err
		}
	}
	if len(all.manifests) > 0 && len(platforms) == 0 {
		return nil, fmt.Errorf("it is not there for linux on %s", strings.Join(s.arch, " or "))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	how = append(slices.Clip(how), remote.WithContext(ctx))
	for _, blob := range all.blobs {
		path := s.member(blob.Digest)
		group.Go(func() error {
			return keep(path, blob.Size, func() (io.ReadCloser, error) {
				layer, err := remote.Layer(repository.Digest(blob.Digest.String()), how...)
				if err != nil {
					return nil, err
				}
				return layer.Compressed() // compares what comes with the digest
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := s.checkPlatform(all.blobs); err != nil {
		return nil, err
	}
	return platforms, keep(s.member(d.Digest), int64(len(manifest)), func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(string(manifest))), nil
	})
}

// checkPlatform refuses an image of another architecture, which its config says; first of blobs is the config. Charts have another one.
func (s *saver) checkPlatform(blobs []v1.Descriptor) error {
	if len(blobs) == 0 || !blobs[0].MediaType.IsConfig() || blobs[0].Size > maxManifest {
		return nil
	}
	path := filepath.Join(s.blobs, blobs[0].Digest.Hex)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != blobs[0].Digest.Hex {
		return removeDamaged(path)
	}
	var config struct{ OS, Architecture string }
	if err := json.Unmarshal(b, &config); err != nil {
		return fmt.Errorf("its config %s is not one: %w", blobs[0].Digest, err)
	}
	if config.OS != "linux" || !slices.Contains(s.arch, config.Architecture) {
		return fmt.Errorf("it is there for %s on %s alone, not for linux on %s", config.OS, config.Architecture, strings.Join(s.arch, " or "))
	}
	return nil
}

// member is the file of a blob, which is one of the site's from now on.
func (s *saver) member(h v1.Hash) string {
	path := filepath.Join(s.blobs, h.Hex)
	s.members[h.Hex] = path
	return path
}

// keep writes a blob, unless one of its size is there: it gets its name when it is whole. What is in it pack compares.
func keep(path string, size int64, open func() (io.ReadCloser, error)) (err error) {
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return nil
	}
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := os.CreateTemp(filepath.Dir(path), "coming-")
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(content, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("blob %s has not the %d bytes that its manifest says", filepath.Base(path), size)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what keeps it from that keeps the rest from going on, too
	}
	return err
}

// pack makes the one file of the blobs, in the order of their names, so that two runs make the same; it gets its name when it is whole.
func (s *saver) pack(ctx context.Context, index v1.IndexManifest, keyFile string) (err error) {
	raw, err := json.Marshal(index)
	if err != nil {
		return err
	}
	small := []struct {
		name    string
		content []byte
	}{{layoutFile, []byte(layoutText)}, {indexFile, raw}}
	if keyFile != "" {
		signature, err := sign(raw, keyFile)
		if err != nil {
			return err
		}
		small = append(small, struct {
			name    string
			content []byte
		}{signatureFile, signature})
	}
	f, err := os.Create(filepath.Join(filepath.Dir(s.blobs), "site.tar"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreClosed(f.Close())) }()
	w := tar.NewWriter(f)
	for _, one := range small {
		if err := addFile(w, one.name, int64(len(one.content)), strings.NewReader(string(one.content))); err != nil {
			return err
		}
	}
	for _, hexSum := range slices.Sorted(maps.Keys(s.members)) {
		if err := errors.Join(ctx.Err(), addBlob(w, hexSum, s.members[hexSum])); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Close(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.to)
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

func addFile(w *tar.Writer, path string, size int64, content io.Reader) error {
	if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Typeflag: tar.TypeReg, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

// addBlob compares a blob with its digest on the way: of a run before it may have been cut off by a crash. It is removed then.
func addBlob(w *tar.Writer, hexSum, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := addFile(w, blobsOf+hexSum, info.Size(), io.TeeReader(f, sum)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != hexSum {
		return removeDamaged(path)
	}
	return nil
}

// removeDamaged removes a blob that is not the one of its digest, so that the next run fetches it again.
func removeDamaged(path string) error {
	return errors.Join(fmt.Errorf("blob %s of a run before was damaged, and is removed: the same command fetches it again", filepath.Base(path)), os.Remove(path))
}
