package k3smodule

// Container images, as the archives that k3s and RKE2 load from agent/images of their data directory when they start.

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
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

// The names of the images. The pause image's is the one k3s and RKE2 ask for.
const (
	PauseImage   = "docker.io/rancher/mirrored-pause:3.6"
	BusyboxImage = "docker.io/library/busybox:1"
)

// Entry is a file or a link of an image.
type Entry struct {
	Name string // in the image
	File string // on this machine
	Link string // instead of File
}

// PauseArchive and BusyboxArchive are the archives that Images makes.
func (w *Workshop) PauseArchive() string   { return filepath.Join(w.Dir, "images", "pause.tar") }
func (w *Workshop) BusyboxArchive() string { return filepath.Join(w.Dir, "images", "busybox.tar") }

// Images makes the archives of the pause image, and of Busybox for the tests' own pods.
func (w *Workshop) Images(context.Context) error {
	pause := []Entry{{Name: "pause", File: filepath.Join(w.Bin(), "pause")}}
	if err := WriteImage(w.PauseArchive(), v1.Config{Entrypoint: []string{"/pause"}}, pause, PauseImage); err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w; test/bed/setup.sh installs it", err)
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list what busybox can do: %w", err)
	}
	entries := []Entry{{Name: "bin/busybox", File: busybox}}
	for _, applet := range bytes.Fields(applets) {
		if ref := path.Join("bin", string(applet)); ref != "bin/busybox" {
			entries = append(entries, Entry{Name: ref, Link: "/bin/busybox"})
		}
	}
	return WriteImage(w.BusyboxArchive(), v1.Config{Cmd: []string{"/bin/sh"}}, entries, BusyboxImage)
}

// WriteImage writes an image of one layer as an archive, under one name or several. Its PATH is /bin unless config has another one.
func WriteImage(archive string, config v1.Config, entries []Entry, refs ...string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	layer, err := os.CreateTemp(filepath.Dir(archive), "layer-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	if err := errors.Join(writeLayer(layer, entries), layer.Close()); err != nil {
		return fmt.Errorf("pack %s: %w", archive, err)
	}
	image, err := imageOf(layer.Name(), config)
	if err != nil {
		return fmt.Errorf("make the image of %s: %w", archive, err)
	}
	images := map[name.Tag]v1.Image{}
	for _, ref := range refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		images[tag] = image
	}
	return tarball.MultiWriteToFile(archive, images)
}

func writeLayer(w io.Writer, entries []Entry) error {
	layer := tar.NewWriter(w)
	for _, dir := range []string{"bin/", "tmp/", "etc/", "root/"} {
		if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.Link != "" {
			if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: e.Name, Linkname: e.Link, Mode: 0o777}); err != nil {
				return err
			}
			continue
		}
		if err := addProgram(layer, e); err != nil {
			return err
		}
	}
	return layer.Close()
}

func addProgram(layer *tar.Writer, e Entry) error {
	file, err := os.Open(e.File)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(layer, file)
	return err
}

func imageOf(layerFile string, runs v1.Config) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(layerFile)
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
	config.Config = runs
	if len(config.Config.Env) == 0 {
		config.Config.Env = []string{"PATH=/bin"}
	}
	return mutate.ConfigFile(image, config)
}
