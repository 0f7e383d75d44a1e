// Making a cluster have what it should: what is missing is created, what differs is put back, and
// what no one has any more is deleted. Only objects with our marks are ever deleted, and a cluster role
// that is foreign stays as it is and is bound to no one.

package rights

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/roles"
)

// Outcome is what was done in a cluster.
type Outcome struct {
	// Changes are what was done, as in "created cluster role rt-abcde".
	Changes []string
	// Differs are what stays as it is though it should not be so, as in "cluster role rt-abcde was not made by drover".
	Differs []string
	// Had is what is to be remembered for the next time.
	Had Had
}

// Sync makes a cluster have the wanted objects. It goes on after an error and returns all of them. Bindings that are not wanted go
// first: a user who has lost a right has lost it, even when a later write fails.
func Sync(ctx context.Context, client kubernetes.Interface, want Objects) (Outcome, error) {
	return bring(ctx, &syncing{client: client}, want)
}

// Report is Sync, but what was changed or deleted by hand stays as it is and is among what differs, as in "cluster role
// rt-abcde was changed". What no one has any more is deleted all the same. had is what was wanted when the cluster was
// last looked at: what is not there though it was is taken for deleted by hand.
func Report(ctx context.Context, client kubernetes.Interface, want Objects, had Had) (Outcome, error) {
	return bring(ctx, &syncing{client: client, report: true, had: had}, want)
}

func bring(ctx context.Context, s *syncing, want Objects) (Outcome, error) {
	s.api, s.foreign = bindings{s.client}, map[string]bool{}
	err := s.all(ctx, want)
	return Outcome{s.changes, s.differs, s.hadOf(want)}, err
}

// Had is what was wanted in a cluster: roles with the hashes of their rules, and bindings.
type Had map[string]string

// hadOf is the memory of what is wanted now. What comes to nothing because of a foreign role was never there.
func (s *syncing) hadOf(want Objects) Had {
	had := Had{}
	for name, r := range want.ClusterRoles {
		if !s.foreign[name] {
			had["cluster role "+name] = r.Annotations[RulesAnnotation]
		}
	}
	for _, b := range want.Bindings {
		if !s.foreign[b.RoleRef.Name] {
			had[describe(b)] = ""
		}
	}
	return had
}

func (s *syncing) all(ctx context.Context, want Objects) error {
	have, err := s.found(ctx)
	if err != nil {
		return err
	}
	client := s.client
	for _, name := range sortedNames(have.Bindings) {
		if want.Bindings[name] == nil {
			s.did("deleted", describe(have.Bindings[name]), gone(s.api.delete(ctx, name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.ClusterRoles)) {
		s.role(ctx, want.ClusterRoles[name], have.ClusterRoles[name])
	}
	for _, name := range sortedNames(want.Bindings) {
		s.binding(ctx, want.Bindings[name], have.Bindings[name])
	}
	for _, name := range slices.Sorted(maps.Keys(have.ClusterRoles)) {
		if want.ClusterRoles[name] == nil {
			s.did("deleted", "cluster role "+name, gone(client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})))
		}
	}
	return errors.Join(s.errors...)
}

// byHand says that something was changed or deleted by hand, and is to stay so.
func (s *syncing) byHand(what, verb string) bool {
	if s.report {
		s.differs = append(s.differs, what+" was "+verb)
	}
	return s.report
}

type syncing struct {
	// report says that changes by hand are reported and stay; had is what was wanted before.
	report  bool
	had     Had
	differs []string
	// foreign are the cluster roles that have the name of a wanted one and are foreign.
	foreign map[string]bool

	client  kubernetes.Interface
	api     bindings
	changes []string
	errors  []error
}

func (s *syncing) did(verb, what string, err error) {
	if err != nil {
		s.errors = append(s.errors, fmt.Errorf("%s: not %s: %w", what, verb, err))
		return
	}
	s.changes = append(s.changes, verb+" "+what)
}

// found are the objects with our marks.
func (s *syncing) found(ctx context.Context) (Objects, error) {
	o := Objects{ClusterRoles: map[string]*rbacv1.ClusterRole{}}
	list, err := bounds.All[*rbacv1.ClusterRole](ctx, metav1.ListOptions{LabelSelector: Managed + "=" + ManagedBy}, s.client.RbacV1().ClusterRoles().List)
	if err != nil {
		return o, fmt.Errorf("list cluster roles: %w", err)
	}
	for _, r := range list {
		if roles.Reserved(r.Name) && r.Annotations[RoleAnnotation] == r.Name && r.Name != createNamespaces {
			continue // Kubernetes' own, which an earlier version gave our marks
		}
		if r.Annotations[RoleAnnotation] != "" || r.Annotations[NamespacesAnnotation] != "" || r.Name == createNamespaces {
			o.ClusterRoles[r.Name] = r
		}
	}
	o.Bindings, err = s.api.list(ctx, metav1.ListOptions{LabelSelector: Managed + "=" + ManagedBy + "," + OwnerLabel})
	return o, err
}

// role makes a cluster role what it should be. A foreign role of that name stays as it is.
func (s *syncing) role(ctx context.Context, want, have *rbacv1.ClusterRole) {
	what, api := "cluster role "+want.Name, s.client.RbacV1().ClusterRoles()
	same, hash := false, want.Annotations[RulesAnnotation]
	if before, ok := s.had[what]; ok {
		same = before == hash
	}
	if have == nil {
		if same && s.isGone(func() error { _, err := api.Get(ctx, want.Name, metav1.GetOptions{}); return err }) && s.byHand(what, "deleted") {
			return
		}
		_, err := api.Create(ctx, want, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			s.did("created", what, err)
			return
		}
		if have, err = api.Get(ctx, want.Name, metav1.GetOptions{}); err != nil {
			s.did("taken over", what, err)
			return
		}
		if !isOurs(have, want) {
			s.foreign[want.Name] = true
			s.differs = append(s.differs, what+" was not made by drover")
			return
		}
	}
	if marked(have.Labels, want.Labels) && marked(have.Annotations, want.Annotations) && equality.Semantic.DeepEqual(have.Rules, want.Rules) {
		return
	}
	if (same || have.Annotations[RulesAnnotation] == hash) && s.byHand(what, "changed") {
		return
	}
	next := have.DeepCopy()
	next.Labels, next.Annotations = with(have.Labels, want.Labels), with(have.Annotations, want.Annotations)
	next.Rules, next.AggregationRule = want.Rules, nil
	_, err := api.Update(ctx, next, metav1.UpdateOptions{})
	s.did("put back", what, err)
}

// isOurs says whether a cluster role of a wanted name may be changed to it: it has our mark, or says as Rancher's do that it is
// of this role template, or of this project.
func isOurs(have, want *rbacv1.ClusterRole) bool {
	template, project := want.Annotations[RoleAnnotation], want.Annotations[NamespacesAnnotation]
	return have.Labels[Managed] == ManagedBy || template != "" && have.Annotations[RoleAnnotation] == template ||
		project != "" && have.Annotations[NamespacesAnnotation] == project
}

// binding makes a binding what it should be. The role of one cannot be changed, so that it is made anew then. No one gets what
// a foreign role allows.
func (s *syncing) binding(ctx context.Context, want, have *rbacv1.RoleBinding) {
	what := describe(want)
	if s.foreign[want.RoleRef.Name] {
		if have != nil {
			s.did("deleted", what, gone(s.api.delete(ctx, nameOf(want))))
		}
		return
	}
	_, had := s.had[what]
	if have == nil {
		if had && s.isGone(func() error { _, err := s.api.get(ctx, nameOf(want)); return err }) && s.byHand(what, "deleted") {
			return
		}
		err := s.api.create(ctx, want)
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, "NamespaceTerminating") {
			return // the namespace goes, with all that is in it
		}
		if !apierrors.IsAlreadyExists(err) {
			s.did("created", what, err)
			return
		}
		if have, err = s.api.get(ctx, nameOf(want)); err != nil {
			s.did("taken over", what, err)
			return
		}
	}
	if marked(have.Labels, want.Labels) && have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
		return
	}
	// Name and owner say all that is in a binding, so that the server itself has not changed one that is marked as its own.
	if (had || marked(have.Labels, want.Labels)) && !sameBut(have, want) && s.byHand(what, "changed") {
		return
	}
	if have.RoleRef == want.RoleRef {
		next := have.DeepCopy()
		next.Labels, next.Subjects = with(have.Labels, want.Labels), want.Subjects
		s.did("put back", what, s.api.update(ctx, next))
		return
	}
	err := gone(s.api.delete(ctx, nameOf(want)))
	if err == nil {
		err = s.api.create(ctx, want)
	}
	s.did("put back", what, err)
}

// sameBut says whether two bindings differ in their marks alone.
func sameBut(a, b *rbacv1.RoleBinding) bool {
	return a.RoleRef == b.RoleRef && equality.Semantic.DeepEqual(a.Subjects, b.Subjects)
}

// isGone says whether there is nothing of that name, also none without our marks. It is asked where it matters alone.
func (s *syncing) isGone(get func() error) bool { return s.report && apierrors.IsNotFound(get()) }

func nameOf(b *rbacv1.RoleBinding) types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

func describe(b *rbacv1.RoleBinding) string {
	if b.Namespace == "" {
		return "cluster role binding " + b.Name
	}
	return "role binding " + b.Namespace + "/" + b.Name
}

// gone takes it for done that there is nothing to delete.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// marked says whether marks are among others.
func marked(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// with are marks and further ones.
func with(have, more map[string]string) map[string]string {
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}

func sortedNames[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), func(a, b types.NamespacedName) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
}
