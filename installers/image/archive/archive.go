// Package archive finds images in archives on this host, as "docker save", "ctr export", crane and skopeo write them.
// An archive is a file of unknown origin: what is read of it into memory is bounded, and its
// layers are checked against the digests it names.
package archive

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/pierrec/lz4/v4"

	"github.com/drover-project/drover/installers/image/bounded"
	"github.com/drover-project/drover/installers/image/manifest"
)

const (
	// maxArchiveEntries bounds an archive; one of all images of a distribution has a few hundred.
	maxArchiveEntries = 100_000
	// maxLinks bounds links to links within an archive.
	maxLinks = 16
)

// decompressors are the kinds of archives by the end of their names.
var decompressors = []struct {
	suffixes []string
	open     func(io.Reader) (io.ReadCloser, error)
}{
	{[]string{".tar"}, nil},
	{[]string{".tar.gz", ".tgz"}, func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{[]string{".tar.bz2", ".tbz"}, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
	{[]string{".tar.lz4"}, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(lz4.NewReader(r)), nil }},
	{[]string{".tar.zst", ".tzst"}, func(r io.Reader) (io.ReadCloser, error) {
		d, err := bounded.Zstd(r)
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
}

// Archive is one file of images.
type Archive struct {
	path       string
	decompress func(io.Reader) (io.ReadCloser, error) // nil for none
	links      map[string]string                      // links among its entries, after survey
	sums       map[string]v1.Descriptor               // digest and size of its entries, after digests
}

// At is the archive at path; nil when its name is none of an archive.
func At(file string) *Archive {
	for _, kind := range decompressors {
		for _, suffix := range kind.suffixes {
			if strings.HasSuffix(file, suffix) {
				return &Archive{path: file, decompress: kind.open}
			}
		}
	}
	return nil
}

// Find looks for an image, first the way OCI writes them and then Docker's. Nil without an error says that the archive does not have it; the errors
// are those of reading, and of an archive of neither form.
func (a *Archive) Find(ctx context.Context, ref name.Reference, p manifest.Platform) (*manifest.Image, error) {
	index, list, err := a.survey(ctx)
	if err != nil {
		return nil, err
	}
	if index == nil && list == nil {
		return nil, errors.New("it has neither an index.json nor a manifest.json")
	}
	if index != nil {
		found, err := a.inLayout(ctx, index, ref, p)
		if found != nil || err != nil {
			return found, err
		}
	}
	if list != nil {
		return a.inSaved(ctx, list, ref)
	}
	return nil, nil
}

// survey reads the archive once: its tables of contents, nil where there is none, and its links.
func (a *Archive) survey(ctx context.Context) (index, list []byte, err error) {
	a.links = map[string]string{}
	err = a.walk(ctx, func(entry string, h *tar.Header, content io.Reader) (bool, error) {
		switch h.Typeflag {
		case tar.TypeSymlink:
			a.links[entry] = path.Join(path.Dir(entry), h.Linkname) // #nosec G305 -- a name inside the archive, never of a file here
		case tar.TypeLink:
			a.links[entry] = path.Clean(h.Linkname)
		}
		switch entry {
		case "index.json":
			index, err = small(entry, content)
		case "manifest.json":
			list, err = small(entry, content)
		}
		return false, err
	})
	return index, list, err
}

// walk reads the archive's entries until visit says that it has enough.
func (a *Archive) walk(ctx context.Context, visit func(entry string, h *tar.Header, content io.Reader) (enough bool, err error)) error {
	r, err := a.open()
	if err != nil {
		return err
	}
	defer r.Close()
	var source io.Reader = r
	if a.decompress != nil { // a plain file is left as it is, so that content can be skipped by seeking
		source = &bounded.Counter{Reader: r, Stopped: func() error { return context.Cause(ctx) }}
	}
	entries := tar.NewReader(source)
	for n := 0; ; n++ {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n >= maxArchiveEntries {
			return fmt.Errorf("it has more than %d entries", maxArchiveEntries)
		}
		if enough, err := visit(path.Clean(h.Name), h, entries); enough || err != nil {
			return err
		}
	}
}

// blob opens one entry's content, following links among the entries.
func (a *Archive) blob(ctx context.Context, entry string) (io.ReadCloser, error) {
	entry = path.Clean(entry)
	for range maxLinks {
		to, ok := a.links[entry]
		if !ok {
			return a.entry(ctx, entry)
		}
		entry = to
	}
	return nil, fmt.Errorf("its entry %.300q is a link to a link to a link, without an end", entry)
}

func (a *Archive) entry(ctx context.Context, entry string) (io.ReadCloser, error) {
	r, err := a.open()
	if err != nil {
		return nil, err
	}
	entries := tar.NewReader(r)
	for range maxArchiveEntries {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		if path.Clean(h.Name) == entry && h.Typeflag == tar.TypeReg {
			return within{entries, r}, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("its entry %.300q is missing", entry), r.Close())
}

// within is one entry of an open archive.
type within struct {
	io.Reader
	io.Closer
}

// small reads a table of contents.
func small(entry string, content io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(content, manifest.MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(b) > manifest.MaxSize {
		return nil, fmt.Errorf("its entry %.300q is larger than %d bytes", entry, manifest.MaxSize)
	}
	return b, nil
}

func (a *Archive) read(ctx context.Context, entry string) ([]byte, error) {
	r, err := a.blob(ctx, entry)
	if err != nil {
		return nil, err
	}
	b, err := small(entry, r)
	return b, errors.Join(err, r.Close())
}

// both closes what decompresses and the file below it.
type both struct {
	io.ReadCloser
	file *os.File
}

func (b both) Close() error { return errors.Join(b.ReadCloser.Close(), b.file.Close()) }

func (a *Archive) open() (io.ReadCloser, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("it is not a regular file"), err, f.Close())
	}
	if a.decompress == nil {
		return f, nil
	}
	r, err := a.decompress(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return both{r, f}, nil
}
