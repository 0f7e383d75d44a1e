// Images writes container images as archives that `docker load` and registries take,
// without a registry and without a container engine: `make images`. A new image is a new
// entry of the table.
package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// options say what images are made of.
type options struct {
	arch, version, out string
	// bin has the programs of this module for arch, busybox and kubectl are static ones for it.
	bin, busybox, kubectl string
	// server is the program of the server for arch.
	server string
	// ca is a bundle of the certificate authorities that an agent trusts beside a pinned one.
	ca string
}

// content is one image: its name without version, and what is in it.
type content struct {
	name, suffix string
	entries      func(o options) ([]entry, error)
	config       v1.Config
}

// entry is a file of an image, a symbolic link, or with neither source nor link an empty directory.
type entry struct {
	path   string // below /
	source string // file of this machine
	link   string // target, instead of a source
	mode   int64
	owner  int // user and group
}

// images is the table.
var images = map[string]content{
	"suc": {name: "drover/system-agent", suffix: "-suc", entries: suc, config: v1.Config{
		Cmd: []string{"/opt/rancher-system-agent-suc/run.sh"}, Env: []string{"PATH=/usr/bin:/bin"},
	}},
	"rancher-agent": {name: "drover/rancher-agent", entries: rancherAgent, config: v1.Config{
		Entrypoint: []string{"/usr/bin/rancher-agent"}, WorkingDir: "/var/lib/rancher",
		Env:    []string{"PATH=/usr/bin", "SSL_CERT_DIR=/etc/kubernetes/ssl/certs"},
		Labels: map[string]string{"io.cattle.agent": "true"}, // by which a clean-up finds agents
	}},
	// It has no VOLUME on purpose: that would be a nameless volume, which goes with the container, and the server could not tell.
	"server": {name: "drover/server", entries: server, config: v1.Config{
		Entrypoint: []string{"/usr/bin/drover"}, Cmd: []string{"server"}, User: fmt.Sprintf("%d:%[1]d", serverUser), WorkingDir: "/var/lib/drover",
		Env:          []string{"PATH=/usr/bin", "DROVER_CONTAINER=true"},
		ExposedPorts: map[string]struct{}{"8443/tcp": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/usr/bin/drover", "server", "check", "--quick"}, Interval: 30 * time.Second, Timeout: 10 * time.Second,
			StartPeriod: time.Minute, Retries: 3,
		},
	}},
}

func main() {
	var o options
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture of the images")
	flag.StringVar(&o.version, "version", "dev", "tag of the images")
	flag.StringVar(&o.out, "out", "bin", "directory of the archives")
	flag.StringVar(&o.bin, "bin", "server/assets/bin", "directory of the programs, NAME-ARCH")
	flag.StringVar(&o.busybox, "busybox", "/bin/busybox", "a static busybox")
	flag.StringVar(&o.kubectl, "kubectl", "", "a static kubectl; without it images have none")
	flag.StringVar(&o.server, "server", "bin/drover", "the program of the server")
	flag.StringVar(&o.ca, "ca", "/etc/ssl/certs/ca-certificates.crt", "certificate authorities that agents trust")
	flag.Parse()
	for _, which := range flag.Args() {
		path, err := write(o, which)
		if err != nil {
			fmt.Fprintf(os.Stderr, "image %s: %v\n", which, err)
			os.Exit(1)
		}
		fmt.Println(path)
	}
}

// suc is what the system upgrade controller runs on the nodes.
func suc(o options) ([]entry, error) {
	const dir = "opt/rancher-system-agent-suc/"
	all := []entry{
		{path: dir + "run.sh", source: "packaging/suc/run.sh", mode: 0o755},
		{path: dir + "install.sh", source: "install.sh", mode: 0o755},
		{path: dir + "system-agent-uninstall.sh", source: "system-agent-uninstall.sh", mode: 0o755},
		{path: dir + "rancher-system-agent", source: filepath.Join(o.bin, "rancher-system-agent-"+o.arch), mode: 0o755},
		{path: "bin/busybox", source: o.busybox, mode: 0o755},
	}
	if err := static(o.busybox, o.arch); err != nil {
		return nil, err
	}
	for _, applet := range []string{"cat", "chmod", "chroot", "cp", "dirname", "grep", "mkdir", "mktemp", "rm", "sed", "sh"} {
		all = append(all, entry{path: "bin/" + applet, link: "busybox"})
	}
	if o.kubectl == "" {
		fmt.Fprintln(os.Stderr, "image suc: without kubectl (-kubectl), so it cannot read the roles of a node")
		return all, nil
	}
	return append(all, entry{path: "bin/kubectl", source: o.kubectl, mode: 0o755}), static(o.kubectl, o.arch)
}

// rancherAgent is the node agent of Docker hosts: a program, whom it trusts, and the
// directories that its hosts usually mount.
func rancherAgent(o options) ([]entry, error) {
	program := filepath.Join(o.bin, "rancher-agent-"+o.arch)
	return []entry{
		{path: "usr/bin/rancher-agent", source: program, mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", source: o.ca, mode: 0o644},
		{path: "etc/kubernetes/ssl/certs", mode: 0o755},
		{path: "var/lib/rancher", mode: 0o755},
		{path: "tmp", mode: 0o1777},
	}, static(program, o.arch)
}

// serverUser is the user of the server in its image, by number: there are no names.
const serverUser = 65532

// server is the management server. A volume at its data directory begins as the directory is here: the server's own.
func server(o options) ([]entry, error) {
	return []entry{
		{path: "usr/bin/drover", source: o.server, mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", source: o.ca, mode: 0o644},
		{path: "etc/drover", mode: 0o755},
		{path: "var/lib/drover", mode: 0o700, owner: serverUser},
		{path: "tmp", mode: 0o1777},
	}, static(o.server, o.arch)
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// static refuses a program that an image without libraries cannot run.
func static(path, arch string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	if f.Machine != machines[arch] {
		return fmt.Errorf("%s is for %s, not for %s", path, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, but the image has no libraries; Debian's package is busybox-static", path)
		}
	}
	return nil
}

// write writes one image and returns the path of its archive.
func write(o options, which string) (string, error) {
	c, ok := images[which]
	if !ok {
		return "", errors.New("is not in the table")
	}
	image, err := build(o, c)
	if err != nil {
		return "", err
	}
	tag, err := name.NewTag(c.name + ":" + o.version + c.suffix)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(o.out, "image-"+which+"-"+o.arch+".tar")
	return path, archive(path, tag, image)
}

func build(o options, c content) (v1.Image, error) {
	entries, err := c.entries(o)
	if err != nil {
		return nil, err
	}
	layer, err := pack(entries)
	if err != nil {
		return nil, err
	}
	opened, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), opened)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", o.arch, c.config
	return mutate.ConfigFile(image, file)
}

// pack makes a layer. It has no times, so that equal content is an equal image.
func pack(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	for _, e := range entries {
		if err := directories(w, filepath.Dir(e.path), made); err != nil {
			return nil, err
		}
		h := &tar.Header{Name: e.path, Mode: 0o777, Typeflag: tar.TypeSymlink, Linkname: e.link}
		var content []byte
		switch {
		case e.link == "" && e.source == "":
			h.Name, h.Mode, h.Typeflag, h.Uid, h.Gid = e.path+"/", e.mode, tar.TypeDir, e.owner, e.owner
			made[e.path] = true
		case e.link == "":
			var err error
			if content, err = os.ReadFile(e.source); err != nil {
				return nil, err
			}
			h.Mode, h.Typeflag, h.Size = e.mode, tar.TypeReg, int64(len(content))
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func directories(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := directories(w, filepath.Dir(dir), made); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir})
}
