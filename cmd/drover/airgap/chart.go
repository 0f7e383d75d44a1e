package airgap

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/drover-project/drover/plans/fetch"
	"github.com/drover-project/drover/plans/strictyaml"
)

// Charts of Helm that are not in a registry: files, or charts of classic repositories. In a site they are what `helm push` makes of them
// (https://helm.sh/docs/topics/registries): an artifact whose config is Chart.yaml and whose layer is the file, named chartsAt/NAME:VERSION.
const (
	chartsAt    = "charts.local/charts/"
	chartConfig = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	chartLayer  = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

// Bounds of what is read of charts, in bytes: a chart, what is unpacked of it until its Chart.yaml is found, and the index of a repository.
const (
	maxChart    = 32 << 20
	maxUnpacked = 128 << 20
	maxIndex    = 4 << 20
)

// chart fetches a chart: a file, the http(s) address of one, or REPOSITORY#NAME:VERSION of a repository with an index.yaml.
func (s *saver) chart(ctx context.Context, from string) (v1.Descriptor, error) {
	content, err := s.chartFile(ctx, from)
	if err != nil {
		return v1.Descriptor{}, err
	}
	about, err := readChart(content)
	if err != nil {
		return v1.Descriptor{}, err
	}
	config, err := json.Marshal(about)
	if err != nil {
		return v1.Descriptor{}, err
	}
	name, _ := about["name"].(string)
	version, _ := about["version"].(string)
	image := chartsAt + name + ":" + strings.ReplaceAll(version, "+", "_") // a tag has no plus, and helm asks for it so
	if full, err := fullName(image); err != nil || full != image {
		return v1.Descriptor{}, fmt.Errorf("its Chart.yaml has the name %.100q and the version %.100q, by which no registry can have it", name, version)
	}
	blob := func(media types.MediaType, b []byte) (v1.Descriptor, error) {
		digest, size, err := v1.SHA256(bytes.NewReader(b))
		if err != nil {
			return v1.Descriptor{}, err
		}
		return v1.Descriptor{MediaType: media, Digest: digest, Size: size}, keep(s.member(digest), size, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	layer, err := blob(chartLayer, content)
	if err == nil {
		manifest.Layers = []v1.Descriptor{layer}
		manifest.Config, err = blob(chartConfig, config)
	}
	if err != nil {
		return v1.Descriptor{}, err
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d, err := blob(types.OCIManifestSchema1, text)
	d.Annotations = map[string]string{nameKey: image, "org.opencontainers.image.ref.name": version}
	return d, err
}

// chartFile is the file of a chart.
func (s *saver) chartFile(ctx context.Context, from string) ([]byte, error) {
	if !fetch.IsAddress(from) {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return limit(maxChart).Read(f)
	}
	repository, chart, named := strings.Cut(from, "#")
	if !named {
		return s.download(ctx, from, maxChart)
	}
	name, version, ok := strings.Cut(chart, ":")
	if !ok || name == "" || version == "" {
		return nil, fmt.Errorf("a chart of a repository is named as %s#NAME:VERSION", fetch.Shown(repository))
	}
	index, err := s.download(ctx, strings.TrimSuffix(repository, "/")+"/index.yaml", maxIndex)
	if err != nil {
		return nil, err
	}
	address, digest, err := findChart(index, repository, name, version)
	if err != nil {
		return nil, fmt.Errorf("index.yaml of %s: %w; give the address of the chart's file instead", fetch.Shown(repository), err)
	}
	content, err := s.download(ctx, address, maxChart)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); digest != "" && hex.EncodeToString(sum[:]) != strings.TrimPrefix(digest, "sha256:") {
		return nil, fmt.Errorf("the file at %s has another digest than the index of %s says", fetch.Shown(address), fetch.Shown(repository))
	}
	return content, nil
}

// findChart is where a version of a chart is, and the digest of its file if the index has one.
func findChart(index []byte, repository, name, version string) (address, digest string, err error) {
	text, err := strictyaml.AsJSON(index)
	if err != nil {
		return "", "", err
	}
	var repositoryIndex struct {
		Entries map[string][]struct {
			Version, Digest string
			URLs            []string
		}
	}
	if err := json.Unmarshal(text, &repositoryIndex); err != nil {
		return "", "", err
	}
	base, err := url.Parse(strings.TrimSuffix(repository, "/") + "/")
	if err != nil {
		return "", "", err
	}
	for _, one := range repositoryIndex.Entries[name] {
		if one.Version != version || len(one.URLs) == 0 {
			continue
		}
		at, err := base.Parse(one.URLs[0])
		if err != nil || at.Scheme != "https" && at.Scheme != base.Scheme {
			return "", "", fmt.Errorf("the address of the chart, %.200q, is not https, nor of the repository's scheme", fetch.Shown(one.URLs[0]))
		}
		return at.String(), one.Digest, nil
	}
	return "", "", fmt.Errorf("chart %s of version %s is not in it", name, version)
}

// download is what an address has.
func (s *saver) download(ctx context.Context, address string, most int64) ([]byte, error) {
	answer, err := fetch.Get(ctx, fetch.Request{Address: address, Limit: limit(most), Within: listLimit, Transport: s.transport})
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", fetch.Shown(address), err)
	}
	return answer.Text, nil
}

func limit(most int64) fetch.Limit {
	return fetch.Limit{Bytes: most, Over: fmt.Sprintf("it has more than %d MiB", most>>20)}
}

// readChart is the Chart.yaml of a chart.
func readChart(content []byte) (about map[string]any, err error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("this file is not a packaged chart (NAME-VERSION.tgz): %w", err)
	}
	r := tar.NewReader(io.LimitReader(unpacked, maxUnpacked))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("this file is not a packaged chart: Chart.yaml is missing")
		}
		if err != nil {
			return nil, fmt.Errorf("this file is not a packaged chart: %w", err)
		}
		if dir, file := path.Split(h.Name); file != "Chart.yaml" || strings.Count(dir, "/") != 1 || h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := limit(maxManifest).Read(r)
		if err == nil {
			text, err = strictyaml.AsJSON(text)
		}
		if err != nil {
			return nil, fmt.Errorf("its Chart.yaml: %w", err)
		}
		return about, json.Unmarshal(text, &about)
	}
}
