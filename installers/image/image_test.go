package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-project/drover/installers/image"
)

// entry is one tar entry of a layer.
type entry struct {
	name string
	kind byte // default a regular file
	mode int64
	body string
	link string
}

func file(ref, body string) entry { return entry{name: ref, mode: 0o644, body: body} }

// layer makes a layer of the entries.
func layer(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.body)), Linkname: e.link}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// nextLayer ends a layer in a list of entries.
var nextLayer = entry{name: "next layer", kind: 0xff}

// layered makes layers of entries.
func layered(t *testing.T, entries ...entry) (layers []v1.Layer) {
	t.Helper()
	for {
		end := slices.Index(entries, nextLayer)
		if end < 0 {
			return append(layers, layer(t, entries...))
		}
		layers = append(layers, layer(t, entries[:end]...))
		entries = entries[end+1:]
	}
}

func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// plain is an image whose only file says which one it is.
func plain(t *testing.T, which string) v1.Image {
	t.Helper()
	return imageOf(t, layer(t, file("run.sh", which)))
}

// hub is an in-process registry that notes what it is asked for.
type hub struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newHub(t testing.TB, wrap func(http.Handler) http.Handler, tls bool) *hub {
	t.Helper()
	h := &hub{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		inner = wrap(inner)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked = append(h.asked, r.Method+" "+r.URL.RequestURI())
		h.mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	if tls {
		h.Server = httptest.NewUnstartedServer(handler)
		h.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
		h.Server.StartTLS()
	} else {
		h.Server = httptest.NewServer(handler)
	}
	t.Cleanup(h.Close)
	return h
}

func (h *hub) host() string { return h.Listener.Addr().String() }

// push stores an image and returns its name with the registry.
func (h *hub) push(t testing.TB, repository string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(h.host()+"/"+repository, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport
	if h.TLS != nil {
		transport = h.Client().Transport
	}
	if err := remote.Write(ref, img, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	return h.host() + "/" + repository
}

func (h *hub) was(t *testing.T, part string) bool {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asked {
		if strings.Contains(a, part) {
			return true
		}
	}
	return false
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stage stages into a new directory and returns what is there.
func stage(t *testing.T, s *image.Stager, ref string) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sandbox")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Logger, s.Pause = quiet(), time.Millisecond
	err := s.Stage(t.Context(), ref, dir, nil)
	return tree(t, dir), err
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%v %s", info.Mode(), rel)
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + text
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func want(t *testing.T, got string, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(lines, "\n"), got); diff != "" {
		t.Error(diff)
	}
}

func TestLayersAreFlattened(t *testing.T) {
	h := newHub(t, nil, false)
	ref := h.push(t, "inst/k3s:v1", imageOf(t,
		layer(t,
			entry{name: "bin/", kind: tar.TypeDir, mode: 0o700}, entry{name: "bin/tool", mode: 0o4777, body: "tool"},
			file("./run.sh", "old"), file("/etc/conf", "conf"), file("gone", "x"), file("dir/a", "a"), file("dir/b", "b"), file("later", "file"),
			entry{name: "zero", body: "zero"}, entry{name: "dev", kind: tar.TypeChar}, entry{name: "pipe", kind: tar.TypeFifo}),
		layer(t,
			entry{name: "run.sh", mode: 0o755, body: "new"}, file(".wh.gone", ""), file("dir/c", "c"), file("dir/.wh..wh..opq", ""),
			entry{name: "later", kind: tar.TypeDir, mode: 0o755}, file("later/inside", "i"),
			entry{name: "bin/sh", kind: tar.TypeSymlink, link: "/bin/tool"}, entry{name: "up", kind: tar.TypeSymlink, link: "bin/../run.sh"},
			entry{name: "hard", kind: tar.TypeLink, link: "bin/tool"})))
	got, err := stage(t, &image.Stager{}, ref)
	if err != nil {
		t.Fatal(err)
	}
	want(t, got,
		"drwxr-xr-x bin", "Lrwxrwxrwx bin/sh -> tool", "-rwxr-xr-x bin/tool tool", "drwxr-xr-x dir", "-rw-r--r-- dir/c c",
		"drwxr-xr-x etc", "-rw-r--r-- etc/conf conf", "-rwxr-xr-x hard tool", "drwxr-xr-x later", "-rw-r--r-- later/inside i",
		"-rwxr-xr-x run.sh new", "Lrwxrwxrwx up -> bin/../run.sh", "-rwxr-xr-x zero zero")
}

func TestHostileLayers(t *testing.T) {
	tests := []struct {
		name    string
		entries []entry
		change  func(*image.Stager)
		want    string // the error, or what is staged when it begins with a mode
	}{
		{"path upwards", []entry{file("../evil", "x")}, nil, `image entry "../evil" leads out of the image`},
		{"path upwards from inside", []entry{file("a/../../evil", "x")}, nil, `image entry "a/../../evil" leads out of the image`},
		{"directory upwards", []entry{{name: "..", kind: tar.TypeDir}}, nil, `image entry ".." leads out of the image`},
		{"relative link outside", []entry{{name: "a/l", kind: tar.TypeSymlink, link: "../../outside"}}, nil, `image entry a/l: its link "../../outside" leads out of the image`},
		{"link without a target", []entry{{name: "l", kind: tar.TypeSymlink}}, nil, `image entry l: its link "" leads out of the image`},
		{
			"absolute link, then a write through it",
			[]entry{{name: "etc", kind: tar.TypeSymlink, link: "OUTSIDE"}, file("etc/passwd", "evil")}, nil,
			"image entry etc/passwd: ",
		},
		{
			"absolute link, then a write over it",
			[]entry{{name: "passwd", kind: tar.TypeSymlink, link: "OUTSIDE/file"}, nextLayer, file("passwd", "mine")}, nil,
			"-rw-r--r-- passwd mine",
		},
		{
			"link that leads outside only through another link",
			[]entry{{name: "d/e", kind: tar.TypeDir}, {name: "short", kind: tar.TypeSymlink, link: "d/e"}, {name: "x/y/z/l", kind: tar.TypeSymlink, link: "../../../short/../../../outside"}}, nil,
			`image entry x/y/z/l: its link "../../../short/../../../outside" leads out of the image`,
		},
		{
			"the same, hidden behind a link in the middle",
			[]entry{{name: "a/b/c", kind: tar.TypeDir}, {name: "s", kind: tar.TypeSymlink, link: "."}, {name: "a/b/c/l", kind: tar.TypeSymlink, link: "../../../s/s/../outside"}}, nil,
			`image entry a/b/c/l: its link "../../../s/s/../outside" leads out of the image`,
		},
		{"hard link outside", []entry{{name: "h", kind: tar.TypeLink, link: "../outside/file"}}, nil, `image entry h: its hard link "../outside/file" leads out of the image`},
		{"absolute hard link", []entry{{name: "h", kind: tar.TypeLink, link: "OUTSIDE/file"}}, nil, "image entry h: "},
		{
			"hard link through a link",
			[]entry{{name: "l", kind: tar.TypeSymlink, link: "OUTSIDE"}, {name: "h", kind: tar.TypeLink, link: "l/file"}}, nil,
			"image entry h: ",
		},
		{
			"hard link out of the image by a link that was made relative",
			[]entry{{name: "d", kind: tar.TypeSymlink, link: "OUTSIDE"}, nextLayer, {name: "h", kind: tar.TypeLink, link: "/d/file"}}, nil,
			"image entry h: ",
		},
		{
			"a directory over a link that leads outside, then a file in it",
			[]entry{{name: "d", kind: tar.TypeSymlink, link: "OUTSIDE"}, nextLayer, {name: "d", kind: tar.TypeDir, mode: 0o777}, file("d/file", "mine")}, nil,
			"drwxr-xr-x d\n-rw-r--r-- d/file mine",
		},
		{
			"opaque whiteout through a link",
			[]entry{{name: "l", kind: tar.TypeSymlink, link: "OUTSIDE"}, nextLayer, file("l/.wh..wh..opq", "")}, nil,
			"", // as with one of a file
		},
		{
			"opaque whiteout through a link inside",
			[]entry{file("d/x", "x"), {name: "l", kind: tar.TypeSymlink, link: "d"}, nextLayer, file("l/.wh..wh..opq", "")}, nil,
			"",
		},
		{"links in a circle", []entry{{name: "a", kind: tar.TypeSymlink, link: "b"}, {name: "b", kind: tar.TypeSymlink, link: "a"}, file("a/x", "")}, nil, "image entry a/x: "},
		{"a name that is no text", []entry{{name: "a\x1b[31m\n\u202e/l", kind: tar.TypeSymlink, link: "../../x"}}, nil, "image entry a·[31m··/l: its link"},
		{"setuid, setgid and sticky", []entry{{name: "f", mode: 0o7755, body: "f"}, {name: "g", mode: 0o6000, body: "g"}}, nil, "-rwxr-xr-x f f\n-rwxr-xr-x g g"},
		{"whiteout of the directory above", []entry{file(".wh...", "")}, nil, "image entry ./.wh... removes no name"},
		{"whiteout of nothing", []entry{file(".wh.", "")}, nil, "image entry ./.wh. removes no name"},
		{
			"whiteout through a link", []entry{{name: "l", kind: tar.TypeSymlink, link: "OUTSIDE"}, file("l/.wh.file", "")}, nil,
			"", // there is no such directory in the image, so nothing to remove
		},
		{"the same file twice", []entry{file("a/x", "1"), file("a/x", "2")}, nil, "drwxr-xr-x a\n-rw-r--r-- a/x 2"},
		{"a file in the place of a directory of the layer", []entry{file("a/x", "1"), file("a", "2")}, nil, "-rw-r--r-- a 2"},
		{"a directory in the place of a link of the layer", []entry{{name: "a", kind: tar.TypeSymlink, link: "b"}, {name: "a", kind: tar.TypeDir}}, nil, "drwxr-xr-x a"},
		{"a path that is too long", []entry{file(strings.Repeat("abcdefg/", 600)+"x", "")}, nil, `image entry "` + strings.Repeat("abcdefg/", 25) + `…" has a name of 4801 bytes, more than 4095`},
		{"a name that is too long", []entry{file(strings.Repeat("n", 300), "")}, nil, `image entry "` + strings.Repeat("n", 200) + `…" has a part of 300 bytes in its name, more than 255`},
		{
			"a link of a layer below, then a write through it",
			[]entry{{name: "etc", kind: tar.TypeSymlink, link: "OUTSIDE"}, nextLayer, file("etc/file", "evil")}, nil,
			"image entry etc/file: ",
		},
		{
			"a hard link to a link that leads outside, then a write through it",
			[]entry{{name: "l", kind: tar.TypeSymlink, link: "OUTSIDE/file"}, {name: "h", kind: tar.TypeLink, link: "l"}, nextLayer, file("h", "mine"), file(".wh.l", "")}, nil,
			"-rw-r--r-- h mine",
		},
		{"devices", []entry{{name: "null", kind: tar.TypeChar, mode: 0o666}, {name: "sda", kind: tar.TypeBlock}, {name: "p", kind: tar.TypeFifo}, file("f", "f")}, nil, "-rw-r--r-- f f"},
		{"too many entries", []entry{file("1", ""), file("2", ""), file("3", "")}, func(s *image.Stager) { s.MaxEntries = 2 }, "the image has more than 2 entries"},
		{
			"directories that no entry lists",
			[]entry{file("a/"+strings.Repeat("d/", 6)+"x", ""), file("b/"+strings.Repeat("d/", 6)+"x", "")},
			func(s *image.Stager) { s.MaxEntries = 12 }, "the image has more than 12 entries",
		},
		{"a bomb", []entry{file("bomb", strings.Repeat("\x00", 4<<20))}, func(s *image.Stager) { s.MaxBytes = 1 << 20 }, "the files of the image have more than 1048576 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			write(t, filepath.Join(outside, "file"), "theirs")
			before := tree(t, outside)
			for i := range test.entries {
				test.entries[i].link = strings.ReplaceAll(test.entries[i].link, "OUTSIDE", outside)
			}
			h := newHub(t, nil, false)
			s := &image.Stager{}
			if test.change != nil {
				test.change(s)
			}
			got, err := stage(t, s, h.push(t, "x:1", imageOf(t, layered(t, test.entries...)...)))
			switch {
			case test.want == "":
			case strings.HasPrefix(test.want, "-rw"), strings.HasPrefix(test.want, "drwx"):
				if err != nil {
					t.Error(err)
				}
				want(t, got, test.want)
			case err == nil || !strings.HasPrefix(err.Error(), test.want):
				t.Errorf("error %v, want %s", err, test.want)
			}
			if after := tree(t, outside); after != before {
				t.Errorf("outside changed:\n%s\n%s", before, after)
			}
		})
	}
}

func TestDigests(t *testing.T) {
	h := newHub(t, nil, false)
	img := plain(t, "by digest")
	ref := h.push(t, "inst/k3s:v1", img)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	repository, _, _ := strings.Cut(ref, ":v1")
	h.push(t, "inst/k3s:v1", plain(t, "moved tag"))
	for _, form := range []string{repository + "@" + digest.String(), ref + "@" + digest.String()} {
		got, err := stage(t, &image.Stager{}, form)
		if err != nil {
			t.Fatal(err)
		}
		want(t, got, "-rw-r--r-- run.sh by digest")
	}
}

func TestPlatform(t *testing.T) {
	h := newHub(t, nil, false)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: plain(t, "windows"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "windows", Architecture: runtime.GOARCH}}},
		mutate.IndexAddendum{Add: plain(t, "other"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: plain(t, "ours"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	ref, err := name.ParseReference(h.host()+"/multi:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	got, err := stage(t, &image.Stager{}, ref.String())
	if err != nil {
		t.Fatal(err)
	}
	want(t, got, "-rw-r--r-- run.sh ours")
}

func TestAMissingPlatformIsNamed(t *testing.T) {
	h := newHub(t, nil, false)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: plain(t, "other"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}}},
		mutate.IndexAddendum{Add: plain(t, "windows"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "windows", Architecture: runtime.GOARCH}}},
		mutate.IndexAddendum{Add: plain(t, "attestation"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}})
	ref, err := name.ParseReference(h.host()+"/multi:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	want := "pull from http://" + h.host() + ": there is no image for linux/" + runtime.GOARCH + " in it, only for linux/arm/v7, windows/" + runtime.GOARCH
	if _, err := stage(t, &image.Stager{}, ref.String()); err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

// TestWhiteouts: they remove what layers below have, and nothing of their own layer.
func TestWhiteouts(t *testing.T) {
	h := newHub(t, nil, false)
	below := []entry{file("d/a", "1"), file("d/sub/a", "1"), file("d/sub/b", "1"), file("e/a", "1"), file("e/sub/a", "1"), file("f", "1"), file("g", "1"), nextLayer}
	for _, test := range []struct {
		name    string
		entries []entry
		want    []string
	}{
		{"a name before and after", []entry{file("f", "2"), file(".wh.f", ""), file(".wh.g", ""), file("g", "2")}, []string{"d/a 1", "d/sub/a 1", "d/sub/b 1", "e/a 1", "e/sub/a 1", "f 2", "g 2"}},
		{"a directory that the layer makes anew", []entry{file("d/new", "2"), file(".wh.d", "")}, []string{"d/new 2", "e/a 1", "e/sub/a 1", "f 1", "g 1"}},
		{"opaque, at the end", []entry{file("d/sub/b", "2"), {name: "d/sub", kind: tar.TypeDir}, file("d/.wh..wh..opq", "")}, []string{"d/sub/b 2", "e/a 1", "e/sub/a 1", "f 1", "g 1"}},
		{"opaque, at the beginning", []entry{file("e/.wh..wh..opq", ""), file("e/sub/x", "2")}, []string{"d/a 1", "d/sub/a 1", "d/sub/b 1", "e/sub/x 2", "f 1", "g 1"}},
		{"what is not there", []entry{file(".wh.none", ""), file("none/.wh..wh..opq", ""), file("f/.wh.x", "")}, []string{"d/a 1", "d/sub/a 1", "d/sub/b 1", "e/a 1", "e/sub/a 1", "f 1", "g 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := stage(t, &image.Stager{}, h.push(t, "x:1", imageOf(t, layered(t, append(slices.Clone(below), test.entries...)...)...)))
			if err != nil {
				t.Fatal(err)
			}
			var files []string
			for line := range strings.SplitSeq(got, "\n") {
				if rest, ok := strings.CutPrefix(line, "-rw-r--r-- "); ok {
					files = append(files, rest)
				}
			}
			if diff := cmp.Diff(test.want, files); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBombs: small things that would become large ones.
func TestBombs(t *testing.T) {
	h := newHub(t, nil, false)
	zeros := imageOf(t, layer(t, file("zeros", strings.Repeat("\x00", 80<<20))))
	if _, err := stage(t, &image.Stager{}, h.push(t, "zeros:1", zeros)); err == nil || !strings.HasSuffix(err.Error(), "a layer of the image unpacks to more than 100 times its size") {
		t.Errorf("error %v", err)
	}
	// A sparse file has terabytes and hardly a byte of tar.
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "f", Size: 512, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	b := append(buf.Bytes(), make([]byte, 512+1024)...)
	sparse(b)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stage(t, &image.Stager{MaxBytes: 1 << 20}, h.push(t, "sparse:1", imageOf(t, l))); err == nil || !strings.HasSuffix(err.Error(), "the files of the image have more than 1048576 bytes") {
		t.Errorf("error %v", err)
	}
}

// sparse makes of a tar header one of GNU's sparse kind, of a file of 4 GiB with 512 bytes in it.
func sparse(header []byte) {
	copy(header[156:], "S")
	copy(header[257:], "ustar  \x00")
	copy(header[386:], "00000000000\x0000000001000\x00") // where the bytes are: from 0 on, 512
	copy(header[482:], "\x00")                           // no more such headers
	copy(header[483:], "40000000000\x00")                // the real size
	copy(header[148:], "        ")
	sum := 0
	for _, c := range header[:512] {
		sum += int(c)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
}

func TestErrorsNameTheImageOrThePlace(t *testing.T) {
	h := newHub(t, nil, false)
	h.push(t, "there:1", plain(t, "x"))
	private := newHub(t, nil, true)
	tests := []struct{ name, ref, want string }{
		{"no name", "UPPER CASE", `image name "UPPER CASE" is not of the form registry/repository:tag or registry/repository@sha256:digest`},
		{"no such tag", h.host() + "/there:2", "pull from http://" + h.host() + ": it has no such image (404 Not Found for /v2/there/manifests/2); MANIFEST_UNKNOWN "},
		{"unknown authority", private.host() + "/x:1", "pull from http://" + private.host() + ": "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := stage(t, &image.Stager{}, test.ref); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// certificate writes the hub's certificate, which is its own authority.
func (h *hub) certificate(t testing.TB) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})))
}

func TestMirrors(t *testing.T) {
	const password = "hush-hush"
	locked := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, pass, _ := r.BasicAuth(); user != "me" || pass != password {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	below := func(next http.Handler) http.Handler {
		return http.StripPrefix("/proxy", next)
	}
	tests := []struct {
		name  string
		wrap  func(http.Handler) http.Handler
		tls   bool
		push  string
		yaml  string // HOST, CA stand for the mirror's
		ref   string
		asked string
		fails string
	}{
		{name: "of one registry", push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["http://HOST"]}}}`, asked: "ns=127.0.0.1%3A2"},
		{name: "of Docker Hub under its short name", push: "rancher/inst:v1", ref: "rancher/inst:v1", yaml: `{mirrors: {docker.io: {endpoint: ["http://HOST"]}}}`, asked: "ns=docker.io"},
		{name: "of everything", push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"*": {endpoint: ["http://HOST"]}}}`},
		{name: "the next endpoint when one does not answer", push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["http://127.0.0.1:1", "http://HOST"]}}}`},
		{name: "rewritten name, the first pattern that fits", push: "mirror/of/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["http://HOST"], rewrite: {"^no": "never", "^inst/(.*)": "mirror/of/$1", "^inst/": "other/"}}}}`},
		{name: "below a path", wrap: below, push: "", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["http://HOST/proxy/v2"]}}}`, asked: "/proxy/v2/inst/k3s/manifests/v1", fails: "pull from http://HOST: "},
		{name: "with its authority", tls: true, push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}, configs: {"HOST": {tls: {ca_file: CA}}}}`},
		{name: "without verification, as configured", tls: true, push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}, configs: {"*": {tls: {insecure_skip_verify: true}}}}`},
		{name: "without its authority", tls: true, push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}}`, fails: "pull from https://HOST: "},
		{name: "an https endpoint is not asked without TLS", push: "inst/k3s:v1", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}}`, fails: "pull from https://HOST: "},
		{name: "with name and password", tls: true, wrap: locked, push: "", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}, configs: {"HOST": {auth: {username: me, password: hush-hush}, tls: {ca_file: CA}}}}`, fails: "pull from https://HOST: it has no such image (404 Not Found for /v2/inst/k3s/manifests/v1, ns=127.0.0.1:2); NAME_UNKNOWN"},
		{name: "with both in one", tls: true, wrap: locked, push: "", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}, configs: {"HOST": {auth: {auth: bWU6aHVzaC1odXNo}, tls: {ca_file: CA}}}}`, fails: "pull from https://HOST: it has no such image (404 Not Found for /v2/inst/k3s/manifests/v1, ns=127.0.0.1:2); NAME_UNKNOWN"},
		{name: "with a wrong password", tls: true, wrap: locked, push: "", ref: "127.0.0.1:2/inst/k3s:v1", yaml: `{mirrors: {"127.0.0.1:2": {endpoint: ["https://HOST"]}}, configs: {"HOST": {auth: {username: me, password: wrong}, tls: {ca_file: CA}}}}`, fails: "pull from https://HOST: it does not give the image out (401 Unauthorized for /v2/inst/k3s/manifests/v1, ns=127.0.0.1:2); asked with the credentials of registries.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, test.wrap, test.tls)
			if test.push != "" {
				h.push(t, test.push, plain(t, "mirrored"))
			}
			fill := func(s string) string { return strings.ReplaceAll(s, "HOST", h.host()) }
			yaml := fill(test.yaml)
			if test.tls {
				yaml = strings.ReplaceAll(yaml, "CA", h.certificate(t))
			}
			s := &image.Stager{Registries: []string{"/nowhere/registries.yaml", write(t, filepath.Join(t.TempDir(), "registries.yaml"), yaml), "/nowhere/else"}}
			// The registry itself is asked last; it must not be reachable.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			dir := t.TempDir()
			s.Logger, s.Pause = quiet(), time.Millisecond
			err := s.Stage(ctx, test.ref, dir, nil)
			if test.fails == "" {
				if err != nil {
					t.Fatal(err)
				}
				want(t, tree(t, dir), "-rw-r--r-- run.sh mirrored")
			} else if err == nil || !strings.HasPrefix(err.Error(), fill(test.fails)) {
				t.Errorf("error %v\nwant  %s", err, fill(test.fails))
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the error shows the password: %v", err)
			}
			if test.asked != "" && !h.was(t, test.asked) {
				t.Errorf("asked %v, not %s", h.asked, test.asked)
			}
		})
	}
}
