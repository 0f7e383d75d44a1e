// What is kept of a cluster's nodes.

package downstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// machineLabel is how a node is found, and nothing else: a name can be taken by another host.
const machineLabel = "rke.cattle.io/machine"

// seen is what the nodes in the store make of the API.
func seen(nodes cache.Store, version string) observed.API {
	api := observed.API{Reachable: true, Version: version, Nodes: map[string]records.NodeRef{}}
	for _, o := range nodes.List() {
		node, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		if uid := node.Labels[machineLabel]; uid != "" {
			api.Nodes[uid] = reference(node)
		} else {
			api.Unlabelled = append(api.Unlabelled, node.Name)
		}
	}
	slices.Sort(api.Unlabelled)
	return api
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

func equal(a, b observed.API) bool {
	return a.Reachable == b.Reachable && a.Cause == b.Cause && a.Version == b.Version && slices.Equal(a.Unlabelled, b.Unlabelled) &&
		maps.EqualFunc(a.Nodes, b.Nodes, func(x, y records.NodeRef) bool {
			return x.Name == y.Name && x.UID == y.UID && x.ProviderID == y.ProviderID && x.KubeletVersion == y.KubeletVersion &&
				x.Ready == y.Ready && x.NotReady == y.NotReady && slices.Equal(x.Addresses, y.Addresses)
		})
}

// parseVersion reads the answer of /version.
func parseVersion(text []byte) (string, error) {
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("read the API's version: %w", err)
	}
	return info.GitVersion, nil
}
