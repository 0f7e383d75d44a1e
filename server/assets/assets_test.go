package assets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
)

func TestOnlyAgentsAreServed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"rancher-system-agent-amd64", "drover", "admin-token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Open(dir, t.TempDir())
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
	if _, err := Open(filepath.Join(dir, "missing"), t.TempDir()); err == nil {
		t.Error("a directory that is missing was opened")
	}
}

// compressed is a file system as a release has it.
func compressed(t *testing.T, content string) fstest.MapFS {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"rancher-system-agent-amd64.zst": {Data: encoder.EncodeAll([]byte(content), nil)}}
}

func TestUnpacked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "assets")
	serve := func(content string) fs.FS {
		return only(&unpacked{from: compressed(t, content), dir: dir, done: map[string]bool{}})
	}
	want := func(files fs.FS, content string) {
		t.Helper()
		if b, err := fs.ReadFile(files, "rancher-system-agent-amd64"); err != nil || string(b) != content {
			t.Errorf("read %q %v, want %q", b, err, content)
		}
	}
	files := serve("this release")
	if list, err := fs.ReadDir(files, "."); err != nil || len(list) != 1 || list[0].Name() != "rancher-system-agent-amd64" {
		t.Fatalf("list %v %v", list, err)
	}
	want(files, "this release")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v %v, want the agent alone", entries, err)
	}
	// Removed by a person who makes room, it comes back.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	want(files, "this release")
	// What the release before has left, or another program has written there, is not handed out.
	want(serve("the next release"), "the next release")
	if _, err := files.Open("drover"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another name: %v", err)
	}
}

func TestUnpackFails(t *testing.T) {
	whole := compressed(t, strings.Repeat("agent", 1000))["rancher-system-agent-amd64.zst"].Data
	for name, data := range map[string][]byte{"cut off": whole[:len(whole)-9], "no archive": []byte("agent")} {
		dir := t.TempDir()
		files := &unpacked{from: fstest.MapFS{"agent.zst": {Data: data}}, dir: dir, done: map[string]bool{}}
		if _, err := files.Open("agent"); err == nil {
			t.Errorf("%s: opened", name)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s leaves %v", name, left)
		}
	}
}
