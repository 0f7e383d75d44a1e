// Package rke1images builds the container images of an RKE1 cluster for the end-to-end tests, which cannot fetch the
// published ones. Nothing of it is committed; it is built at test time, out of Go modules, into a cache directory.
//
// Real, and built from their own modules, are Kubernetes' programs, etcd, CoreDNS and the CNI plugins; Debian's shell,
// mount and iptables, which the kubelet and kube-proxy call, come out of the root file system of a test host. Kubernetes
// 1.23 has dockershim inside: its pods are containers of the host's own Docker.
//
// STAND-INS, written for the tests from what is known of the originals' behaviour and not from their code, are:
//   - rancher/rke-tools: entrypoint.sh and the programs of its image (tools), at the same paths. Where the original starts
//     cri-dockerd, entrypoint.sh starts dockershim of Kubernetes 1.23 (cridockerd) or, for kubelets that do not understand
//     it any more, puts the socket of the host's containerd in its place;
//   - flannel (flanneld), which lays plain routes between hosts of one link, and its CNI plugin and installer;
//   - the pause program; the autoscaler of CoreDNS, which is the same program and scales nothing.
//
// Where a test asks for the images of add-ons, flannel is real, as is metrics-server; the rest of them are stand-ins
// (addonstandins).
//
// kube-apiserver of 1.23 needs a generated file that its module lacks and that of 1.24 has; see kubernetes.go.
package rke1images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/lockfile"
	"github.com/drover-project/drover/test/k3smodule"
)

// The versions of Kubernetes, as kubernetes_version of a cluster.yml has them.
const (
	// Version has dockershim, and so real pods.
	Version = "v1.23.17-rancher1-1"
	// Older is made of the same code and differs in what it reports, which is what an upgrade is to a cluster.
	Older = "v1.23.16-rancher2-3"
	// Next is the minor after Version, and the first without dockershim inside. Its pods stay containers of Docker: what it
	// has for cri-dockerd is the dockershim of Version.
	Next = "v1.24.17-rancher1-1"
	// Newer has the flags of later minors. cri-dockerd is no module that can be fetched, and dockershim is too old for it,
	// so its pods are not containers of Docker: the stand-in of rke-tools leads the kubelet to the containerd beside Docker.
	// It is made of 1.30.14, and reports what it is taken for.
	Newer = "v1.30.8-rancher1-1"
)

// PodsInDocker says whether a version's pods are containers of the host's Docker.
func PodsInDocker(version string) bool { return version != Newer }

// HasDockershim says whether a version's kubelet has dockershim inside.
func HasDockershim(version string) bool { return version == Version || version == Older }

// ColdBuild is how long Build takes the first time on two cores that have nothing else to do.
const ColdBuild = 15 * time.Minute

// HostPackages are Debian's packages of a host that RKE1 runs on, beyond those of every test host.
func HostPackages() []string { return []string{"docker.io", "openssh-server", "socat", "conntrack"} }

// Options say what to build and where.
type Options struct {
	// Module is the root directory of drover's sources.
	Module string
	// Engine is used where Debian cannot be had without one, and its cache directory keeps what is built. Required.
	Engine *engine.Engine
	// Versions are those wanted. Default: Version alone.
	Versions []string
	// Addons builds the images of add-ons, too.
	Addons bool
	// Say hears what is being done, and during a long build how far it is. Default: no listener.
	Say func(format string, args ...any)
}

// Kit is what was built.
type Kit struct {
	dir string
}

// Archive is the archive of all images of a version, as `docker load` takes it.
func (k Kit) Archive(version string) string { return filepath.Join(k.dir, version+".tar") }

// addonArchive is the file with the images of add-ons.
const addonArchive = "addons.tar"

// AddonArchive is the archive of the images of add-ons; it is there when Options.Addons asked for it.
func (k Kit) AddonArchive() string { return filepath.Join(k.dir, addonArchive) }

// Kubectl is the kubectl of a version, for this machine.
func (k Kit) Kubectl(version string) string {
	return filepath.Join(k.dir, "bin", releases()[version].Tag, "kubectl")
}

// builder is one run of Build.
type builder struct {
	k3smodule.Workshop
	engine *engine.Engine
	rootFS string // the archive of a host's root file system
}

// part is one step: its stamp's name, the checksum of what it is made from, and how it is made.
type part struct {
	name, sum string
	make      func(context.Context) error
}

// Build makes what is missing or was made from other sources. Several processes may call it at once; one builds and the
// others wait. It needs Go, a static busybox and, the first time, the Go module proxy and a mirror of Debian.
func Build(ctx context.Context, o Options) (Kit, error) {
	if len(o.Versions) == 0 {
		o.Versions = []string{Version}
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	b := &builder{Workshop: k3smodule.Workshop{
		Product: "RKE1's images", Module: o.Module, Dir: filepath.Join(o.Engine.CacheDir(), "rke1images"), Cold: ColdBuild, Say: o.Say,
	}, engine: o.Engine}
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return Kit{}, fmt.Errorf("make the cache of %s: %w", b.Product, err)
	}
	var err error
	if b.rootFS, err = host.RootFS(ctx, b.engine, HostPackages()...); err != nil {
		return Kit{}, err
	}
	parts, err := b.parts(o.Versions, o.Addons)
	if err != nil {
		return Kit{}, err
	}
	if slices.ContainsFunc(parts, b.missing) {
		err = b.alone(ctx, func() error { return b.build(ctx, parts) })
	}
	return Kit{dir: b.Dir}, err
}

// alone does something while no other process does.
func (b *builder) alone(ctx context.Context, do func() error) error {
	path := filepath.Join(b.Dir, "lock")
	lock, err := lockfile.Try(path, lockfile.Exclusive)
	if err == nil && lock == nil {
		b.Say("%s: another process is building some of them; waiting", b.Product)
		lock, err = lockfile.Take(ctx, path, lockfile.Exclusive)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Unlock())
}

func (b *builder) stamp(p part) string { return filepath.Join(b.Dir, p.name+".stamp") }

// missing says whether a part has to be made.
func (b *builder) missing(p part) bool {
	have, err := os.ReadFile(b.stamp(p))
	return err != nil || string(have) != p.sum
}

// build makes the parts that are missing.
func (b *builder) build(ctx context.Context, parts []part) error {
	begin, built := time.Now(), false
	for _, p := range parts {
		if !b.missing(p) { // another process made it meanwhile
			continue
		}
		if !built {
			built = true
			b.Say("building %s from Go modules; this takes about %d minutes the first time on two idle cores", b.Product, int(b.Cold.Minutes()))
		}
		if err := p.make(ctx); err != nil {
			return fmt.Errorf("build %s, %s: %w", b.Product, p.name, err)
		}
		if err := os.WriteFile(b.stamp(p), []byte(p.sum), 0o644); err != nil {
			return fmt.Errorf("build %s, %s: %w", b.Product, p.name, err)
		}
	}
	if built {
		b.Say("%s are built, in %s", b.Product, time.Since(begin).Round(time.Second))
	}
	return nil
}

// parts are the steps for the versions and for add-ons, in their order.
func (b *builder) parts(versions []string, addons bool) ([]part, error) {
	const here = "test/rke1images/"
	programs, err := b.sumOf([]any{pluginsModule}, here+"programs.go", here+"etcd", here+"coredns", here+"tools", here+"flanneld",
		"test/k3smodule/pause", "test/k3smodule/cni")
	if err != nil {
		return nil, err
	}
	parts := []part{{"programs", programs, b.programs}}
	for _, version := range versions {
		r, known := releases()[version]
		if !known {
			return nil, fmt.Errorf("build %s: %s is not one of the versions", b.Product, version)
		}
		kubernetes, err := b.sumOf([]any{r}, here+"kubernetes.go", here+"kubernetes")
		if err != nil {
			return nil, err
		}
		var shim string
		if version == Next {
			if shim, err = b.sumOf([]any{releases()[Version]}, here+"kubernetes.go", here+"cridockerd"); err != nil {
				return nil, err
			}
			parts = append(parts, part{"cri-dockerd", shim, b.criDockerd})
		}
		images, err := b.sumOf([]any{programs, kubernetes, shim, filepath.Base(b.rootFS)}, here+"images.go", here+"layer.go", here+"image")
		if err != nil {
			return nil, err
		}
		parts = append(parts,
			part{"kubernetes-" + version, kubernetes, func(ctx context.Context) error { return b.kubernetes(ctx, r) }},
			part{"images-" + version, images, func(context.Context) error { return b.images(version, r) }})
	}
	if addons {
		more, err := b.addonParts(programs)
		return append(parts, more...), err
	}
	return parts, nil
}
