package rke1images

// The images: what is in each, and what it is called.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// BusyboxImage is the name of an image for the tests' own pods.
const BusyboxImage = "busybox:1"

// The roles of images, as system_images of a cluster.yml names them. Two that follow from each other are one image.
const (
	roleEtcd       = "etcd"
	roleKubernetes = "kubernetes"
	roleTools      = "alpine"
	rolePause      = "pod_infra_container"
	roleCoreDNS    = "coredns"
	roleAutoscaler = "coredns_autoscaler"
	roleFlannel    = "flannel"
	roleFlannelCNI = "flannel_cni"
)

// SystemImages are the names of a version's images in Kit.Archive, by the keys of system_images of a cluster.yml. They
// are those of the published images for that minor version; what is in them is the same for all versions but for
// Kubernetes. There are none for ingress, metrics, the node's own name service, and the networks canal, calico and weave.
func SystemImages(version string) map[string]string {
	names := map[string]string{
		roleKubernetes: "rancher/hyperkube:" + releases()[version].Tag,
		roleEtcd:       "rancher/mirrored-coreos-etcd:v3.5.3",
		roleTools:      "rancher/rke-tools:v0.1.88",
		rolePause:      "rancher/mirrored-pause:3.6",
		roleCoreDNS:    "rancher/mirrored-coredns-coredns:1.9.0",
		roleAutoscaler: "rancher/mirrored-cluster-proportional-autoscaler:1.8.5",
		roleFlannel:    "rancher/mirrored-coreos-flannel:v0.15.1",
		roleFlannelCNI: "rancher/flannel-cni:v0.3.0-rancher6",
	}
	switch version {
	case Next: // beside another one on the same host, during an upgrade, its images have names of their own
		names[roleEtcd] = "rancher/mirrored-coreos-etcd:v3.5.4"
		names[roleTools] = "rancher/rke-tools:v0.1.90"
		names[rolePause] = "rancher/mirrored-pause:3.6"
		names[roleCoreDNS] = "rancher/mirrored-coredns-coredns:1.9.3"
	case Newer:
		names[roleEtcd] = "rancher/mirrored-coreos-etcd:v3.5.12"
		names[roleTools] = "rancher/rke-tools:v0.1.108"
		names[rolePause] = "rancher/mirrored-pause:3.7"
		names[roleCoreDNS] = "rancher/mirrored-coredns-coredns:1.11.1"
		names[roleAutoscaler] = "rancher/mirrored-cluster-proportional-autoscaler:v1.8.9"
		names[roleFlannel] = "rancher/mirrored-flannel-flannel:v0.25.1"
		names[roleFlannelCNI] = "rancher/flannel-cni:v1.4.1-rancher1"
	}
	for _, role := range []string{"nginx_proxy", "cert_downloader", "kubernetes_services_sidecar"} {
		names[role] = names[roleTools]
	}
	return names
}

// images writes the archive of a version.
func (b *builder) images(version string, r release) error {
	b.Say("%s: packing those of %s", b.Product, version)
	dir, err := os.MkdirTemp(b.Dir, "layers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	layers, err := b.layers(dir, version, r)
	if err != nil {
		return err
	}
	names := SystemImages(version)
	tools := v1.Config{Volumes: map[string]struct{}{"/opt/rke-tools": {}}}
	all := []image{
		{Refs: []string{names[roleKubernetes]}, Layers: []layer{layers["base"], layers["hyperkube"]}},
		{Refs: []string{names[roleEtcd]}, Layers: []layer{layers["etcd"]}},
		{Refs: []string{names[roleTools]}, Layers: []layer{layers["busybox"], layers["etcd"], layers["tools"]}, Config: tools},
		{Refs: []string{names[rolePause]}, Layers: []layer{layers["pause"]}, Config: v1.Config{Entrypoint: []string{"/pause"}}},
		{Refs: []string{names[roleAutoscaler]}, Layers: []layer{layers["pause"]}, Config: v1.Config{Entrypoint: []string{"/cluster-proportional-autoscaler"}}},
		{Refs: []string{names[roleCoreDNS]}, Layers: []layer{layers["coredns"]}, Config: v1.Config{Entrypoint: []string{"/coredns"}}},
		{Refs: []string{names[roleFlannel]}, Layers: []layer{layers["base"], layers["flannel"]}, Config: v1.Config{Entrypoint: []string{"/opt/bin/flanneld"}}},
		{Refs: []string{names[roleFlannelCNI]}, Layers: []layer{layers["base"], layers["flannel"]}, Config: v1.Config{Cmd: []string{"/install-cni.sh"}}},
		{Refs: []string{BusyboxImage}, Layers: []layer{layers["busybox"]}, Config: v1.Config{Cmd: []string{"/bin/sh"}}},
	}
	archive := filepath.Join(b.Dir, version+".tar")
	file, err := os.Create(archive + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(writeArchive(file, all), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", archive, err)
	}
	return os.Rename(archive+".new", archive)
}

// layers writes the layers of all images.
func (b *builder) layers(dir, version string, r release) (map[string]layer, error) {
	busybox, err := busyboxEntries()
	if err != nil {
		return nil, err
	}
	all := map[string]layer{}
	add := func(name string, write func(io.Writer) error) {
		if err == nil {
			all[name], err = makeLayer(dir, name, write)
		}
	}
	add("base", func(w io.Writer) error { return writeBase(w, b.rootFS) })
	for name, entries := range map[string][]entry{
		"hyperkube": b.hyperkubeEntries(r),
		"etcd": {
			{Name: "usr/local/bin/etcd", File: filepath.Join(b.Bin(), "etcd")},
			{Name: "usr/local/bin/etcdctl", Link: "etcd"},
			{Name: "tmp", Dir: true, Mode: 0o1777},
		},
		"busybox": busybox,
		"tools":   b.toolsEntries(version),
		"pause": {
			{Name: "pause", File: filepath.Join(b.Bin(), "pause")},
			{Name: "cluster-proportional-autoscaler", Link: "pause"},
		},
		"coredns": {{Name: "coredns", File: filepath.Join(b.Bin(), "coredns")}},
		"flannel": b.flannelEntries(),
	} {
		add(name, func(w io.Writer) error { return writeLayer(w, entries) })
	}
	return all, err
}

func (b *builder) hyperkubeEntries(r release) []entry {
	entries := []entry{{Name: "usr/local/bin/hyperkube", File: b.hyperkube(r)}}
	for _, name := range []string{"kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubectl"} {
		entries = append(entries, entry{Name: "usr/local/bin/" + name, Link: "hyperkube"})
	}
	return entries
}

// script is a file of the images among drover's sources.
func (b *builder) script(name string) string {
	return filepath.Join(b.Module, "test/rke1images/image", name)
}

func (b *builder) toolsEntries(version string) []entry {
	entries := []entry{
		{Name: "usr/bin/tools", File: filepath.Join(b.Bin(), "tools")},
		{Name: "usr/bin/nginx-proxy", Link: "tools"},
		{Name: "usr/bin/cert-deployer", Link: "tools"},
		{Name: "bin/nc", Link: "/usr/bin/tools"},
		{Name: "bin/bash", File: b.script("bash")},
		{Name: "opt/rke-tools/entrypoint.sh", File: b.script("entrypoint.sh")},
		{Name: "opt/rke-tools/rke-etcd-backup", Link: "/usr/bin/tools"},
	}
	if version == Next {
		entries = append(entries, entry{Name: "opt/rke-tools/bin/cri-dockerd", File: filepath.Join(b.Bin(), "cri-dockerd")})
	}
	return entries
}

func (b *builder) flannelEntries() []entry {
	entries := []entry{
		{Name: "opt/bin/flanneld", File: filepath.Join(b.Bin(), "flanneld")},
		{Name: "install-cni.sh", File: b.script("install-cni.sh")},
		{Name: "opt/cni/bin/flannel", File: filepath.Join(b.Bin(), "flannel")},
	}
	for _, plugin := range plugins() {
		name := filepath.Base(plugin)
		entries = append(entries, entry{Name: "opt/cni/bin/" + name, File: filepath.Join(b.Bin(), name)})
	}
	return entries
}

func busyboxEntries() ([]entry, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w; test/bed/setup.sh installs it", err)
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list what busybox can do: %w", err)
	}
	entries := []entry{{Name: "bin/busybox", File: busybox}, {Name: "tmp", Dir: true, Mode: 0o1777}, {Name: "etc", Dir: true}}
	for _, applet := range bytes.Fields(applets) {
		if name := string(applet); name != "busybox" {
			entries = append(entries, entry{Name: "bin/" + name, Link: "busybox"})
		}
	}
	return entries, nil
}
