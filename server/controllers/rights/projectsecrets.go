// The secrets of projects are copied into clusters: each is in every namespace of its project, comes to
// a namespace that joins the project, and goes from one that leaves it. wantedCopies says which copies should be in a cluster,
// as a function of records and namespaces; syncCopies makes it so.
//
// Wire source of labels and annotations: rancher/rancher pkg/controllers/managementuser/secret (2.8) and
// pkg/controllers/managementuser/secrets of later versions, which find the copies in a cluster that they take over.

package rights

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/records"
)

const (
	// projectLabel is on each copy and names the project, without its cluster: "p-xxxxx".
	projectLabel = "management.cattle.io/project-scoped-secret"
	// copyAnnotation marks a copy, UserAnnotation a secret that people made.
	copyAnnotation = "management.cattle.io/project-scoped-secret-copy"
	userAnnotation = "secret.user.cattle.io/secret"

	// managed is the label of what drover keeps in clusters, with managedBy as its value.
	managed   = "app.kubernetes.io/managed-by"
	managedBy = "drover"
)

// secretCopies are the copies in a cluster, by namespace and name. Change none of them.
type secretCopies map[types.NamespacedName]*corev1.Secret

// wantedCopies are the copies that should be in a cluster. namespaces are all of it, with the project ID of each or "".
func wantedCopies(secrets []records.ProjectSecret, namespaces map[string]string) secretCopies {
	copies := secretCopies{}
	for _, s := range secrets {
		for namespace, project := range namespaces {
			if project == s.ProjectID {
				copies[types.NamespacedName{Namespace: namespace, Name: s.Name}] = copyOf(s, namespace)
			}
		}
	}
	return copies
}

func copyOf(s records.ProjectSecret, namespace string) *corev1.Secret {
	_, project, _ := strings.Cut(s.ProjectID, ":")
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: namespace,
			Labels:      withCopy(s.Labels, map[string]string{managed: managedBy, projectLabel: project}),
			Annotations: withCopy(s.Annotations, map[string]string{copyAnnotation: "true", userAnnotation: "true"}),
		},
		Type: corev1.SecretType(s.Type), Data: s.Data,
	}
}

// withCopy are marks and further ones, which win.
func withCopy(marks, more map[string]string) map[string]string {
	all := maps.Clone(more)
	for key, value := range marks {
		if _, ours := more[key]; !ours {
			all[key] = value
		}
	}
	return all
}

// syncCopies makes a cluster have the wanted copies and no other ones, and returns what it did, as in "created secret web/mirror".
// A secret of a wanted name that is not a copy is a user's own: it stays as it is, and is returned in taken, as in "secret
// web/mirror is not the project's". Sync goes on after an error and returns all of them.
func syncCopies(ctx context.Context, client kubernetes.Interface, want secretCopies) (changes, taken []string, err error) {
	options := metav1.ListOptions{LabelSelector: managed + "=" + managedBy + "," + projectLabel, Limit: bounds.Secrets}
	list, err := bounds.All[*corev1.Secret](ctx, options, client.CoreV1().Secrets(metav1.NamespaceAll).List)
	if err != nil {
		return nil, nil, fmt.Errorf("list the copies of projects' secrets: %w", err)
	}
	s := &copying{client: client}
	have := secretCopies{}
	for _, one := range list {
		name := copyName(one)
		if have[name] = one; want[name] == nil {
			s.did("deleted", one, s.remove(ctx, one))
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(want), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		s.copy(ctx, want[name], have[name])
	}
	return s.changes, s.taken, errors.Join(s.errors...)
}

type copying struct {
	client         kubernetes.Interface
	changes, taken []string
	errors         []error
}

func (s *copying) did(verb string, what *corev1.Secret, err error) {
	name := "secret " + copyName(what).String()
	if err != nil {
		s.errors = append(s.errors, fmt.Errorf("%s: not %s: %w", name, verb, err))
		return
	}
	s.changes = append(s.changes, verb+" "+name)
}

// copy makes one copy what it should be.
func (s *copying) copy(ctx context.Context, want, have *corev1.Secret) {
	api := s.client.CoreV1().Secrets(want.Namespace)
	switch {
	case have == nil:
		_, err := api.Create(ctx, want, metav1.CreateOptions{})
		switch {
		case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			// the namespace goes, with all that is in it
		case apierrors.IsAlreadyExists(err):
			s.taken = append(s.taken, "secret "+copyName(want).String()+" is not the project's, whose secret of that name is therefore not there")
		default:
			s.did("created", want, err)
		}
	case have.Type != want.Type || have.Immutable != nil && *have.Immutable && !same(want, have): // neither can be changed
		err := s.remove(ctx, have)
		if err == nil {
			_, err = api.Create(ctx, want, metav1.CreateOptions{})
		}
		s.did("replaced", want, err)
	case !same(want, have):
		next := have.DeepCopy()
		next.Labels, next.Annotations, next.Data = want.Labels, want.Annotations, want.Data
		_, err := api.Update(ctx, next, metav1.UpdateOptions{})
		s.did("updated", want, err)
	}
}

// same says whether a copy has what it should. No foreign marks are kept: a label that left the project's secret goes.
func same(want, have *corev1.Secret) bool {
	return equality.Semantic.DeepEqual(have.Data, want.Data) && maps.Equal(have.Labels, want.Labels) && maps.Equal(have.Annotations, want.Annotations)
}

// remove deletes what was seen, and nothing that has taken its place since.
func (s *copying) remove(ctx context.Context, have *corev1.Secret) error {
	err := s.client.CoreV1().Secrets(have.Namespace).Delete(ctx, have.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func copyName(s *corev1.Secret) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}
