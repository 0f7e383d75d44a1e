package assets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyAgentsAreServed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"rancher-system-agent-amd64", "drover", "admin-token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := fs.ReadFile(files, "rancher-system-agent-amd64"); err != nil || string(b) != "rancher-system-agent-amd64" {
		t.Errorf("agent: %q %v", b, err)
	}
	for _, name := range []string{"drover", "admin-token", "rancher-system-agent-arm64", "../etc/passwd"} {
		if _, err := files.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s: %v, want that it does not exist", name, err)
		}
	}
	list, err := fs.ReadDir(files, ".")
	if err != nil || len(list) != 1 || list[0].Name() != "rancher-system-agent-amd64" {
		t.Errorf("list = %v, %v", list, err)
	}
	if _, err := Open(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is missing was opened")
	}
}
