package rke1images

// Layers of images, and the archive of images that share layers. The archive is written here and not by a library, so
// that nothing is compressed: each host of each test unpacks it.

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// entry is a file, a link or a directory of a layer.
type entry struct {
	Name string // in the image, without a slash before it
	File string // of this machine, whose content it is
	Link string // instead of File
	Dir  bool   // instead of File
	Mode int64  // of a file; default 0755
}

// writeLayer writes the entries as a layer. Directories on the way are made with the mode 0755.
func writeLayer(w io.Writer, entries []entry) error {
	layer, made := tar.NewWriter(w), map[string]bool{".": true}
	var makeDir func(dir string, mode int64) error
	makeDir = func(dir string, mode int64) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		return errors.Join(makeDir(path.Dir(dir), 0o755), layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}))
	}
	for _, e := range entries {
		var err error
		switch {
		case e.Dir:
			err = makeDir(e.Name, cmp.Or(e.Mode, 0o755))
		case e.Link != "":
			err = errors.Join(makeDir(path.Dir(e.Name), 0o755),
				layer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: e.Name, Linkname: e.Link, Mode: 0o777}))
		default:
			err = errors.Join(makeDir(path.Dir(e.Name), 0o755), addFile(layer, e))
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", e.Name, err)
		}
	}
	return layer.Close()
}

func addFile(layer *tar.Writer, e entry) error {
	file, err := os.Open(e.File)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Mode: cmp.Or(e.Mode, 0o755), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(layer, file)
	return err
}

// notInBase begins the names of a host's root file system that a container has no use for.
func notInBase() []string {
	return []string{
		"dev/", "var/lib/", "var/cache/", "var/log/", "boot/", "etc/systemd/", "etc/ssh/", "usr/share/", "usr/lib/systemd/", "usr/lib/openssh/", "usr/lib/apt/", "usr/lib/locale/",
		"usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/x86_64-linux-gnu/systemd/", "usr/lib/x86_64-linux-gnu/perl-base/", "usr/bin/perl",
		"usr/sbin/dockerd", "usr/sbin/docker-", "usr/bin/docker", "usr/bin/containerd", "usr/bin/ctr", "usr/bin/dnet", "usr/sbin/ovrouter", "usr/sbin/runc",
		"usr/bin/ssh", "usr/sbin/sshd", "usr/bin/tini",
	}
}

// unused says whether a container has no use for a file. Directories themselves stay.
func unused(name string) bool {
	return slices.ContainsFunc(notInBase(), func(prefix string) bool {
		return strings.HasPrefix(name, prefix) && (name != prefix || !strings.HasSuffix(name, "/"))
	})
}

// writeBase writes a host's root file system, without what a container has no use for, as a layer.
func writeBase(w io.Writer, rootFS string) error {
	file, err := os.Open(rootFS)
	if err != nil {
		return err
	}
	defer file.Close()
	from, to := tar.NewReader(file), tar.NewWriter(w)
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", rootFS, err)
		}
		name := strings.TrimPrefix(header.Name, "./")
		if name == "" || unused(name) {
			continue
		}
		header.Name = name
		if header.Typeflag == tar.TypeLink {
			header.Linkname = strings.TrimPrefix(header.Linkname, "./")
		}
		if err := to.WriteHeader(header); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
		if _, err := io.Copy(to, from); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	return to.Close()
}

// layer is one that lies in a file, not compressed.
type layer struct {
	file string
	sum  string // of its content, in hexadecimal digits
}

// makeLayer writes a layer to a file of the directory.
func makeLayer(dir, name string, write func(io.Writer) error) (layer, error) {
	l := layer{file: filepath.Join(dir, name)}
	file, err := os.Create(l.file)
	if err != nil {
		return l, err
	}
	sum := sha256.New()
	if err := errors.Join(write(io.MultiWriter(file, sum)), file.Close()); err != nil {
		return l, fmt.Errorf("make the layer %s: %w", name, err)
	}
	l.sum = hex.EncodeToString(sum.Sum(nil))
	return l, nil
}

// image is what a container is made of.
type image struct {
	Refs   []string // its names
	Layers []layer
	Config v1.Config
}

// writeArchive writes images as `docker save` does.
func writeArchive(w io.Writer, images []image) error {
	type described struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	archive, written := tar.NewWriter(w), map[string]bool{}
	var manifest []described
	for _, i := range images {
		config, err := configOf(i)
		if err != nil {
			return err
		}
		one := described{Config: sumOfBytes(config) + ".json", RepoTags: i.Refs}
		if err := addBytes(archive, one.Config, config); err != nil {
			return err
		}
		for _, l := range i.Layers {
			name := l.sum + "/layer.tar"
			one.Layers = append(one.Layers, name)
			if written[name] {
				continue
			}
			written[name] = true
			if err := addFile(archive, entry{Name: name, File: l.file, Mode: 0o644}); err != nil {
				return err
			}
		}
		manifest = append(manifest, one)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	return errors.Join(addBytes(archive, "manifest.json", text), archive.Close())
}

// configOf is the description of an image, by whose checksum engines know it.
func configOf(i image) ([]byte, error) {
	config := v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: i.Config, RootFS: v1.RootFS{Type: "layers"}}
	if len(config.Config.Env) == 0 {
		config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	for _, l := range i.Layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, v1.Hash{Algorithm: "sha256", Hex: l.sum})
	}
	return json.Marshal(config)
}

func addBytes(archive *tar.Writer, name string, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func sumOfBytes(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
