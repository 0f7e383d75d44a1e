package airgap

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// packed is a packaged chart with a Chart.yaml.
func packed(t *testing.T, about string) []byte {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for _, f := range [][2]string{{"quay/charts/inner/Chart.yaml", "name: inner\nversion: 9.9.9\n"}, {"quay/Chart.yaml", about}, {"quay/templates/x.yaml", "a: b\n"}} {
		must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, f[1])
		must(t, err)
	}
	must(t, w.Close())
	must(t, compressed.Close())
	return b.Bytes()
}

// TestCharts: a chart comes from a file, an address and a repository, the same one each time, and is pulled as helm pulls it.
func TestCharts(t *testing.T) {
	chart := packed(t, "apiVersion: v2\nname: quay\nversion: 1.2.3+build.4\nannotations: {x: y}\n")
	sum := sha256.Sum256(chart)
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stable/index.yaml":
			fmt.Fprintf(w, "apiVersion: v1\nentries:\n  quay:\n  - {version: 1.2.2, urls: [old.tgz]}\n  - {version: 1.2.3+build.4, digest: %s, urls: [files/quay.tgz]}\n  - {version: 1.2.9, digest: '%064d', urls: [files/quay.tgz]}\n  - {version: 2.0.0, urls: ['ftp://elsewhere/quay.tgz']}\n",
				hex.EncodeToString(sum[:]), 7)
		case "/stable/files/quay.tgz":
			_, _ = w.Write(chart)
		case "/away":
			http.Redirect(w, r, "http://127.0.0.1:1/x.tgz", http.StatusFound)
		case "/endless.tgz":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		case "/large/index.yaml":
			_, _ = w.Write(bytes.Repeat([]byte("#\n"), maxIndex))
		default:
			http.NotFound(w, r)
		}
	}))
	defer repository.Close()
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/quay.tgz", chart, 0o600))
	var before []byte
	for i, from := range []string{dir + "/quay.tgz", repository.URL + "/stable/files/quay.tgz", repository.URL + "/stable/#quay:1.2.3+build.4"} {
		file := fmt.Sprintf("%s/site-%d.tar", dir, i)
		s := newUpstream(t).saver(file, "amd64")
		s.charts = []string{from}
		must(t, s.save(t.Context(), nil, ""))
		text, err := os.ReadFile(file)
		must(t, err)
		if i > 0 && !bytes.Equal(before, text) {
			t.Errorf("of %s there is another site", from)
		}
		before = text
	}
	site, err := openSite(dir + "/site-0.tar")
	must(t, err)
	defer site.Close()
	if n, _, err := site.verify("", []string{"charts.local/charts/quay:1.2.3_build.4"}); err != nil || n != 1 {
		t.Errorf("%d images: %v", n, err)
	}
	served, err := newRegistry(site)
	must(t, err)
	server := httptest.NewServer(served)
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/charts/quay:1.2.3_build.4", name.Insecure)
	must(t, err)
	pulled, err := remote.Image(ref)
	must(t, err)
	tags, err := remote.List(ref.Context())
	if err != nil || !slices.Equal(tags, []string{"1.2.3_build.4"}) {
		t.Errorf("tags: %v %v", tags, err)
	}
	manifest, err := pulled.Manifest()
	must(t, err)
	config, err := pulled.RawConfigFile()
	must(t, err)
	layers, err := pulled.Layers()
	must(t, err)
	content, err := layers[0].Compressed()
	must(t, err)
	got, err := io.ReadAll(content)
	must(t, err)
	if !bytes.Equal(got, chart) || manifest.Config.MediaType != chartConfig || manifest.Layers[0].MediaType != chartLayer || !strings.Contains(string(config), `"version":"1.2.3+build.4"`) {
		t.Errorf("pulled: %+v %s", manifest, config)
	}

	for from, want := range map[string]string{
		dir + "/none.tgz": "no such file", repository.URL + "/none.tgz": "answers 404", repository.URL + "/stable#quay": "#NAME:VERSION",
		repository.URL + "/stable#quay:7": "chart quay of version 7 is not in it", repository.URL + "/stable#quay:1.2.9": "has another digest", repository.URL + "/stable#quay:2.0.0": "is not https",
		repository.URL + "/endless.tgz": "more than 32 MiB", strings.Replace(repository.URL, "http://", "http://user:hunter2@", 1) + "/none.tgz": "answers 404",
		repository.URL + "/large#quay:1": "more than 4 MiB",
	} {
		s := newUpstream(t).saver(dir+"/other.tar", "amd64")
		s.charts = []string{from}
		if err := s.save(t.Context(), nil, ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
	secure := httptest.NewTLSServer(repository.Config.Handler)
	defer secure.Close()
	downgraded := newUpstream(t).saver(dir+"/other.tar", "amd64")
	downgraded.transport, downgraded.charts = secure.Client().Transport, []string{secure.URL + "/away"}
	if err := downgraded.save(t.Context(), nil, ""); err == nil || !strings.Contains(err.Error(), "without encryption") {
		t.Errorf("redirected from https to http: %v", err)
	}
	for about, want := range map[string]string{"name: Quay!\nversion: '1'\n": "no registry can have it", "name: quay\n": "no registry can have it", "- x\n": "Chart.yaml", "name: [\n": "Chart.yaml"} {
		must(t, os.WriteFile(dir+"/bad.tgz", packed(t, about), 0o600))
		s := newUpstream(t).saver(dir+"/other.tar", "amd64")
		s.charts = []string{dir + "/bad.tgz"}
		if err := s.save(t.Context(), nil, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", about, err, want)
		}
	}
	must(t, os.WriteFile(dir+"/bad.tgz", []byte("no archive"), 0o600))
	if _, err := newUpstream(t).saver(dir+"/other.tar", "amd64").chart(t.Context(), dir+"/bad.tgz"); err == nil || !strings.Contains(err.Error(), "not a packaged chart") {
		t.Errorf("a file of another type: %v", err)
	}
}

func FuzzReadChart(f *testing.F) {
	f.Add([]byte("no archive"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		_, _ = readChart(content)                                       // neither panics nor goes on without an end
		_, _, _ = findChart(content, "https://charts.lan", "quay", "1") // as above
	})
}
