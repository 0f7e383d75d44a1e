package hostfs_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/test/skips"
)

// TestDevicesPipesAndSocketsAreNotReplaced: a plan's path may lead to one through a link.
func TestDevicesPipesAndSocketsAreNotReplaced(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(path string) error
	}{
		{"pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"device", func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|3) }},
		{"socket", func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				l.Close()
			}
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, _ := host(t)
			path := filepath.Join(h.Root, "x")
			if err := test.make(path); err != nil {
				skips.Skip(t, err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []hostfs.Entry{
				{Name: "/x", Kind: hostfs.File, Content: []byte("new"), Mode: 0o600, Owner: keep},
				{Name: "/x", Kind: hostfs.Link, Target: "/y", Owner: keep},
				{Name: "/x", Kind: hostfs.Dir, Mode: 0o700, Owner: keep},
			} {
				if c, err := h.Bring(want); err == nil || c.Action != hostfs.None {
					t.Errorf("%+v: %q, %v", want, c.Action, err)
				}
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("replaced: %v", err)
			}
			if _, err := h.Bring(hostfs.Entry{Name: "/x", Owner: keep}); err != nil {
				t.Errorf("it cannot be removed: %v", err)
			}
		})
	}
}
