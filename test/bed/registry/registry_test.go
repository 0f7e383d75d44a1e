package registry

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const installer = "rancher/system-agent-installer-k3s:v1.34.4-k3s1"

// entry is what a test looks at of a file in an image.
type entry struct {
	Mode    int64
	Content string
	Dir     bool
}

// serve serves a registry on the loopback and returns its address.
func serve(t *testing.T, r *Registry) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// files writes files with contents and modes into a directory and returns their paths.
func files(t *testing.T, content map[string]entry) map[string]string {
	t.Helper()
	dir, out := t.TempDir(), map[string]string{}
	for name, e := range content {
		source := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(source, []byte(e.Content), os.FileMode(e.Mode)); err != nil {
			t.Fatal(err)
		}
		out[name] = source
	}
	return out
}

func pull(t *testing.T, address, ref string) v1.Image {
	t.Helper()
	image, err := crane.Pull(address+"/"+ref, crane.Insecure, crane.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func entries(t *testing.T, image v1.Image) map[string]entry {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	out := map[string]entry{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[header.Name] = entry{Mode: header.Mode, Content: string(bytes), Dir: header.Typeflag == tar.TypeDir}
	}
}

func TestPushedImageIsPulledAsItWas(t *testing.T) {
	r, err := New(filepath.Join(t.TempDir(), "registry"))
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, r)
	given := files(t, map[string]entry{
		"k3s": {Mode: 0o755, Content: strings.Repeat("binary ", 10_000)}, "/run.sh": {Mode: 0o700, Content: "#!/bin/sh\n"},
		"share/doc/note": {Mode: 0o600, Content: "hello"},
	})
	if err := r.PushInstaller(t.Context(), installer, given); err != nil {
		t.Fatal(err)
	}
	image := pull(t, address, installer)
	want := map[string]entry{
		"k3s": {Mode: 0o755, Content: strings.Repeat("binary ", 10_000)}, "run.sh": {Mode: 0o700, Content: "#!/bin/sh\n"},
		"share": {Mode: 0o755, Dir: true}, "share/doc": {Mode: 0o755, Dir: true}, "share/doc/note": {Mode: 0o600, Content: "hello"},
	}
	if diff := cmp.Diff(want, entries(t, image)); diff != "" {
		t.Errorf("the image's files (-want +got):\n%s", diff)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("platform %s/%s, want linux/amd64", config.OS, config.Architecture)
	}
}

func TestEqualFilesMakeAnEqualImage(t *testing.T) {
	content := map[string]entry{"a": {Mode: 0o644, Content: "a"}, "b": {Mode: 0o755, Content: "b"}}
	var digests []v1.Hash
	for _, ref := range []string{installer, "localhost:1/" + installer} { // a registry's name makes no difference
		r, err := New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.PushInstaller(t.Context(), ref, files(t, content)); err != nil {
			t.Fatal(err)
		}
		digest, err := pull(t, serve(t, r), installer).Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two digests of the same files: %v", digests)
	}
}

func TestPushAgainReplaces(t *testing.T) {
	dir := t.TempDir()
	r, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, r)
	for _, content := range []string{"one", "two"} {
		if err := r.PushInstaller(t.Context(), installer, files(t, map[string]entry{"k3s": {Mode: 0o755, Content: content}})); err != nil {
			t.Fatal(err)
		}
	}
	if got := entries(t, pull(t, address, installer))["k3s"].Content; got != "two" {
		t.Errorf("the image holds %q, want the second push", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, "layer-*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("temporary files were left: %v", left)
	}
}

func TestPushRefuses(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name, ref string
		files     map[string]string
	}{
		{"no tag", "rancher/system-agent-installer-k3s", nil},
		{"bad name", "Rancher/X:v1", nil},
		{"missing file", installer, map[string]string{"k3s": filepath.Join(dir, "absent")}},
		{"directory", installer, map[string]string{"k3s": dir}},
		{"no path", installer, map[string]string{"/": filepath.Join(dir, "absent")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := New(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.PushInstaller(t.Context(), tt.ref, tt.files); err == nil {
				t.Error("no error")
			}
		})
	}
}
