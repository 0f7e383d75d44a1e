package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/drover-project/drover/installers/image"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/skips"
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

func lz4Of(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// bzip2Of needs the program: Go only reads it.
func bzip2Of(t *testing.T, b []byte) []byte {
	t.Helper()
	c := exec.Command("bzip2", "-c")
	c.Stdin = bytes.NewReader(b)
	out, err := c.Output()
	if err != nil {
		skips.Skipf(t, "no bzip2: %v", err)
	}
	return out
}

// layoutOf is an archive of the OCI image layout with one image or index.
func layoutOf(t *testing.T, what any, annotations map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	top, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	switch what := what.(type) {
	case v1.Image:
		err = top.AppendImage(what, layout.WithAnnotations(annotations))
	case v1.ImageIndex:
		err = top.AppendIndex(what, layout.WithAnnotations(annotations))
	}
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// platforms is an index in which the image for this host says which.
func platforms(t *testing.T, which string) v1.ImageIndex {
	t.Helper()
	return mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: plain(t, "other"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: plain(t, which), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}}})
}

// uncompressed is a layer that is stored as it is.
func uncompressed(t *testing.T, body string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "run.sh", Mode: 0o644, Size: int64(len(body))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer)
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
		{"lz4", map[string][]byte{"images.tar.lz4": lz4Of(t, whole)}, ref, true},
		{"bzip2", map[string][]byte{"images.tar.bz2": bzip2Of(t, whole)}, ref, true},
		{"bzip2, short name", map[string][]byte{"images.tbz": bzip2Of(t, whole)}, ref, true},
		{"the OCI layout, a whole name", map[string][]byte{"images.tar": layoutOf(t, plain(t, "archived"), map[string]string{"org.opencontainers.image.ref.name": ref})}, ref, true},
		{"the OCI layout, containerd's name", map[string][]byte{"images.tar.zst": zstdOf(t, layoutOf(t, plain(t, "archived"), map[string]string{"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": "v1"}))}, ref, true},
		{"the OCI layout, another name", map[string][]byte{"images.tar": layoutOf(t, plain(t, "archived"), map[string]string{"org.opencontainers.image.ref.name": "v1"})}, ref, false},
		{"the OCI layout, by digest", map[string][]byte{"images.tar": layoutOf(t, plain(t, "archived"), nil)}, pinned(t, "127.0.0.1:2/inst/k3s", plain(t, "archived")), true},
		{"the OCI layout, by tag and digest", map[string][]byte{"images.tar": layoutOf(t, plain(t, "archived"), nil)}, pinned(t, ref, plain(t, "archived")), true},
		{"the OCI layout of several platforms", map[string][]byte{"images.tar": layoutOf(t, platforms(t, "archived"), map[string]string{"io.containerd.image.name": ref})}, ref, true},
		{"an image of an index, by digest", map[string][]byte{"images.tar": layoutOf(t, platforms(t, "archived"), nil)}, pinned(t, ref, plain(t, "archived")), true},
		{"docker save, by digest", map[string][]byte{"images.tar": whole}, pinned(t, ref, plain(t, "archived")), true},
		{"a damaged layer", map[string][]byte{"images.tar": bytes.Replace(layoutOf(t, imageOf(t, uncompressed(t, "archived")), map[string]string{"io.containerd.image.name": ref}), []byte("archived"), []byte("archiveD"), 1)}, ref, false},
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
				if err == nil || !strings.HasPrefix(err.Error(), "pull from http://127.0.0.1:2: ") && test.name != "a damaged layer" {
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

// faulty lets the manifest through and breaks the layer as configured.
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

// silent accepts connections and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			conn.Close()
		}
	})
	return l.Addr().String()
}

func TestASilentRegistryIsGivenUp(t *testing.T) {
	host := silent(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var lines []string
	s := &image.Stager{Stall: 100 * time.Millisecond, Pause: time.Millisecond, Logger: quiet(), Now: func() time.Time { return now }}
	err := s.Stage(t.Context(), host+"/x:1", t.TempDir(), func(line string) { lines = append(lines, line) })
	want := "pull from http://" + host + ": the registry stopped sending: nothing came from " + host + " since 2026-01-02T03:04:05Z, for 100ms (asked 3 times)"
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	if len(lines) != 5 || !strings.Contains(lines[1], "the registry stopped sending") || !strings.Contains(lines[1], "; asking again in ") {
		t.Errorf("reported %q", lines)
	}

	// With a place that answers the silent one does not matter.
	good := newHub(t, nil, false)
	good.push(t, "x:1", plain(t, "good"))
	s.Registries = []string{write(t, filepath.Join(t.TempDir(), "r.yaml"), `{mirrors: {"127.0.0.1:2": {endpoint: ["http://`+host+`", "http://`+good.host()+`"]}}}`)}
	if _, err := stage(t, s, "127.0.0.1:2/x:1"); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	s = &image.Stager{Stall: time.Hour, Logger: quiet()}
	if err := s.Stage(ctx, host+"/x:1", t.TempDir(), func(string) { cancel(enough) }); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
}

// TestPassingFaults: what may be gone the next time is tried again, and what is not is not.
func TestPassingFaults(t *testing.T) {
	for status, want := range map[int]int{http.StatusServiceUnavailable: 3, http.StatusTooManyRequests: 3, http.StatusNotFound: 1, http.StatusForbidden: 1} {
		tries := 0
		h := newHub(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					tries++
					w.WriteHeader(status)
					return
				}
				next.ServeHTTP(w, r)
			})
		}, false)
		if _, err := stage(t, &image.Stager{}, h.host()+"/x:1"); err == nil || tries != want {
			t.Errorf("%d: tried %d times, want %d: %v", status, tries, want, err)
		}
	}
}

// TestARegistryWithTooMuchToDoIsLeftAlone until the time that it names, also by the next pull.
func TestARegistryWithTooMuchToDoIsLeftAlone(t *testing.T) {
	var asked atomic.Int32
	h := newHub(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		})
	}, false)
	s := &image.Stager{Logger: quiet(), Pause: time.Millisecond}
	for _, pull := range []string{"the first pull", "the next pull"} {
		ctx, cancel := context.WithCancel(t.Context())
		var said []string
		err := s.Stage(ctx, h.host()+"/x:1", t.TempDir(), func(line string) {
			if strings.Contains(line, "asking again in") {
				said = append(said, line)
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || len(said) != 1 || asked.Load() != 1 {
			t.Fatalf("%s: %v; %q; asked %d times", pull, err, said, asked.Load())
		}
		_, text, _ := strings.Cut(said[0], "asking again in ")
		if wait, err := time.ParseDuration(text); err != nil || wait < 110*time.Second || wait > 150*time.Second {
			t.Errorf("%s: %s", pull, said[0])
		}
	}
}

// TestErrorsHoldNoCredentials: neither ours nor those that a registry puts into its redirects.
func TestErrorsHoldNoCredentials(t *testing.T) {
	h := newHub(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.Contains(r.URL.Path, "/redirected/"):
				w.Header().Set("Location", "http://user:hush-url@127.0.0.1:1/blob?X-Amz-Signature=hush-query")
				w.WriteHeader(http.StatusFound)
			case strings.Contains(r.URL.Path, "/echo/"):
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"errors":[{"code":"DENIED","message":"you said ` + r.Header.Get("Authorization") + ` and hush-password\u001b[31m\u009b31m\u202e"}]}`))
			case strings.Contains(r.URL.Path, "/token"):
				_, _ = w.Write([]byte(`{"refresh_token":"hush-token"}`))
			case strings.Contains(r.URL.Path, "/v2/"):
				if r.Header.Get("Authorization") == "" {
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
				}
			}
		})
	}, false)
	s := &image.Stager{Registries: []string{write(t, filepath.Join(t.TempDir(), "r.yaml"), `{configs: {"*": {auth: {username: me, password: hush-password}}}}`)}}
	for _, repository := range []string{"redirected/x", "echo/x"} {
		_, err := stage(t, s, h.host()+"/"+repository+":1")
		if err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "bWU6") || !plans.SafeText(err.Error()) {
			t.Errorf("%s: error %q", repository, err)
		}
	}
}

// TestCredentialsStayWithTheirRegistry: blobs may be elsewhere, and a registry says where. What is asked there has neither
// the password nor the token, and comes over TLS when the registry is asked over TLS.
func TestCredentialsStayWithTheirRegistry(t *testing.T) {
	for _, scheme := range []string{"Basic", "Bearer"} {
		for _, part := range []string{"/blobs/", "/manifests/"} {
			t.Run(scheme+part, func(t *testing.T) {
				var shown []string
				other := newHub(t, func(http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						shown = append(shown, r.Header.Get("Authorization")+r.Header.Get("Cookie"))
						// It tries to get them by asking.
						w.Header().Set("WWW-Authenticate", scheme+` realm="http://`+r.Host+`/token",service="s"`)
						w.WriteHeader(http.StatusUnauthorized)
					})
				}, false)
				h := newHub(t, nil, false)
				ref := h.push(t, "x:1", plain(t, "x"))
				var registry *hub
				var known int
				registry = newHub(t, func(http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						switch {
						case r.URL.Path == "/token":
							_, _ = w.Write([]byte(`{"token":"hush-token"}`))
						case r.Header.Get("Authorization") == "":
							w.Header().Set("WWW-Authenticate", scheme+` realm="http://`+registry.host()+`/token",service="s"`)
							w.WriteHeader(http.StatusUnauthorized)
						case strings.Contains(r.URL.Path, part):
							known++
							http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
						default:
							h.Config.Handler.ServeHTTP(w, r)
						}
					})
				}, false)
				s := &image.Stager{Registries: []string{write(t, filepath.Join(t.TempDir(), "r.yaml"),
					`{configs: {"`+registry.host()+`": {auth: {username: me, password: hush-password}}}}`)}}
				if _, err := stage(t, s, registry.host()+strings.TrimPrefix(ref, h.host())); err == nil || strings.Contains(err.Error(), "hush") {
					t.Errorf("error %v", err)
				}
				if known == 0 || len(shown) == 0 {
					t.Errorf("redirected %d times, the other was asked %d times", known, len(shown))
				}
				for _, said := range shown {
					if said != "" {
						t.Errorf("the other host was shown %q", said)
					}
				}
			})
		}
	}
}

// TestNoWayFromTLSToPlainHTTP: neither a redirect nor the place where a registry has its tokens leads there, nor to the
// metadata service of a cloud.
func TestNoWayFromTLSToPlainHTTP(t *testing.T) {
	plain := newHub(t, nil, false)
	for _, tc := range []struct {
		name, challenge, to, want string
	}{
		{"redirect", "", plain.URL, "would be asked without TLS"},
		{"realm", `Bearer realm="` + plain.URL + `/token",service="s"`, "", "realm"},
		{"realm of the metadata service", `Bearer realm="https://169.254.169.254/latest/meta-data",service="s"`, "", "realm"},
		{"realm of the metadata service in another spelling", `Bearer realm="https://[::ffff:169.254.169.254]/latest",service="s"`, "", "realm"},
		{"realm that is a file", `Bearer realm="file:///etc/shadow",service="s"`, "", "realm"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHub(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case tc.challenge != "":
						w.Header().Set("WWW-Authenticate", tc.challenge)
						w.WriteHeader(http.StatusUnauthorized)
					case strings.Contains(r.URL.Path, "/manifests/"):
						http.Redirect(w, r, tc.to+r.URL.Path, http.StatusFound)
					}
				})
			}, true)
			s := &image.Stager{Registries: []string{write(t, filepath.Join(t.TempDir(), "r.yaml"),
				`{mirrors: {"m.example": {endpoint: ["`+h.URL+`"]}}, configs: {"`+h.host()+`": {auth: {username: me, password: hush-password}, tls: {ca_file: `+h.certificate(t)+`}}}}`)}}
			_, err := stage(t, s, "m.example/x:1")
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("error %v, want %s in it", err, tc.want)
			}
			if plain.was(t, "") {
				t.Errorf("asked without TLS: %q", plain.asked)
			}
		})
	}
}

// TestEndlessAnswers: what a registry says besides layers is read only so far.
func TestEndlessAnswers(t *testing.T) {
	for _, at := range []string{"/v2/", "/token", "/manifests/"} {
		t.Run(at, func(t *testing.T) {
			var sent atomic.Int64
			endless := func(w http.ResponseWriter, status int) {
				w.WriteHeader(status)
				piece := bytes.Repeat([]byte(" "), 64<<10)
				for range 1 << 14 {
					n, err := w.Write(piece)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			}
			var h *hub
			h = newHub(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Path == at:
						endless(w, map[string]int{"/v2/": http.StatusForbidden, "/token": http.StatusOK}[at])
					case r.URL.Path == "/token":
						_, _ = w.Write([]byte(`{"token":"t"}`))
					case r.Header.Get("Authorization") == "":
						w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+h.host()+`/token",service="s"`)
						w.WriteHeader(http.StatusUnauthorized)
					default:
						endless(w, http.StatusOK)
					}
				})
			}, false)
			if _, err := stage(t, &image.Stager{}, h.host()+"/x:1"); err == nil {
				t.Error("no error")
			}
			h.CloseClientConnections()
			h.Close()
			if sent.Load() > 64<<20 {
				t.Errorf("%d bytes were taken", sent.Load())
			}
		})
	}
}

// TestIdentityToken has a registry that gives tokens for one, as the registries of clouds do.
func TestIdentityToken(t *testing.T) {
	var h *hub
	h = newHub(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/token":
				if r.FormValue("refresh_token") != "hush-identity" || r.FormValue("grant_type") != "refresh_token" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = w.Write([]byte(`{"access_token":"for-now"}`))
			case r.Method != http.MethodGet || r.Header.Get("Authorization") == "Bearer for-now" || r.Header.Get("X-Push") != "":
				next.ServeHTTP(w, r)
			default:
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+h.host()+`/token",service="s"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	}, false)
	for token, want := range map[string]string{"hush-identity": "it has no such image (404", "hush-other": "it does not give the image out (401 Unauthorized for /token)"} {
		s := &image.Stager{Registries: []string{write(t, filepath.Join(t.TempDir(), "r.yaml"), `{configs: {"`+h.host()+`": {auth: {identity_token: `+token+`}}}}`)}}
		_, err := stage(t, s, h.host()+"/x:1")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: error %v, want %s", token, err, want)
		}
	}
}

// TestFilesOfTLS: a file that is missing or wrong is named with the line that names it.
func TestFilesOfTLS(t *testing.T) {
	dir := t.TempDir()
	nonsense := write(t, filepath.Join(dir, "nonsense"), "nonsense")
	for _, test := range []struct{ yaml, want string }{
		{"ca_file: /nowhere", "r.yaml: line 4: configs[127.0.0.1:2].tls.ca_file: open /nowhere: no such file or directory"},
		{"ca_file: " + nonsense, "r.yaml: line 4: configs[127.0.0.1:2].tls.ca_file: there is no certificate in " + nonsense},
		{"cert_file: /nowhere\n      key_file: " + nonsense, "r.yaml: line 4: configs[127.0.0.1:2].tls.cert_file: open /nowhere: no such file or directory"},
		{"cert_file: " + nonsense + "\n      key_file: /nowhere", "r.yaml: line 5: configs[127.0.0.1:2].tls.key_file: open /nowhere: no such file or directory"},
		{"cert_file: " + nonsense + "\n      key_file: " + nonsense, "r.yaml: line 4: configs[127.0.0.1:2].tls.cert_file: " + nonsense + " and " + nonsense + " are not a certificate and its key in PEM"},
	} {
		s := &image.Stager{Registries: []string{write(t, filepath.Join(dir, "r.yaml"), "configs:\n  127.0.0.1:2:\n    tls:\n      "+test.yaml+"\n")}}
		if _, err := stage(t, s, "127.0.0.1:2/x:1"); err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("error %v\nwant  %s", err, test.want)
		}
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
	if err := (&image.Stager{Logger: quiet()}).Stage(ctx, ref, t.TempDir(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		skips.Skip(t, "mounting needs root")
	}
	mnt := t.TempDir()
	if err := syscall.Mount("tmpfs", mnt, "tmpfs", 0, "size=256k"); err != nil {
		skips.Skipf(t, "no tmpfs here: %v", err)
	}
	defer syscall.Unmount(mnt, syscall.MNT_DETACH)
	h := newHub(t, nil, false)
	ref := h.push(t, "x:1", imageOf(t, layer(t, file("big", strings.Repeat("x", 1<<20)))))
	h.asked = nil
	err := (&image.Stager{Logger: quiet()}).Stage(t.Context(), ref, mnt, nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "image entry big: ") {
		t.Errorf("error %v", err)
	}
}
