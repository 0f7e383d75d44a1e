package realk3s

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestBundle reads the archive as k3s does: lists of checksums and links, and everything they name.
func TestBundle(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := writeBundle(&archive, []entry{{name: "k3s", file: program}, {name: "kubectl", link: "k3s"}, {name: "aux/runc", file: program}}); err != nil {
		t.Fatal(err)
	}
	reader, err := zstd.NewReader(&archive)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for files := tar.NewReader(reader); ; {
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
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("content")))
	for name, want := range map[string]string{
		"bin/k3s": "755 content", "bin/aux/runc": "755 content", "bin/kubectl": "777 k3s",
		"bin/.links": "644 kubectl k3s\n", "bin/.sha256sums": "644 " + sum + "  aux/runc\n" + sum + "  k3s\n",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
