package image_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-project/drover/installers/image"
	"github.com/drover-project/drover/test/skips"
)

// ticking is a clock that goes on by step each time it is looked at.
func ticking(step time.Duration) func() time.Time {
	var ticks atomic.Int64
	return func() time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ticks.Add(1)) * step)
	}
}

// noise is content that does not compress.
func noise(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// blobs counts requests for layers and forgets all.
func (h *hub) blobs() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asked {
		if strings.HasPrefix(a, "GET ") && strings.Contains(a, "/blobs/") {
			n++
		}
	}
	h.asked = nil
	return n
}

// trusting is a registries.yaml that trusts the hub.
func trusting(t testing.TB, h *hub) []string {
	t.Helper()
	return []string{write(t, filepath.Join(t.TempDir(), "registries.yaml"), `{configs: {"`+h.host()+`": {tls: {ca_file: `+h.certificate(t)+`}}}}`)}
}

func pinned(t *testing.T, ref string, img v1.Image) string {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref + "@" + digest.String()
}

// inCache are the names in the cache.
func inCache(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestASecondStagingPullsNoLayer(t *testing.T) {
	h := newHub(t, nil, true)
	img := imageOf(t, layer(t, file("a", noise(1, 50<<10))), layer(t, file("b", noise(2, 50<<10))), layer(t, file("run.sh", "run")))
	ref := pinned(t, h.push(t, "inst/k3s:v1", img), img)
	dir := filepath.Join(t.TempDir(), "var", "image-cache")
	s := &image.Stager{Registries: trusting(t, h), CacheDir: dir, CacheLimit: 1 << 20}
	h.blobs()
	first, err := stage(t, s, ref)
	if err != nil {
		t.Fatal(err)
	}
	if n := h.blobs(); n != 3 {
		t.Errorf("%d layers were pulled first, want 3", n)
	}
	// Another life of the agent.
	s = &image.Stager{Registries: s.Registries, CacheDir: dir, CacheLimit: 1 << 20}
	second, err := stage(t, s, ref)
	if err != nil {
		t.Fatal(err)
	}
	if n := h.blobs(); n != 0 {
		t.Errorf("%d layers were pulled again", n)
	}
	if first != second {
		t.Error("what is staged differs")
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cache has mode %v, %v", info.Mode(), err)
	}
	s.CacheLimit = 0
	if _, err := stage(t, s, ref); err != nil || h.blobs() != 3 {
		t.Errorf("with a limit of 0: %v", err)
	}
}

func TestDamagedLayersArePulledAgain(t *testing.T) {
	h := newHub(t, nil, true)
	ref := h.push(t, "x:1", imageOf(t, layer(t, file("run.sh", noise(1, 10<<10)))))
	s := &image.Stager{Registries: trusting(t, h), CacheDir: t.TempDir(), CacheLimit: 1 << 20}
	whole, err := stage(t, s, ref)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.CacheDir, inCache(t, s.CacheDir)[0])
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(content)
	changed[len(changed)/2] ^= 1
	for name, damage := range map[string]func() error{
		"changed":   func() error { return os.WriteFile(path, changed, 0o600) },
		"half":      func() error { return os.WriteFile(path, content[:len(content)/2], 0o600) },
		"more":      func() error { return os.WriteFile(path, append(bytes.Clone(content), 'x'), 0o600) },
		"gone":      func() error { return os.Remove(path) },
		"a link":    func() error { return os.Remove(path) },
		"untouched": func() error { return nil },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if name == "a link" {
			if err := os.Symlink(write(t, filepath.Join(t.TempDir(), "elsewhere"), "theirs"), path); err != nil {
				t.Fatal(err)
			}
		}
		h.blobs()
		got, err := stage(t, s, ref)
		if err != nil || got != whole {
			t.Errorf("%s: staged something else, %v", name, err)
		}
		if n := h.blobs(); (n == 0) != (name == "untouched") {
			t.Errorf("%s: %d layers pulled", name, n)
		}
	}
}

func TestWhatWasUsedLeastRecentlyGoes(t *testing.T) {
	h := newHub(t, nil, true)
	s := &image.Stager{Registries: trusting(t, h), CacheDir: t.TempDir(), CacheLimit: 70 << 10, Now: ticking(time.Minute)}
	refs := make([]string, 4)
	for i := range refs {
		refs[i] = h.push(t, fmt.Sprintf("x:%d", i), imageOf(t, layer(t, file("f", noise(uint64(i), 30<<10)))))
	}
	write(t, filepath.Join(s.CacheDir, "somebody's"), "stays")
	abandoned := write(t, filepath.Join(s.CacheDir, "arriving-123"), "half of what a crash left")
	pulls := func(i int) int {
		h.blobs()
		if _, err := stage(t, s, refs[i]); err != nil {
			t.Fatal(err)
		}
		return h.blobs()
	}
	var got []int
	for _, i := range []int{0, 1, 0, 2, 0, 1} { // two fit; 2 drives out 1, 1 drives out 2
		got = append(got, pulls(i))
	}
	if diff := cmp.Diff([]int{1, 1, 0, 1, 0, 1}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(abandoned); !os.IsNotExist(err) {
		t.Errorf("what a crash left is still there: %v", err)
	}
	if names := inCache(t, s.CacheDir); len(names) != 3 {
		t.Errorf("kept %v, want two layers and what is not the cache's", names)
	}
	s.CacheLimit = 20 << 10 // no layer fits
	if n := pulls(3); n != 1 {
		t.Errorf("%d", n)
	}
}

func TestStagingsAtOnce(t *testing.T) {
	h := newHub(t, nil, true)
	img := imageOf(t, layer(t, file("a", noise(1, 100<<10))), layer(t, file("b", noise(2, 100<<10))))
	ref := h.push(t, "x:1", img)
	registries, cache := trusting(t, h), t.TempDir()
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			// Room for one layer only, so that they take it from each other.
			s := &image.Stager{Registries: registries, CacheDir: cache, CacheLimit: 110 << 10, Logger: quiet(), Pause: time.Millisecond}
			dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Error(err)
				return
			}
			if err := s.Stage(t.Context(), ref, dir, nil); err != nil {
				t.Error(err)
			}
			for name, want := range map[string]string{"a": noise(1, 100<<10), "b": noise(2, 100<<10)} {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
					t.Errorf("%s is not whole: %v", name, err)
				}
			}
		})
	}
	running.Wait()
	for _, name := range inCache(t, cache) {
		if strings.HasPrefix(name, "arriving-") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestNoRoomForTheCache: a cache that is full, or is not a directory, is in no instruction's way.
func TestNoRoomForTheCache(t *testing.T) {
	h := newHub(t, nil, true)
	ref := h.push(t, "x:1", imageOf(t, layer(t, file("run.sh", noise(1, 500<<10)))))
	places := map[string]string{"a file in its place": write(t, filepath.Join(t.TempDir(), "f"), "")}
	if mnt := t.TempDir(); os.Getuid() == 0 && syscall.Mount("tmpfs", mnt, "tmpfs", 0, "size=100k") == nil {
		defer syscall.Unmount(mnt, syscall.MNT_DETACH)
		places["a full disk"] = mnt
	}
	for name, dir := range places {
		var log bytes.Buffer
		var lines []string
		s := &image.Stager{Registries: trusting(t, h), CacheDir: dir, CacheLimit: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		to := t.TempDir()
		if err := s.Stage(t.Context(), ref, to, func(line string) { lines = append(lines, line) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want(t, tree(t, to), "-rw-r--r-- run.sh "+noise(1, 500<<10))
		if !strings.Contains(log.String(), "layers cannot be kept") || !strings.Contains(strings.Join(lines, "\n"), "layers cannot be kept in "+dir) {
			t.Errorf("%s is not reported: %s %v", name, &log, lines)
		}
	}
}

// TestTheCacheMakesRoom: cache and sandbox are on one disk, and the sandbox comes first.
func TestTheCacheMakesRoom(t *testing.T) {
	mnt := t.TempDir()
	if os.Getuid() != 0 || syscall.Mount("tmpfs", mnt, "tmpfs", 0, "size=800k") != nil {
		skips.Skip(t, "mounting needs root")
	}
	defer syscall.Unmount(mnt, syscall.MNT_DETACH)
	h := newHub(t, nil, true)
	ref := h.push(t, "x:1", imageOf(t, layer(t, file("run.sh", noise(1, 500<<10)))))
	s := &image.Stager{Registries: trusting(t, h), CacheDir: filepath.Join(mnt, "cache"), CacheLimit: 1 << 20, Logger: quiet()}
	to := filepath.Join(mnt, "sandbox")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Stage(t.Context(), ref, to, nil); err != nil {
		t.Fatal(err)
	}
	want(t, tree(t, to), "-rw-r--r-- run.sh "+noise(1, 500<<10))
}

func TestProgress(t *testing.T) {
	h := newHub(t, nil, true)
	ref := h.push(t, "inst/k3s:v1", imageOf(t, layer(t, file("a", noise(1, 300<<10))), layer(t, file("run.sh", "x"))))
	s := &image.Stager{Registries: trusting(t, h), CacheDir: t.TempDir(), CacheLimit: 1 << 20, Logger: quiet(), Now: ticking(300 * time.Millisecond)}
	staged := func() (lines []string) {
		progress := func(line string) { lines = append(lines, strings.TrimPrefix(line, "image "+ref+": ")) }
		if err := s.Stage(t.Context(), ref, t.TempDir(), progress); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	lines := staged()
	if lines[0] != "asking http://"+h.host() {
		t.Errorf("began with %q", lines[0])
	}
	between := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "layer 1 of 2, ") && strings.HasSuffix(line, " of 301 KiB") {
			between++
		}
	}
	if all := strings.Join(lines, "\n"); between == 0 || !strings.Contains(all, "layer 1 of 2 pulled, 301 KiB\nunpacking layer 1 of 2\n") {
		t.Errorf("reported\n%s", all)
	}
	if diff := cmp.Diff([]string{
		"asking http://" + h.host(),
		"layer 1 of 2 is kept here since it was last pulled", "unpacking layer 1 of 2",
		"layer 2 of 2 is kept here since it was last pulled", "unpacking layer 2 of 2",
	}, staged()); diff != "" {
		t.Error(diff)
	}
	s = &image.Stager{Registries: s.Registries, Logger: quiet(), Now: ticking(0)}
	if lines := staged(); len(lines) != 3 || lines[1] != "layer 1 of 2 unpacked, 301 KiB" {
		t.Errorf("in no time: %q", lines)
	}
}

func BenchmarkStage(b *testing.B) {
	for _, limit := range []int64{0, 1 << 30} {
		b.Run(map[bool]string{true: "cached", false: "uncached"}[limit > 0], func(b *testing.B) {
			h := newHub(b, nil, true)
			ref := h.push(b, "x:1", imageOf(b, layer(b, file("a", noise(1, 16<<20))), layer(b, file("b", noise(2, 16<<20)))))
			s := &image.Stager{Registries: trusting(b, h), CacheDir: b.TempDir(), CacheLimit: limit, Logger: quiet()}
			if err := s.Stage(b.Context(), ref, b.TempDir(), nil); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(32 << 20)
			for b.Loop() {
				dir, err := os.MkdirTemp(b.TempDir(), "")
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Stage(b.Context(), ref, dir, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
