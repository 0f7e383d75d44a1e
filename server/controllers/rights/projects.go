// Which namespace belongs to which project: what the server recorded, and nothing else. The annotation and the label by which
// clients see it are kept to that.

package rights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

const (
	// maxGone is how many namespaces that a cluster no longer has stay recorded: a restored snapshot may bring them back.
	maxGone = 1000
	// settle is how long a namespace that is new may name a project in vain before that is taken away: the user who made it with kubectl through
	// the server has it recorded once the cluster has answered.
	settle = 2 * time.Second
	// maxPutBack bounds the namespaces that are named for a mark that was changed in the cluster.
	maxPutBack = 100
)

// Projects is the record of the projects of clusters and of their namespaces.
type Projects interface {
	// In is what is known of a cluster, by its management ID.
	In(clusterID string) state.Memberships
	// Latest is In of what is recorded by now, also by another server.
	Latest(ctx context.Context, clusterID string) (state.Memberships, error)
	// Adopt records, once, what namespaces of a cluster from before there was a record say of themselves.
	Adopt(ctx context.Context, cluster records.ClusterKey, marks map[state.Namespace]string) error
	// Forget takes namespaces that are gone out of the record, by UID.
	Forget(ctx context.Context, clusterID string, uids []string) error
}

// marks are those that a cluster's namespaces had after the last look, by UID, and since when each namespace has been known
// whose mark was changed in the cluster, by name.
type marks struct {
	last    map[string]string
	putBack map[string]time.Time
	// fresh are since when namespaces that nothing is recorded of have been known to name a project, by UID.
	fresh map[string]time.Time
}

// namespaces finds the namespaces of a cluster, by name, with the project of each or "". Their marks are made to say so.
func (k *Keeper) namespaces(ctx context.Context, client kubernetes.Interface, l *kept) (map[string]string, error) {
	before := k.Projects.In(l.id)
	list, err := bounds.All[*corev1.Namespace](ctx, metav1.ListOptions{}, client.CoreV1().Namespaces().List)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	// What has no name of a namespace is an answer of something else than Kubernetes.
	list = slices.DeleteFunc(list, func(n *corev1.Namespace) bool { return len(validation.ValidateNamespaceName(n.Name, false)) > 0 })
	if before.Adopted.IsZero() {
		if err := k.Projects.Adopt(ctx, l.key, said(list)); err != nil {
			return nil, err
		}
	}
	known, err := k.Projects.Latest(ctx, l.id) // after the list: a namespace is recorded before it is marked
	if err != nil {
		return nil, err
	}
	of, last, missing := make(map[string]string, len(list)), make(map[string]string, len(list)), maps.Clone(before.Recorded)
	now, fresh := time.Now(), map[string]time.Time{}
	maps.DeleteFunc(l.putBack, func(_ string, since time.Time) bool { return now.Sub(since) >= lookEvery })
	for _, n := range list {
		uid := string(n.UID)
		project := known.Of(uid, n.Name)
		of[n.Name] = project
		delete(missing, uid)
		_, recorded := known.Recorded[uid]
		was, seen := l.last[uid]
		if !recorded && !seen && changedThere(n, l.id, project, was, seen) {
			since, waits := l.fresh[uid]
			if !waits {
				since = now
			}
			if now.Sub(since) < settle {
				fresh[uid] = since
				continue
			}
		}
		last[uid] = project
		patch := marking(n, l.id, project, recorded || seen)
		if patch == nil || !n.DeletionTimestamp.IsZero() {
			continue
		}
		if _, named := l.putBack[n.Name]; !named && len(l.putBack) < maxPutBack && changedThere(n, l.id, project, was, seen) {
			l.putBack[n.Name] = now
		}
		body, err := json.Marshal(map[string]any{"metadata": patch})
		if err != nil {
			return nil, err
		}
		if _, err := client.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{}); gone(err) != nil {
			return nil, fmt.Errorf("mark namespace %s with its project: %w", n.Name, err)
		}
	}
	l.last, l.fresh = last, fresh
	if len(missing) > maxGone {
		return of, k.Projects.Forget(ctx, l.id, slices.Collect(maps.Keys(missing)))
	}
	return of, nil
}

// said is what namespaces say of themselves.
func said(all []*corev1.Namespace) map[state.Namespace]string {
	marks := map[state.Namespace]string{}
	for _, n := range all {
		if mark, ok := n.Annotations[ProjectAnnotation]; ok {
			marks[state.Namespace{UID: string(n.UID), Name: n.Name}] = mark
		}
	}
	return marks
}

// marking is what has to change of the metadata of a namespace for it to say in which project it is; nil for nothing. A mark
// of another server, which a cluster that Rancher had brings along, stays where this one has recorded nothing.
func marking(n *corev1.Namespace, clusterID, project string, recorded bool) map[string]any {
	annotations, labels := map[string]any{}, map[string]any{}
	is := n.Annotations[ProjectAnnotation]
	if foreign := is != "" && roles.ClusterOf(is) != clusterID; foreign && (project == "" || !recorded) {
		return nil
	}
	if is != project {
		annotations[ProjectAnnotation] = project
	}
	short, labelled := n.Labels[ProjectAnnotation]
	switch want := project[strings.IndexByte(project, ':')+1:]; {
	case want == "" && labelled:
		labels[ProjectAnnotation] = nil
	case want != short:
		labels[ProjectAnnotation] = want
	}
	if len(annotations)+len(labels) == 0 {
		return nil
	}
	return map[string]any{"annotations": annotations, "labels": labels}
}

// changedThere says whether it was in the cluster that the mark of a namespace, which is to be put back, was changed: the server
// has not moved the namespace since it marked it last, or never marked it.
func changedThere(n *corev1.Namespace, clusterID, project, was string, seen bool) bool {
	is := n.Annotations[ProjectAnnotation]
	if is == project { // the label alone
		return false
	}
	if seen {
		return was == project
	}
	return roles.ClusterOf(is) == clusterID
}

// reported are the sentences about the marks that were put back.
func (m marks) reported() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m.putBack)) {
		all = append(all, "the project of namespace "+name+" was changed in the cluster, which counts for nothing and was put back: move it with `drover projects move`")
	}
	return all
}

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
