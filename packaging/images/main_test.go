package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-project/drover/test/skips"
)

func TestImageOfTheUpgradeController(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	me, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(dir, "rancher-system-agent-"+runtime.GOARCH)
	if err := os.WriteFile(agent, me, 0o755); err != nil {
		t.Fatal(err)
	}
	busybox := "/bin/busybox"
	if err := static(busybox, runtime.GOARCH); err != nil {
		skips.Skip(t, "a static busybox is needed: ", err)
	}
	o := options{arch: runtime.GOARCH, version: "v1.2.3", out: dir + "/out", bin: dir, busybox: busybox, kubectl: busybox}
	path, err := write(o, "suc")
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("drover/system-agent:v1.2.3-suc")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	files, err := layoutOf(tag, image)
	if err != nil {
		t.Fatal(err)
	}
	for file, names := range map[string][]string{
		"index.json":    {`"io.containerd.image.name":"docker.io/drover/system-agent:v1.2.3-suc"`, `"org.opencontainers.image.ref.name":"v1.2.3-suc"`},
		"manifest.json": {`"RepoTags":["drover/system-agent:v1.2.3-suc"]`},
	} {
		for _, want := range names {
			if !strings.Contains(string(files[file]), want) {
				t.Errorf("%s has no %s:\n%s", file, want, files[file])
			}
		}
	}
	found := map[string]string{}
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d:%d and is of %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		if h.Typeflag != tar.TypeDir && strings.HasPrefix(h.Name, "opt/") || h.Name == "bin/kubectl" || h.Name == "bin/sh" {
			found[h.Name] = h.FileInfo().Mode().String() + h.Linkname
		}
	}
	want := map[string]string{"bin/kubectl": "-rwxr-xr-x", "bin/sh": "Lrwxrwxrwxbusybox"}
	for _, file := range []string{"run.sh", "install.sh", "system-agent-uninstall.sh", "rancher-system-agent"} {
		want["opt/rancher-system-agent-suc/"+file] = "-rwxr-xr-x"
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != runtime.GOARCH || config.OS != "linux" || cmp.Diff([]string{"/opt/rancher-system-agent-suc/run.sh"}, config.Config.Cmd) != "" {
		t.Errorf("config %+v, %v", config, err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write(o, "suc"); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("a second build differs, or %v", err)
	}
}

func TestProgramsThatCannotRunInAnImageAreRefused(t *testing.T) {
	if err := static("/bin/busybox", "s390x"); err == nil {
		t.Error("another architecture is accepted")
	}
	for _, dynamic := range []string{"/bin/ls", "/usr/bin/env"} {
		if err := static(dynamic, runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "dynamically") {
			t.Errorf("%s: %v", dynamic, err)
		}
	}
	if _, err := write(options{}, "none"); err == nil {
		t.Error("an image that is not in the table is accepted")
	}
}

func TestImageOfTheNodeAgent(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	static := "/bin/busybox"
	program, err := os.ReadFile(static)
	if err != nil {
		skips.Skip(t, "a static program is needed: ", err)
	}
	ca := filepath.Join(dir, "ca.pem")
	for path, content := range map[string][]byte{filepath.Join(dir, "rancher-agent-"+runtime.GOARCH): program, ca: []byte("CA")} {
		if err := os.WriteFile(path, content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path, err := write(options{arch: runtime.GOARCH, version: "v1", out: dir + "/out", bin: dir, ca: ca}, "rancher-agent")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.Labels["io.cattle.agent"] != "true" || len(config.Config.Entrypoint) != 1 {
		t.Errorf("%+v, %v", config, err)
	}
	var found []string
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, h.FileInfo().Mode().String()+" "+h.Name)
	}
	for _, want := range []string{"-rwxr-xr-x usr/bin/rancher-agent", "-rw-r--r-- etc/ssl/certs/ca-certificates.crt", "drwxr-xr-x etc/kubernetes/ssl/certs", "drwxr-xr-x var/lib/rancher", "dtrwxrwxrwx tmp"} {
		if !slices.Contains(found, want) {
			t.Errorf("%q is missing in %q", want, found)
		}
	}
}
