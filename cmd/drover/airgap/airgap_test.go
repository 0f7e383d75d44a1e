package airgap

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	pulling "github.com/drover-project/drover/installers/image"
	"github.com/drover-project/drover/installers/image/archive"
	"github.com/drover-project/drover/installers/image/manifest"
	"github.com/drover-project/drover/plans/durable"
)

const (
	pause     = "docker.io/rancher/mirrored-pause:3.6"
	coredns   = "docker.io/rancher/mirrored-coredns:1.9"
	elsewhere = "quay.lan/rancher/mirrored-pause:3.6" // the same path in another registry
)

// upstream is a real registry with images: coredns for two architectures, which share a layer, and pause for one.
type upstream struct {
	*httptest.Server
	blobs atomic.Int64 // blobs that were fetched
	after atomic.Int64 // how many blobs are given before it fails; 0 never fails
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	inner := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			if n, most := u.blobs.Add(1), u.after.Load(); most > 0 && n > most {
				http.Error(w, "it is broken", http.StatusForbidden)
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(u.Close)
	shared, err := random.Layer(3000, "application/vnd.docker.image.rootfs.diff.tar.gzip")
	must(t, err)
	image := func(arch string) v1.Image {
		one, err := random.Image(2000, 1)
		must(t, err)
		one, err = mutate.AppendLayers(one, shared)
		must(t, err)
		config, err := one.ConfigFile()
		must(t, err)
		config = config.DeepCopy()
		config.OS, config.Architecture = "linux", arch
		one, err = mutate.ConfigFile(one, config)
		must(t, err)
		return one
	}
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image(arch), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	must(t, remote.WriteIndex(u.ref(t, coredns), index))
	must(t, remote.Write(u.ref(t, pause), image("amd64")))
	must(t, remote.Write(u.ref(t, elsewhere), image("amd64")))
	return u
}

// ref is where the registry has an image: those of quay.lan in a folder of their own.
func (u *upstream) ref(t *testing.T, image string) name.Reference {
	t.Helper()
	host, rest, _ := strings.Cut(image, "/")
	if host == "quay.lan" {
		rest = "quay/" + rest
	}
	ref, err := name.ParseReference(strings.TrimPrefix(u.URL, "http://")+"/"+rest, name.Insecure)
	must(t, err)
	return ref
}

func (u *upstream) saver(to string, arch ...string) *saver {
	return &saver{
		to: to, arch: arch, versions: []string{"v1.34.4+k3s1"}, transport: http.DefaultTransport, say: func(string, ...any) {},
		mirrors: map[string]string{"docker.io": u.URL, "quay.lan": u.URL + "/quay"},
	}
}

var all = []string{coredns, pause, elsewhere}

// saved is a site with all images for amd64, and its file.
func saved(t *testing.T, u *upstream, keyFile string) (*site, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "site.tar")
	must(t, u.saver(file, "amd64").save(t.Context(), all, keyFile))
	s, err := openSite(file)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, file
}

func TestSaveIsWholeOnceAndTheSameTwice(t *testing.T) {
	u := newUpstream(t)
	s, file := saved(t, u, "")
	n, _, err := s.verify("", all)
	if err != nil || n != 3 || !slices.Equal(s.kubernetes(), []string{"v1.34.4+k3s1"}) {
		t.Errorf("%d images, for %v: %v", n, s.kubernetes(), err)
	}
	// Three configs and three layers of their own, and the layer that all have once; of arm64 nothing.
	if got := u.blobs.Load(); got != 7 {
		t.Errorf("%d blobs were fetched", got)
	}
	if left, err := filepath.Glob(file + ".part*"); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	if got := s.index.Manifests[0].Annotations[platformsKey]; got != "linux/amd64" {
		t.Errorf("platforms %q", got)
	}
	first, err := os.ReadFile(file)
	must(t, err)
	must(t, u.saver(file, "amd64").save(t.Context(), all, ""))
	if second, err := os.ReadFile(file); err != nil || !bytes.Equal(first, second) {
		t.Errorf("a second save makes another file: %v", err)
	}
}

func TestSaveGoesOnWhereItWasInterrupted(t *testing.T) {
	u := newUpstream(t)
	file := filepath.Join(t.TempDir(), "site.tar")
	u.after.Store(4)
	if err := u.saver(file, "amd64").save(t.Context(), all, ""); err == nil || !strings.Contains(err.Error(), "goes on from here") {
		t.Fatalf("a registry that fails: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file has the name of the whole one: %v", err)
	}
	kept, err := filepath.Glob(file + ".part/blobs/*")
	must(t, err)
	if len(kept) < 4 {
		t.Fatalf("kept is %v", kept)
	}
	// What a crash has left half is found out, be it a config or a layer, and only that is fetched again.
	u.after.Store(0)
	for _, blob := range kept {
		must(t, os.WriteFile(blob, bytes.Repeat([]byte("x"), int(size(t, blob))), 0o600))
		u.blobs.Store(0)
		if err := u.saver(file, "amd64").save(t.Context(), all, ""); err == nil || !strings.Contains(err.Error(), "was damaged, and is removed") {
			t.Fatalf("a damaged blob: %v", err)
		}
		if got := u.blobs.Load(); got >= 7 { // all of them
			t.Errorf("%d blobs were fetched again", got)
		}
	}
	must(t, u.saver(file, "amd64").save(t.Context(), all, ""))
	s, err := openSite(file)
	must(t, err)
	defer s.Close()
	if _, _, err := s.verify("", all); err != nil {
		t.Error(err)
	}
}

// TestSaveFromARegistryThatStopsSending ends with a sentence, and goes on from there the next time.
func TestSaveFromARegistryThatStopsSending(t *testing.T) {
	const stall = 200 * time.Millisecond
	u := newUpstream(t)
	whole := u.Config.Handler
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var stalled atomic.Bool
	stalls := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || stalled.Swap(true) {
			whole.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		whole.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(stalls.Close)
	file := filepath.Join(t.TempDir(), "site.tar")
	s := u.saver(file, "amd64")
	s.mirrors, s.transport = map[string]string{"docker.io": stalls.URL, "quay.lan": stalls.URL + "/quay"}, pulling.Transport(stall)
	began := time.Now()
	if err := s.save(t.Context(), all, ""); err == nil || !strings.Contains(err.Error(), "the registry stopped sending: nothing came from ") || time.Since(began) < stall {
		t.Fatalf("save() = %v, after %s", err, time.Since(began))
	}
	if err := s.save(t.Context(), all, ""); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	return info.Size()
}

// TestArchives: images that no registry has come from files of docker save; one that is there twice is refused.
func TestArchives(t *testing.T) {
	dir := t.TempDir()
	image, err := random.Image(1000, 2)
	must(t, err)
	tag, err := name.NewTag("drover/rancher-agent:v1")
	must(t, err)
	must(t, tarball.WriteToFile(dir+"/agent.tar", tag, image))
	s := newUpstream(t).saver(dir+"/site.tar", "amd64")
	s.archives = []string{dir + "/agent.tar"}
	must(t, s.save(t.Context(), []string{pause}, ""))
	written, err := openSite(dir + "/site.tar")
	must(t, err)
	defer written.Close()
	if n, _, err := written.verify("", []string{pause, "docker.io/drover/rancher-agent:v1"}); err != nil || n != 2 {
		t.Errorf("%d images: %v", n, err)
	}
	must(t, os.WriteFile(dir+"/text", []byte("no archive"), 0o600))
	for want, archives := range map[string][]string{
		"it has to be one of docker save": {dir + "/text"}, "no such file": {dir + "/none"}, "is there twice": {dir + "/agent.tar", dir + "/agent.tar"},
	} {
		s := newUpstream(t).saver(dir+"/other.tar", "amd64")
		s.archives = archives
		if err := s.save(t.Context(), nil, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", archives, err, want)
		}
	}
}

func TestSaveRefuses(t *testing.T) {
	u := newUpstream(t)
	dir := t.TempDir()
	for want, save := range map[string]func() error{
		"it is not there for linux on riscv64": func() error { return u.saver(dir+"/a", "riscv64").save(t.Context(), []string{coredns}, "") },
		"it is there for linux on amd64 alone": func() error { return u.saver(dir+"/f", "arm64").save(t.Context(), []string{pause}, "") },
		"MANIFEST_UNKNOWN": func() error {
			return u.saver(dir+"/b", "amd64").save(t.Context(), []string{"docker.io/rancher/mirrored-pause:9"}, "")
		},
		"no such file":    func() error { return u.saver(dir+"/c", "amd64").save(t.Context(), all, dir+"/none") },
		"not a directory": func() error { return u.saver("/dev/null/site", "amd64").save(t.Context(), all, "") },
	} {
		if err := save(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	lock := u.saver(dir+"/d", "amd64")
	u.after.Store(1)
	must(t, os.MkdirAll(dir+"/d.part", 0o755))
	held, err := os.Create(dir + "/d.part/lock")
	must(t, err)
	defer held.Close()
	holdLock(t, held)
	if err := lock.save(t.Context(), all, ""); err == nil || !strings.Contains(err.Error(), "another drover airgap save") {
		t.Errorf("two at once: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.saver(dir+"/e", "amd64").save(ended, all, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// TestDamageIsFound: a byte that is changed anywhere, and an end that is missing, is found by verify or when the file is opened.
func TestDamageIsFound(t *testing.T) {
	u := newUpstream(t)
	_, file := saved(t, u, "")
	whole, err := os.ReadFile(file)
	must(t, err)
	look := func(content []byte) error {
		other := filepath.Join(t.TempDir(), "other.tar")
		must(t, os.WriteFile(other, content, 0o600))
		s, err := openSite(other)
		if err != nil {
			return err
		}
		defer s.Close()
		_, _, err = s.verify("", all)
		return err
	}
	must(t, look(whole))
	// Where a part begins its first, middle and last byte; what is between are headers' owners and padding, which are no content.
	for r, at := tar.NewReader(bytes.NewReader(whole)), 0; ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if h.Name == layoutFile {
			continue
		}
		content, err := io.ReadAll(r)
		must(t, err)
		at += bytes.Index(whole[at:], content)
		for _, i := range []int{at, at + len(content)/2, at + len(content) - 1} {
			changed := bytes.Clone(whole)
			changed[i] ^= 1
			if look(changed) == nil {
				t.Errorf("byte %d, in %s, is changed and nobody notices", i, h.Name)
			}
		}
	}
	for _, n := range []int{0, 100, 512, 2000, len(whole) / 2, len(whole) - 2048} {
		if look(whole[:n]) == nil {
			t.Errorf("the file ends after %d of %d bytes, and that is not noticed", n, len(whole))
		}
	}
}

func TestFilesThatAreNoSites(t *testing.T) {
	dir := t.TempDir()
	pack := func(files ...tar.Header) string {
		f, err := os.CreateTemp(dir, "")
		must(t, err)
		w := tar.NewWriter(f)
		for _, h := range files {
			content := "{}"
			if h.Linkname != "" {
				content = ""
			}
			h.Size = int64(len(content))
			must(t, w.WriteHeader(&h))
			_, err := io.WriteString(w, content)
			must(t, err)
		}
		must(t, errors.Join(w.Close(), f.Close()))
		return f.Name()
	}
	named := func(image string) string {
		f, err := os.CreateTemp(dir, "")
		must(t, err)
		w := tar.NewWriter(f)
		must(t, addFile(w, indexFile, int64(len(image)), strings.NewReader(image)))
		must(t, errors.Join(w.Close(), f.Close()))
		return f.Name()
	}
	for want, file := range map[string]string{
		`"../evil" does not belong into it`: pack(tar.Header{Name: "../evil"}),
		`"index.json" does not belong`:      pack(tar.Header{Name: indexFile}, tar.Header{Name: indexFile}),
		`"oci-layout" does not belong`:      pack(tar.Header{Name: layoutFile, Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}),
		`"blobs/sha256/AA" does not belong`: pack(tar.Header{Name: "blobs/sha256/AA"}),
		"it has no index.json":              pack(),
		"no such file":                      dir + "/none",
		"is a directory":                    dir,
		`has "pause" as the name`:           named(`{"manifests":[{"annotations":{"io.containerd.image.name":"pause"}}]}`),
		`has "" as the name`:                named(`{"manifests":[{}]}`),
		`has "docker.io/a/b:1" as the name`: named(`{"manifests":[{"annotations":{"io.containerd.image.name":"docker.io/a/b:1"}},{"annotations":{"io.containerd.image.name":"docker.io/a/b:1"}}]}`),
		"cannot unmarshal":                  named(`{"manifests":7}`),
	} {
		s, err := openSite(file)
		if err == nil {
			must(t, s.Close())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s, err := openSite(named(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:` + strings.Repeat("0", 64) + `","annotations":{"io.containerd.image.name":"docker.io/a/b:1"}}]}`))
	must(t, err)
	defer s.Close()
	if _, _, err := s.verify("", nil); err == nil || !strings.Contains(err.Error(), "docker.io/a/b:1: blobs/sha256/000") {
		t.Errorf("a manifest that is missing: %v", err)
	}
}

// TestSignatures: those of this program are taken by ssh-keygen, and those of ssh-keygen by this program.
func TestSignatures(t *testing.T) {
	dir := t.TempDir()
	keygen := func(stdin string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	u := newUpstream(t)
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		if out, err := keygen("", "-q", "-t", kind, "-N", "", "-f", kind); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s, _ := saved(t, u, dir+"/"+kind)
		if _, _, err := s.verify(dir+"/"+kind+".pub", all); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		signature, err := s.small(signatureFile)
		must(t, err)
		public, err := os.ReadFile(dir + "/" + kind + ".pub")
		must(t, err)
		must(t, os.WriteFile(dir+"/allowed", []byte("site@lan "+string(public)), 0o600))
		must(t, os.WriteFile(dir+"/sig", signature, 0o600))
		if out, err := keygen(string(s.raw), "-Y", "verify", "-f", "allowed", "-I", "site@lan", "-n", namespace, "-s", "sig"); err != nil {
			t.Errorf("ssh-keygen refuses our signature with %s: %v: %s", kind, err, out)
		}
		must(t, os.WriteFile(dir+"/text", s.raw, 0o600))
		must(t, os.RemoveAll(dir+"/text.sig"))
		if out, err := keygen("", "-Y", "sign", "-f", kind, "-n", namespace, "text"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		theirs, err := os.ReadFile(dir + "/text.sig")
		must(t, err)
		must(t, verifySignature(s.raw, theirs, dir+"/allowed"))
		for want, err := range map[string]error{
			"does not fit":          verifySignature(append(bytes.Clone(s.raw), ' '), theirs, dir+"/allowed"),
			"is of another key":     verifySignature(s.raw, theirs, dir+"/text"),
			"is none of ssh-keygen": verifySignature(s.raw, []byte("signed"), dir+"/allowed"),
			"read the public key":   verifySignature(s.raw, theirs, dir+"/none"),
			"without a passphrase":  func() error { _, err := sign(s.raw, dir+"/text"); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", kind, err, want)
			}
		}
		must(t, os.RemoveAll(dir+"/text.sig"))
		if out, err := keygen("", "-Y", "sign", "-f", kind, "-n", "file", "text"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		other, err := os.ReadFile(dir + "/text.sig")
		must(t, err)
		if err := verifySignature(s.raw, other, dir+"/allowed"); err == nil || !strings.Contains(err.Error(), `is for "file"`) {
			t.Errorf("a signature for something else: %v", err)
		}
	}
	s, _ := saved(t, u, "")
	if _, _, err := s.verify(dir+"/rsa.pub", all); err == nil || !strings.Contains(err.Error(), "it is not signed") {
		t.Errorf("a site without a signature: %v", err)
	}
}

// TestServe: what pulls images gets them from the file, by tag, by digest, as a mirror of two registries, in ranges; nothing can be pushed.
func TestServe(t *testing.T) {
	u := newUpstream(t)
	s, _ := saved(t, u, "")
	handler, err := newRegistry(s)
	must(t, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, image := range []string{"rancher/mirrored-pause:3.6", "rancher/mirrored-coredns:1.9"} {
		ref, err := name.ParseReference(host+"/"+image, name.Insecure)
		must(t, err)
		got, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
		must(t, err)
		want, err := remote.Image(u.ref(t, "docker.io/"+image))
		must(t, err)
		digest, err := got.Digest()
		must(t, err)
		if expected, err := want.Digest(); err != nil || digest != expected {
			t.Errorf("%s is %s and not %s: %v", image, digest, expected, err)
		}
		layers, err := got.Layers()
		must(t, err)
		for _, layer := range layers {
			content, err := layer.Compressed()
			must(t, err)
			if _, err := io.Copy(io.Discard, content); err != nil {
				t.Error(err)
			}
		}
		if _, err := remote.Get(ref.Context().Digest(digest.String())); err != nil {
			t.Error(err)
		}
	}
	ask := func(method, path string, header ...string) (int, string, http.Header) {
		q, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		must(t, err)
		if len(header) > 0 {
			q.Header.Set(header[0], header[1])
		}
		response, err := http.DefaultClient.Do(q)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(body), response.Header
	}
	_, ours, head := ask("GET", "/v2/rancher/mirrored-pause/manifests/3.6?ns=docker.io")
	_, theirs, _ := ask("GET", "/v2/rancher/mirrored-pause/manifests/3.6?ns=quay.lan")
	_, plain, _ := ask("GET", "/v2/rancher/mirrored-pause/manifests/3.6")
	if ours == theirs || ours != plain {
		t.Error("two registries have one image")
	}
	digest := head.Get("Docker-Content-Digest")
	for _, c := range []struct {
		method, path string
		status       int
		body         string
		header       []string
	}{
		{method: "GET", path: "/v2/", status: 200, body: "{}"},
		{method: "HEAD", path: "/v2/rancher/mirrored-pause/manifests/" + digest, status: 200},
		{method: "GET", path: "/v2/rancher/mirrored-pause/blobs/" + digest, status: 206, body: ours[2:5], header: []string{"Range", "bytes=2-4"}},
		{method: "GET", path: "/v2/rancher/mirrored-pause/manifests/9", status: 404, body: "no such tag"},
		{method: "GET", path: "/v2/rancher/mirrored-pause/manifests/3.6?ns=other.lan", status: 404, body: "no such tag"},
		{method: "GET", path: "/v2/none/manifests/3.6", status: 404, body: "NAME_UNKNOWN"},
		{method: "GET", path: "/v2/none/blobs/" + digest, status: 404, body: "NAME_UNKNOWN"},
		{method: "GET", path: "/v2/rancher/mirrored-pause/manifests/sha256:" + strings.Repeat("0", 64), status: 404, body: "no manifest of this digest"},
		{method: "GET", path: "/v2/rancher/mirrored-pause/blobs/sha256:" + strings.Repeat("0", 64), status: 404, body: "BLOB_UNKNOWN"},
		{method: "GET", path: "/v2/rancher/mirrored-pause/blobs/../../index.json", status: 404},
		{method: "GET", path: "/", status: 404, body: "below /v2/"},
		{method: "PUT", path: "/v2/rancher/mirrored-pause/manifests/3.6", status: 405, body: "takes nothing"},
		{method: "POST", path: "/v2/rancher/mirrored-pause/blobs/uploads/", status: 405, body: "takes nothing"},
	} {
		if status, body, _ := ask(c.method, c.path, c.header...); status != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: %d %q", c.method, c.path, status, body)
		}
	}
}

func TestLoad(t *testing.T) {
	u := newUpstream(t)
	s, _ := saved(t, u, "")
	target := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	defer target.Close()
	for range 2 {
		must(t, s.load(t.Context(), target.URL+"/hub", http.DefaultTransport, t.Logf))
	}
	for _, image := range []string{coredns, elsewhere} { // of two images of one path the last one has the tag
		ref, err := name.ParseReference(strings.TrimPrefix(target.URL, "http://")+"/hub/"+image[strings.IndexByte(image, '/')+1:], name.Insecure)
		must(t, err)
		got, err := remote.Image(ref)
		must(t, err)
		want, err := remote.Image(u.ref(t, image))
		must(t, err)
		digest, err := got.Digest()
		must(t, err)
		if expected, err := want.Digest(); err != nil || digest != expected {
			t.Errorf("%s is %s and not %s: %v", image, digest, expected, err)
		}
		layers, err := got.Layers()
		must(t, err)
		for _, layer := range layers {
			content, err := layer.Uncompressed()
			must(t, err)
			if _, err := io.Copy(io.Discard, content); err != nil {
				t.Error(err)
			}
		}
	}
	both := filepath.Join(t.TempDir(), "both.tar")
	must(t, u.saver(both, "amd64", "arm64").save(t.Context(), []string{coredns}, ""))
	two, err := openSite(both)
	must(t, err)
	defer two.Close()
	must(t, two.load(t.Context(), target.URL+"/two", http.DefaultTransport, t.Logf))
	ref, err := name.ParseReference(strings.TrimPrefix(target.URL, "http://")+"/two/rancher/mirrored-coredns:1.9", name.Insecure)
	must(t, err)
	for _, arch := range []string{"amd64", "arm64"} {
		if _, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch})); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
	if err := s.load(t.Context(), "http://127.0.0.1:1", http.DefaultTransport, t.Logf); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no registry: %v", err)
	}
}

func TestList(t *testing.T) {
	releases := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/k3s-io/k3s/releases/download/v1.34.4%2Bk3s1/k3s-images.txt":
			fmt.Fprint(w, "docker.io/rancher/mirrored-pause:3.6\ndocker.io/rancher/klipper-lb:v0.4\n\n# end\n")
		case "/rancher/rke2/releases/download/v1.34.4%2Brke2r1/rke2-images.linux-amd64.txt":
			fmt.Fprint(w, "docker.io/rancher/hardened-etcd:v3.6\n")
		case "/rancher/rke2/releases/download/v1.34.4%2Brke2r1/rke2-images-cilium.linux-amd64.txt":
			fmt.Fprint(w, "docker.io/rancher/mirrored-cilium-cilium:v1.18\n")
		case "/rancher/rke2/releases/download/v1.34.5%2Brke2r1/rke2-images.linux-amd64.txt":
			fmt.Fprint(w, strings.Repeat("docker.io/rancher/a:1\n", maxList/20))
		case "/k3s-io/k3s/releases/download/v1.34.6%2Bk3s1/k3s-images.txt":
			fmt.Fprint(w, "<html>not here</html>\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer releases.Close()
	file := filepath.Join(t.TempDir(), "images")
	must(t, os.WriteFile(file, []byte("busybox\n"), 0o600))
	w := func(versions ...string) wanted {
		return wanted{versions: versions, arch: []string{"amd64"}, releases: releases.URL + "/", client: releases.Client()}
	}
	for _, c := range []struct {
		name string
		wanted
		want []string
		err  string
	}{
		{name: "k3s", wanted: w("v1.34.4+k3s1"), want: []string{"docker.io/rancher/klipper-lb:v0.4", pause, "docker.io/rancher/system-agent-installer-k3s:v1.34.4-k3s1"}},
		{name: "RKE2", wanted: w("v1.34.4+rke2r1"), want: []string{"docker.io/rancher/hardened-etcd:v3.6", "docker.io/rancher/system-agent-installer-rke2:v1.34.4-rke2r1"}},
		{name: "a network", wanted: func() wanted { w := w("v1.34.4+rke2r1"); w.networks = []string{"cilium"}; return w }(),
			want: []string{"docker.io/rancher/hardened-etcd:v3.6", "docker.io/rancher/mirrored-cilium-cilium:v1.18", "docker.io/rancher/system-agent-installer-rke2:v1.34.4-rke2r1"}},
		{name: "a file", wanted: func() wanted { w := w("v1.34.4+k3s1"); w.file = file; return w }(),
			want: []string{"docker.io/library/busybox:latest", "docker.io/rancher/system-agent-installer-k3s:v1.34.4-k3s1"}},
		{name: "own", wanted: wanted{images: []string{"quay.io/a/b@sha256:" + strings.Repeat("0", 64), "registry.lan:5000/a"}},
			want: []string{"quay.io/a/b@sha256:" + strings.Repeat("0", 64), "registry.lan:5000/a:latest"}},
		{name: "no release", wanted: w("v1.34.9+k3s1"), err: "404 Not Found: is there such a release?"},
		{name: "no version", wanted: w("1.34"), err: "it is none of k3s, RKE2 or RKE1"},
		{name: "no version of RKE1", wanted: w("v1.99.1-rancher1-1"), err: "unsupported Kubernetes version"},
		{name: "too long", wanted: w("v1.34.5+rke2r1"), err: "longer than"},
		{name: "a page", wanted: w("v1.34.6+k3s1"), err: `"<html>not here</html>" is not the name of an image`},
		{name: "no file", wanted: wanted{file: "/nowhere"}, err: "read the list of images"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.list(t.Context())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	got, err := w("v1.30.8-rancher1-1").list(t.Context())
	if err != nil || len(got) < 20 || !slices.ContainsFunc(got, func(image string) bool { return strings.HasPrefix(image, "docker.io/rancher/hyperkube:v1.30.8") }) {
		t.Errorf("RKE1: %q, %v", got, err)
	}
}

func FuzzOpenSite(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	index := `{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:` + strings.Repeat("a", 64) + `","annotations":{"io.containerd.image.name":"docker.io/a/b:1"}}]}`
	if err := errors.Join(addFile(w, indexFile, int64(len(index)), strings.NewReader(index)), w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "site.tar")
		must(t, os.WriteFile(file, content, 0o600))
		s, err := openSite(file)
		if err != nil {
			return
		}
		defer s.Close()
		_, _, _ = s.verify("", nil) // what counts is that it ends
		_, _ = newRegistry(s)
	})
}

// holdLock has the lock of a save that another program runs.
func holdLock(t *testing.T, f *os.File) {
	t.Helper()
	must(t, durable.TryLock(f))
}

// TestIndexesThatReferToEachOtherOften: what is referred to ten thousand times on each of four levels is read once.
func TestIndexesThatReferToEachOtherOften(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.tar")
	f, err := os.Create(file)
	must(t, err)
	w := tar.NewWriter(f)
	const media = `"mediaType":"application/vnd.oci.image.index.v1+json"`
	below := `{"manifests":[]}`
	var digest string
	for range maxDepth + 1 {
		sum := sha256.Sum256([]byte(below))
		digest = hex.EncodeToString(sum[:])
		must(t, addFile(w, blobsOf+digest, int64(len(below)), strings.NewReader(below)))
		below = `{"manifests":[` + strings.Repeat(`{`+media+`,"digest":"sha256:`+digest+`"},`, 9999) + `{` + media + `,"digest":"sha256:` + digest + `"}]}`
	}
	index := `{"manifests":[{` + media + `,"digest":"sha256:` + digest + `","annotations":{"io.containerd.image.name":"docker.io/a/b:1"}}]}`
	must(t, addFile(w, indexFile, int64(len(index)), strings.NewReader(index)))
	must(t, errors.Join(w.Close(), f.Close()))
	s, err := openSite(file)
	must(t, err)
	defer s.Close()
	if _, _, err := s.verify("", nil); err != nil {
		t.Error(err)
	}
	if _, err := newRegistry(s); err != nil {
		t.Error(err)
	}
}

// TestAgentsReadTheFile: a copy of the file among the archives of a host is one that the agent finds images in, of which one platform was saved.
func TestAgentsReadTheFile(t *testing.T) {
	u := newUpstream(t)
	_, file := saved(t, u, "")
	for _, image := range []string{"rancher/mirrored-coredns:1.9", "rancher/mirrored-pause:3.6"} {
		ref, err := name.ParseReference(image)
		must(t, err)
		found, err := archive.At(file).Find(t.Context(), ref, manifest.Platform{OS: "linux", Architecture: "amd64"})
		if err != nil || found == nil {
			t.Errorf("%s: %v, %v", image, found, err)
		}
	}
}
