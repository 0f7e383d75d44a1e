package rights

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/roles"
)

// synced makes a cluster have what bindings come to.
func synced(t *testing.T, client *fake.Clientset, bindings ...roles.Binding) []string {
	t.Helper()
	done, err := Sync(t.Context(), client, Desired(snapshot(bindings...)))
	if err != nil {
		t.Fatal(err)
	}
	return done.Changes
}

func TestSync(t *testing.T) {
	foreign := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "somebodys", Labels: map[string]string{Managed: "helm"}}, RoleRef: roleRef("view")}
	client := fake.NewClientset(foreign)
	member := inCluster("crtb-bob", "cluster-member", "u-bob01")
	reader := inProject("prtb-ann", "secrets-view", "u-ann01", web)

	if diff := cmp.Diff([]string{
		"created cluster role cluster-member", "created cluster role secrets-view", "created cluster role binding crb-dzaxnipqpj",
		"created role binding web/rb-" + short("web", "secrets-view", rbacv1.Subject{Kind: "User", Name: "u-ann01"}),
		"created role binding web-db/rb-" + short("web-db", "secrets-view", rbacv1.Subject{Kind: "User", Name: "u-ann01"}),
	}, synced(t, client, member, reader)); diff != "" {
		t.Errorf("the first time: %s", diff)
	}
	if changes := synced(t, client, member, reader); changes != nil {
		t.Errorf("the second time: %q", changes)
	}

	// What a person changes by hand is put back.
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "secrets-view", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules[0].Verbs = []string{"*"}
	if _, err := client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "crb-dzaxnipqpj", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound.Subjects = append(bound.Subjects, rbacv1.Subject{Kind: "User", Name: "mallory"})
	if _, err := client.RbacV1().ClusterRoleBindings().Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"put back cluster role secrets-view", "put back cluster role binding crb-dzaxnipqpj"}, synced(t, client, member, reader)); diff != "" {
		t.Errorf("after changes by hand: %s", diff)
	}

	// Who has nothing any more has nothing there.
	gone := synced(t, client)
	if len(gone) != 5 {
		t.Errorf("after the bindings went: %q", gone)
	}
	left, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "somebodys" {
		t.Errorf("what is left: %+v, %v", left.Items, err)
	}
}

// TestReport: what was changed by hand stays and is named; what the server has changed is brought.
func TestReport(t *testing.T) {
	client := fake.NewClientset()
	member, reader := inCluster("crtb-bob", "cluster-member", "u-bob01"), inProject("prtb-ann", "secrets-view", "u-ann01", web)
	synced(t, client, member, reader)
	want := Desired(snapshot(member, reader))
	report := func(want Objects, had Had) Outcome {
		t.Helper()
		done, err := Report(t.Context(), client, want, had)
		if err != nil || done.Changes != nil {
			t.Errorf("changes %q, %v", done.Changes, err)
		}
		return done
	}
	first := report(want, nil)
	if first.Differs != nil {
		t.Errorf("nobody changed anything: %q", first.Differs)
	}
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "secrets-view", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules[0].Verbs = []string{"*"}
	if _, err := client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "crb-dzaxnipqpj", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound.Subjects, bound.Labels = append(bound.Subjects, rbacv1.Subject{Kind: "User", Name: "mallory"}), nil
	if _, err := client.RbacV1().ClusterRoleBindings().Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.RbacV1().ClusterRoles().Delete(t.Context(), "cluster-member", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"cluster role cluster-member was deleted", "cluster role secrets-view was changed", "cluster role binding crb-dzaxnipqpj was changed",
	}, report(want, first.Had).Differs); diff != "" {
		t.Error(diff)
	}
	// The role changes at the server, and a right is lost: both arrive.
	next := Desired(snapshot(reader))
	next.ClusterRoles["secrets-view"].Rules[0].Verbs = []string{"list"}
	next.ClusterRoles["secrets-view"].Annotations[RulesAnnotation] = "another"
	done, err := Report(t.Context(), client, next, first.Had)
	if diff := cmp.Diff([]string{"put back cluster role secrets-view"}, done.Changes); diff != "" || done.Differs != nil || err != nil {
		t.Errorf("%s, %q, %v", diff, done.Differs, err)
	}
}

func TestABindingWithAnotherRoleIsMadeAnew(t *testing.T) {
	client := fake.NewClientset(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "crb-dzaxnipqpj"}, RoleRef: roleRef("cluster-admin"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "u-bob01"}},
	})
	synced(t, client, inCluster("crtb-bob", "cluster-member", "u-bob01"))
	b, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "crb-dzaxnipqpj", metav1.GetOptions{})
	if err != nil || b.RoleRef.Name != "cluster-member" || b.Labels[Managed] != ManagedBy {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestAFailureStopsNothingElse(t *testing.T) {
	client := fake.NewClientset()
	synced(t, client, inCluster("crtb-ann", "nodes-view", "u-ann01"))
	client.PrependReactor("create", "clusterroles", func(kubetest.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the webhook is down")
	})
	done, err := Sync(t.Context(), client, Desired(snapshot(inCluster("crtb-bob", "cluster-member", "u-bob01"))))
	if err == nil || !strings.Contains(err.Error(), "cluster role cluster-member: not created: the webhook is down") {
		t.Errorf("error %v", err)
	}
	if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), "nodes-view", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was not wanted any more stayed: %v; %q was done", err, done.Changes)
	}
}

// TestSomebodyElsesRole: a cluster role of a wanted name that has none of our marks stays as it is, is named, and is given to no user.
func TestSomebodyElsesRole(t *testing.T) {
	theirs := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes-view", Labels: map[string]string{"helm": "yes"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
	}
	given := inCluster("crtb-bob", "nodes-view", "u-bob01")
	name := types.NamespacedName{Name: "crb-" + short("", "nodes-view", rbacv1.Subject{Kind: "User", Name: "u-bob01"})}
	for how, look := range map[string]func(*fake.Clientset, Objects, Had) (Outcome, error){
		"put back": func(c *fake.Clientset, want Objects, _ Had) (Outcome, error) { return Sync(t.Context(), c, want) },
		"reported": func(c *fake.Clientset, want Objects, had Had) (Outcome, error) {
			return Report(t.Context(), c, want, had)
		},
	} {
		t.Run(how, func(t *testing.T) {
			want := Desired(snapshot(given))
			client := fake.NewClientset(theirs.DeepCopy(), widened(want.Bindings[name])) // the binding is left of a time when the role was ours
			is := func() *rbacv1.ClusterRole {
				t.Helper()
				r, err := client.RbacV1().ClusterRoles().Get(t.Context(), "nodes-view", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			done, err := look(client, want, nil)
			if diff := cmp.Diff([]string{"cluster role nodes-view was not made by drover"}, done.Differs); diff != "" || err != nil {
				t.Errorf("%s, %v", diff, err)
			}
			if diff := cmp.Diff(theirs, is()); diff != "" {
				t.Errorf("it was changed: %s", diff)
			}
			if _, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), name.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("somebody has the role: %v", err)
			}
			if _, err := look(client, Desired(snapshot()), done.Had); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(theirs, is()); diff != "" {
				t.Errorf("it was changed when nobody had the role any more: %s", diff)
			}
			// Once it is gone there is room for ours, and it was not deleted by a person whom that concerns.
			if err := client.RbacV1().ClusterRoles().Delete(t.Context(), "nodes-view", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if done, err = look(client, want, done.Had); done.Differs != nil || err != nil || is().Labels[Managed] != ManagedBy || len(done.Changes) != 2 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// TestRolesOfRancherAreTakenOver: what says that it is of our role template, as in a cluster that Rancher had, becomes ours.
func TestRolesOfRancherAreTakenOver(t *testing.T) {
	client := fake.NewClientset(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nodes-view", Annotations: map[string]string{RoleAnnotation: "nodes-view"}}})
	synced(t, client, inCluster("crtb-bob", "nodes-view", "u-bob01"))
	if r, err := client.RbacV1().ClusterRoles().Get(t.Context(), "nodes-view", metav1.GetOptions{}); err != nil || r.Labels[Managed] != ManagedBy || len(r.Rules) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestKubernetesOwnRoles: a role template of a user's own that has such a name comes to nothing, and what an earlier version made of
// the cluster's role is not deleted.
func TestKubernetesOwnRoles(t *testing.T) {
	edit := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edit", Labels: map[string]string{Managed: ManagedBy}, Annotations: map[string]string{RoleAnnotation: "edit"}}}
	client := fake.NewClientset(edit.DeepCopy())
	s := snapshot(inCluster("crtb-bob", "edit", "u-bob01"))
	find := s.Find
	s.Find = func(kind roles.Kind, id string) (roles.Role, bool) {
		if id == "edit" {
			return roles.Role{ID: id, Context: roles.Cluster, Rules: []roles.Rule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}, true
		}
		return find(kind, id)
	}
	done, err := Sync(t.Context(), client, Desired(s))
	if done.Changes != nil || done.Differs != nil || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
	if r, err := client.RbacV1().ClusterRoles().Get(t.Context(), "edit", metav1.GetOptions{}); err != nil || cmp.Diff(edit, r) != "" {
		t.Errorf("%+v, %v", r, err)
	}
}
