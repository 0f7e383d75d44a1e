package rke2standin

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/k3smodule"
)

// TestComponentsAnswerToTheirNames: each link in the image is a name that the program behind it knows, and each name of a
// part of the control plane in the supervisor's flags has such a link.
func TestComponentsAnswerToTheirNames(t *testing.T) {
	program, err := os.ReadFile("components/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range components {
		if !strings.Contains(string(program), `"`+name+`"`) {
			t.Errorf("components/main.go does not know %s", name)
		}
	}
	flags, err := os.ReadFile("program/flags.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(flags), "var components = []string{")
	list, _, found := strings.Cut(list, "}")
	if !found {
		t.Fatal("program/flags.go has no list of components")
	}
	for name := range strings.SplitSeq(list, ",") {
		if name := strings.Trim(strings.TrimSpace(name), `"`); !slices.Contains(components, name) {
			t.Errorf("the image has no %s", name)
		}
	}
}

// TestImageNames: a plan asks for the installer image by a tag, which has no plus sign.
func TestImageNames(t *testing.T) {
	if got, want := InstallerRef("v1.34.4+rke2r1"), "rancher/system-agent-installer-rke2:v1.34.4-rke2r1"; got != want {
		t.Errorf("the installer image is %s, want %s", got, want)
	}
	refs := imageRefs("v1.34.4+rke2r1")
	for _, want := range []string{"docker.io/rancher/rke2-runtime:v1.34.4-rke2r1", "docker.io/rancher/hardened-kubernetes:v1.34.4-rke2r1"} {
		if !slices.Contains(refs, want) {
			t.Errorf("%s is not among %q", want, refs)
		}
	}
}

// TestPack packs a release of a program that is none, and has sha256sum look at the list that goes with it.
func TestPack(t *testing.T) {
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b, dir := &builder{&k3smodule.Workshop{Module: module}}, t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rke2"), []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.pack(dir); err != nil {
		t.Fatal(err)
	}
	if err := writeChecksums(dir, releaseArchive); err != nil {
		t.Fatal(err)
	}
	check := exec.Command("sha256sum", "--check", checksums)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	want := []string{
		"bin/rke2", "bin/rke2-killall.sh", "bin/rke2-uninstall.sh", "lib/systemd/system/rke2-agent.env",
		"lib/systemd/system/rke2-agent.service", "lib/systemd/system/rke2-server.env", "lib/systemd/system/rke2-server.service",
	}
	if got := packed(t, filepath.Join(dir, releaseArchive)); !slices.Equal(got, want) {
		t.Errorf("packed is %q, want %q", got, want)
	}
}

// packed are the names in a packed tar, in order.
func packed(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}
