package downstream

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

func TestDetailsOfNodes(t *testing.T) {
	voter := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "EtcdIsVoter", Status: status}}
		}
	}
	labels := map[string]string{machineLabel: "u1", "zone": "a"}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Node)
		want   observed.NodeDetails
	}{
		{"plain", func(*corev1.Node) {}, observed.NodeDetails{}},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, observed.NodeDetails{Cordoned: true}},
		{"tainted", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}}
		}, observed.NodeDetails{Taints: []records.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}}}},
		{"voter", voter("True"), observed.NodeDetails{Voter: observed.VoterYes}},
		{"learner", voter("False"), observed.NodeDetails{Voter: observed.VoterLearner}},
		{"does not know", voter("Unknown"), observed.NodeDetails{}},
		{"removed from etcd by k3s", func(n *corev1.Node) {
			n.Annotations = map[string]string{"etcd.k3s.cattle.io/removed-node-name": "pier-1-aa"}
		}, observed.NodeDetails{RemovedMember: "pier-1-aa"}},
		{"removed from etcd by RKE2", func(n *corev1.Node) {
			n.Annotations = map[string]string{"etcd.rke2.cattle.io/removed-node-name": "pier-1-bb"}
		}, observed.NodeDetails{RemovedMember: "pier-1-bb"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nodes := func(change func(*corev1.Node)) observed.API {
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pier-1", Labels: labels}}
				change(node)
				slim := cache.NewStore(cache.MetaNamespaceKeyFunc)
				if err := slim.Add(slimNode(node)); err != nil {
					t.Fatal(err)
				}
				if err := store.Add(node); err != nil {
					t.Fatal(err)
				}
				identity := func(node *corev1.Node) string { return node.Labels[machineLabel] }
				nobody := func(string) string { return "" }
				seen := seenNodes(store, "v1", identity, nobody)
				if !equalAPIs(seen, seenNodes(slim, "v1", identity, nobody)) {
					t.Error("what is kept of a node lacks something")
				}
				return seen
			}
			api := nodes(tc.change)
			tc.want.Labels = labels
			if diff := cmp.Diff(map[string]observed.NodeDetails{"u1": tc.want}, api.Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if !equalAPIs(api, nodes(tc.change)) {
				t.Error("the same nodes are not equal")
			}
			// Unlike a node that differs in what is kept, or in one label, it is reported.
			same := cmp.Equal(tc.want, observed.NodeDetails{Labels: labels})
			if equalAPIs(api, nodes(func(*corev1.Node) {})) != same {
				t.Error("a change of a detail would not be reported")
			}
			if equalAPIs(api, nodes(func(n *corev1.Node) { tc.change(n); n.Labels = map[string]string{machineLabel: "u1", "zone": "b"} })) {
				t.Error("a changed label would not be reported")
			}
		})
	}
}

// TestTwoNodesOfOneMachine: a host that writes the UID of another machine on its own node does not take that machine's place.
func TestTwoNodesOfOneMachine(t *testing.T) {
	node := func(name, machine string, age time.Duration) *corev1.Node {
		made := metav1.NewTime(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC).Add(-age))
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{machineLabel: machine}, CreationTimestamp: made}}
	}
	for _, c := range []struct {
		name, had, want string
		nodes           []*corev1.Node
		rest            []string
	}{
		{"the one that it had, though another is older", "uid-pier-1", "pier-1", []*corev1.Node{node("pier-1", "u1", time.Hour), node("liar", "u1", 2*time.Hour)}, []string{"liar"}},
		{"none before: the older one", "", "pier-1", []*corev1.Node{node("liar", "u1", 0), node("pier-1", "u1", time.Hour)}, []string{"liar"}},
		{"the one that it had is gone", "uid-gone", "pier-1", []*corev1.Node{node("pier-1", "u1", 0)}, nil},
		{"of one age: by name", "", "a", []*corev1.Node{node("b", "u1", 0), node("a", "u1", 0)}, []string{"b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			for _, n := range c.nodes {
				if err := store.Add(n); err != nil {
					t.Fatal(err)
				}
			}
			api := seenNodes(store, "v1", func(n *corev1.Node) string { return n.Labels[machineLabel] }, func(string) string { return c.had })
			if diff := cmp.Diff(c.rest, api.Unlabelled); diff != "" || api.Nodes["u1"].Name != c.want {
				t.Errorf("node %s, want %s: %s", api.Nodes["u1"].Name, c.want, diff)
			}
		})
	}
}
