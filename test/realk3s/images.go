package realk3s

// Container images, as the archives that k3s loads from agent/images of its data directory when it starts.

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The names of the images. The pause image's is the one k3s asks for.
const (
	PauseImage   = "docker.io/rancher/mirrored-pause:3.6"
	BusyboxImage = "docker.io/library/busybox:1"
)

// images makes the archives.
func (b *builder) images(context.Context) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w; test/bed/setup.sh installs it", err)
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list what busybox can do: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(b.dir, "images"), 0o755); err != nil {
		return err
	}
	if err := writeImage(filepath.Join(b.dir, "images/pause.tar"), PauseImage, "/pause", filepath.Join(b.binDir(), "pause"), nil); err != nil {
		return err
	}
	return writeImage(filepath.Join(b.dir, "images/busybox.tar"), BusyboxImage, "/bin/busybox", busybox, bytes.Fields(applets))
}

// writeImage writes an image of one program, and of links to it beside it, as an archive.
func writeImage(archive, ref, program, source string, links [][]byte) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin/", "tmp/", "etc/", "root/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: program[1:], Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	for _, applet := range links {
		linkName := path.Join(path.Dir(program), string(applet))
		if linkName == program {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: linkName[1:], Linkname: program, Mode: 0o777}); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	image, err := imageOf(layer.Bytes(), program)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, image)
}

func imageOf(layerTar []byte, program string) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layerTar)), nil })
	if err != nil {
		return nil, err
	}
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
	config.Config.Entrypoint = []string{program}
	if program != "/pause" {
		config.Config.Entrypoint, config.Config.Cmd = nil, []string{"/bin/sh"}
	}
	config.Config.Env = []string{"PATH=/bin"}
	return mutate.ConfigFile(image, config)
}
