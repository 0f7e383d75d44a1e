package rights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

const harbour = records.ClusterKey("fleet-default/harbour")

// bed is one cluster that a keeper keeps.
type bed struct {
	keeper *Keeper
	queue  reconcile.Queue
	client *fake.Clientset

	mu       sync.Mutex
	bindings []roles.Binding
	away     bool
	gone     bool // the cluster was removed
	swept    int
	reports  bool
	projects []string
	secrets  []records.ProjectSecret
	recorded map[string]string // project IDs by the UIDs of namespaces
	adopted  time.Time         // zero until the marks of namespaces were adopted
	differs  [][]string        // each that was reported
}

func (b *bed) Staying() []records.ClusterKey { return []records.ClusterKey{harbour} }

func (b *bed) Cluster(records.ClusterKey) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cluster, !b.gone
}

func (b *bed) Bindings(string) []roles.Binding {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.bindings)
}

func (b *bed) Secrets(string) []records.ProjectSecret {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.secrets)
}

func (b *bed) EnabledUser(principal string) (string, bool) { return snapshot().User(principal) }

func (b *bed) Uses(string, string) bool { return true }

func (b *bed) Differs(_ context.Context, _ records.ClusterKey, what []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.differs = append(b.differs, what)
	return nil
}

func newBed(namespaces ...*corev1.Namespace) *bed {
	b := &bed{client: fake.NewClientset(), recorded: map[string]string{}, adopted: time.Now()}
	for _, n := range namespaces {
		_ = b.client.Tracker().Add(n)
	}
	s := snapshot()
	b.keeper = NewKeeper(Options{
		Stored: b, Find: s.Find, Projects: b,
		Reports: func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.reports },
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

// start runs the keeper's worker.
func (b *bed) start(ctx context.Context) (wait func()) {
	b.queue, wait = reconcile.Begin(ctx, b.keeper.Worker(), b.keeper.Logger)
	return wait
}

// builtin are the two projects of the cluster.
var builtin = records.ClusterProjects{Default: cluster + ":p-22222", System: cluster + ":p-55555"}

// In, Latest, Adopt and Forget are the record of namespaces, in memory; package membership has the real one.
func (b *bed) In(string) state.Memberships {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := state.Memberships{ClusterProjects: builtin, All: map[string]bool{builtin.Default: true, builtin.System: true}, Recorded: maps.Clone(b.recorded)}
	k.Adopted = b.adopted
	for _, id := range b.projects {
		k.All[id] = true
	}
	return k
}

func (b *bed) Latest(_ context.Context, id string) (state.Memberships, error) { return b.In(id), nil }

func (b *bed) Adopt(_ context.Context, _ records.ClusterKey, marks map[state.Namespace]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, mark := range marks {
		b.recorded[n.UID] = mark
	}
	b.adopted = time.Now()
	return nil
}

func (b *bed) Forget(_ context.Context, _ string, uids []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range uids {
		delete(b.recorded, uid)
	}
	return nil
}

// put records the project of a namespace, as the API does, and has the cluster looked at.
func (b *bed) put(uid, project string) {
	b.set(func() { b.recorded[uid] = project })
	b.queue.Add(string(harbour))
}

// named is a namespace whose UID is "uid-" and its name; marks are its annotation, or nothing.
func named(name string, marks ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if len(marks) > 0 {
		n.Annotations = map[string]string{ProjectAnnotation: marks[0]}
		if _, short, in := strings.Cut(marks[0], ":"); in {
			n.Labels = map[string]string{ProjectAnnotation: short}
		}
	}
	return n
}

// mark is what a namespace says of itself: annotation and label.
func (b *bed) mark(t *testing.T, name string) string {
	t.Helper()
	n, err := b.client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Annotations[ProjectAnnotation] + "|" + n.Labels[ProjectAnnotation]
}

// annotate changes the annotation of a namespace, as its owner does in the cluster.
func (b *bed) annotate(t *testing.T, name, project string) {
	t.Helper()
	n, err := b.client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations = map[string]string{ProjectAnnotation: project}
	if _, err := b.client.CoreV1().Namespaces().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
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
		wait := b.start(ctx)
		b.set(func() { b.bindings = []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")} })
		time.Sleep(10 * time.Minute)
		if n := b.bound(t, ""); n != 0 {
			t.Errorf("%d bindings in a cluster that is away", n)
		}
		b.set(func() { b.away = false })
		b.queue.Add(string(harbour))
		time.Sleep(gather + time.Millisecond)
		if n := b.bound(t, ""); n != 1 {
			t.Errorf("%d bindings once it is back", n)
		}
		b.set(func() { b.bindings = nil })
		b.queue.Add(string(harbour))
		time.Sleep(gather + time.Millisecond)
		if n := b.bound(t, ""); n != 0 {
			t.Errorf("%d bindings after they went at the server", n)
		}
		// A removed cluster is let alone.
		b.set(func() { b.gone, b.bindings = true, []roles.Binding{inCluster("crtb-bob", "cluster-member", "u-bob01")} })
		b.queue.Add(string(harbour))
		b.queue.Add(string(harbour))
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
		wait := b.start(ctx)
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
	synctest.Test(t, func(t *testing.T) {
		b := newBed(named("default"), named("kube-system"), named("kube-public"), named("web"))
		b.recorded["uid-kube-public"] = "" // a person took it out
		b.bindings = []roles.Binding{inProject("prtb-ann", "secrets-view", "u-ann01", builtin.Default)}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.start(ctx)
		time.Sleep(time.Second)
		got := map[string]string{}
		for _, name := range []string{"default", "kube-system", "kube-public", "web"} {
			got[name] = b.mark(t, name)
		}
		want := map[string]string{"default": builtin.Default + "|p-22222", "kube-system": builtin.System + "|p-55555", "kube-public": "|", "web": "|"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("marks: %s", diff)
		}
		if in := b.bound(t, "default"); in != 1 {
			t.Errorf("%d bindings in default", in)
		}
		b.put("uid-web", builtin.Default)
		b.put("uid-default", "")
		time.Sleep(time.Second)
		if out, in := b.bound(t, "default"), b.bound(t, "web"); out != 0 || in != 1 {
			t.Errorf("%d bindings in default and %d in web after both moved", out, in)
		}
		if out, in := b.mark(t, "default"), b.mark(t, "web"); out != "|" || in != builtin.Default+"|p-22222" {
			t.Errorf("marked %q and %q after both moved", out, in)
		}
		cancel()
		wait()
		for _, what := range b.differs {
			if len(what) > 0 {
				t.Errorf("what the server moved is reported: %q", what)
			}
		}
	})
}

// TestAMarkOfTheCluster: a person who may change a namespace in the cluster does not choose its project: neither secrets nor rights of the project
// that is named come, the mark is put back, and that is reported for a while.
func TestAMarkOfTheCluster(t *testing.T) {
	const mine, bank = cluster + ":p-mine1", cluster + ":p-bank1"
	for _, c := range []struct {
		name      string
		namespace *corev1.Namespace
		recorded  string
		marked    string // by hand, after the first look
		want      string
		reported  bool
	}{
		{"from the project of one's own", named("web", mine), mine, bank, mine + "|p-mine1", true},
		{"out of none", named("web"), "", bank, "|", true},
		{"into Default, whose ID is known", named("web"), "", builtin.Default, "|", true},
		{"into System", named("web", mine), mine, builtin.System, mine + "|p-mine1", true},
		{"out of the project", named("web", mine), mine, "", mine + "|p-mine1", true},
		{"into a project of another server", named("web", mine), mine, "c-other:p-bank1", mine + "|p-mine1", true},
		{"into a project of another server, out of none", named("web"), "", "c-other:p-bank1", "c-other:p-bank1|", false},
		{"into one that there is not", named("web"), "", cluster + ":p-gone1", "|", true},
		{"Default, into one of another server", named("default"), builtin.Default, "c-other:p-bank1", builtin.Default + "|p-22222", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(c.namespace)
				b.projects = []string{mine, bank}
				if c.recorded != builtin.Default {
					b.recorded = map[string]string{string(c.namespace.UID): c.recorded}
				}
				for _, project := range []string{bank, builtin.Default, builtin.System} {
					if project != c.recorded {
						b.secrets = append(b.secrets, records.ProjectSecret{ProjectID: project, Name: "key-" + project[len(project)-5:], Type: "Opaque"})
						b.bindings = append(b.bindings, inProject("prtb-"+project, "secrets-view", "u-ann01", project))
					}
				}
				var copied atomic.Bool
				b.client.PrependReactor("create", "secrets", func(kubetest.Action) (bool, runtime.Object, error) { copied.Store(true); return false, nil, nil })
				ctx, cancel := context.WithCancel(t.Context())
				wait := b.start(ctx)
				time.Sleep(time.Second)
				b.annotate(t, c.namespace.Name, c.marked)
				time.Sleep(time.Second)
				mark, bound := b.mark(t, c.namespace.Name), b.bound(t, c.namespace.Name)
				b.mu.Lock()
				last := b.differs[len(b.differs)-1]
				b.mu.Unlock()
				b.queue.Add(string(harbour))
				time.Sleep(3 * lookEvery)
				cancel()
				wait()
				if mark != c.want || bound != 0 || copied.Load() {
					t.Errorf("marked %q, want %q; %d bindings; secrets copied: %v", mark, c.want, bound, copied.Load())
				}
				if reported := len(last) == 1 && strings.Contains(last[0], "the project of namespace "+c.namespace.Name+" was changed in the cluster"); reported != c.reported {
					t.Errorf("reported %q", last)
				}
				if last := b.differs[len(b.differs)-1]; len(last) > 0 {
					t.Errorf("reported still, long after it was put back: %q", last)
				}
			})
		})
	}
}

// TestANamespaceMadeAgain: another UID is in no project, whatever the namespace says of itself, but one that Kubernetes comes with.
func TestANamespaceMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mine = cluster + ":p-mine1"
		b := newBed(named("web", mine), named("kube-public"))
		b.projects, b.recorded["uid-web"] = []string{mine}, mine
		b.recorded["uid-kube-public"] = mine
		b.secrets = []records.ProjectSecret{{ProjectID: mine, Name: "mirror", Type: "Opaque"}}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.start(ctx)
		time.Sleep(time.Second)
		for _, name := range []string{"web", "kube-public"} {
			if _, err := b.client.CoreV1().Secrets(name).Get(t.Context(), "mirror", metav1.GetOptions{}); err != nil {
				t.Errorf("in the project: %v", err)
			}
			again := named(name, mine)
			again.UID = types.UID("again-" + name)
			if err := errors.Join(b.client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}), b.client.Tracker().Add(again)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * settle)
		for name, want := range map[string]string{"web": "|", "kube-public": builtin.System + "|p-55555"} {
			if _, err := b.client.CoreV1().Secrets(name).Get(t.Context(), "mirror", metav1.GetOptions{}); err == nil || b.mark(t, name) != want {
				t.Errorf("%s, made again: marked %q, %v", name, b.mark(t, name), err)
			}
		}
		cancel()
		wait()
	})
}

// TestANamespaceMadeThroughTheServer: one that names its project and is recorded a moment later is not taken for one that was changed in
// the cluster, and has nothing of the project before.
func TestANamespaceMadeThroughTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mine = cluster + ":p-mine1"
		b := newBed()
		b.projects = []string{mine}
		b.secrets = []records.ProjectSecret{{ProjectID: mine, Name: "mirror", Type: "Opaque"}}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.start(ctx)
		time.Sleep(time.Second)
		for _, name := range []string{"web", "alone"} {
			if _, err := b.client.CoreV1().Namespaces().Create(t.Context(), named(name, mine), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		there := func(name string) bool {
			_, err := b.client.CoreV1().Secrets(name).Get(t.Context(), "mirror", metav1.GetOptions{})
			return err == nil
		}
		time.Sleep(settle / 2)
		if there("web") || b.mark(t, "web") != mine+"|p-mine1" {
			t.Errorf("before it is recorded: marked %q", b.mark(t, "web"))
		}
		b.put("uid-web", mine)
		time.Sleep(3 * settle)
		web, alone := there("web"), there("alone")
		cancel()
		wait()
		if !web || alone || b.mark(t, "web") != mine+"|p-mine1" || b.mark(t, "alone") != "|" {
			t.Errorf("marked %q and %q, with the secret: %v and %v", b.mark(t, "web"), b.mark(t, "alone"), web, alone)
		}
		if last := b.differs[len(b.differs)-1]; len(last) != 1 || !strings.Contains(last[0], "namespace alone was changed") {
			t.Errorf("reported %q", last)
		}
	})
}

// TestAdoption: what namespaces of a cluster from before there was a record say of themselves is recorded once.
func TestAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mine = cluster + ":p-mine1"
		b := newBed(named("web", mine), named("kube-public", ""), named("late"))
		b.projects, b.adopted = []string{mine}, time.Time{}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.start(ctx)
		time.Sleep(time.Second)
		b.annotate(t, "late", mine)
		time.Sleep(time.Second)
		cancel()
		wait()
		if diff := cmp.Diff(map[string]string{"uid-web": mine, "uid-kube-public": ""}, b.recorded); diff != "" {
			t.Error(diff)
		}
		if got := b.mark(t, "web") + " " + b.mark(t, "kube-public") + " " + b.mark(t, "late"); got != mine+"|p-mine1 | |" {
			t.Errorf("marks %s", got)
		}
	})
}

// TestAHostileList: a cluster that lies about its namespaces gets no more than its own, and namespaces that are gone are forgotten.
func TestAHostileList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mine = cluster + ":p-mine1"
		twin, bad := named("twin"), named("web\x1b[2J")
		twin.UID = "uid-web"
		b := newBed(named("web"), twin, bad)
		b.projects, b.recorded["uid-web"] = []string{mine}, mine
		for i := range maxGone + 1 {
			b.recorded[fmt.Sprint("gone-", i)] = mine
		}
		b.secrets = []records.ProjectSecret{{ProjectID: mine, Name: "mirror", Type: "Opaque"}}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.start(ctx)
		time.Sleep(time.Second)
		cancel()
		wait()
		if diff := cmp.Diff(map[string]string{"uid-web": mine}, b.recorded); diff != "" {
			t.Error(diff)
		}
		if got := b.mark(t, bad.Name); got != "|" {
			t.Errorf("what is no name of a namespace is marked %q", got)
		}
	})
}

// TestSecretsOfProjects: a secret is in a namespace for as long as that is in the project.
func TestSecretsOfProjects(t *testing.T) {
	b := newBed(named("web"))
	b.projects = []string{cluster + ":p-shop1"}
	b.secrets = []records.ProjectSecret{{ProjectID: cluster + ":p-shop1", Name: "mirror", Type: "Opaque", Data: map[string][]byte{"a": []byte("b")}}}
	ctx, cancel := context.WithCancel(t.Context())
	wait := b.start(ctx)
	defer wait()
	defer cancel()
	there := func() bool {
		_, err := b.client.CoreV1().Secrets("web").Get(t.Context(), "mirror", metav1.GetOptions{})
		return err == nil
	}
	b.put("uid-web", cluster+":p-shop1")
	eventually(t, "the secret in a namespace of the project", there)
	b.put("uid-web", "")
	eventually(t, "the secret gone from a namespace that left", func() bool { return !there() })
}

// TestARemovedProject: its namespaces lose it, and those of a project of another cluster keep what they say.
func TestARemovedProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mine = cluster + ":p-mine1"
		b := newBed(named("a", mine), named("b", "c-other:p-theirs"))
		b.projects, b.recorded["uid-a"] = []string{mine}, mine
		b.bindings = []roles.Binding{inProject("prtb-ann", "secrets-view", "u-ann01", mine)}
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.start(ctx)
		time.Sleep(time.Second)
		if n := b.bound(t, "a"); n != 1 {
			t.Errorf("%d bindings in a namespace of a project of one's own", n)
		}
		b.set(func() { b.projects, b.bindings = nil, nil })
		b.queue.Add(string(harbour))
		time.Sleep(time.Second)
		a, other := b.mark(t, "a"), b.mark(t, "b")
		cancel()
		wait()
		if n := b.bound(t, "a"); n != 0 || a != "|" || other != "c-other:p-theirs|p-theirs" {
			t.Errorf("%d bindings, and namespaces are in %q and %q", n, a, other)
		}
		if last := b.differs[len(b.differs)-1]; last != nil {
			t.Errorf("reported %q", last)
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
		wait := b.start(ctx)
		time.Sleep(time.Second)
		if err := b.client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "crb-dzaxnipqpj", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.queue.Add(string(harbour))
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
		b.queue.Add(string(harbour))
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
			n := named(fmt.Sprint("web-", i), web)
			b.recorded[string(n.UID)] = web
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
		wait := b.start(ctx)
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
			b.queue.Add(string(harbour))
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
