package k3smodule

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestWriteImage reads an archive by each of its image's names.
func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "program"), filepath.Join(dir, "images/a.tar")
	if err := os.WriteFile(program, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	refs := []string{"docker.io/rancher/one:1", "docker.io/rancher/two:2"}
	entries := []Entry{{Name: "bin/program", File: program}, {Name: "bin/other", Link: "program"}}
	if err := WriteImage(archive, v1.Config{Cmd: []string{"/bin/other"}}, entries, refs...); err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(archive, &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || fmt.Sprint(config.Config.Env, config.Config.Cmd) != "[PATH=/bin] [/bin/other]" {
			t.Errorf("%s runs %+v, %v", ref, config.Config, err)
		}
		got := map[string]string{}
		for files := tar.NewReader(mutate.Extract(image)); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			got[header.Name] = fmt.Sprintf("%o %s%s", header.Mode, header.Linkname, content)
		}
		if got["bin/program"] != "755 content" || got["bin/other"] != "777 program" {
			t.Errorf("%s has %q", ref, got)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "images/layer-*")); err != nil || len(left) != 0 {
		t.Errorf("left is %q, %v", left, err)
	}
}
