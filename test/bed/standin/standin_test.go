package standin

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// module makes the root of a module whose stand-in is built by the given script.
func module(t *testing.T, script string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "test/standin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "test/standin/build.sh"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestBuild(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	var output bytes.Buffer
	files, err := Build(t.Context(), module(t, `echo building; mkdir -p "$1" && echo binary >"$1/k3s-standin"`), out, &output)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(files["k3s"]); err != nil || string(content) != "binary\n" {
		t.Errorf("the binary is %q, %v", content, err)
	}
	if output.String() != "building\n" {
		t.Errorf("output %q, want that of the build", output.String())
	}
}

// TestFilesExist holds the list of the image's scripts against the scripts there are.
func TestFilesExist(t *testing.T) {
	files, err := Build(t.Context(), module(t, ":"), t.TempDir(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("../../standin/image/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		if files[filepath.Base(script)] == "" {
			t.Errorf("%s is not in the image", filepath.Base(script))
		}
	}
	if len(files) != len(scripts)+1 {
		t.Errorf("the image has %d files, want the binary and %d scripts", len(files), len(scripts))
	}
}

func TestBuildFails(t *testing.T) {
	if _, err := Build(t.Context(), module(t, "exit 3"), t.TempDir(), os.Stderr); err == nil {
		t.Error("no error")
	}
}
