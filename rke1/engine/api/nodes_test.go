package api

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/test/bed/runbed"
)

func TestMarks(t *testing.T) {
	n := runbed.Node("1", "etcd", "controlplane")
	n.Labels = map[string]string{"zone": "a"}
	n.Taints = []config.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: "node-role.kubernetes.io/etcd", Value: "mine", Effect: "NoSchedule"}}
	was := runbed.Node("1", "worker")
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

func TestNodesThatAreKeptInTheState(t *testing.T) {
	was := []config.Node{runbed.Node("stays", "etcd"), runbed.Node("down", "worker"), runbed.Node("leaves", "worker")}
	down := runbed.Node("down", "worker")
	down.Labels = map[string]string{"new": "label"}
	r := runbed.Of(was, []config.Node{runbed.Node("stays", "etcd"), down, runbed.Node("new", "worker"), runbed.Node("newdown", "worker")})
	r.Down = map[string]error{"down": errors.New("no"), "newdown": errors.New("no")}
	var got []string
	for _, n := range deployedConfig(r).Nodes {
		got = append(got, n.Address)
		if n.Address == "down" && len(n.Labels) != 0 {
			t.Error("a host that could not be reached has what it was not given")
		}
	}
	if changes := cmp.Diff([]string{"stays", "down", "new", "leaves"}, got); changes != "" {
		t.Error(changes)
	}
}
