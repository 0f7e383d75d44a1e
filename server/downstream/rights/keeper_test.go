package rights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
	reports  bool
	projects []string
	secrets  []records.ProjectSecret
	differs  [][]string // each that was reported
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
		Projects: func(id string) []string {
			b.mu.Lock()
			defer b.mu.Unlock()
			first, second := projects.IDs(id)
			return append([]string{first, second}, b.projects...)
		},
		Reports: func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.reports },
		Differs: func(_ context.Context, _ records.ClusterKey, what []string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.differs = append(b.differs, what)
			return nil
		},
		Secrets: func(string) []records.ProjectSecret { b.mu.Lock(); defer b.mu.Unlock(); return slices.Clone(b.secrets) },
		Find:    s.Find, User: s.User, Uses: func(string, string) bool { return true },
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
	found, err := namespacesOf(t.Context(), b.client, cluster, []string{defaultID, systemID}, nil)
	if of := found.of; err != nil || of["default"] != defaultID || of["kube-system"] != systemID || of["kube-public"] != "" || of["web"] != "" {
		t.Fatalf("projects of namespaces: %v, %v", of, err)
	}
	if n, err := b.client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil || cluster+":"+n.Labels[ProjectAnnotation] != systemID {
		t.Errorf("labels %v, %v", n.Labels, err)
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

// TestSecretsOfProjects: a secret is in a namespace for as long as that is in the project.
func TestSecretsOfProjects(t *testing.T) {
	b := newBed(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	b.projects = []string{cluster + ":p-shop1"}
	b.secrets = []records.ProjectSecret{{ProjectID: cluster + ":p-shop1", Name: "mirror", Type: "Opaque", Data: map[string][]byte{"a": []byte("b")}}}
	ctx, cancel := context.WithCancel(t.Context())
	wait := b.keeper.Start(ctx)
	defer wait()
	defer cancel()
	there := func() bool {
		_, err := b.client.CoreV1().Secrets("web").Get(t.Context(), "mirror", metav1.GetOptions{})
		return err == nil
	}
	move := func(project string) {
		n, err := b.client.CoreV1().Namespaces().Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{ProjectAnnotation: project}
		if _, err := b.client.CoreV1().Namespaces().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.keeper.LookByID(cluster)
	}
	move(cluster + ":p-shop1")
	eventually(t, "the secret in a namespace of the project", there)
	move("")
	eventually(t, "the secret gone from a namespace that left", func() bool { return !there() })
}

// TestARemovedProject: its namespaces lose it after a while, and those of a project of another cluster do not.
func TestARemovedProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(name, project string) *corev1.Namespace {
			_, short, _ := strings.Cut(project, ":")
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{ProjectAnnotation: project}, Labels: map[string]string{ProjectAnnotation: short},
			}}
		}
		mine := cluster + ":p-mine1"
		b := newBed(in("a", mine), in("b", "c-other:p-theirs"))
		b.projects = []string{mine}
		b.bindings = []roles.Binding{inProject("prtb-ann", "secrets-view", "u-ann01", mine)}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.keeper.Start(ctx)
		time.Sleep(time.Second)
		if n := b.bound(t, "a"); n != 1 {
			t.Errorf("%d bindings in a namespace of a project of one's own", n)
		}
		b.set(func() { b.projects, b.bindings = nil, nil })
		b.keeper.LookByID(cluster)
		time.Sleep(time.Second)
		project := func(name string) string {
			n, err := b.client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return n.Annotations[ProjectAnnotation] + "|" + n.Labels[ProjectAnnotation]
		}
		if got := project("a"); b.bound(t, "a") != 0 || got != mine+"|p-mine1" {
			t.Errorf("just after the project went: %d bindings, %q", b.bound(t, "a"), got)
		}
		time.Sleep(2 * orphaned)
		a, other := project("a"), project("b")
		cancel()
		wait()
		if a != "|" || other != "c-other:p-theirs|p-theirs" {
			t.Errorf("namespaces are in %q and %q", a, other)
		}
	})
}

// TestTheKeeperReports: by the setting, what is changed by hand stays and is reported, until the setting puts it back.
func TestTheKeeperReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed()
		b.reports = true
		b.bindings = []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.keeper.Start(ctx)
		time.Sleep(time.Second)
		if err := b.client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "crb-dzaxnipqpj", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.keeper.LookByID(cluster)
		time.Sleep(time.Second)
		b.set(func() {
			want := [][]string{nil, {"cluster role binding crb-dzaxnipqpj was deleted"}}
			if diff := cmp.Diff(want, b.differs); diff != "" {
				t.Error(diff)
			}
		})
		if n := b.bound(t, ""); n != 0 {
			t.Errorf("%d bindings though it is to be reported alone", n)
		}
		b.set(func() { b.reports = false })
		b.keeper.LookByID("")
		time.Sleep(time.Second)
		n := b.bound(t, "")
		cancel()
		wait()
		last := b.differs[len(b.differs)-1]
		if n != 1 || last != nil {
			t.Errorf("%d bindings once it is to be put back, and %q differs", n, last)
		}
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestManyObjects: how many there are is known, and that there are many is said once.
func TestManyObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed()
		const many = 20
		b.keeper.warnAbove = many
		for i := range many {
			n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Annotations: map[string]string{ProjectAnnotation: web}, Labels: map[string]string{ProjectAnnotation: "p-web01"}}}
			if err := b.client.Tracker().Add(n); err != nil {
				t.Fatal(err)
			}
		}
		b.projects = []string{web}
		var log bytes.Buffer
		b.keeper.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		few := []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")}
		b.bindings = few
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.keeper.Start(ctx)
		for _, step := range []struct {
			bindings       []roles.Binding
			kept, warnings int
		}{
			{few, 2, 0},
			{append(few, inProject("prtb-ann", "secrets-view", "u-ann01", web)), 2 + 1 + many, 1},
			{append(few, inProject("prtb-ann", "services-view", "u-ann01", web)), 2 + 1 + many, 1},
			{few, 2, 1},
			{append(few, inProject("prtb-ann", "secrets-view", "u-ann01", web)), 2 + 1 + many, 2},
		} {
			b.set(func() { b.bindings = step.bindings })
			b.keeper.LookByID(cluster)
			time.Sleep(2 * gather)
			synctest.Wait()
			if got, warned := b.keeper.Kept()[harbour], strings.Count(log.String(), "many objects are kept"); got != step.kept || warned != step.warnings {
				t.Errorf("%d objects and %d warnings, want %d and %d", got, warned, step.kept, step.warnings)
			}
		}
		cancel()
		wait()
		if kept := b.keeper.Kept(); len(kept) > 0 {
			t.Errorf("of a keeper that rests: %v", kept)
		}
	})
}
