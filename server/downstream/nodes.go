// What is kept of a cluster's nodes, as a connection to its API shows them.

package downstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/answers"
)

// machineLabel is how a node of k3s or RKE2 is found, and nothing else: a name can be taken by another host.
const machineLabel = "rke.cattle.io/machine"

// etcdIsVoter is the condition by which k3s and RKE2 report whether the node's member of etcd
// votes, and removedMember are the annotations by which they report that they took it out.
// Source: k3s-io/k3s pkg/etcd/etcd.go and member_controller.go.
const etcdIsVoter = corev1.NodeConditionType("EtcdIsVoter")

var removedMember = []string{"etcd.k3s.cattle.io/removed-node-name", "etcd.rke2.cattle.io/removed-node-name"}

// seenNodes is what the nodes in a store make of the API of a version. identity is the UID of a node's machine; empty for none. recorded
// is the UID of the node that a machine had, if it had one: a host may write any machine's UID on its own node, and does not
// take the place of that machine's node by it.
func seenNodes(nodes cache.Store, running string, identity func(*corev1.Node) string, recorded func(machine string) string) observed.API {
	api := observed.API{Reachable: true, Version: running, Nodes: map[string]records.NodeRef{}, Details: map[string]observed.NodeDetails{}}
	claims := map[string][]*corev1.Node{}
	for _, o := range nodes.List() {
		node, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		if uid := identity(node); uid != "" {
			claims[uid] = append(claims[uid], node)
		} else {
			api.Unlabelled = append(api.Unlabelled, node.Name)
		}
	}
	for uid, all := range claims {
		had := recorded(uid)
		slices.SortFunc(all, func(a, b *corev1.Node) int {
			return cmp.Or(first(string(a.UID) == had, string(b.UID) == had), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		api.Nodes[uid], api.Details[uid] = reference(all[0]), details(all[0])
		for _, other := range all[1:] {
			api.Unlabelled = append(api.Unlabelled, other.Name)
		}
	}
	slices.Sort(api.Unlabelled)
	return api
}

// first sorts what is before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func reference(node *corev1.Node) records.NodeRef {
	ref := records.NodeRef{
		Name: node.Name, UID: string(node.UID), ProviderID: node.Spec.ProviderID, KubeletVersion: node.Status.NodeInfo.KubeletVersion,
		NotReady: "it has reported no condition Ready",
	}
	for _, a := range node.Status.Addresses {
		ref.Addresses = append(ref.Addresses, a.Address)
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		ref.Ready = c.Status == corev1.ConditionTrue
		ref.NotReady = ""
		if !ref.Ready {
			ref.NotReady = fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return ref
}

// details are what is kept of a node beside its reference. The maps are those of the store of
// nodes, which are replaced and never changed.
func details(node *corev1.Node) observed.NodeDetails {
	d := observed.NodeDetails{Cordoned: node.Spec.Unschedulable, Labels: node.Labels, Voter: voter(node), Capacity: quantities(node.Status.Capacity), Allocatable: quantities(node.Status.Allocatable)}
	for _, t := range node.Spec.Taints {
		d.Taints = append(d.Taints, records.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	for _, annotation := range removedMember {
		if name := node.Annotations[annotation]; name != "" {
			d.RemovedMember = name
		}
	}
	return d
}

// quantities are those that people compare clusters by.
func quantities(list corev1.ResourceList) map[string]string {
	if len(list) == 0 {
		return nil
	}
	kept := map[string]string{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if q, ok := list[name]; ok {
			kept[string(name)] = q.String()
		}
	}
	return kept
}

// voter reads the condition of k3s and RKE2. Its status False has the reasons MemberIsLearner,
// Unhealthy and NotAMember, none of which is a member that votes.
func voter(node *corev1.Node) observed.Voter {
	for _, c := range node.Status.Conditions {
		if c.Type != etcdIsVoter {
			continue
		}
		switch c.Status {
		case corev1.ConditionTrue:
			return observed.VoterYes
		case corev1.ConditionFalse:
			return observed.VoterLearner
		}
	}
	return observed.VoterUnknown
}

// equalAPIs says whether two APIs are the same in all that is kept.
func equalAPIs(a, b observed.API) bool {
	return a.Reachable == b.Reachable && a.Cause == b.Cause && a.Version == b.Version && slices.Equal(a.Unlabelled, b.Unlabelled) &&
		maps.EqualFunc(a.Nodes, b.Nodes, func(x, y records.NodeRef) bool {
			return x.Name == y.Name && x.UID == y.UID && x.ProviderID == y.ProviderID && x.KubeletVersion == y.KubeletVersion &&
				x.Ready == y.Ready && x.NotReady == y.NotReady && slices.Equal(x.Addresses, y.Addresses)
		}) &&
		maps.EqualFunc(a.Details, b.Details, func(x, y observed.NodeDetails) bool {
			return x.Cordoned == y.Cordoned && x.Voter == y.Voter && x.RemovedMember == y.RemovedMember &&
				slices.Equal(x.Taints, y.Taints) && maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Capacity, y.Capacity) && maps.Equal(x.Allocatable, y.Allocatable)
		})
}

// slimNode is what is kept of a node: what Seen reads. Images, annotations and who wrote which field are most of one.
func slimNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{}
	kept.Name, kept.UID, kept.ResourceVersion, kept.Labels = node.Name, node.UID, node.ResourceVersion, node.Labels
	for _, annotation := range removedMember {
		if name := node.Annotations[annotation]; name != "" {
			kept.Annotations = map[string]string{annotation: name}
		}
	}
	kept.Spec.ProviderID, kept.Spec.Unschedulable, kept.Spec.Taints = node.Spec.ProviderID, node.Spec.Unschedulable, node.Spec.Taints
	kept.Status.Addresses, kept.Status.Capacity, kept.Status.Allocatable = node.Status.Addresses, node.Status.Capacity, node.Status.Allocatable
	kept.Status.NodeInfo.KubeletVersion = node.Status.NodeInfo.KubeletVersion
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == etcdIsVoter {
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept
}

// readVersion reads the answer of /version. The error says that it is no JSON of a version.
func readVersion(text []byte) (string, error) {
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("read the API's version: %w", err)
	}
	return info.GitVersion, nil
}

// tooMany is that a cluster has more nodes than are kept.
func (c *connection) tooMany() *answers.TooLargeError {
	return &answers.TooLargeError{From: c.from, What: "nodes", Bytes: maxKeptOfNodes}
}

// nodes lists and watches the cluster's nodes, each request within its time.
func (c *connection) nodes() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, pagesLimit)
			defer cancel()
			// Not from a cache of this API server, which may be behind what another one has shown; and of each page only what is kept.
			list, size := &corev1.NodeList{}, int64(0)
			revision, err := bounds.Each(ctx, bounds.Nodes, metav1.ListOptions{}, c.client.CoreV1().Nodes().List, func(node *corev1.Node) error {
				node = slimNode(node)
				if size += sizeOfNode(node); size > maxKeptOfNodes {
					return c.tooMany()
				}
				list.Items = append(list.Items, *node)
				return nil
			})
			list.ResourceVersion = revision
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			// The API's own limit makes the watch end before ours takes its silence for death.
			seconds := int64(watchLimit / time.Second)
			o.TimeoutSeconds = &seconds
			ctx, cancel := context.WithTimeout(ctx, watchLimit+listLimit)
			events, err := c.client.CoreV1().Nodes().Watch(ctx, o)
			if err != nil {
				cancel()
				return nil, err
			}
			return limited{events, cancel}, nil
		},
	}
}

// limited is a watch with a deadline that ends with it.
type limited struct {
	watch.Interface
	cancel context.CancelFunc
}

func (l limited) Stop() {
	l.cancel()
	l.Interface.Stop()
}
