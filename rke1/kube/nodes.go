// Nodes: what of them is the engine's, and whether they are ready.

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/rke1/kube/bounds"
)

// cordoned is the annotation of a node that an engine cordoned: only such a one is
// uncordoned by it. A node that a user cordoned on purpose stays so.
const cordoned = "drover.io/cordoned-by"

// hostname is the label by which a node is found. The object's name may be another in a cloud.
const hostname = "kubernetes.io/hostname"

// NodeMissingError is that a cluster has no node of a host.
type NodeMissingError struct{ Host string }

func (e *NodeMissingError) Error() string {
	return "the cluster has no node " + e.Host + " yet: see the kubelet's output there (docker logs kubelet)"
}

// Nodes are the cluster's nodes by the hosts' names, in lower case. The error is that of the API, after some tries.
func (a *API) Nodes(ctx context.Context) (map[string]corev1.Node, error) {
	var list []*corev1.Node
	err := retryWhileBusy(ctx, func() (err error) {
		list, err = bounds.All[*corev1.Node](ctx, metav1.ListOptions{}, a.Client.CoreV1().Nodes().List)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the cluster's nodes: %w", err)
	}
	nodes := map[string]corev1.Node{}
	for _, n := range list {
		nodes[strings.ToLower(n.Labels[hostname])] = *n
	}
	return nodes, nil
}

// Ready says whether a node's kubelet reports Ready, and what it says when it does not.
func Ready(n corev1.Node) (ready bool, message string) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.Message
		}
	}
	return false, "its kubelet has not reported yet"
}

// Marks are what an engine sets on a node. A label, annotation or taint that is in neither
// list is foreign and stays.
type Marks struct {
	Labels, Annotations map[string]string
	Taints              []corev1.Taint
	// GoneLabels and GoneTaints (by key and effect) are removed.
	GoneLabels []string
	GoneTaints []corev1.Taint
}

// Mark brings a node to its marks, and says whether something changed. The error is
// *NodeMissingError when the host has no node.
func (a *API) Mark(ctx context.Context, host string, m Marks) (changed bool, err error) {
	err = retryWhileBusy(ctx, func() error {
		nodes, err := a.Nodes(ctx)
		if err != nil {
			return err
		}
		n, ok := nodes[strings.ToLower(host)]
		if !ok {
			return nil
		}
		wanted := n.DeepCopy()
		m.on(wanted)
		if maps.Equal(n.Labels, wanted.Labels) && maps.Equal(n.Annotations, wanted.Annotations) && sameTaints(n.Spec.Taints, wanted.Spec.Taints) {
			return nil
		}
		changed = true
		_, err = a.Client.CoreV1().Nodes().Update(ctx, wanted, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("labels and taints of node %s: %w", host, err)
	}
	if !changed {
		if _, err := a.node(ctx, host); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// on applies the marks to a node.
func (m Marks) on(n *corev1.Node) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	for _, key := range m.GoneLabels {
		delete(n.Labels, key)
	}
	maps.Copy(n.Labels, m.Labels)
	maps.Copy(n.Annotations, m.Annotations)
	ours := slices.Concat(m.GoneTaints, m.Taints)
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(is corev1.Taint) bool {
		return slices.ContainsFunc(ours, func(t corev1.Taint) bool { return t.Key == is.Key && t.Effect == is.Effect })
	})
	n.Spec.Taints = append(taints, m.Taints...)
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(sorted(a), sorted(b), func(a, b corev1.Taint) bool {
		return a.Key == b.Key && a.Effect == b.Effect && a.Value == b.Value
	})
}

func sorted(t []corev1.Taint) []corev1.Taint {
	return slices.SortedFunc(slices.Values(t), func(a, b corev1.Taint) int {
		return strings.Compare(a.Key+"\x00"+string(a.Effect), b.Key+"\x00"+string(b.Effect))
	})
}

// node is the node of a host.
func (a *API) node(ctx context.Context, host string) (corev1.Node, error) {
	nodes, err := a.Nodes(ctx)
	if err != nil {
		return corev1.Node{}, err
	}
	n, ok := nodes[strings.ToLower(host)]
	if !ok {
		return corev1.Node{}, &NodeMissingError{Host: host}
	}
	return n, nil
}

// Cordon makes a node take no more pods, and remembers that it was not cordoned before. The errors are those of the API, and that there is no such
// node.
func (a *API) Cordon(ctx context.Context, host string) error {
	n, err := a.node(ctx, host)
	if err != nil {
		return err
	}
	if n.Spec.Unschedulable {
		return nil
	}
	return a.patch(ctx, n.Name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{cordoned: manager}}, "spec": map[string]any{"unschedulable": true},
	})
}

// Uncordon undoes Cordon, and leaves a node alone that a user cordoned. The errors are those of the API, and that there is no such node.
func (a *API) Uncordon(ctx context.Context, host string) error {
	n, err := a.node(ctx, host)
	if err != nil {
		return err
	}
	if n.Annotations[cordoned] == "" {
		return nil
	}
	return a.patch(ctx, n.Name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{cordoned: nil}}, "spec": map[string]any{"unschedulable": nil},
	})
}

func (a *API) patch(ctx context.Context, node string, change map[string]any) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	err = retryWhileBusy(ctx, func() error {
		_, err := a.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, text, metav1.PatchOptions{FieldManager: manager})
		return err
	})
	if err != nil {
		return fmt.Errorf("change node %s: %w", node, err)
	}
	return nil
}

// DeleteNode removes the node of a host from the cluster; one that is not there counts as removed.
func (a *API) DeleteNode(ctx context.Context, host string) error {
	nodes, err := a.Nodes(ctx)
	if err != nil {
		return err
	}
	n, ok := nodes[strings.ToLower(host)]
	if !ok {
		return nil
	}
	err = retryWhileBusy(ctx, func() error {
		err := a.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete node %s: %w", n.Name, err)
	}
	return nil
}
