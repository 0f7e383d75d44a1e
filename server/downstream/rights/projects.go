// Which namespace belongs to which project: an annotation of the namespace says it, those that a cluster
// comes with are given to its first two projects, and those of a project that was removed are in none.

package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/projects"
	"github.com/drover-project/drover/server/roles"
)

// systemNamespaces are those of the project System.
func systemNamespaces() []string {
	return []string{
		"calico-apiserver", "calico-system", "cattle-impersonation-system", "cattle-system", "cattle-ui-plugin-system", "ingress-nginx",
		"kube-node-lease", "kube-public", "kube-system", "kube-system-helm", "longhorn-system", "system-upgrade", "tigera-operator",
	}
}

// orphaned is how long a namespace names a project of its cluster that is not there before it is taken out of it: what
// another server has just made may not have come here yet.
const orphaned = 10 * time.Second

// Namespaces are those of a cluster, by their names.
type namespaces struct {
	// of is the project of each, "" for none.
	of map[string]string
	// orphans name a project that is not there.
	orphans map[string]string
}

// namespacesOf finds the namespaces of a cluster and gives each the project and the label that it should have. before
// are those that were orphans long enough.
func namespacesOf(ctx context.Context, client kubernetes.Interface, clusterID string, known []string, before map[string]string) (namespaces, error) {
	list, err := bounds.All[*corev1.Namespace](ctx, metav1.ListOptions{}, client.CoreV1().Namespaces().List)
	if err != nil {
		return namespaces{}, fmt.Errorf("list namespaces: %w", err)
	}
	found := namespaces{of: make(map[string]string, len(list)), orphans: map[string]string{}}
	for _, n := range list {
		project, patch := belongs(n, clusterID, known, before)
		if isOrphan(n, clusterID, known) && project != "" {
			found.orphans[n.Name], project = project, ""
		}
		found.of[n.Name] = project
		if patch == nil || !n.DeletionTimestamp.IsZero() {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": patch})
		if err != nil {
			return namespaces{}, err
		}
		if _, err := client.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{}); gone(err) != nil {
			return namespaces{}, fmt.Errorf("mark namespace %s with its project: %w", n.Name, err)
		}
	}
	return found, nil
}

// isOrphan says whether a namespace names a project of this cluster that is not there. One of another cluster is let alone: it
// is what a cluster that Rancher had brings along.
func isOrphan(n *corev1.Namespace, clusterID string, known []string) bool {
	project := n.Annotations[ProjectAnnotation]
	return roles.ClusterOf(project) == clusterID && clusterID != "" && !slices.Contains(known, project)
}

// belongs is the project of a namespace, and what of its metadata has to change; nil for nothing. Those that belong to the
// first two projects and say nothing of it are given to them; an empty annotation is somebody's wish, and stays.
func belongs(n *corev1.Namespace, clusterID string, known []string, before map[string]string) (project string, patch map[string]any) {
	defaultID, systemID := projects.IDs(clusterID)
	project, said := n.Annotations[ProjectAnnotation]
	annotations, labels := map[string]any{}, map[string]any{}
	switch {
	case said && isOrphan(n, clusterID, known):
		if before[n.Name] != project {
			return project, nil
		}
		project, annotations[ProjectAnnotation] = "", "" // its project was removed, and it is in none
	case said:
	case n.Name == metav1.NamespaceDefault:
		project, annotations[ProjectAnnotation] = defaultID, defaultID
	case slices.Contains(systemNamespaces(), n.Name):
		project, annotations[ProjectAnnotation] = systemID, systemID
	}
	switch is, labelled := n.Labels[ProjectAnnotation]; {
	case slices.Contains(known, project):
		if short := project[strings.IndexByte(project, ':')+1:]; is != short {
			labels[ProjectAnnotation] = short
		}
	case project == "" && labelled:
		labels[ProjectAnnotation] = nil
	}
	if len(annotations)+len(labels) == 0 {
		return project, nil
	}
	return project, map[string]any{"annotations": annotations, "labels": labels}
}
