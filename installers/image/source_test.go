package image_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"github.com/drover-project/drover/installers/image"
)

// archive is what "docker save" writes of the images.
func archive(t *testing.T, images map[string]v1.Image) []byte {
	t.Helper()
	tagged := map[name.Tag]v1.Image{}
	for text, img := range images {
		tag, err := name.NewTag(text)
		if err != nil {
			t.Fatal(err)
		}
		tagged[tag] = img
	}
	var buf bytes.Buffer
	if err := tarball.MultiWrite(tagged, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zstdOf(t *testing.T, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func TestArchives(t *testing.T) {
	const ref = "127.0.0.1:2/inst/k3s:v1" // a registry that does not answer
	whole := archive(t, map[string]v1.Image{ref: plain(t, "archived"), "other:1": plain(t, "other")})
	tests := []struct {
		name  string
		files map[string][]byte
		ref   string
		found bool
	}{
		{"plain", map[string][]byte{"images.tar": whole}, ref, true},
		{"gzip, deep below", map[string][]byte{"a/b/images.tar.gz": gzipped(t, whole)}, ref, true},
		{"gzip, short name", map[string][]byte{"images.tgz": gzipped(t, whole)}, ref, true},
		{"zstd", map[string][]byte{"images.tar.zst": zstdOf(t, whole)}, ref, true},
		{"zstd, short name", map[string][]byte{"images.tzst": zstdOf(t, whole)}, ref, true},
		{"beside broken ones", map[string][]byte{"a.tar": []byte("nonsense"), "b.tar.gz": whole, "c.tar.zst": []byte("x"), "d.tar": whole}, ref, true},
		{"hidden", map[string][]byte{".images.tar": whole}, ref, false},
		{"another kind of file", map[string][]byte{"images.txt": whole}, ref, false},
		{"another tag", map[string][]byte{"images.tar": whole}, "127.0.0.1:2/inst/k3s:v2", false},
		{"by digest", map[string][]byte{"images.tar": whole}, "127.0.0.1:2/inst/k3s@sha256:" + strings.Repeat("a", 64), false},
		{"nothing", nil, ref, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, b := range test.files {
				write(t, filepath.Join(dir, name), string(b))
			}
			got, err := stage(t, &image.Stager{ImagesDir: dir}, test.ref)
			if !test.found {
				if err == nil || !strings.HasPrefix(err.Error(), "pull from http://127.0.0.1:2: ") {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want(t, got, "-rw-r--r-- run.sh archived")
		})
	}
	if _, err := stage(t, &image.Stager{ImagesDir: filepath.Join(t.TempDir(), "gone")}, ref); err == nil || !strings.HasPrefix(err.Error(), "pull from ") {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestAnArchiveIsAskedBeforeTheRegistry(t *testing.T) {
	h := newHub(t, nil, false)
	ref := h.push(t, "inst/k3s:v1", plain(t, "from the registry"))
	h.asked = nil
	dir := t.TempDir()
	write(t, filepath.Join(dir, "i.tar"), string(archive(t, map[string]v1.Image{ref: plain(t, "archived")})))
	got, err := stage(t, &image.Stager{ImagesDir: dir}, ref)
	if err != nil {
		t.Fatal(err)
	}
	want(t, got, "-rw-r--r-- run.sh archived")
	if len(h.asked) != 0 {
		t.Errorf("asked %v", h.asked)
	}
}

func TestDockerConfiguration(t *testing.T) {
	seen := make(chan string, 100)
	h := newHub(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, pass, ok := r.BasicAuth()
			if !ok {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			seen <- user + ":" + pass
			next.ServeHTTP(w, r)
		})
	}, false)
	tests := []struct{ name, config, want string }{
		{"auth", `{"auths":{"HOST":{"auth":"bWU6aHVzaA=="}}}`, "me:hush"},
		{"with a scheme and a slash", `{"auths":{"https://HOST/":{"username":"you","password":"quiet"}}}`, "you:quiet"},
		{"of another registry", `{"auths":{"example.org":{"auth":"bWU6aHVzaA=="}}}`, ""},
		{"not JSON", `nonsense`, "!is not the JSON of a Docker configuration"},
		{"bad auth", `{"auths":{"HOST":{"auth":"secret?"}}}`, "!.auth is not base64"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "config.json"), strings.ReplaceAll(test.config, "HOST", h.host()))
			_, err := stage(t, &image.Stager{DockerConfig: path}, h.host()+"/x:1")
			if err == nil {
				t.Fatal("there is no such image")
			}
			if message, ok := strings.CutPrefix(test.want, "!"); ok {
				if !strings.HasSuffix(err.Error(), message) || strings.Contains(err.Error(), "secret?") {
					t.Errorf("error %v", err)
				}
				return
			}
			got := ""
			select {
			case got = <-seen:
			default:
			}
			if got != test.want {
				t.Errorf("logged in as %q, want %q: %v", got, test.want, err)
			}
			for len(seen) > 0 {
				<-seen
			}
		})
	}
}

// TestPrivateAddressesAreAskedWithTLS: the library would fall back to plain HTTP for them.
func TestPrivateAddressesAreAskedWithTLS(t *testing.T) {
	// Everything goes through a proxy that only notes it; plain HTTP would arrive as a full URL.
	var plainHTTP []string
	proxy := newHub(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect {
				plainHTTP = append(plainHTTP, r.URL.String())
			}
			w.WriteHeader(http.StatusBadGateway)
		})
	}, false)
	s := &image.Stager{Registries: []string{write(t, filepath.Join(t.TempDir(), "r.yaml"), `{mirrors: {"127.0.0.1:2": {endpoint: ["https://127.0.0.1:3"]}}}`)}}
	_, err := stage(t, s, "127.0.0.1:2/x:1")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:3 would be asked without TLS; write http:// before the endpoint in registries.yaml if that is wanted") {
		t.Errorf("error %v", err)
	}
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	if _, err := stage(t, &image.Stager{}, "10.11.12.13:5000/x:1"); err == nil || len(plainHTTP) > 0 {
		t.Errorf("error %v, asked without TLS %v", err, plainHTTP)
	}
}

// faulty lets the manifest through and breaks the layer as it is told.
func faulty(broken func(w http.ResponseWriter, r *http.Request, layer []byte)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
				next.ServeHTTP(w, r)
				return
			}
			answer := &kept{header: http.Header{}}
			next.ServeHTTP(answer, r)
			if json.Valid(answer.body.Bytes()) { // the image's configuration
				_, _ = w.Write(answer.body.Bytes())
				return
			}
			broken(w, r, answer.body.Bytes())
		})
	}
}

type kept struct {
	header http.Header
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }
func (k *kept) WriteHeader(int)             {}

func TestBrokenRegistries(t *testing.T) {
	stall := func(w http.ResponseWriter, r *http.Request, layer []byte) {
		_, _ = w.Write(layer[:len(layer)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	tests := []struct {
		name   string
		broken func(w http.ResponseWriter, r *http.Request, layer []byte)
		want   string
	}{
		{"another content than the digest says", func(w http.ResponseWriter, _ *http.Request, layer []byte) {
			changed := bytes.Clone(layer)
			changed[len(changed)-1] ^= 0xff
			_, _ = w.Write(changed)
		}, ""},
		{"cut off", func(w http.ResponseWriter, _ *http.Request, layer []byte) { _, _ = w.Write(layer[:len(layer)/2]) }, ""},
		{"a page of HTML", func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = w.Write([]byte("<html>")) }, ""},
		{"never goes on", stall, "the registry stopped sending"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			random := make([]byte, 100<<10)
			for i := range random {
				random[i] = byte(i * i >> 3)
			}
			img := imageOf(t, layer(t, file("first", "x"), file("random", string(random)), file("run.sh", "whole")))
			bad, good := newHub(t, faulty(test.broken), false), newHub(t, nil, false)
			good.push(t, "x:1", img)
			ref := bad.push(t, "x:1", img)
			s := &image.Stager{Stall: 300 * time.Millisecond}
			if got, err := stage(t, s, ref); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "pull from http://"+bad.host()) {
				t.Errorf("error %v, staged %s", err, got[:min(len(got), 100)])
			}
			// The next place has it whole, and nothing of the first try is in the way.
			s.Registries = []string{write(t, filepath.Join(t.TempDir(), "r.yaml"),
				`{mirrors: {"127.0.0.1:2": {endpoint: ["http://`+bad.host()+`", "http://`+good.host()+`"]}}}`)}
			got, err := stage(t, s, "127.0.0.1:2/x:1")
			if err != nil {
				t.Fatal(err)
			}
			want(t, got, "-rw-r--r-- first x", "-rw-r--r-- random "+string(random), "-rw-r--r-- run.sh whole")
		})
	}
}

func TestCancelledPull(t *testing.T) {
	begun := make(chan struct{})
	h := newHub(t, faulty(func(w http.ResponseWriter, r *http.Request, layer []byte) {
		_, _ = w.Write(layer[:len(layer)/2])
		w.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
	}), false)
	ref := h.push(t, "x:1", imageOf(t, layer(t, file("a", strings.Repeat("abc", 1000)))))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if err := (&image.Stager{Logger: quiet()}).Stage(ctx, ref, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	mnt := t.TempDir()
	if err := syscall.Mount("tmpfs", mnt, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	defer syscall.Unmount(mnt, syscall.MNT_DETACH)
	h := newHub(t, nil, false)
	ref := h.push(t, "x:1", imageOf(t, layer(t, file("big", strings.Repeat("x", 1<<20)))))
	h.asked = nil
	err := (&image.Stager{Logger: quiet()}).Stage(t.Context(), ref, mnt)
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "image entry big: ") {
		t.Errorf("error %v", err)
	}
}
