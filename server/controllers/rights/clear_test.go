package rights

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// TestClear: after the cluster was left nothing of it is there, and what others wrote is as it was; imported again, its namespaces are in
// the projects of the new one.
func TestClear(t *testing.T) {
	namespaces := map[string]map[string]string{ // with what of them is a user's
		"default": nil, "kube-system": {"team": "ops"}, "web": {"team": "web"}, "none": {ProjectAnnotation: ""}, "elsewhere": {ProjectAnnotation: "c-other:p-12345"},
	}
	client := fake.NewClientset()
	for name, marks := range namespaces {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Annotations: marks}}
		if name == "elsewhere" {
			n.Labels = map[string]string{ProjectAnnotation: "p-12345"}
		}
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	// looked is what a keeper finds in the cluster, and marks there.
	looked := func(id string, k state.Memberships) map[string]string {
		t.Helper()
		b := newBed()
		b.keeper.Projects = fixed{b, k}
		of, err := b.keeper.namespaces(t.Context(), client, &kept{key: harbour, id: id, marks: marks{putBack: map[string]time.Time{}}})
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	all := map[string]bool{builtin.Default: true, builtin.System: true, web: true}
	of := looked(cluster, state.Memberships{ClusterProjects: builtin, All: all, Recorded: map[string]string{"uid-web": web}})
	if of["default"] != builtin.Default || of["web"] != web {
		t.Fatalf("%+v", of)
	}
	synced(t, client, inProject("prtb-ann", "project-owner", "u-ann01", web), inCluster("crtb-bob", "cluster-member", "u-bob01"))
	secrets := []records.ProjectSecret{{ProjectID: web, Name: "mirror"}}
	if changes, _, err := syncCopies(t.Context(), client, wantedCopies(secrets, of)); err != nil || len(changes) != 1 {
		t.Fatalf("%q, %v", changes, err)
	}

	if err := Clear(t.Context(), client, cluster); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		if diff := cmp.Diff(len(namespaces[n.Name]), len(n.Annotations)); diff != "" {
			t.Errorf("annotations of %s: %v, and were %v", n.Name, n.Annotations, namespaces[n.Name])
		}
		for key, value := range namespaces[n.Name] {
			if n.Annotations[key] != value {
				t.Errorf("annotation %s of %s is %q and was %q", key, n.Name, n.Annotations[key], value)
			}
		}
		if want := map[bool]int{true: 1}[n.Name == "elsewhere"]; len(n.Labels) != want {
			t.Errorf("labels of %s: %v", n.Name, n.Labels)
		}
	}
	left := 0
	for _, count := range []func() (int, error){
		func() (int, error) {
			l, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
			return len(l.Items), err
		},
		func() (int, error) {
			l, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
			return len(l.Items), err
		},
		func() (int, error) {
			l, err := client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{})
			return len(l.Items), err
		},
		func() (int, error) {
			l, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			return len(l.Items), err
		},
	} {
		n, err := count()
		if left += n; err != nil {
			t.Fatal(err)
		}
	}
	if left > 0 {
		t.Errorf("%d objects are left", left)
	}

	const next = "c-m-n3xt2345"
	again := records.ClusterProjects{Default: next + ":p-22222"}
	if of := looked(next, state.Memberships{ClusterProjects: again, All: map[string]bool{again.Default: true}}); of["default"] != again.Default || of["web"] != "" {
		t.Errorf("imported again: %+v", of)
	}
}

// fixed is a record of one cluster that does not change.
type fixed struct {
	*bed
	known state.Memberships
}

func (f fixed) In(string) state.Memberships { return f.known }

func (f fixed) Latest(context.Context, string) (state.Memberships, error) { return f.known, nil }
