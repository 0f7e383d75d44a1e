package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/test/skips"
)

// mount mounts one path of a host on another until the end of the test.
func mount(t *testing.T, h hostfs.FS, from, on string) {
	t.Helper()
	on = filepath.Join(h.Root, on)
	if err := syscall.Mount(filepath.Join(h.Root, from), on, "", syscall.MS_BIND, ""); err != nil {
		skips.Skip(t, "no right to mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(on, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestAFileThatIsAMountPointIsWrittenInPlace: /etc/hosts of a container cannot be replaced.
func TestAFileThatIsAMountPointIsWrittenInPlace(t *testing.T) {
	h, _ := host(t)
	write("etc/before", "", 0o600)(t, h.Root)
	write("etc/hosts", "", 0o600)(t, h.Root)
	write("real", "127.0.0.1 a name that is longer\n", 0o600)(t, h.Root)
	mount(t, h, "real", "etc/hosts")
	for _, text := range []string{"::1 shorter\n", strings.Repeat("10.0.0.1 longer\n", 40), ""} {
		b := h.Batch()
		for _, name := range []string{"/etc/before", "/etc/hosts", "/etc/after"} {
			if _, err := b.Bring(hostfs.Entry{Name: name, Kind: hostfs.File, Content: []byte(text + "#"), Mode: 0o640, Owner: keep}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(b.Flush(), b.Close()); err != nil {
			t.Fatal(err)
		}
		if got := b.InPlace(); !slices.Equal(got, []string{"/etc/hosts"}) {
			t.Errorf("written in place: %q", got)
		}
		for _, name := range []string{"etc/before", "etc/hosts", "etc/after", "real"} {
			path := filepath.Join(h.Root, name)
			if got := content(t, path); got != text+"#" || mode(t, path) != 0o640 {
				t.Errorf("%s has %q, %v", name, got, mode(t, path))
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(h.Root, "etc/.*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestOtherEntriesThatAreMountPoints: a link cannot take the place, a file cannot be removed, of a
// tree everything but the place itself can.
func TestOtherEntriesThatAreMountPoints(t *testing.T) {
	h, _ := host(t)
	write("file", "", 0o600)(t, h.Root)
	write("dir/inside/f", "", 0o600)(t, h.Root)
	write("volume/data/g", "", 0o600)(t, h.Root)
	mount(t, h, "dir/inside/f", "file")
	mount(t, h, "volume", "dir")
	for what, do := range map[string]func() (bool, error){
		"a link":    func() (bool, error) { return link(h, "/file", "/elsewhere") },
		"a removal": func() (bool, error) { return remove(h, "/file", false) },
	} {
		if _, err := do(); !errors.Is(err, hostfs.ErrMounted) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := remove(h, "/dir", true); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{"dir", "volume"} {
		if entries, err := os.ReadDir(filepath.Join(h.Root, dir)); err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
	if changed, err := mkdir(h, "/dir", 0o700, keep); !changed || err != nil {
		t.Errorf("mode of the place: %v, %v", changed, err)
	}
}
