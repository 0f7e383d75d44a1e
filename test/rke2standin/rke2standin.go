// Package rke2standin builds a STAND-IN of RKE2 for the end-to-end tests: RKE2 is no Go module, and its release cannot be
// fetched where the tests run. Nothing of it is committed; it is built at test time into a cache directory.
//
// RKE2 itself is built upon k3s' packages, and so is this. Real, out of the module of k3s, are:
//   - the supervisor: tokens, joining, the membership of etcd with its learners, bootstrap data, certificates and their
//     rotation, snapshots and restores, secrets encryption, config.yaml and config.yaml.d, the deploy controller;
//   - what it runs: containerd, the kubelet, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, the cloud
//     controller manager, etcd, kubectl and crictl, in the version of that module.
//
// Written for the tests, from what is known of RKE2's behaviour and not from its code, are:
//   - the executor (program): it writes static pods and runs the kubelet as a process, where k3s runs all in one;
//   - the installer image (image): run.sh, the units, rke2-killall.sh and rke2-uninstall.sh. Its installer.sh installs what
//     lies beside it and nothing else, and its images come as an archive: the stand-in pulls none of its own;
//   - one image for all static pods, under the names of RKE2's images. kube-proxy uses the host's iptables from there.
//
// What RKE2 has and this has not: charts (CoreDNS, ingress, metrics-server), a choice of network (whatever `cni` says, the
// flannel of k3s runs inside the supervisor; of Calico and Canal there is a pod on each node that answers their probe and
// does nothing else), profiles (CIS), requests and limits of static pods, SELinux, rpm, Windows. Flags of these are accepted and ignored; program/flags.go lists them.
package rke2standin

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
	Version = "v1.34.4+rke2r1"
	Older   = "v1.34.3+rke2r1"
)

// ColdBuild is how long Build takes the first time on two cores that have nothing else to do and have built no k3s.
const ColdBuild = 15 * time.Minute

// BusyboxImage is the name of the image that Kit.Busybox has.
const BusyboxImage = k3smodule.BusyboxImage

// Options say what to build and where.
type Options struct {
	// Module is the root directory of drover's sources.
	Module string
	// CacheDir keeps what is built, in its directory rke2standin. Required.
	CacheDir string
	// Versions are those wanted. Default: Version alone.
	Versions []string
	// Say hears what is being done, and during a long build how far it is. Default: no listener.
	Say func(format string, args ...any)
}

// Kit is what is needed to install the stand-in on hosts.
type Kit struct {
	dir string
}

// Kubectl is a kubectl for this machine.
func (k Kit) Kubectl() string { return filepath.Join(k.dir, "kubectl") }

// Busybox is the archive of an image for the tests' own pods: a host finds it below agent/images of its data directory.
func (k Kit) Busybox() string { return filepath.Join(k.dir, "images", "busybox.tar") }

// Installer is the content of the installer image of a version: path in the image → path on this machine.
func (k Kit) Installer(version string) map[string]string {
	files := map[string]string{}
	for _, name := range append([]string{imagesArchive, pauseArchive, releaseArchive, imagesList, checksums}, installScripts...) {
		files[name] = filepath.Join(k.dir, version, name)
	}
	return files
}

// InstallerRef is the installer image's name, as a plan for the version asks for it.
func InstallerRef(version string) string {
	return "rancher/system-agent-installer-rke2:" + tag(version)
}

// tag is a version as tags of images spell it.
func tag(version string) string { return strings.ReplaceAll(version, "+", "-") }

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
		Product: "RKE2's stand-in", Program: "rke2", Commit: "standin", Module: o.Module, Dir: filepath.Join(o.CacheDir, "rke2standin"),
		Cold: ColdBuild, Say: o.Say,
	}}
	sum, err := b.Sources("test/rke2standin")
	if err != nil {
		return Kit{}, err
	}
	parts := []k3smodule.Part{{Name: "source", Make: b.source}, {Name: "programs", Make: b.Programs}, {Name: "images", Make: b.Images}}
	for _, version := range o.Versions {
		parts = append(parts, k3smodule.Part{Name: version, Make: func(ctx context.Context) error { return b.release(ctx, version) }})
	}
	return Kit{dir: b.Dir}, b.Make(ctx, sum, parts)
}
