package rke2standin

// The release of a version: the program, the archive of its images, and the installer image's content.

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-project/drover/test/k3smodule"
)

// The names in the installer image.
const (
	releaseArchive = "rke2.linux-amd64.tar.gz"
	imagesArchive  = "rke2-images-core.linux-amd64.tar"
	imagesList     = "rke2-images-core.linux-amd64.txt"
	pauseArchive   = "rke2-images-pause.linux-amd64.tar"
	checksums      = "sha256sum-amd64.txt"
)

var installScripts = []string{"run.sh", "installer.sh"}

// components are the names under which the program of all components is called.
var components = []string{
	"containerd", "crictl", "ctr", "kubectl", "kubelet", "etcd", "calico-node", "cloud-controller-manager",
	"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler",
}

// source fetches the module and puts our commands into its copy.
func (b *builder) source(ctx context.Context) error {
	return errors.Join(b.Source(ctx),
		b.CopyCommand("test/rke2standin/program", "rke2"),
		b.CopyCommand("test/rke2standin/components", "rke2-components"))
}

// release builds a version.
func (b *builder) release(ctx context.Context, version string) error {
	dir := filepath.Join(b.Dir, version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Without the tag the supervisor would carry the parts of Kubernetes that run as pods.
	if err := b.build(ctx, version, "rke2", "no_embedded_executor "+k3smodule.Tags); err != nil {
		return err
	}
	if err := b.build(ctx, version, "rke2-components", k3smodule.Tags); err != nil {
		return err
	}
	b.Say("%s: packing %s", b.Product, version)
	refs := imageRefs(version)
	if err := k3smodule.WriteImage(filepath.Join(dir, imagesArchive), v1.Config{Env: []string{"PATH=/bin:/usr/sbin:/usr/bin"}}, b.runtime(dir), refs...); err != nil {
		return err
	}
	if err := k3smodule.CopyFile(b.PauseArchive(), filepath.Join(dir, pauseArchive), 0o644); err != nil {
		return err
	}
	refs = append(refs, k3smodule.PauseImage)
	if err := k3smodule.WriteFile(filepath.Join(dir, imagesList), []byte(strings.Join(refs, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := b.pack(dir); err != nil {
		return fmt.Errorf("pack %s: %w", releaseArchive, err)
	}
	for _, script := range installScripts {
		if err := k3smodule.CopyFile(b.image(script), filepath.Join(dir, script), 0o755); err != nil {
			return err
		}
	}
	if err := writeChecksums(dir, releaseArchive, imagesArchive, pauseArchive, imagesList); err != nil {
		return err
	}
	return k3smodule.Link(filepath.Join(dir, "rke2-components"), filepath.Join(b.Dir, "kubectl"))
}

// image is a file of the installer image among drover's sources.
func (b *builder) image(name string) string {
	return filepath.Join(b.Module, "test/rke2standin/image", name)
}

func (b *builder) build(ctx context.Context, version, command, tags string) error {
	return b.Go(ctx, k3smodule.GoCommand{
		What: command + " " + version, Dir: b.Src(), Env: []string{"CGO_ENABLED=0"},
		Args: []string{"build", "-trimpath", "-tags", tags, "-ldflags=-s -w " + b.VersionFlags(version), "-o", filepath.Join(b.Dir, version, command), "./cmd/" + command},
	})
}

// imageRefs are the names of the one image: those of RKE2's images, by which people look for them.
func imageRefs(version string) []string {
	var refs []string
	for _, name := range []string{"hardened-etcd", "hardened-kubernetes", "rke2-cloud-provider", "rke2-runtime"} {
		refs = append(refs, "docker.io/rancher/"+name+":"+tag(version))
	}
	// The network's pods are deployed once for all nodes, of which some may have another version.
	return append(refs, "docker.io/rancher/hardened-calico:standin")
}

// runtime is the content of that image: the program of all components and the programs that containerd calls. On a host
// with its /usr at the same place, links find the host's libraries for the host's iptables.
func (b *builder) runtime(dir string) []k3smodule.Entry {
	entries := []k3smodule.Entry{{Name: "bin/components", File: filepath.Join(dir, "rke2-components")}}
	for _, name := range components {
		entries = append(entries, k3smodule.Entry{Name: "bin/" + name, Link: "components"})
	}
	for _, name := range []string{"containerd-shim-runc-v2", "bridge", "loopback", "host-local", "portmap", "bandwidth", "flannel"} {
		entries = append(entries, k3smodule.Entry{Name: "bin/" + name, File: filepath.Join(b.Bin(), name)})
	}
	// The first runc on the path is the one that containerd's shim calls, and calls the next one.
	entries = append(entries,
		k3smodule.Entry{Name: "bin/runc", File: filepath.Join(b.Bin(), "runc-dropcap")},
		k3smodule.Entry{Name: "bin/aux/runc", File: filepath.Join(b.Bin(), "runc")})
	for _, dir := range []string{"lib", "lib64", "sbin"} {
		entries = append(entries, k3smodule.Entry{Name: dir, Link: "usr/" + dir})
	}
	return entries
}

// pack writes what is unpacked below the prefix.
func (b *builder) pack(dir string) error {
	file, err := os.Create(filepath.Join(dir, releaseArchive))
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	var errs []error
	errs = append(errs, addFile(archive, "bin/rke2", filepath.Join(dir, "rke2"), 0o755))
	for _, script := range []string{"rke2-killall.sh", "rke2-uninstall.sh"} {
		errs = append(errs, addFile(archive, path.Join("bin", script), b.image(script), 0o755))
	}
	for _, unit := range []string{"rke2-server", "rke2-agent"} {
		for _, kind := range []string{".service", ".env"} {
			errs = append(errs, addFile(archive, path.Join("lib/systemd/system", unit+kind), b.image(unit+kind), 0o644))
		}
	}
	return errors.Join(append(errs, archive.Close(), zip.Close(), file.Close())...)
}

func addFile(archive *tar.Writer, name, source string, mode int64) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// writeChecksums writes the list that the install script checks what it installs against.
func writeChecksums(dir string, names ...string) error {
	var list strings.Builder
	for _, name := range names {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sum.Sum(nil), name)
	}
	return k3smodule.WriteFile(filepath.Join(dir, checksums), []byte(list.String()), 0o644)
}
