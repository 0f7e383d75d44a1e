package airgap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/drover-project/drover/installers/runtimes"
	k8sversions "github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/rke1/versions"
)

// Bounds of a list of images, in bytes and lines.
const (
	maxList   = 1 << 20
	maxImages = 5000
)

// defaultReleases is where releases of k3s and RKE2 have the lists of their images.
const defaultReleases = "https://github.com"

// wanted says what a site is to have.
type wanted struct {
	versions []string // of Kubernetes
	networks []string // of RKE2, beside the default one
	images   []string // besides
	file     string   // list of images to take instead of those of the releases
	arch     []string
	releases string
	client   *http.Client
}

// repositories are where releases of the runtimes are.
var repositories = map[string]string{"k3s": "k3s-io/k3s", "rke2": "rancher/rke2"}

// list is the full names of all images, in order. Its error says which list could not be read, and from where.
func (w wanted) list(ctx context.Context) ([]string, error) {
	names := slices.Clone(w.images)
	if w.file != "" {
		f, err := os.Open(w.file)
		if err != nil {
			return nil, fmt.Errorf("read the list of images: %w", err)
		}
		defer f.Close()
		lines, err := readList(f)
		if err != nil {
			return nil, fmt.Errorf("read the list of images %s: %w", w.file, err)
		}
		names = append(names, lines...)
	}
	for _, version := range w.versions {
		more, err := w.of(ctx, version)
		if err != nil {
			return nil, fmt.Errorf("list the images of %s: %w", version, err)
		}
		names = append(names, more...)
	}
	for i, text := range names {
		full, err := fullName(text)
		if err != nil {
			return nil, err
		}
		names[i] = full
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxImages {
		return nil, fmt.Errorf("%d images are more than the %d that one file may have", len(names), maxImages)
	}
	return names, nil
}

// of is the images of a version: of k3s and RKE2 what installs it and what its release lists, of RKE1 the system images.
func (w wanted) of(ctx context.Context, version string) ([]string, error) {
	if strings.Contains(version, "-rancher") {
		return systemImages(ctx, version)
	}
	runtime := runtimes.Of(version)
	repository := repositories[runtime.Name]
	if !k8sversions.WellFormed(version) {
		return nil, errors.New("it is none of k3s, RKE2 or RKE1, such as v1.34.4+k3s1, v1.34.4+rke2r1 or v1.30.8-rancher1-1")
	}
	names := []string{runtime.InstallerImage("", version)}
	if w.file != "" {
		return names, nil
	}
	var files []string
	if runtime.Name == "k3s" {
		files = []string{"k3s-images.txt"}
	} else {
		for _, arch := range w.arch {
			for _, part := range append([]string{""}, w.networks...) {
				if part != "" {
					part = "-" + part
				}
				files = append(files, "rke2-images"+part+".linux-"+arch+".txt")
			}
		}
	}
	for _, file := range files {
		more, err := w.fetch(ctx, strings.TrimSuffix(w.releases, "/")+"/"+repository+"/releases/download/"+strings.ReplaceAll(version, "+", "%2B")+"/"+file)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// fetch reads a list of a release.
func (w wanted) fetch(ctx context.Context, address string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", address, err)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w; where no release can be reached, give the images in a file (--images-file)", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: is there such a release?", address, response.Status)
	}
	names, err := readList(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", address, err)
	}
	return names, nil
}

// readList reads names of images, one a line; empty lines and those that begin with # are left out.
func readList(r io.Reader) ([]string, error) {
	var names []string
	limited := &io.LimitedReader{R: r, N: maxList + 1}
	for lines := bufio.NewScanner(limited); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, err
			}
			break
		}
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("it is longer than %d bytes", maxList)
	}
	return names, nil
}

// systemImages are those of a version of RKE1, as the data inside have them.
func systemImages(ctx context.Context, version string) ([]string, error) {
	data, err := versions.Load(ctx, "", versions.Options{})
	if err != nil {
		return nil, err
	}
	images, err := data.Images(version)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, field := range reflect.ValueOf(images).Fields() {
		if text := field.String(); text != "" {
			names = append(names, text)
		}
	}
	return names, nil
}

// fullName is the name of an image with its registry and its tag or digest, as containerd has it: docker.io/library/busybox:latest.
func fullName(text string) (string, error) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return "", fmt.Errorf("%.200q is not the name of an image, such as rancher/mirrored-pause:3.6", text)
	}
	registry := ref.Context().RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	separator := ":"
	if _, digest := ref.(name.Digest); digest {
		separator = "@"
	}
	return registry + "/" + ref.Context().RepositoryStr() + separator + ref.Identifier(), nil
}
