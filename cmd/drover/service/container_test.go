package service

import (
	"strings"
	"testing"
)

func TestMountOf(t *testing.T) {
	const mounts = `21 1 0:30 / / rw,relatime shared:1 - overlay overlay rw
22 21 0:31 / /proc rw - proc proc rw
23 21 254:1 /volumes/a /var/lib/drover rw,relatime master:3 - ext4 /dev/vda rw
24 21 0:40 / /var rw - xfs /dev/vdb rw
25 21 0:41 / /mnt/my\040data rw - tmpfs tmpfs rw
26 21 0:42 / /var/lib/drover2 rw - btrfs /dev/vdc rw
`
	for dir, want := range map[string]string{
		"/var/lib/drover":        "/var/lib/drover ext4",
		"/var/lib/drover/":       "/var/lib/drover ext4",
		"/var/lib/drover/deeper": "/var/lib/drover ext4",
		"/var/lib/droverx":       "/var xfs",
		"/srv/drover":            "/ overlay",
		"/mnt/my data/drover":    "/mnt/my data tmpfs",
	} {
		at, kind, err := mountOf(strings.NewReader(mounts), dir)
		if got := at + " " + kind; err != nil || got != want {
			t.Errorf("%s is on %s (%v), want %s", dir, got, err, want)
		}
	}
	if _, _, err := mountOf(strings.NewReader("nonsense\n"), "/"); err == nil {
		t.Error("nonsense was read")
	}
}

func TestOutlives(t *testing.T) {
	for _, c := range []struct{ at, kind, says string }{
		{"/", "overlay", "is no volume"},
		{"/var/lib/drover", "tmpfs", "is in memory"},
		{"/var", "ramfs", "is in memory"},
		{"/var/lib/drover", "ext4", ""},
		{"/var", "xfs", ""},
	} {
		err := outlives("/var/lib/drover", c.at, c.kind)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s at %s: %v, want %q", c.kind, c.at, err, c.says)
		}
	}
}

func TestKeptOutsideOfContainers(t *testing.T) {
	if err := checkKept("/nowhere", func(string) string { return "" }); err != nil {
		t.Errorf("on a host: %v", err)
	}
	// The system's own proc is a mount that is not the root, and is not in memory.
	if err := checkKept("/proc/drover", func(string) string { return "true" }); err != nil {
		t.Errorf("on a mount: %v", err)
	}
}
