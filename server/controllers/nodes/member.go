// The safe removal of an etcd member. The distribution itself removes it: it is asked by an
// annotation of the node, and answers by another. Source: k3s-io/k3s pkg/etcd/member_controller.go.

package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// etcdRole labels the nodes whose annotations the distribution looks at.
const etcdRole = "node-role.kubernetes.io/etcd"

// member is the removal of one member. asked is whether it was asked for here: a request that is
// gone again without an answer was refused.
type member struct {
	job   *job
	asked bool
}

func (j *job) newMember() *member { return &member{job: j} }

func (m *member) round(ctx context.Context, client kubernetes.Interface, node *corev1.Node) (outcome, error) {
	runtime := m.job.controller.Runtime(m.job.cluster)
	prefix := "etcd." + runtime + ".cattle.io/"
	removed, name := node.Annotations[prefix+"removed-node-name"], node.Annotations[prefix+"node-name"]
	// A member that joined again has another name; the distribution then strikes off the old
	// answer once it is asked anew.
	if removed != "" && (name == "" || name == removed) {
		return outcome{done: true}, nil
	}
	if _, etcd := node.Labels[etcdRole]; !etcd {
		return outcome{cause: fmt.Sprintf("node %s has no label %s; %s takes members out of etcd only for nodes that have it", node.Name, etcdRole, runtime)}, nil
	}
	if node.Annotations[prefix+"remove"] == "true" {
		m.asked = true
		return outcome{cause: fmt.Sprintf("waiting for %s to take the member of node %s out of etcd", runtime, node.Name)}, nil
	}
	refused := m.asked
	if err := patch(ctx, client, node, map[string]any{"annotations": map[string]any{prefix + "remove": "true"}}, nil); err != nil {
		return outcome{}, err
	}
	m.asked = true
	if refused {
		return outcome{cause: fmt.Sprintf("%s refused to take the member of node %s out of etcd, as it does with the last member that votes; asked again", runtime, node.Name)}, nil
	}
	return outcome{cause: fmt.Sprintf("asked %s to take the member of node %s out of etcd", runtime, node.Name)}, nil
}
