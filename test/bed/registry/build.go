package registry

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// build makes the image; its one layer is a temporary file, which cleanup removes.
func (r *Registry) build(files map[string]string) (image v1.Image, cleanup func(), err error) {
	file, err := os.CreateTemp(r.dir, "layer-*.tar.gz")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.Remove(file.Name()) } // at worst it lies in the run's directory
	if err := errors.Join(writeLayer(file, files), file.Close()); err != nil {
		remove()
		return nil, nil, err
	}
	layer, err := tarball.LayerFromFile(file.Name())
	if err != nil {
		remove()
		return nil, nil, err
	}
	image, err = withLayer(layer)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return image, remove, nil
}

func withLayer(layer v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	return mutate.ConfigFile(image, config)
}

// writeLayer writes the files as a compressed tar, in the order of their paths and without times and owners, so that
// equal files make equal bytes.
func writeLayer(w io.Writer, files map[string]string) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed) // it is read from this machine
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	made := map[string]bool{}
	for _, target := range slices.Sorted(maps.Keys(files)) {
		entry := strings.TrimPrefix(path.Clean("/"+target), "/")
		if entry == "" {
			return fmt.Errorf("%q is not the path of a file", target)
		}
		if err := addParents(archive, entry, made); err != nil {
			return err
		}
		if err := addFile(archive, entry, files[target]); err != nil {
			return fmt.Errorf("add %s: %w", entry, err)
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

func addParents(archive *tar.Writer, entry string, made map[string]bool) error {
	dir := path.Dir(entry)
	if dir == "." || made[dir] {
		return nil
	}
	if err := addParents(archive, dir, made); err != nil {
		return err
	}
	made[dir] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
}

func addFile(archive *tar.Writer, entry, source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", source)
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: entry, Mode: int64(info.Mode().Perm()), Size: info.Size()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
