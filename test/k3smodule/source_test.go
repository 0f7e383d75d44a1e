package k3smodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemoveLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.go")
	for _, test := range []struct{ before, after string }{
		{"a\n\t_ \"x/btrfs/plugin\"\nb\n", "a\nb\n"},
		{"a\nb\n", ""}, // the module has changed, and a developer has to look
		{"btrfs/plugin\nbtrfs/plugin\n", ""},
	} {
		if err := os.WriteFile(path, []byte(test.before), 0o644); err != nil {
			t.Fatal(err)
		}
		err := removeLine(path, "btrfs/plugin")
		after, _ := os.ReadFile(path)
		if test.after == "" {
			if err == nil || !strings.Contains(err.Error(), "one was expected") {
				t.Errorf("%q: %v", test.before, err)
			}
		} else if err != nil || string(after) != test.after {
			t.Errorf("%q became %q, %v", test.before, after, err)
		}
	}
}

// TestManifestsNameTheProgram: what binds users to rights binds those that the program's certificates name.
func TestManifestsNameTheProgram(t *testing.T) {
	src := t.TempDir()
	for _, name := range []string{"ccm.yaml", "rolebindings.yaml", "runtimes.yaml"} {
		if err := WriteFile(filepath.Join(src, "manifests", name), []byte("name: system:k3s-controller\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := stageManifests(src, "rke2"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(src, "pkg/deploy/embed/rolebindings.yaml"))
	if err != nil || string(text) != "name: system:rke2-controller\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestCopyCommand: what is copied builds in k3s' module, without the tag that keeps it out of drover's.
func TestCopyCommand(t *testing.T) {
	w := &Workshop{Module: t.TempDir(), Dir: t.TempDir()}
	for name, text := range map[string]string{"main.go": "//go:build ignore\n\npackage main\n", "main_test.go": "package main\n"} {
		if err := WriteFile(filepath.Join(w.Module, "test/a/b", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.CopyCommand("test/a/b", "c"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(w.Src(), "cmd/c"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	if text, err := os.ReadFile(filepath.Join(w.Src(), "cmd/c/main.go")); err != nil || string(text) != "\npackage main\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := w.CopyCommand("test/a", "c"); err == nil {
		t.Error("a directory without sources was copied")
	}
}
