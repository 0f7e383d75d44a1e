// Image archives on this host, as "docker save" and the tools for air-gapped hosts write them.

package image

import (
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// decompressors are the kinds of archives by the end of their names.
var decompressors = []struct {
	suffixes []string
	open     func(io.Reader) (io.ReadCloser, error)
}{
	{[]string{".tar"}, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }},
	{[]string{".tar.gz", ".tgz"}, func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{[]string{".tar.bz2", ".tbz"}, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
	{[]string{".tar.zst", ".tzst"}, func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
}

// inArchives finds the image in the images directory; nil when it is not there. An archive
// that cannot be read is told and passed over: another one may have the image.
func (s *Stager) inArchives(ref name.Reference) (image v1.Image, archive string, err error) {
	tag, ok := ref.(name.Tag)
	if !ok || s.ImagesDir == "" {
		return nil, "", nil // the digest of an archive's image is not that of the registry's
	}
	err = filepath.WalkDir(s.ImagesDir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		open := opener(path)
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || open == nil {
			return nil
		}
		manifest, err := tarball.LoadManifest(open)
		if err != nil {
			s.log().Warn("image archive cannot be read, it is passed over", "archive", path, "error", err)
			return nil
		}
		if !has(manifest, tag) {
			return nil
		}
		if image, err = tarball.Image(open, &tag); err != nil {
			return err
		}
		archive = path
		return fs.SkipAll
	})
	return image, archive, err
}

// has says whether the archive holds the tag, however it is written there.
func has(manifest tarball.Manifest, tag name.Tag) bool {
	for _, image := range manifest {
		for _, text := range image.RepoTags {
			if t, err := name.NewTag(text); err == nil && t.Name() == tag.Name() {
				return true
			}
		}
	}
	return false
}

// opener opens the archive at path again and again; nil when its name is none of an archive.
func opener(path string) tarball.Opener {
	for _, kind := range decompressors {
		for _, suffix := range kind.suffixes {
			if strings.HasSuffix(path, suffix) {
				return func() (io.ReadCloser, error) { return openWith(path, kind.open) }
			}
		}
	}
	return nil
}

// both closes what decompresses and the file below it.
type both struct {
	io.ReadCloser
	file *os.File
}

func (b both) Close() error { return errors.Join(b.ReadCloser.Close(), b.file.Close()) }

func openWith(path string, decompress func(io.Reader) (io.ReadCloser, error)) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := decompress(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return both{r, f}, nil
}
