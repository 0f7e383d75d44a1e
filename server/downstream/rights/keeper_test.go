package rights

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/projects"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
)

const harbour = records.ClusterKey("fleet-default/harbour")

// bed is one cluster that a keeper keeps.
type bed struct {
	keeper *Keeper
	client *fake.Clientset

	mu       sync.Mutex
	bindings []roles.Binding
	away     bool
	gone     bool // the cluster was removed
	swept    int
}

func newBed(namespaces ...*corev1.Namespace) *bed {
	b := &bed{client: fake.NewClientset()}
	for _, n := range namespaces {
		_ = b.client.Tracker().Add(n)
	}
	s := snapshot()
	b.keeper = NewKeeper(Options{
		Clusters: func() map[records.ClusterKey]string {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.gone {
				return nil
			}
			return map[records.ClusterKey]string{harbour: cluster}
		},
		Bindings: func(string) []roles.Binding { b.mu.Lock(); defer b.mu.Unlock(); return slices.Clone(b.bindings) },
		Find:     s.Find, User: s.User, Uses: func(string, string) bool { return true },
		Client: func(records.ClusterKey) (kubernetes.Interface, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.away {
				return nil, errors.New("no tunnel is open")
			}
			return b.client, nil
		},
		Sweep: func(context.Context, records.ClusterKey, func(string) bool) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.swept++
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	return b
}

func (b *bed) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// bound are the names of the cluster role bindings that there are.
func (b *bed) bound(t *testing.T, namespace string) int {
	t.Helper()
	if namespace == "" {
		list, err := b.client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	list, err := b.client.RbacV1().RoleBindings(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func TestTheKeeperFollowsBindingsAndClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed()
		b.away = true
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.keeper.Start(ctx)
		b.set(func() { b.bindings = []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")} })
		time.Sleep(10 * time.Minute)
		if n := b.bound(t, ""); n != 0 {
			t.Errorf("%d bindings in a cluster that is away", n)
		}
		b.set(func() { b.away = false })
		b.keeper.Reached(harbour, true)
		time.Sleep(gather + time.Millisecond)
		if n := b.bound(t, ""); n != 1 {
			t.Errorf("%d bindings once it is back", n)
		}
		b.set(func() { b.bindings = nil })
		b.keeper.LookByID("c-m-another1")
		time.Sleep(gather + time.Millisecond)
		if n := b.bound(t, ""); n != 1 {
			t.Errorf("%d bindings after a change of another cluster", n)
		}
		b.keeper.LookByID(cluster)
		time.Sleep(gather + time.Millisecond)
		if n := b.bound(t, ""); n != 0 {
			t.Errorf("%d bindings after they went at the server", n)
		}
		// A removed cluster is let alone.
		b.set(func() { b.gone, b.bindings = true, []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")} })
		b.keeper.Match()
		b.keeper.Reached(harbour, true)
		time.Sleep(lookEvery)
		if n := b.bound(t, ""); n != 0 {
			t.Errorf("%d bindings in a cluster that was removed", n)
		}
		cancel()
		wait()
	})
}

func TestTheKeeperPutsBackNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed()
		b.bindings = []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.keeper.Start(ctx)
		time.Sleep(time.Second)
		if err := b.client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "crb-dzaxnipqpj", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		n := b.bound(t, "")
		cancel()
		wait()
		if n != 1 || b.swept < 2 {
			t.Errorf("%d bindings after a quarter of an hour, swept %d times", n, b.swept)
		}
	})
}

func TestANamespaceThatMoves(t *testing.T) {
	defaultID, systemID := projects.IDs(cluster)
	b := newBed(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-public", Annotations: map[string]string{ProjectAnnotation: ""}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
	)
	b.bindings = []roles.Binding{inProject("prtb-ann", "secrets-view", "u-ann01", defaultID)}
	of, err := namespacesOf(t.Context(), b.client, cluster)
	if err != nil || of["default"] != defaultID || of["kube-system"] != systemID || of["kube-public"] != "" || of["web"] != "" {
		t.Fatalf("projects of namespaces: %v, %v", of, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := b.keeper.Start(ctx)
	eventually(t, "a binding in default", func() bool { return b.bound(t, "default") == 1 })
	for namespace, project := range map[string]string{"web": defaultID, "default": ""} {
		n, err := b.client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{ProjectAnnotation: project}
		eventually(t, "the watch of namespaces", func() bool {
			return slices.ContainsFunc(b.client.Actions(), func(a kubetest.Action) bool { return a.GetVerb() == "watch" })
		})
		if _, err := b.client.CoreV1().Namespaces().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the bindings to move", func() bool { return b.bound(t, "default") == 0 && b.bound(t, "web") == 1 })
	cancel()
	wait()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
