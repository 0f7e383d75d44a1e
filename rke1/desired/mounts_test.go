package desired

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The start script of the helper image unmounts what is below Docker's root, /run and /var/run inside the kubelet's container. Nothing of that
// may reach the host: those binds are never shared with it, and what the kubelet shares is not below them.
func TestUnmountingStaysInTheContainer(t *testing.T) {
	seen := 0
	for _, version := range minors {
		for _, h := range hosts(t, input(t, version)) {
			for _, c := range h.Containers {
				for _, bind := range c.Binds {
					parts := strings.SplitN(bind, ":", 3)
					unmounted := slices.ContainsFunc([]string{"/var/lib/docker", "/run", "/var/run"}, func(dir string) bool {
						return parts[1] == dir || strings.HasPrefix(parts[1], dir+"/")
					})
					options := strings.Split(append(parts, "")[2], ",")
					shared := slices.Contains(options, "shared") || slices.Contains(options, "rshared")
					if unmounted && c.Name == Kubelet {
						seen++
					}
					if unmounted && shared {
						t.Errorf("%s %s %s: %s", version, h.Name, c.Name, bind)
					}
				}
			}
		}
	}
	if seen < 3*len(minors) {
		t.Errorf("%d such binds were looked at", seen)
	}
}

// A socket of a process that has gone is still a file, on which no program listens; one that is reached by a link counts.
func TestSocketChecker(t *testing.T) {
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "containerd.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "gone.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	gone.SetUnlinkOnClose(false)
	gone.Close()
	link := filepath.Join(dir, "cri-dockerd.sock")
	if out, err := exec.Command("ln", "-s", "containerd.sock", link).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := once503(t, "10.0.0.1").SocketChecker()
	moved := t.TempDir()
	m, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(moved, "2718281828"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.Rename(filepath.Join(moved, "2718281828"), filepath.Join(moved, "cri-dockerd.sock")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(p.Command[0], append(slices.Clone(p.Command[1:len(p.Command)-1]), filepath.Join(moved, "cri-dockerd.sock"))...).CombinedOutput(); err != nil {
		t.Errorf("a socket that was moved after it was made: %v %s", err, out)
	}
	if got := p.Command[len(p.Command)-1]; got != "/var/run/cri-dockerd.sock" || p.NetworkMode != "host" || !slices.Contains(p.Binds, "/var/run:/var/run") {
		t.Errorf("%+v", p)
	}
	for name, want := range map[string]bool{"containerd.sock": true, "cri-dockerd.sock": true, "gone.sock": false, "never.sock": false} {
		err := exec.Command(p.Command[0], append(slices.Clone(p.Command[1:len(p.Command)-1]), filepath.Join(dir, name))...).Run()
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
