package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func TestCompress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	copied := func(content []byte, changed time.Time) []byte {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		if err := compress(path); err != nil {
			t.Fatal(err)
		}
		packed, err := os.ReadFile(path + ".zst")
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	content := bytes.Repeat([]byte("what hosts run "), 100_000)
	first := copied(content, time.Now().Add(-time.Hour))
	reader, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(window))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if back, err := reader.DecodeAll(first, nil); err != nil || !bytes.Equal(back, content) || len(first) > len(content)/10 {
		t.Errorf("%d bytes become %d and %d again: %v", len(content), len(first), len(back), err)
	}
	if again := copied([]byte("other"), time.Now().Add(-time.Minute)); !bytes.Equal(first, again) {
		t.Error("a copy that is newer than its file was written again")
	}
	if again := copied(content, time.Now().Add(time.Hour)); !bytes.Equal(first, again) {
		t.Error("equal files have copies that differ")
	}
	if err := compress(path + ".missing"); err == nil {
		t.Error("a file that is missing was compressed")
	}
}
