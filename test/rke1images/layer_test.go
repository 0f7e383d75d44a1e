package rke1images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestArchive reads an archive of two images that share a layer with a library that does not know how it was written.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	layers := map[string]layer{}
	for name, entries := range map[string][]entry{
		"shared": {{Name: "usr/bin/program", File: program}, {Name: "tmp", Dir: true, Mode: 0o1777}},
		"own":    {{Name: "usr/bin/other", Link: "program"}, {Name: "etc/plain", File: program, Mode: 0o600}},
	} {
		var err error
		if layers[name], err = makeLayer(dir, name, func(w io.Writer) error { return writeLayer(w, entries) }); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, "all.tar")
	var text bytes.Buffer
	images := []image{
		{Refs: []string{"rancher/one:1", "rancher/uno:1"}, Layers: []layer{layers["shared"]}, Config: v1.Config{Cmd: []string{"program"}}},
		{Refs: []string{"rancher/two:2"}, Layers: []layer{layers["shared"], layers["own"]}},
	}
	if err := writeArchive(&text, images); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := map[string]string{"usr": "755 ", "usr/bin": "755 ", "usr/bin/program": "755 content", "tmp": "1777 "}
	two := map[string]string{"usr/bin/other": "777 program", "etc": "755 ", "etc/plain": "600 content"}
	for key, value := range shared {
		two[key] = value
	}
	for ref, want := range map[string]map[string]string{"rancher/one:1": shared, "rancher/uno:1": shared, "rancher/two:2": two} {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(archive, &tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		if diff := cmp.Diff(want, files(t, mutate.Extract(image))); diff != "" {
			t.Errorf("%s: %s", ref, diff)
		}
	}
	if n := strings.Count(text.String(), layers["shared"].sum+"/layer.tar\x00"); n != 1 {
		t.Errorf("the shared layer is %d times in the archive", n)
	}
}

// files are the entries of an archive with their modes, and their contents or where they lead.
func files(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	all := map[string]string{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(header.Name, "/")] = fmt.Sprintf("%o %s%s", header.Mode, header.Linkname, content)
	}
}

// TestBase leaves out of a host's root file system what containers have no use for.
func TestBase(t *testing.T) {
	var from, to bytes.Buffer
	archive := tar.NewWriter(&from)
	for _, name := range []string{"./", "./dev/", "./dev/null", "./usr/bin/bash", "./usr/bin/dockerd", "./usr/bin/docker", "./var/lib/", "./var/lib/dpkg/status", "./var/run"} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}
		if strings.HasSuffix(name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "root.tar")
	if err := os.WriteFile(path, from.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeBase(&to, path); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dev": "755 ", "usr/bin/bash": "755 ", "var/lib": "755 ", "var/run": "755 "}
	if diff := cmp.Diff(want, files(t, &to)); diff != "" {
		t.Error(diff)
	}
}

// TestReplaceStaging changes the replacements by directories and no others.
func TestReplaceStaging(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go.mod")
	const before = "module k8s.io/kubernetes\nrequire k8s.io/sample-cli v0.0.0\nreplace (\n\tgithub.com/a/b => github.com/a/b v1.0.0\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/sample-cli => ./staging/src/k8s.io/sample-cli\n)\n"
	const after = "module k8s.io/kubernetes\nreplace (\n\tgithub.com/a/b => github.com/a/b v1.0.0\n\tk8s.io/api => k8s.io/api v0.23.17\n)\n"
	if err := os.WriteFile(path, []byte(before), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := replaceStaging(path, "v0.23.17"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != after {
		t.Errorf("%q, %v", got, err)
	}
	if err := replaceStaging(path, "v0.23.17"); err == nil {
		t.Error("a go.mod without such replacements was accepted")
	}
}

// TestAddonsNameImages finds no image in the manifests that a version's archive has not.
func TestAddonsNameImages(t *testing.T) {
	for version := range releases() {
		known := map[string]bool{}
		for _, ref := range SystemImages(version) {
			known[ref] = true
		}
		found := regexp.MustCompile(`(?m)image: (.*)$`).FindAllStringSubmatch(Network(version)+DNS(version), -1)
		if len(found) != 3 {
			t.Errorf("%s: %d images are named", version, len(found))
		}
		for _, f := range found {
			if !known[f[1]] {
				t.Errorf("%s: %s is not among the images", version, f[1])
			}
		}
	}
}
