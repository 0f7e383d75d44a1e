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
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/roles"
)

// synced makes a cluster have what bindings come to.
func synced(t *testing.T, client *fake.Clientset, bindings ...roles.Binding) []string {
	t.Helper()
	changes, err := Sync(t.Context(), client, Wanted(snapshot(bindings...)))
	if err != nil {
		t.Fatal(err)
	}
	return changes
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

	// What somebody changes by hand is put back.
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
	want := Wanted(snapshot(member, reader))
	report := func(want Objects, had Had) []string {
		t.Helper()
		changes, differs, err := Report(t.Context(), client, want, had)
		if err != nil || changes != nil {
			t.Errorf("changes %q, %v", changes, err)
		}
		return differs
	}
	if got := report(want, nil); got != nil {
		t.Errorf("nobody changed anything: %q", got)
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
	}, report(want, HadOf(want))); diff != "" {
		t.Error(diff)
	}
	// The role changes at the server, and a right is lost: both arrive.
	next := Wanted(snapshot(reader))
	next.ClusterRoles["secrets-view"].Rules[0].Verbs = []string{"list"}
	next.ClusterRoles["secrets-view"].Annotations[RulesAnnotation] = "another"
	changes, differs, err := Report(t.Context(), client, next, HadOf(want))
	if diff := cmp.Diff([]string{"put back cluster role secrets-view"}, changes); diff != "" || differs != nil || err != nil {
		t.Errorf("%s, %q, %v", diff, differs, err)
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
	changes, err := Sync(t.Context(), client, Wanted(snapshot(inCluster("crtb-bob", "cluster-member", "u-bob01"))))
	if err == nil || !strings.Contains(err.Error(), "cluster role cluster-member: not created: the webhook is down") {
		t.Errorf("error %v", err)
	}
	if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), "nodes-view", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was not wanted any more stayed: %v; %q was done", err, changes)
	}
}
