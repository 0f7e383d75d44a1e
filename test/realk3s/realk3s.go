// Package realk3s builds the k3s that the tests and the quick start install on hosts: the real one, from its Go module,
// with the programs its release carries beside it (containerd's shim, runc, CNI plugins), in one binary that unpacks
// itself as a released one does. Nothing of it is committed; it is built at test time into a cache directory.
//
// It differs from a release of k3s in what a machine without its build farm cannot have:
//   - no cgo: no SQLite (a server keeps its data in etcd), no btrfs, no process title;
//   - none of the packaged components that need images of their own (CoreDNS, Traefik, metrics-server, local-path);
//   - the flannel CNI plugin is ours (see test/k3smodule/cni/flannel), the host's iptables and mount are used;
//   - runc is called through runc-dropcap, because some machines withhold CAP_SYS_RESOURCE.
package realk3s

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/test/k3smodule"
)

// The versions that hosts can be given. The code is the same; they differ in what they report, and so in every
// checksum, which is what an upgrade is to the host's agent and to the cluster.
const (
	Version = "v1.34.4+k3s1"
	Older   = "v1.34.3+k3s1"
)

// ColdBuild is how long Build takes the first time on two cores that have nothing else to do.
const ColdBuild = 15 * time.Minute

// Options say what to build and where.
type Options struct {
	// Module is the root directory of drover's sources.
	Module string
	// CacheDir keeps what is built, in its directory k3s. Required.
	CacheDir string
	// Versions are those wanted. Default: Version alone.
	Versions []string
	// Components adds etcd and kube-apiserver as programs of their own, see Kit.Components.
	Components bool
	// Say hears what is being done, and during a long build how far it is. Default: no listener.
	Say func(format string, args ...any)
}

// The images that Kit.Images has.
const (
	PauseImage   = k3smodule.PauseImage
	BusyboxImage = k3smodule.BusyboxImage
)

// Kit is what is needed to install k3s on hosts.
type Kit struct {
	dir string
}

// Kubectl is a kubectl for this machine.
func (k Kit) Kubectl() string { return filepath.Join(k.dir, "kubectl") }

// Binary is the k3s of a version.
func (k Kit) Binary(version string) string { return filepath.Join(k.dir, version, "k3s") }

// InstallScript is k3s' own install.sh.
func (k Kit) InstallScript() string { return filepath.Join(k.dir, "install.sh") }

// Images are the archives of container images that a host needs below agent/images of its data directory: its pause
// image, and Busybox for pods.
func (k Kit) Images() []string {
	return []string{filepath.Join(k.dir, "images", "pause.tar"), filepath.Join(k.dir, "images", "busybox.tar")}
}

// Components is a program that is etcd or kube-apiserver, by the name it is started under.
func (k Kit) Components() string { return filepath.Join(k.dir, "components") }

// Installer is the content of the installer image of a version: path in the image → path on this machine.
func (k Kit) Installer(version string) map[string]string {
	return map[string]string{
		"k3s": k.Binary(version), "installer.sh": k.InstallScript(), "run.sh": filepath.Join(k.dir, "run.sh"),
	}
}

// InstallerRef is the installer image's name, as a plan for the version asks for it.
func InstallerRef(version string) string {
	return "rancher/system-agent-installer-k3s:" + strings.ReplaceAll(version, "+", "-")
}

// builder is one run of Build.
type builder struct {
	*k3smodule.Workshop
}

// Build makes what is missing or was made from other sources. Several processes may call it at once; one builds and the
// others wait. It needs Go, gcc, a static busybox and, the first time, the Go module proxy.
func Build(ctx context.Context, o Options) (Kit, error) {
	if len(o.Versions) == 0 {
		o.Versions = []string{Version}
	}
	b := &builder{&k3smodule.Workshop{
		Product: "k3s", Program: "k3s", Module: o.Module, Dir: filepath.Join(o.CacheDir, "k3s"), Cold: ColdBuild, Say: o.Say,
	}}
	sum, err := b.Sources("test/realk3s")
	if err != nil {
		return Kit{}, err
	}
	parts := []k3smodule.Part{
		{Name: "source", Make: b.Source}, {Name: "programs", Make: b.Programs}, {Name: "images", Make: b.Images}, {Name: "scripts", Make: b.scripts},
	}
	for _, version := range o.Versions {
		parts = append(parts, k3smodule.Part{Name: version, Make: func(ctx context.Context) error { return b.release(ctx, version) }})
	}
	if o.Components {
		parts = append(parts, k3smodule.Part{Name: "components", Make: b.components})
	}
	return Kit{dir: b.Dir}, b.Make(ctx, sum, parts)
}
