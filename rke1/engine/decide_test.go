package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

func TestShare(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "3": 3, "10%": 2, "25%": 5, "100%": 20, "1%": 1, " 2 ": 2} {
		if got, err := share(text, 20); err != nil || got != want {
			t.Errorf("%q of 20: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "ten", "1.5", "%"} {
		if got, err := share(text, 20); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func node(address string, roles ...string) config.Node {
	return config.Node{Address: address, InternalAddress: "10." + address, HostnameOverride: "Host-" + address, Role: roles}
}

func TestMarks(t *testing.T) {
	n := node("1", "etcd", "controlplane")
	n.Labels = map[string]string{"zone": "a"}
	n.Taints = []config.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: "node-role.kubernetes.io/etcd", Value: "mine", Effect: "NoSchedule"}}
	was := node("1", "worker")
	was.Labels = map[string]string{"zone": "b", "rack": "7"}
	was.Taints = []config.Taint{{Key: "old", Effect: "NoExecute"}}
	want := kube.Marks{
		Labels:      map[string]string{"node-role.kubernetes.io/etcd": "true", "node-role.kubernetes.io/controlplane": "true", "zone": "a"},
		Annotations: map[string]string{"rke.cattle.io/external-ip": "1", "rke.cattle.io/internal-ip": "10.1"},
		Taints:      []corev1.Taint{etcdTaint, controlPlaneTaint, {Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
		GoneLabels:  []string{"node-role.kubernetes.io/worker", "rack"},
		GoneTaints:  []corev1.Taint{{Key: "old", Effect: "NoExecute"}},
	}
	if changes := cmp.Diff(want, marksOf(n, was)); changes != "" {
		t.Error(changes)
	}
	worker := marksOf(was, n)
	if len(worker.Taints) != 1 || !slices.Contains(worker.GoneTaints, etcdTaint) || !slices.Contains(worker.GoneTaints, controlPlaneTaint) {
		t.Errorf("a host that becomes a worker: %+v", worker)
	}
}

// runOf is a run over a cluster that was deployed with some nodes and shall have others.
func runOf(was, will []config.Node) *run {
	r := newRun(Options{}, Work{Config: &config.Cluster{Nodes: will}, Before: &state.State{Current: state.Part{Config: &config.Cluster{Nodes: was}}}})
	r.state = &state.State{Desired: state.Part{Config: r.work.Config, Certificates: pki.Bundle{}}}
	for _, n := range will {
		r.hosts[n.Address] = &host{node: n, prefix: "/"}
	}
	return r
}

func TestNodesThatAreKeptInTheState(t *testing.T) {
	was := []config.Node{node("stays", "etcd"), node("down", "worker"), node("leaves", "worker")}
	down := node("down", "worker")
	down.Labels = map[string]string{"new": "label"}
	r := runOf(was, []config.Node{node("stays", "etcd"), down, node("new", "worker"), node("newdown", "worker")})
	r.down = map[string]error{"down": errors.New("no"), "newdown": errors.New("no")}
	var got []string
	for _, n := range r.deployedConfig().Nodes {
		got = append(got, n.Address)
		if n.Address == "down" && len(n.Labels) != 0 {
			t.Error("a host that could not be reached has what it was not given")
		}
	}
	if changes := cmp.Diff([]string{"stays", "down", "new", "leaves"}, got); changes != "" {
		t.Error(changes)
	}
}

func TestHostsThatMayBeAway(t *testing.T) {
	workers := []config.Node{node("1", "worker"), node("2", "worker"), node("3", "worker"), node("4", "worker")}
	for name, c := range map[string]struct {
		text string
		down int
		want int // 0: an error
	}{
		"half": {"50%", 0, 2}, "half, one is away": {"50%", 1, 1}, "half, two are away": {"50%", 2, 0}, "the default": {"", 0, 1},
		"the default, one is away": {"", 1, 0}, "wrong": {"none", 0, 0},
	} {
		r := runOf(workers, workers)
		r.Report = quiet{}
		for _, n := range workers[:c.down] {
			r.down[n.Address] = errors.New("no")
		}
		got, err := r.unavailable(config.RoleWorker, c.text, "10%")
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
	// Of hosts that have other roles, too, none counts: they have their turn with those.
	all := append([]config.Node{node("5", "etcd", "worker"), node("6", "controlplane", "worker")}, workers...)
	r := runOf(all, all)
	r.Report = quiet{}
	r.down["5"], r.down["6"] = errors.New("no"), errors.New("no")
	if got, err := r.unavailable(config.RoleWorker, "50%", "10%"); got != 2 || err != nil {
		t.Errorf("beside hosts with other roles: %d, %v", got, err)
	}
}

type quiet struct{}

func (quiet) Phase(string, string)        {}
func (quiet) Line(string)                 {}
func (quiet) Warn(string, ...advice.Step) {}

// A container restarts for certificates that are others than before, and only when they were
// written after it started: not for files that somebody wrote again as they were.
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
		r := runOf([]config.Node{node("1", "worker")}, []config.Node{node("1", "worker")})
		r.before.Current.Certificates = pki.Bundle{pki.Node: {CertificatePEM: c.before}}
		r.state.Desired.Certificates = pki.Bundle{pki.Node: {CertificatePEM: c.now}}
		h := r.hosts["1"]
		h.written = map[string]onhost.File{pki.Path(pki.Node): {Changed: at(c.written)}}
		if got := r.renewed(h, kubelet); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if proxy := r.renewed(h, nodeconfig.Container{Name: desired.KubeProxy, Started: at(1)}); proxy {
			t.Errorf("%s: kube-proxy, which does not read it, restarts", name)
		}
	}
}

func TestChangesInWords(t *testing.T) {
	none := &Changes{Hosts: []HostChanges{{Address: "1"}}}
	if !none.Empty() || !strings.HasPrefix(none.Summary(), "0 changes") || len(none.Lines()) != 0 {
		t.Errorf("%q %q", none.Summary(), none.Lines())
	}
	some := &Changes{
		Hosts: []HostChanges{
			{Address: "1", Joins: true, Files: []string{"/etc/f"}, Images: []string{"i:1"}, Containers: []diff.Difference{{Host: "1", Container: "kubelet", Kind: nodeconfig.Create}}},
			{Address: "2", Leaves: true}, {Address: "3"},
		},
		Addons: []string{"add-on rke-user-addon: apply"}, Pods: []string{"Deployment shop/web: its pods are replaced"}, Unknown: map[string]error{"4": errors.New("no route")},
	}
	want := []string{
		"1: joins the cluster", "1 file /etc/f: write", "1 image i:1: pull", "1 kubelet: create", "2: leaves the cluster; its containers and data are removed",
		"add-on rke-user-addon: apply", "Deployment shop/web: its pods are replaced", "4: cannot be reached, so that nothing is known of it: no route",
	}
	if changes := cmp.Diff(want, some.Lines()); changes != "" {
		t.Error(changes)
	}
	if got := some.Summary(); got != "1 containers change on 2 of 3 hosts, 1 add-ons change; 1 hosts cannot be reached" {
		t.Error(got)
	}
}

func TestARunStopsBetweenPhases(t *testing.T) {
	var did []string
	stop := false
	r := newRun(Options{Report: quiet{}, Stop: func() error {
		if stop {
			return ErrStopped
		}
		return nil
	}}, Work{Config: &config.Cluster{}})
	one := func(name string) phase {
		return phase{name, name, func(*run, context.Context) error {
			did = append(did, name)
			stop = name == "b"
			return nil
		}}
	}
	if err := r.perform(t.Context(), []phase{one("a"), one("b"), one("c")}); !errors.Is(err, ErrStopped) || !slices.Equal(did, []string{"a", "b"}) {
		t.Errorf("did %v: %v", did, err)
	}
}

// What fails on one host stops no other; as many failures as may be away end the roll-out.
func TestEachAndItsFailures(t *testing.T) {
	hosts := []*host{{node: node("1")}, {node: node("2")}, {node: node("3")}}
	did := make(chan string, 3)
	err := each(t.Context(), hosts, 2, func(_ context.Context, h *host) error {
		did <- h.node.Address
		if h.node.Address == "2" {
			return errors.New("two failed")
		}
		return nil
	})
	if len(did) != 3 || err == nil || !strings.Contains(err.Error(), "two failed") {
		t.Errorf("%d hosts, %v", len(did), err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	c := &counter{limit: 2, stop: stop}
	c.add(errors.New("one"))
	if ctx.Err() != nil {
		t.Error("one failure of two that may be ends it")
	}
	c.add(errors.New("two"))
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "two") {
		t.Errorf("after as many as may be away: %v", cause)
	}
}

// A host that is away keeps only those from changing that would be away too.
func TestRoomWhereNothingChanges(t *testing.T) {
	workers := []config.Node{node("1", "worker"), node("2", "worker")}
	r := runOf(workers, workers)
	r.Report = quiet{}
	r.down["2"] = errors.New("no")
	h := r.hosts["1"]
	if limit, err := r.room([]*host{h}, config.RoleWorker, "1", "1", config.RoleWorker); err != nil || limit != parallel {
		t.Errorf("nothing changes: %d, %v", limit, err)
	}
	h.desired = desired.Host{Address: "1", Containers: []desired.Container{{Process: nodeconfig.Process{Name: desired.Kubelet}, Plane: config.RoleWorker}}}
	if _, err := r.room([]*host{h}, config.RoleWorker, "1", "1", config.RoleWorker); err == nil {
		t.Error("a change although as many are away as may be")
	}
}
