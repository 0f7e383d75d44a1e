package rights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/roles"
)

// Clear takes away what a Keeper keeps in a cluster, as one that is left: roles and bindings, copies of projects' secrets, and the
// marks by which namespaces are in projects of the cluster. It goes on after an error and returns all of them.
func Clear(ctx context.Context, client kubernetes.Interface, clusterID string) error {
	_, err := Sync(ctx, client, Objects{})
	_, _, copies := syncCopies(ctx, client, nil)
	return errors.Join(err, copies, unmark(ctx, client, clusterID))
}

// unmark takes namespaces out of the projects of a cluster, so that they are given to those of the next one that it is imported as.
func unmark(ctx context.Context, client kubernetes.Interface, clusterID string) error {
	list, err := bounds.All[*corev1.Namespace](ctx, metav1.ListOptions{}, client.CoreV1().Namespaces().List)
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	var failed []error
	for _, n := range list {
		if clusterID == "" || roles.ClusterOf(n.Annotations[ProjectAnnotation]) != clusterID {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": unmarked(n)})
		if err != nil {
			return err
		}
		if _, err := client.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{}); gone(err) != nil {
			failed = append(failed, fmt.Errorf("take the mark of its project from namespace %s: %w", n.Name, err))
		}
	}
	return errors.Join(failed...)
}

// unmarked is what of a namespace's metadata has to change. A label that does not say what the annotation says is foreign.
func unmarked(n *corev1.Namespace) map[string]any {
	project := n.Annotations[ProjectAnnotation]
	patch := map[string]any{"annotations": map[string]any{ProjectAnnotation: nil}}
	if n.Labels[ProjectAnnotation] == project[strings.IndexByte(project, ':')+1:] {
		patch["labels"] = map[string]any{ProjectAnnotation: nil}
	}
	return patch
}
