// Package versions knows what the Kubernetes versions of RKE1 are made of: images, flags of the
// components by version, and Docker versions. The data are in the format of Rancher's KDM;
// those of all releases are embedded, and a file or an address replaces them.
//
// Wire source: rancher/kontainer-driver-metadata pkg/rke (data.json), types/kdm of rancher/rke.
package versions

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// ServiceOptions are flags of the components, without dashes, by component. An empty value
// deletes the flag that RKE sets by itself.
type ServiceOptions struct {
	Etcd           map[string]string `json:"etcd"`
	KubeAPI        map[string]string `json:"kubeapi"`
	Kubelet        map[string]string `json:"kubelet"`
	KubeProxy      map[string]string `json:"kubeproxy"`
	KubeController map[string]string `json:"kubeController"`
	Scheduler      map[string]string `json:"scheduler"`
}

// Info says which releases of the rke command line and of Rancher have a version. An empty
// text is no bound.
type Info struct {
	MinRKE     string `json:"minRKEVersion"`
	MaxRKE     string `json:"maxRKEVersion"`
	MinRancher string `json:"minRancherVersion"`
	MaxRancher string `json:"maxRancherVersion"`
}

// Data is everything known, in one value that never changes.
type Data struct {
	// Source says where the data are from, for people: "the built-in version data", a file, or an
	// address without credentials.
	Source string
	// Stale says why these are an older copy of those at the address; "" when they are current.
	Stale string

	doc  document
	rest func() document // of the built-in data, nil of others; read once
	list []string        // newest first
}

// List is every version that is offered to new clusters and to upgrades, newest first: v1.30.5-rancher1-1. All has the others, too.
func (d *Data) List() []string { return slices.Clone(d.list) }

// Known says whether the data have the images of a version, be it offered or not.
func (d *Data) Known(version string) bool {
	_, err := d.Images(version)
	return err == nil
}

// ForConfig is what a config is filled and checked with.
func (d *Data) ForConfig() config.Versions {
	return config.Versions{Default: d.Default(), Images: d.Images, Flags: func(version, kubernetesImage string) error {
		_, err := d.ServiceOptions(version, kubernetesImage)
		return err
	}}
}

// Default is the version of a cluster that names none: the one that the data recommend, or the newest.
func (d *Data) Default() string {
	v := d.doc.Defaults["default"]
	if _, ok := d.doc.Images[v]; ok {
		return v
	}
	return d.list[0] // Read refuses data without a version
}

// HowElse says how versions get known that these data do not have.
const HowElse = "give a file or an address of KDM's data.json that has it, by --version-data of drover rke or by RANCHER_METADATA_URL in the environment"

// Images are the system images of a version, without any registry of the user's. The error names the versions that are near.
func (d *Data) Images(version string) (config.SystemImages, error) {
	for doc := range d.documents(version) {
		if images, ok := doc.Images[version]; ok {
			return images, nil
		}
	}
	return config.SystemImages{}, fmt.Errorf("[%.60s] is an unsupported Kubernetes version and system images are not populated: %s have %s; name one of them, or %s",
		version, d.Source, strings.Join(d.nearest(version), ", "), HowElse)
}

// nearest are the versions of the same minor line, or else the newest of each line.
func (d *Data) nearest(version string) []string {
	wanted, _ := Parse(version)
	var same, newest []string
	last := Version{}
	for _, text := range d.All() {
		v, _ := Parse(text)
		if v.Major == wanted.Major && v.Minor == wanted.Minor {
			same = append(same, text)
		}
		if v.Major != last.Major || v.Minor != last.Minor {
			newest, last = append(newest, text), v
		}
	}
	if len(same) > 0 {
		return same
	}
	return newest
}

// ServiceOptions are the flags of a version: those of this very version, or else of the minor line that
// the tag of the Kubernetes image names, or else of the version's own minor line. The error says how such a version can be used.
func (d *Data) ServiceOptions(version, kubernetesImage string) (ServiceOptions, error) {
	line := ""
	for _, text := range []string{version, Tag(kubernetesImage)} { // the last has the last word
		if v, ok := Parse(text); ok {
			line = v.Line()
		}
	}
	for doc := range d.documents(version) {
		for _, key := range []string{version, "v" + line} {
			if o, ok := doc.ServiceOptions[key]; ok {
				return o, nil
			}
		}
	}
	return ServiceOptions{}, fmt.Errorf("%s have no flags for Kubernetes %.60s with the image %.200q; %s", d.Source, version, kubernetesImage, HowElse)
}

// Info says which releases of rke and Rancher have a version; empty where the data do not say.
func (d *Data) Info(version string) Info {
	v, _ := Parse(version)
	for doc := range d.documents(version) {
		for _, key := range []string{version, "v" + v.Line()} {
			if i, ok := doc.Info[key]; ok {
				return i
			}
		}
	}
	return Info{}
}

// DockerSupported says whether a Kubernetes version was released for a version of Docker, such as 20.10.24
// or 24.0.7-ce, and otherwise whether that is newer than all the data know of, which mostly works. Where the data
// say nothing about the Kubernetes version, any Docker is supported; a text that is not a version never is.
func (d *Data) DockerSupported(version, docker string) (ok, newerThanKnown bool) {
	is, parsed := Parse(docker)
	if !parsed {
		return false, false
	}
	v, _ := Parse(version)
	var known []string
	for doc := range d.documents(version) {
		if known = doc.Docker[v.Line()]; known != nil {
			break
		}
	}
	if known == nil {
		return true, false
	}
	newer := true
	for _, text := range known {
		k, _ := Parse(strings.TrimSuffix(text, ".x"))
		if k.Major == is.Major && k.Minor == is.Minor {
			return true, false
		}
		if k.Major > is.Major || k.Major == is.Major && k.Minor > is.Minor {
			newer = false
		}
	}
	return false, newer
}

// ToolsImage is a helper image with the tag that the default version has, or its own where that is newer:
// snapshots of etcd are always made with it. An image of another name stays as it is.
func (d *Data) ToolsImage(image string) string {
	if !strings.Contains(image, "rancher/rke-tools") {
		return image
	}
	tag := Tag(d.doc.Images[d.Default()].Alpine)
	is, ok := Parse(Tag(image))
	if newest, known := Parse(tag); tag == "" || Tag(image) == "" || ok && known && is.Compare(newest) > 0 {
		return image
	}
	return strings.TrimSuffix(image, Tag(image)) + tag
}

// Template is the text of an add-on's template for a version: plugin is calico, canal, flannel, weave, aci,
// coreDNS, kubeDNS, metricsServer, nginxIngress or nodelocal. The embedded data have none.
func (d *Data) Template(plugin, version string) (text string, ok bool) {
	v, parsed := Parse(version)
	if !parsed || plugin == templateKeys {
		return "", false
	}
	for _, r := range slices.Sorted(maps.Keys(d.doc.Templates[plugin])) {
		if inRange(r, v) {
			text, ok = d.doc.Templates[templateKeys][d.doc.Templates[plugin][r]]
			return text, ok
		}
	}
	return "", false
}

// Tag is the tag of an image's name, "" without one.
func Tag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return tag
}
