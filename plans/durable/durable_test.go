package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/durable"
)

func TestWriteFileReplacesContentAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	// A crash of an earlier writer left its temporary file, readable by all.
	if err := os.WriteFile(path+".tmp", []byte("half"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, []byte("new"), 0o640); err != nil {
		t.Fatal(err)
	}
	got, err := durable.ReadFile(path, 10)
	if err != nil || string(got) != "new" {
		t.Fatalf("content %q, error %v; want new", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Fatalf("mode %v, error %v; want 0640", info.Mode(), err)
	}
	if _, err := os.Stat(path + ".tmp"); !os.IsNotExist(err) {
		t.Fatalf("temporary file is still there: %v", err)
	}
}

func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	if err := os.MkdirAll(filepath.Join(path, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, []byte("x"), 0o600); err == nil {
		t.Fatal("a directory was replaced by a file")
	}
	if _, err := os.Stat(filepath.Join(path, "in")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".tmp"); !os.IsNotExist(err) {
		t.Fatalf("temporary file is still there: %v", err)
	}
}

func TestReadFileRefusesTooMuch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := durable.WriteJSON(path, "12345678", fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.ReadFile(path, 10); err == nil || !strings.Contains(err.Error(), "larger than 10 bytes") {
		t.Fatalf("error %v; want one that names the limit", err)
	}
	if b, err := durable.ReadFile(path, 11); err != nil || string(b) != "\"12345678\"\n" {
		t.Fatalf("%q, %v", b, err)
	}
}
