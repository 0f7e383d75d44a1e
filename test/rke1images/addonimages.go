package rke1images

// Images of what RKE1's add-ons run beside CoreDNS. They take long to build, and only the slower half of the end-to-end
// tests has them.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-project/drover/test/k3smodule"
)

// The programs that are real.
const (
	metricsModule = "sigs.k8s.io/metrics-server/cmd/metrics-server@v0.7.2"
	flannelModule = "github.com/flannel-io/flannel@v0.25.7"
)

// PageImage is the name of an image for the tests' own pods, which answers HTTP at port 8080 (addonstandins/page.go).
const PageImage = "page:1"

// AddonImages are the names of the images in Kit.AddonArchive, by the keys of system_images of a cluster.yml: those that were
// published for Version. flannel is real there and a stand-in in
// Kit.Archive, where the autoscaler does nothing.
func AddonImages() map[string]string {
	names := map[string]string{
		"metrics_server":  "rancher/mirrored-metrics-server:v0.6.1",
		"ingress":         "rancher/nginx-ingress-controller:nginx-1.5.1-rancher2",
		"ingress_backend": "rancher/mirrored-nginx-ingress-controller-defaultbackend:1.5-rancher1",
		"ingress_webhook": "rancher/mirrored-ingress-nginx-kube-webhook-certgen:v1.1.1",
		"calico_node":     "rancher/mirrored-calico-node:v3.22.5", "calico_cni": "rancher/calico-cni:v3.22.5-rancher1",
		"calico_controllers": "rancher/mirrored-calico-kube-controllers:v3.22.5", "calico_flexvol": "rancher/mirrored-calico-pod2daemon-flexvol:v3.22.5",
		"canal_flannel": "rancher/mirrored-flannelcni-flannel:v0.17.0",
	}
	for _, role := range []string{"node", "cni", "controllers", "flexvol"} {
		names["canal_"+role] = names["calico_"+role]
	}
	base := SystemImages(Version)
	for _, role := range []string{roleFlannel, roleAutoscaler} {
		names[role] = base[role]
	}
	return names
}

// addonParts are the steps for the images of add-ons.
func (b *builder) addonParts(programs string) ([]part, error) {
	const here = "test/rke1images/"
	built, err := b.sumOf([]any{metricsModule, flannelModule}, here+"addonimages.go", here+"addonstandins")
	if err != nil {
		return nil, err
	}
	images, err := b.sumOf([]any{built, programs, filepath.Base(b.rootFS)}, here+"layer.go")
	if err != nil {
		return nil, err
	}
	return []part{{"addon-programs", built, b.addonPrograms}, {"addon-images", images, func(context.Context) error { return b.addonImages() }}}, nil
}

// addonBin has the programs; some are called as others of Bin are.
func (b *builder) addonBin(name string) string { return filepath.Join(b.Bin(), "addons", name) }

func (b *builder) addonPrograms(ctx context.Context) error {
	if err := os.MkdirAll(b.addonBin(""), 0o755); err != nil {
		return err
	}
	bin := "GOBIN=" + b.addonBin("")
	static := []string{"CGO_ENABLED=0", "GOFLAGS=", bin}
	commands := []k3smodule.GoCommand{
		{What: "the stand-ins of add-ons", Dir: b.Module, Env: static, Args: []string{"install", "-trimpath", "-ldflags=-s -w", "./test/rke1images/addonstandins"}},
		{What: "metrics-server", Dir: b.Dir, Env: static, Args: []string{"install", "-trimpath", "-ldflags=-s -w", metricsModule}},
		// A part of it that is never used is written in C.
		{What: "flannel", Dir: b.Dir, Env: []string{"CGO_ENABLED=1", "GOFLAGS=", bin}, Args: []string{"install", "-trimpath", "-tags=netgo,osusergo",
			"-ldflags=-s -w -linkmode external -extldflags -static", flannelModule}},
	}
	for _, command := range commands {
		if err := b.Go(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// addonImages writes the archive.
func (b *builder) addonImages() error {
	b.Say("%s: packing those of add-ons", b.Product)
	dir, err := os.MkdirTemp(b.Dir, "layers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := func(in, name string) entry { return entry{Name: in, File: b.addonBin(name)} }
	standin := func(in string) entry { return entry{Name: in, Link: "/standins"} }
	all := map[string][]entry{
		"flanneld": {program("opt/bin/flanneld", "flannel")}, "metrics": {program("metrics-server", "metrics-server")},
		"standins": {program("standins", "addonstandins"), {Name: "tmp", Dir: true, Mode: 0o1777}},
		"links": {
			standin("cluster-proportional-autoscaler"), standin("kube-webhook-certgen"), standin("bin/calico-node"), standin("sbin/start_runit"), standin("usr/bin/kube-controllers"),
			standin("usr/bin/check-status"), standin("flexvol"), standin("default-backend"), standin("page"), standin("nginx-ingress-controller"), standin("wait-shutdown"),
		},
		"cni": {standin("opt/cni/bin/install"), standin("opt/cni/bin/calico")},
	}
	for _, plugin := range plugins() {
		name := filepath.Base(plugin)
		all["cni"] = append(all["cni"], entry{Name: "opt/cni/bin/" + name, File: filepath.Join(b.Bin(), name)})
	}
	layers := map[string]layer{}
	if layers["base"], err = makeLayer(dir, "base", func(w io.Writer) error { return writeBase(w, b.rootFS) }); err != nil {
		return err
	}
	for name, entries := range all {
		if layers[name], err = makeLayer(dir, name, func(w io.Writer) error { return writeLayer(w, entries) }); err != nil {
			return err
		}
	}
	names := AddonImages()
	starts := func(program string) v1.Config { return v1.Config{Entrypoint: []string{program}} }
	images := []image{
		{Refs: []string{names[roleFlannel], names["canal_flannel"]}, Layers: []layer{layers["base"], layers["flanneld"]}, Config: starts("/opt/bin/flanneld")},
		{Refs: []string{names["metrics_server"]}, Layers: []layer{layers["metrics"]}, Config: starts("/metrics-server")},
		{Refs: []string{names["ingress"]}, Layers: []layer{layers["standins"], layers["links"]}}, // its program is the first of its arguments
		{Refs: []string{names["calico_cni"]}, Layers: []layer{layers["standins"], layers["cni"]}, Config: starts("/opt/cni/bin/install")},
	}
	for role, program := range map[string]string{
		roleAutoscaler: "/cluster-proportional-autoscaler", "ingress_webhook": "/kube-webhook-certgen", "calico_node": "/sbin/start_runit",
		"calico_controllers": "/usr/bin/kube-controllers", "calico_flexvol": "/flexvol", "ingress_backend": "/default-backend",
	} {
		images = append(images, image{Refs: []string{names[role]}, Layers: []layer{layers["standins"], layers["links"]}, Config: starts(program)})
	}
	images = append(images, image{Refs: []string{PageImage}, Layers: []layer{layers["standins"], layers["links"]}, Config: starts("/page")})
	archive := filepath.Join(b.Dir, addonArchive)
	file, err := os.Create(archive + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(writeArchive(file, images), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", archive, err)
	}
	return os.Rename(archive+".new", archive)
}
