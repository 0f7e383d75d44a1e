package image

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestNamesAreBounded: the names of a layer are in memory while it is unpacked.
func TestNamesAreBounded(t *testing.T) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, name := range []string{"12345", "67890", "x"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for names, want := range map[int]string{10: "the names of the image's entries have more than", 11: ""} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		u := &unpacker{root: root, entries: 3, maxEntries: 3, names: names, made: map[string]bool{}}
		err = u.tar(tar.NewReader(bytes.NewReader(layer.Bytes())))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d bytes of names: %v", names, err)
		}
	}
}
