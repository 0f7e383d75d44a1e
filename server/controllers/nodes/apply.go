// What is changed on the Node object itself: labels, taints, the cordon, its end. Patches carry
// the version of the node that was looked at, so that they meet that one or nothing, and name
// only what changes, so that fields of newer Kubernetes versions survive.

package nodes

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// patch merges metadata and spec into a node as it was seen; nil values take keys out (RFC 7396).
func patch(ctx context.Context, client kubernetes.Interface, node *corev1.Node, metadata, spec map[string]any) error {
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = node.UID
	if node.ResourceVersion != "" {
		metadata["resourceVersion"] = node.ResourceVersion
	}
	body := map[string]any{"metadata": metadata}
	if len(spec) > 0 {
		body["spec"] = spec
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a change of node %s: %w", node.Name, err)
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("change node %s: %w", node.Name, withoutURL(err))
	}
	return nil
}

// label makes the node's labels and taints those of the order, and leaves all others alone.
func (j *job) label(ctx context.Context, client kubernetes.Interface, node *corev1.Node) (outcome, error) {
	labels := labelChanges(node.Labels, j.order)
	taints, retainted := wantedTaints(node.Spec.Taints, j.order)
	if len(labels) == 0 && !retainted {
		return outcome{done: true}, nil
	}
	var metadata, spec map[string]any
	if len(labels) > 0 {
		metadata = map[string]any{"labels": labels}
	}
	if retainted {
		spec = map[string]any{"taints": nil}
		if len(taints) > 0 {
			spec["taints"] = taints
		}
	}
	return outcome{done: true}, patch(ctx, client, node, metadata, spec)
}

// cordon keeps new pods off the node, or lets them on again.
func (j *job) cordon(wanted bool) func(context.Context, kubernetes.Interface, *corev1.Node) (outcome, error) {
	return func(ctx context.Context, client kubernetes.Interface, node *corev1.Node) (outcome, error) {
		if node.Spec.Unschedulable == wanted {
			return outcome{done: true}, nil
		}
		return outcome{done: true}, patch(ctx, client, node, nil, map[string]any{"unschedulable": wanted})
	}
}

// remove deletes the Node object, and is done once it is gone.
func (j *job) remove(ctx context.Context, client kubernetes.Interface, node *corev1.Node) (outcome, error) {
	if !node.DeletionTimestamp.IsZero() {
		return outcome{cause: fmt.Sprintf("node %s is being deleted; finalizers hold it: %q", node.Name, node.Finalizers)}, nil
	}
	only := &metav1.Preconditions{UID: &node.UID}
	if node.ResourceVersion != "" {
		only.ResourceVersion = &node.ResourceVersion
	}
	err := client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: only})
	if err != nil && !apierrors.IsNotFound(err) {
		return outcome{}, fmt.Errorf("delete node %s: %w", node.Name, withoutURL(err))
	}
	return outcome{cause: fmt.Sprintf("waiting for node %s to be gone", node.Name)}, nil
}
