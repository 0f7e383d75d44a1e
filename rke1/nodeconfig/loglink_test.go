package nodeconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The link is to where Docker says that the log is, wherever its root is; the links of containers that went before go, and nothing else does.
func TestLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rke", "log")
	id := func(digit string) string { return strings.Repeat(digit, 64) }
	link := func(name, id, log string) {
		t.Helper()
		command := link(dir, log, name, id)
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	link("kube-proxy", id("a"), "/gone/a.log")
	link("kubelet", id("b"), "/gone/b.log")
	for _, name := range []string{"kubelet_mine.log", "kubelet_" + id("c")[1:] + ".log", "kubelet_" + id("d") + ".log"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil { // files, and no links
			t.Fatal(err)
		}
	}
	link("kube", id("e"), "/mnt/docker here/$(id)/e.log")
	link("kubelet", id("f"), "/data/docker/f.log")
	link("kubelet", id("f"), "/data/docker/f.log")

	want := map[string]string{
		"kube-proxy_" + id("a") + ".log": "/gone/a.log", "kube_" + id("e") + ".log": "/mnt/docker here/$(id)/e.log", "kubelet_" + id("f") + ".log": "/data/docker/f.log",
		"kubelet_mine.log": "", "kubelet_" + id("c")[1:] + ".log": "", "kubelet_" + id("d") + ".log": "",
	}
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got[e.Name()], _ = os.Readlink(filepath.Join(dir, e.Name())) // "" for a file
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
