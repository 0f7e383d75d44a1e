package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestPick(t *testing.T) {
	index := func(platforms ...string) (all []v1.Descriptor) {
		for i, text := range platforms {
			d := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprint(i)}}
			if parts := strings.Split(text+"///", "/"); text != "" {
				d.Platform = &v1.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}
			}
			all = append(all, d)
		}
		return all
	}
	for _, test := range []struct {
		p    platform
		in   []v1.Descriptor
		want string
	}{
		{platform{"linux", "arm64"}, index("linux/amd64", "linux/arm64", "linux/arm64/v8"), "2"},
		{platform{"linux", "arm64"}, index("linux/arm64/v9", "linux/arm64"), "1"},
		{platform{"linux", "arm64"}, index("linux/arm64/v9"), "there is no image for linux/arm64 in it, only for linux/arm64/v9"},
		{platform{"linux", "amd64"}, index("linux/amd64/v3", "linux/amd64"), "1"},
		{platform{"linux", "amd64"}, index("linux/amd64/v1"), "0"},
		{platform{"linux", "amd64"}, index("windows/amd64", "unknown/unknown"), "there is no image for linux/amd64 in it, only for windows/amd64"},
		{platform{"linux", "amd64"}, index(""), "0"},
		{platform{"linux", "amd64"}, index("", ""), "there is no image for linux/amd64 in it, only for no platform that is named"},
	} {
		digest, err := test.p.pick(test.in)
		if got := digest.Hex; err != nil && err.Error() != test.want || err == nil && got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.p, got, err, test.want)
		}
	}
}

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
		{"no list", tarOf("manifest.json", "{}"), "its manifest.json is no JSON of a list of images"},
		{"no index", tarOf("index.json", "[]"), "its index.json is no JSON of an index"},
		{"too large a list", tarOf("manifest.json", strings.Repeat(" ", maxManifest+1)), `its entry "manifest.json" is larger than 8388608 bytes`},
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
			found, err := archiveAt(path).find(t.Context(), tag, thisHost())
			if err == nil || err.Error() != test.want {
				t.Errorf("%v, error %v\nwant %s", found, err, test.want)
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
		found, err := archiveAt(path).find(t.Context(), ref, platform{"linux", "amd64"})
		if err == nil && found != nil {
			_ = s.unpack(t.Context(), found, inside, s.teller(t.Context(), ref))
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
