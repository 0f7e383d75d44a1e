package node

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/test/skips"
)

func TestSharing(t *testing.T) {
	const table = `21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
22 21 0:20 / /run rw shared:5 - tmpfs tmpfs rw
23 21 8:2 / /var/lib/rancher rw - ext4 /dev/sdb1 rw
24 21 8:3 / /var/lib/kubelet rw master:3 - ext4 /dev/sdc1 rw
25 24 8:3 / /var/lib/kubelet rw shared:9 master:3 - ext4 /dev/sdc1 rw
26 21 8:4 / /mnt/a\040b rw shared:7 - ext4 /dev/sdd1 rw
`
	all, err := parseMounts(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path        string
		bind, share bool
	}{
		{"/opt/x", true, true},            // on a private root
		{"/var/lib/rancher", false, true}, // a mount of its own
		{"/var/lib/rancher2", true, true},
		{"/var/lib/rancher/x", true, true},
		{"/var/lib/kubelet", false, false}, // the one on top is shared
		{"/var/lib/kubelet/pods", false, false},
		{"/run/x", false, false},
		{"/mnt/a b", false, false},
		{"/", false, true},
	} {
		if bind, share := sharing(all, tc.path); bind != tc.bind || share != tc.share {
			t.Errorf("%s: bind %t, share %t", tc.path, bind, share)
		}
	}
	if _, err := parseMounts("21 1 8:1\n"); err == nil {
		t.Error("half a line is read")
	}
}

const inNamespace = "DROVER_TEST_SHARE"

// TestMain lets a test run itself in a mount namespace of its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv(inNamespace); dir != "" {
		if err := shareTwice(dir); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	if socket := os.Getenv(asNobody); socket != "" {
		os.Stdout.WriteString(nobodysDocker(context.Background(), socket).Error())
		os.Exit(0)
	}
	m.Run()
}

// shareTwice makes a path of a private mount shared, by way of the namespace, and again.
func shareTwice(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	path := filepath.Join(dir, "made", "here")
	for _, want := range []bool{true, false} {
		var changed bool
		err := onHostMounts("/proc/self/ns/mnt", func() (err error) {
			changed, err = shareMount(path)
			return err
		})
		if err != nil {
			return err
		}
		if changed != want {
			return errors.New("it changed something the second time, or nothing the first time")
		}
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	all, err := parseMounts(string(text))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(m mount) bool { return m.point == path && m.shared }) {
		return errors.New("it is not shared:\n" + string(text))
	}
	return nil
}

func TestMountsAreShared(t *testing.T) {
	if os.Geteuid() != 0 {
		skips.Skip(t, "mounts are root's")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), inNamespace+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		skips.Skip(t, "this machine allows no mount namespaces")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.TrimSpace(string(out)))
	}
}
