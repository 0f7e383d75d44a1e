package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-project/drover/installers/image/archive"
	"github.com/drover-project/drover/installers/image/manifest"
)

// tarOf is a tar of names and contents; one that begins with "->" is a link.
func tarOf(pairs ...string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := 0; i+1 < len(pairs); i += 2 {
		h := &tar.Header{Name: pairs[i], Size: int64(len(pairs[i+1])), Mode: 0o644}
		if to, ok := strings.CutPrefix(pairs[i+1], "->"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		}
		err := w.WriteHeader(h)
		if h.Size > 0 {
			_, err = w.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			return nil
		}
	}
	if w.Close() != nil {
		return nil
	}
	return buf.Bytes()
}

// TestLayersOfAnArchiveHaveTheirDiffID: what "docker save" wrote has no digest of stored
// bytes, but the image's configuration has that of each layer's tar.
func TestLayersOfAnArchiveHaveTheirDiffID(t *testing.T) {
	layer := tarOf("run.sh", "archived")
	diffID, _, err := v1.SHA256(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	config := `{"rootfs":{"diff_ids":["` + diffID.String() + `"]}}`
	for name, test := range map[string]struct{ layer, want string }{
		"as it was saved": {string(layer), ""},
		"changed":         {strings.Replace(string(layer), "archived", "archiveD", 1), "what came as the layer " + diffID.String() + " has another digest"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, images := t.TempDir(), t.TempDir()
			saved := tarOf("manifest.json", `[{"Config":"c","RepoTags":["a.io/x:1"],"Layers":["l"]}]`, "c", config, "l", test.layer)
			if err := os.WriteFile(filepath.Join(images, "a.tar"), saved, 0o600); err != nil {
				t.Fatal(err)
			}
			err := (&Stager{ImagesDir: images}).Stage(t.Context(), "a.io/x:1", dir, nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzArchive reads an archive and unpacks what it finds: whatever is in it, nothing is
// written but below the directory, and the limits hold.
func FuzzArchive(f *testing.F) {
	const config = `{"rootfs":{"diff_ids":["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]}}`
	f.Add(tarOf("manifest.json", `[{"Config":"c","RepoTags":["a.io/x:1"],"Layers":["l"]}]`, "c", config, "l", string(tarOf("etc", "->/", "etc/x", "y"))), false)
	f.Add(tarOf("index.json", `{"manifests":[{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0}]}`), true)
	f.Add(tarOf("a", "->../../x", "a/b", "y", ".wh.a", "", "../up", "x"), false)
	tag, err := name.ParseReference("a.io/x:1")
	if err != nil {
		f.Fatal(err)
	}
	digest, err := name.ParseReference("a.io/x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, pinned bool) {
		top := t.TempDir()
		path, inside, beside := filepath.Join(top, "a.tar"), filepath.Join(top, "in"), filepath.Join(top, "beside")
		for _, dir := range []string{inside, beside} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ref := tag
		if pinned {
			ref = digest
		}
		s := &Stager{MaxBytes: 1 << 20, MaxEntries: 100}
		found, err := archive.At(path).Find(t.Context(), ref, manifest.Platform{OS: "linux", Architecture: "amd64"})
		if err == nil && found != nil {
			_ = s.unpack(t.Context(), found, inside, s.progress(ref, nil))
		}
		root, err := os.OpenRoot(inside)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		// The same bytes as a layer by themselves.
		u := &unpacker{root: root, bytes: 1 << 20, content: 1 << 20, entries: 100, maxBytes: 1 << 20, maxEntries: 100}
		err = u.layer(t.Context(), bytes.NewReader(b), v1.Hash{})
		var fault *unpackError
		if err != nil && errors.As(err, &fault) && fault.Error() == "" {
			t.Error("a fault without a word")
		}
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 3 {
			t.Errorf("%d entries beside the directory, %v", len(entries), err)
		}
		if entries, err := os.ReadDir(beside); err != nil || len(entries) != 0 {
			t.Errorf("%d entries in a directory of others, %v", len(entries), err)
		}
	})
}
