package cleaner_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/cleaner"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

const image = "rancher/hyperkube:v1.30.5-rancher1"

// lived is what the probe finds on a host where a cluster was.
const lived = `mount 1 0 8:1 / / rw - ext4 /dev/sda rw
mount 2 1 0:5 / /var/lib/kubelet/pods/p/volumes/nfs rw - nfs4 fs:/ rw
mount 3 1 0:6 / /opt/cni/extra rw - tmpfs tmpfs rw
link flannel.1
rules 3
directory /var/lib/kubelet
directory /opt/cni
directory /etc/kubernetes
end
`

// after is what is left when everything has worked.
const after = `mount 1 0 8:1 / / rw - ext4 /dev/sda rw
mount 3 1 0:6 / /opt/cni/extra rw - tmpfs tmpfs rw
directory /var/lib/kubelet
directory /opt/cni
directory /etc/kubernetes
end
`

// host is one whose probe finds some things, one after the other, and what was run there.
func host(t *testing.T, found ...string) (cleaner.Host, *dockerstandin.Engine, *[]string) {
	t.Helper()
	e := dockerstandin.New(t)
	e.AddImage(image, dockerstandin.Image{})
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	h, err := onhost.Open(t.Context(), "10.0.0.1", e.Socket, dial, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	e.SetInside("kube-cleaner", "/drover-found", found...)
	ran := &[]string{}
	e.OnStart("kube-cleaner", func(c dockerstandin.Container) (int, string) {
		script, args := c.Config.Entrypoint[2], c.Config.Entrypoint[4:]
		did := "nothing known"
		switch {
		case strings.Contains(script, "mountinfo"):
			did = "look"
		case strings.Contains(script, "umount"):
			did = "unmount " + strings.Join(args, " ")
		case strings.Contains(script, "ip link"):
			did = "network " + strings.Join(args[1:], " ")
		case strings.Contains(script, "rm -rf"):
			did = "empty " + strings.Join(args, " ") + " with " + strings.Join(c.Host.Binds, " ")
		}
		*ran = append(*ran, did)
		return 0, ""
	})
	pod := map[string]string{"io.kubernetes.pod.uid": "1"}
	e.Run(t, "k8s_a", image, pod)
	e.Run(t, "k8s_agent", image, map[string]string{"io.kubernetes.pod.uid": "2", "io.cattle.agent": "true"})
	e.Run(t, "somebodys", image, nil)
	return cleaner.Host{Host: h, Image: image}, e, ran
}

var plan = cleaner.Plan{Prefix: "/", Plugin: "canal"}

// A look changes nothing, and its lines are what is removed then.
func TestLook(t *testing.T) {
	h, e, ran := host(t, lived)
	before := slices.Sorted(maps.Keys(e.Containers()))
	f, err := h.Look(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"containers of pods: remove 1", "mount /var/lib/kubelet/pods/p/volumes/nfs: unmount", "network device flannel.1: delete", "iptables: remove 3 rules and chains",
		"directory /var/lib/kubelet: empty", "directory /opt/cni: stays as it is, because something is mounted on /opt/cni/extra", "directory /etc/kubernetes: empty",
	}
	if diff := cmp.Diff(want, f.Lines()); diff != "" {
		t.Error(diff)
	}
	if after := slices.Sorted(maps.Keys(e.Containers())); !slices.Equal(before, after) || !slices.Equal(*ran, []string{"look"}) {
		t.Errorf("containers %v, ran %q", after, *ran)
	}
}

func TestClean(t *testing.T) {
	h, e, ran := host(t, lived, after)
	stays, err := h.Clean(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"look", "unmount /var/lib/kubelet/pods/p/volumes/nfs", "network flannel.1", "look",
		"empty /var/lib/kubelet /etc/kubernetes with /var/lib/kubelet:/var/lib/kubelet /etc/kubernetes:/etc/kubernetes",
	}
	if diff := cmp.Diff(want, *ran); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"host 10.0.0.1 keeps /opt/cni, because something is mounted on /opt/cni/extra"}, stays); diff != "" {
		t.Error(diff)
	}
	if left := slices.Sorted(maps.Keys(e.Containers())); !slices.Equal(left, []string{"k8s_agent", "somebodys"}) {
		t.Errorf("left: %v", left)
	}
}

// Nothing is removed through a mount that does not go: what is on it is a user's data.
func TestAMountThatStays(t *testing.T) {
	h, _, ran := host(t, lived, lived)
	_, err := h.Clean(t.Context(), plan)
	left := new(cleaner.LeftError)
	if !errors.As(err, &left) || !strings.Contains(err.Error(), "/var/lib/kubelet/pods/p/volumes/nfs cannot be unmounted") || !strings.Contains(err.Error(), "host 10.0.0.1") {
		t.Errorf("got %v", err)
	}
	if slices.ContainsFunc(*ran, func(did string) bool { return strings.HasPrefix(did, "empty") }) {
		t.Errorf("ran %q", *ran)
	}
}

func TestWhatStaysWithoutHarm(t *testing.T) {
	h, _, _ := host(t, lived, strings.Replace(after, "directory", "link flannel.1\nrules 2\ndirectory", 1))
	stays, err := h.Clean(t.Context(), plan)
	want := []string{
		"host 10.0.0.1 keeps the network device flannel.1 until it is restarted", "host 10.0.0.1 keeps 2 rules of iptables until it is restarted",
		"host 10.0.0.1 keeps /opt/cni, because something is mounted on /opt/cni/extra",
	}
	if diff := cmp.Diff(want, stays); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// A list that is cut off could lack a mount.
func TestALookThatWasCutOff(t *testing.T) {
	h, _, ran := host(t, strings.TrimSuffix(lived, "end\n"))
	if _, err := h.Clean(t.Context(), plan); err == nil || !strings.Contains(err.Error(), "look what host 10.0.0.1 has") || len(*ran) != 1 {
		t.Errorf("%v, ran %q", err, *ran)
	}
}
