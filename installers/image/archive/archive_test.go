package archive

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

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

func TestBrokenArchives(t *testing.T) {
	tag, err := name.NewTag("a.io/x:1")
	if err != nil {
		t.Fatal(err)
	}
	const list = `[{"Config":"c","RepoTags":["a.io/x:1"],"Layers":["l"]}]`
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", tarOf(), "it has neither an index.json nor a manifest.json"},
		{"no list", tarOf("manifest.json", "{}"), "its manifest.json is not the JSON of a list of images"},
		{"no index", tarOf("index.json", "[]"), "its index.json is not the JSON of an index"},
		{"too large a list", tarOf("manifest.json", strings.Repeat(" ", manifest.MaxSize+1)), `its entry "manifest.json" is larger than 8388608 bytes`},
		{"no configuration", tarOf("manifest.json", list), `its entry "c" is missing`},
		{"links in a circle", tarOf("manifest.json", list, "c", "->d", "d", "->c"), `its entry "c" is a link to a link to a link, without an end`},
		{"a link out of it", tarOf("manifest.json", list, "c", "->../../etc/passwd"), `its entry "../../etc/passwd" is missing`},
		{"another number of layers", tarOf("manifest.json", list, "c", `{"rootfs":{}}`), `its manifest.json has 1 layers, and the configuration "c" 0`},
		{"a manifest that is another", tarOf("index.json", `{"manifests":[{"digest":"sha256:`+strings.Repeat("0", 64)+`","size":2,"annotations":{"io.containerd.image.name":"a.io/x:1"}}]}`,
			"blobs/sha256/"+strings.Repeat("0", 64), "{}"), "what is stored as sha256:" + strings.Repeat("0", 64) + " has another digest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.tar")
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := At(path).Find(t.Context(), tag, manifest.ThisHost())
			if err == nil || err.Error() != test.want {
				t.Errorf("%v, error %v\nwant %s", found, err, test.want)
			}
		})
	}
}
