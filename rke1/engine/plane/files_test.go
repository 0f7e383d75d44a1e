package plane

import (
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/test/bed/runbed"
)

// A container restarts for certificates that are others than before, and only when they were
// written after it started: not for files that were written again as they were.
func TestContainersWithNewCertificates(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 12, 0, second, 0, time.UTC) }
	kubelet := nodeconfig.Container{Name: desired.Kubelet, Started: at(30)}
	for name, c := range map[string]struct {
		before, now string
		written     int
		want        bool
	}{
		"as before":                     {"a", "a", 40, false},
		"new, written after its start":  {"a", "b", 31, true},
		"new, in the same second":       {"a", "b", 30, true},
		"new, written before its start": {"a", "b", 20, false},
	} {
		r := runbed.Of([]config.Node{runbed.Node("1", "worker")}, []config.Node{runbed.Node("1", "worker")})
		r.Before.Current.Certificates = pki.Bundle{pki.Node: {CertificatePEM: c.before}}
		r.State.Desired.Certificates = pki.Bundle{pki.Node: {CertificatePEM: c.now}}
		h := r.Hosts["1"]
		h.Written = map[string]onhost.File{pki.Path(pki.Node): {Changed: at(c.written)}}
		if got := Renewed(r, h, kubelet); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if proxy := Renewed(r, h, nodeconfig.Container{Name: desired.KubeProxy, Started: at(1)}); proxy {
			t.Errorf("%s: kube-proxy, which does not read it, restarts", name)
		}
	}
}

// An API server reads its keys once, when it starts.
func TestKeysRestartTheAPIServer(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	h := &run.Host{Prefix: "/", Written: map[string]onhost.File{desired.EncryptionFile: {Changed: noon}}}
	for _, tt := range []struct {
		name, container string
		started         time.Time
		deployed        string
		want            bool
	}{
		{"from before the file", desired.KubeAPIServer, noon.Add(-time.Hour), "old", true},
		{"in the second of the file", desired.KubeAPIServer, noon.Add(time.Second / 2), "old", true},
		{"from after the file", desired.KubeAPIServer, noon.Add(time.Second), "old", false},
		{"the same keys, written again", desired.KubeAPIServer, noon.Add(-time.Hour), "new", false},
		{"somebody else", desired.Scheduler, noon.Add(-time.Hour), "old", false},
	} {
		r := &run.Run{State: &state.State{Desired: state.Part{Encryption: "new"}}, Before: state.State{Current: state.Part{Encryption: tt.deployed}}}
		if got := Renewed(r, h, nodeconfig.Container{Name: tt.container, Started: tt.started}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
