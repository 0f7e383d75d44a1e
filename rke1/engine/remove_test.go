package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// The preview of a removal names what is on each host, and changes nothing; what it names is removed then, with snapshots only where
// a person says so.
func TestRemove(t *testing.T) {
	const lived = "mount 1 0 8:1 / / rw - ext4 /dev/sda rw\nmount 2 1 0:5 / /var/lib/kubelet/pods/p/v rw - tmpfs tmpfs rw\nlink flannel.1\ndirectory /var/lib/kubelet\ndirectory /opt/rke/etcd-snapshots\nend\n"
	const gone = "mount 1 0 8:1 / / rw - ext4 /dev/sda rw\nend\n"
	for name, snapshots := range map[string]bool{"snapshots stay": false, "snapshots go": true} {
		t.Run(name, func(t *testing.T) {
			y, r, _ := deployedYard(t, yml)
			r.Close()
			y.work.RemoveSnapshots = snapshots
			asked := map[string]string{}
			for address, e := range y.hosts {
				// Two that a run left when it was killed, and one of a person.
				image := e.Containers()["kubelet"].Config.Image
				for _, name := range []string{"rke-log-linker-kubelet", "rke-port-checker", "web"} {
					e.Run(t, name, image, nil)
				}
				e.SetInside("kube-cleaner", "/drover-found", lived, lived, gone)
				e.OnStart("kube-cleaner", func(c dockerstandin.Container) (int, string) {
					y.mu.Lock()
					defer y.mu.Unlock()
					asked[address] += strings.Join(c.Config.Entrypoint[3:], " ") + "\n"
					return 0, ""
				})
				e.Requests()
			}
			changes, err := PreviewRemove(t.Context(), y.o, y.work)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(changes.Lines(), "\n")
			for _, want := range []string{
				"10.0.0.1: leaves the cluster", "10.0.0.1 mount /var/lib/kubelet/pods/p/v: unmount", "10.0.0.2 network device flannel.1: delete", "10.0.0.2 directory /var/lib/kubelet: empty",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			for address, e := range y.hosts {
				for _, q := range e.Requests() {
					if !strings.Contains(q.Path, "kube-cleaner") && q.Method != "POST" && !strings.HasPrefix(q.Path, "/containers/") || strings.Contains(q.Path, "kubelet") {
						t.Errorf("the preview changed host %s: %s %s", address, q.Method, q.Path)
					}
				}
				if _, there := e.Containers()["kubelet"]; !there {
					t.Errorf("the preview removed the kubelet of %s", address)
				}
				if strings.Contains(asked[address], "umount") || strings.Contains(asked[address], "rm -rf") {
					t.Errorf("the preview did %s", asked[address])
				}
				if got := strings.Contains(asked[address], "/opt/rke/etcd-snapshots"); got != snapshots {
					t.Errorf("snapshots of %s are looked at: %t", address, got)
				}
			}
			if err := Remove(t.Context(), y.o, y.work); err != nil {
				t.Fatal(err)
			}
			for address, e := range y.hosts {
				if left := e.Containers(); len(left) != 1 || !left["web"].Running {
					t.Errorf("left on %s: %v", address, left)
				}
				if !strings.Contains(asked[address], "/var/lib/kubelet/pods/p/v") {
					t.Errorf("nothing was unmounted on %s: %s", address, asked[address])
				}
			}
		})
	}
}

// A host that is away is named at the end, and the others are clean; a run that was interrupted is done again.
func TestRemoveWithAHostAway(t *testing.T) {
	y, r, _ := deployedYard(t, yml)
	r.Close()
	y.away["10.0.0.2"] = errors.New("no route to host")
	for _, e := range y.hosts {
		e.SetInside("kube-cleaner", "/drover-found", "mount 1 0 8:1 / / rw - ext4 /dev/sda rw\nend\n")
		e.OnStart("kube-cleaner", func(dockerstandin.Container) (int, string) { return 0, "" })
	}
	// deployedYard lets every port answer; the socket of Docker is what is away.
	if err := Remove(t.Context(), y.o, y.work); !run.IsIncomplete(err) || !strings.Contains(err.Error(), "10.0.0.2") {
		t.Errorf("got %v", err)
	}
	if len(y.hosts["10.0.0.1"].Containers()) != 0 || len(y.hosts["10.0.0.2"].Containers()) == 0 {
		t.Error("the host that answers is not clean, or the other one was touched")
	}
	delete(y.away, "10.0.0.2")
	if err := Remove(t.Context(), y.o, y.work); err != nil || len(y.hosts["10.0.0.2"].Containers()) != 0 {
		t.Errorf("again: %v", err)
	}
}
