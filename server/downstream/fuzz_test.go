package downstream

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// FuzzSeen holds, for whatever a cluster lists as its nodes, that what is kept of it can be shown, is the same each time, and that
// each node is at one place.
func FuzzSeen(f *testing.F) {
	f.Add(`{"gitVersion":"v1.34.4+k3s1"}`, `{"items":[{"metadata":{"name":"n1","uid":"u1","labels":{"rke.cattle.io/machine":"m1"}},"spec":{"taints":[{"key":"a"}]},"status":{"capacity":{"cpu":"4","memory":"1e999","pods":"-1"},"conditions":[{"type":"Ready","status":"False","reason":"a"},{"type":"EtcdIsVoter","status":"True"}]}}]}`)
	f.Add(`{"gitVersion":7}`, `{"items":[{"metadata":{"name":"","labels":{"rke.cattle.io/machine":""}}},{"metadata":{"name":"","annotations":{"etcd.k3s.cattle.io/removed-node-name":"x"}}},{}]}`)
	f.Add("[]", `{"items":[{"metadata":{"name":"a","namespace":"b","labels":{"rke.cattle.io/machine":"m1"}}},{"metadata":{"name":"c","labels":{"rke.cattle.io/machine":"m1"}}}]}`)
	f.Fuzz(func(t *testing.T, version, text string) {
		said, err := readVersion([]byte(version))
		if err != nil && said != "" {
			t.Errorf("version %q, and %v", said, err)
		}
		var list corev1.NodeList
		if json.Unmarshal([]byte(text), &list) != nil {
			return
		}
		all := cache.NewStore(cache.MetaNamespaceKeyFunc)
		for i := range list.Items {
			if err := all.Add(&list.Items[i]); err != nil {
				return
			}
		}
		identity := func(n *corev1.Node) string { return n.Labels[machineLabel] }
		nobody := func(string) string { return "" }
		api, again := seenNodes(all, said, identity, nobody), seenNodes(all, said, identity, nobody)
		if !slices.Equal(api.Unlabelled, again.Unlabelled) || len(api.Nodes) != len(again.Nodes) {
			t.Errorf("%+v, and then %+v", api, again)
		}
		if len(api.Nodes)+len(api.Unlabelled) > len(list.Items) || len(api.Details) != len(api.Nodes) {
			t.Errorf("%d nodes became %+v", len(list.Items), api)
		}
		if !equalAPIs(api, api) {
			t.Error("it is not the same as itself")
		}
		if _, err := json.Marshal(api); err != nil {
			t.Errorf("cannot be shown: %v", err)
		}
	})
}
