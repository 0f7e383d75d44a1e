// Which namespace belongs to which project: an annotation of the namespace says it, and those that a cluster
// comes with are given to its first two projects.

package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/projects"
)

// systemNamespaces are those of the project System.
func systemNamespaces() []string {
	return []string{
		"calico-apiserver", "calico-system", "cattle-impersonation-system", "cattle-system", "cattle-ui-plugin-system", "ingress-nginx",
		"kube-node-lease", "kube-public", "kube-system", "kube-system-helm", "longhorn-system", "system-upgrade", "tigera-operator",
	}
}

// namespacesOf are the namespaces of a cluster with the project of each. Those that belong to the first two projects
// and say nothing of it are given to them; an empty annotation is somebody's wish, and stays.
func namespacesOf(ctx context.Context, client kubernetes.Interface, clusterID string) (map[string]string, error) {
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	defaultID, systemID := projects.IDs(clusterID)
	of := make(map[string]string, len(list.Items))
	for _, n := range list.Items {
		project, said := n.Annotations[ProjectAnnotation]
		switch {
		case said || !n.DeletionTimestamp.IsZero():
		case n.Name == metav1.NamespaceDefault:
			project = defaultID
		case slices.Contains(systemNamespaces(), n.Name):
			project = systemID
		}
		if project != "" && !said {
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{ProjectAnnotation: project}}})
			if err != nil {
				return nil, err
			}
			if _, err := client.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); gone(err) != nil {
				return nil, fmt.Errorf("give namespace %s to project %s: %w", n.Name, project, err)
			}
		}
		of[n.Name] = project
	}
	return of, nil
}
