package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
)

const (
	harbour = records.ClusterKey("fleet-default/harbour")
	pier    = records.MachineKey("fleet-default/custom-1")
)

// bed is a cluster whose API a fake plays, and a controller that works on it. All of it lives in a
// bubble of synctest: settle lets everything come to rest, pass lets time go by.
type bed struct {
	*testing.T
	api   *fake.Clientset
	nodes *Controller
	stop  func()

	mu      sync.Mutex
	secret  map[string]string
	broken  error
	runtime string
	changes int
	// held refuses the eviction of pods, by name, with the name of a budget.
	held map[string]string
	// lingering are pods that are long in ending.
	lingering map[string]bool
}

func newBed(t *testing.T, objects ...runtime.Object) *bed {
	b := &bed{T: t, api: fake.NewClientset(objects...), secret: map[string]string{}, runtime: "k3s", held: map[string]string{}, lingering: map[string]bool{}}
	b.api.PrependReactor("create", "pods/eviction", func(action kubetest.Action) (bool, runtime.Object, error) {
		eviction := action.(kubetest.CreateAction).GetObject().(*policyv1.Eviction)
		return true, nil, b.end(eviction.Namespace, eviction.Name, true)
	})
	b.start()
	return b
}

// end is what the API does with a pod that is to go.
func (b *bed) end(namespace, name string, evicted bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget := b.held[name]; budget != "" && evicted {
		refused := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + budget + " needs 1 healthy pods and has 1 currently",
		})
		return refused
	}
	if b.lingering[name] {
		return nil
	}
	return b.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), namespace, name)
}

// start makes a controller, as a server that begins to lead does.
func (b *bed) start() {
	b.nodes = New(Options{
		Client: func(key records.ClusterKey) (kubernetes.Interface, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if key != harbour {
				return nil, fmt.Errorf("asked for cluster %s", key)
			}
			return b.api, b.broken
		},
		Secret: func(machine records.MachineKey) map[string]string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return maps.Clone(b.secret)
		},
		Runtime: func(records.ClusterKey) string { return b.runtime },
		Now:     time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	b.nodes.OnChange(func(key records.ClusterKey) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if key == harbour {
			b.changes++
		}
	})
	ctx, cancel := context.WithCancel(b.Context())
	_, wait := reconcile.Begin(ctx, b.nodes.Worker(), slog.New(slog.DiscardHandler))
	b.stop = sync.OnceFunc(func() { cancel(); wait() })
	b.Cleanup(b.stop)
}

// set changes what the cluster's surroundings do.
func (b *bed) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// hook writes annotations of the plan Secret, as a drain hook does.
func (b *bed) hook(annotations map[string]string) {
	b.set(func() { maps.Copy(b.secret, annotations) })
	b.nodes.SecretChanged(pier)
}

func (b *bed) want(orders ...pass.NodeOrder) {
	b.nodes.Want(harbour, orders)
	synctest.Wait()
}

// work is how far the order on pier is after a while.
func (b *bed) work(after time.Duration) observed.NodeWork {
	time.Sleep(after) // of the bubble's clock
	synctest.Wait()
	return b.nodes.Work(harbour)[pier]
}

func (b *bed) done(after time.Duration, order string) {
	b.Helper()
	if work := b.work(after); !work.Done || work.Order != order || work.Phase != "" || work.Cause != "" {
		b.Fatalf("order %s is not done: %+v", order, work)
	}
}

// waits checks what an order waits for.
func (b *bed) waits(after time.Duration, phase string, cause ...string) observed.NodeWork {
	b.Helper()
	work := b.work(after)
	if work.Done || work.Phase != phase {
		b.Fatalf("not at %q: %+v", phase, work)
	}
	for _, text := range cause {
		if !strings.Contains(work.Cause, text) {
			b.Errorf("the cause does not say %q: %s", text, work.Cause)
		}
	}
	return work
}

func (b *bed) node() *corev1.Node {
	b.Helper()
	n, err := b.api.CoreV1().Nodes().Get(b.Context(), "pier-1", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *bed) update(n *corev1.Node) {
	b.Helper()
	if err := b.api.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
		b.Fatal(err)
	}
}

// requests are the verbs and resources asked for, but reads.
func (b *bed) requests() []string {
	var all []string
	for _, a := range b.api.Actions() {
		if verb := a.GetVerb(); verb != "get" && verb != "list" {
			all = append(all, strings.TrimSuffix(verb+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
		}
	}
	return all
}

// node is a Node of the machine with that UID.
func node(uid string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pier-1", UID: "n1", Labels: map[string]string{machineLabel: uid}}}
	for _, f := range change {
		f(n)
	}
	return n
}

func etcd(n *corev1.Node) { n.Labels[etcdRole] = "true" }

// pod is one of a ReplicaSet's on pier-1.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "pier-1"},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// order is one on pier-1.
func order(id string, change func(*pass.NodeOrder)) pass.NodeOrder {
	o := pass.NodeOrder{ID: id, Machine: pier, UID: "u1", Node: "pier-1"}
	change(&o)
	return o
}

func cordon(o *pass.NodeOrder) { o.Cordon = true }

func TestChangesOfTheNodeItself(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	for _, tc := range []struct {
		name   string
		before func(*corev1.Node)
		order  func(*pass.NodeOrder)
		after  func(*corev1.Node)
		asked  []string
	}{
		{"cordon", func(*corev1.Node) {}, cordon, func(n *corev1.Node) { n.Spec.Unschedulable = true }, []string{"patch nodes"}},
		{"cordoned already", func(n *corev1.Node) { n.Spec.Unschedulable = true }, cordon, func(n *corev1.Node) { n.Spec.Unschedulable = true }, nil},
		{
			"uncordon", func(n *corev1.Node) { n.Spec.Unschedulable = true },
			func(o *pass.NodeOrder) { o.Uncordon = true }, func(*corev1.Node) {},
			[]string{"patch nodes"},
		},
		{"uncordoned already", func(*corev1.Node) {}, func(o *pass.NodeOrder) { o.Uncordon = true }, func(*corev1.Node) {}, nil},
		{
			"labels, and others left alone", func(n *corev1.Node) { n.Labels["zone"], n.Labels["old"], n.Labels["own"] = "a", "x", "y" },
			func(o *pass.NodeOrder) {
				o.Labels, o.Unlabel = map[string]string{"zone": "b", "rack": ""}, []string{"old", "never"}
			},
			func(n *corev1.Node) { n.Labels["zone"], n.Labels["rack"], n.Labels["own"] = "b", "", "y" },
			[]string{"patch nodes"},
		},
		{
			"labels that are so", func(n *corev1.Node) { n.Labels["zone"] = "a" },
			func(o *pass.NodeOrder) {
				o.Labels, o.Unlabel = map[string]string{"zone": "a"}, []string{"never", "zone"}
			},
			func(n *corev1.Node) { n.Labels["zone"] = "a" }, nil,
		},
		{
			"taints, and others left alone",
			func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{taint("own", "1", "NoExecute"), taint("gpu", "a", "NoSchedule"), taint("gone", "", "NoSchedule")}
			},
			func(o *pass.NodeOrder) {
				o.Taints = []records.Taint{{Key: "gpu", Value: "b", Effect: "NoSchedule"}, {Key: "gpu", Value: "b", Effect: "NoExecute"}}
				o.Untaint = []records.Taint{{Key: "gone", Effect: "NoSchedule"}, {Key: "own", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoExecute"}}
			},
			func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{taint("own", "1", "NoExecute"), taint("gpu", "b", "NoSchedule"), taint("gpu", "b", "NoExecute")}
			},
			[]string{"patch nodes"},
		},
		{
			"the last taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("gone", "", "NoSchedule")} },
			func(o *pass.NodeOrder) {
				o.Untaint = []records.Taint{{Key: "gone", Value: "whatever", Effect: "NoSchedule"}}
			},
			func(*corev1.Node) {},
			[]string{"patch nodes"},
		},
		{
			"taints that are so", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("gpu", "a", "NoSchedule")} },
			func(o *pass.NodeOrder) {
				o.Taints = []records.Taint{{Key: "gpu", Value: "a", Effect: "NoSchedule"}}
			},
			func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("gpu", "a", "NoSchedule")} }, nil,
		},
		{
			"all in one", func(*corev1.Node) {},
			func(o *pass.NodeOrder) {
				o.Labels, o.Taints, o.Cordon = map[string]string{"zone": "a"}, []records.Taint{{Key: "k", Effect: "NoSchedule"}}, true
			},
			func(n *corev1.Node) {
				n.Labels["zone"], n.Spec.Taints, n.Spec.Unschedulable = "a", []corev1.Taint{taint("k", "", "NoSchedule")}, true
			},
			[]string{"patch nodes", "patch nodes"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, node("u1", tc.before))
				b.want(order("o1", tc.order))
				b.done(0, "o1")
				if diff := cmp.Diff(node("u1", tc.after), b.node()); diff != "" {
					t.Errorf("node (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.asked, b.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				// A controller that starts anew finds everything as it should be and changes nothing.
				b.stop()
				b.start()
				b.want(order("o1", tc.order))
				b.done(0, "o1")
				if diff := cmp.Diff(tc.asked, b.requests()); diff != "" {
					t.Errorf("requests after a restart (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestChangesMeetTheNodeThatWasLookedAt: a node may change hands between a look and a change.
func TestChangesMeetTheNodeThatWasLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1", func(n *corev1.Node) { n.ResourceVersion = "7" }))
		var accept atomic.Bool
		b.api.PrependReactor("patch", "nodes", func(action kubetest.Action) (bool, runtime.Object, error) {
			text := string(action.(kubetest.PatchAction).GetPatch())
			if !strings.Contains(text, `"resourceVersion":"7"`) || !strings.Contains(text, `"uid":"n1"`) {
				t.Errorf("a patch without the node's version: %s", text)
			}
			if !accept.Load() {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "pier-1", errors.New("the object has been modified"))
			}
			return false, nil, nil
		})
		b.want(order("o1", cordon))
		b.waits(0, observed.PhaseCordoning, "changed by another client")
		accept.Store(true)
		b.done(longestPause, "o1")
		if !b.node().Spec.Unschedulable {
			t.Error("not cordoned after a conflict")
		}
	})
}

func TestForeignNodesAreNotTouched(t *testing.T) {
	everything := func(o *pass.NodeOrder) {
		o.Labels, o.Cordon, o.Uncordon, o.Drain, o.RemoveMember, o.Delete = map[string]string{"a": "b"}, true, true, options(), true, true
	}
	for _, tc := range []struct {
		name  string
		nodes []runtime.Object
		order func(*pass.NodeOrder)
		phase string
		cause string
	}{
		{"another machine's", []runtime.Object{node("u2")}, everything, observed.PhaseLabelling, `not touched: it belongs to another machine now (label rke.cattle.io/machine is "u2", not "u1")`},
		{"another machine's, to be deleted", []runtime.Object{node("u2")}, func(o *pass.NodeOrder) { o.Delete = true }, observed.PhaseDeleting, "another machine"},
		{
			"nobody's", []runtime.Object{node("u1", func(n *corev1.Node) { delete(n.Labels, machineLabel) })}, everything, observed.PhaseLabelling,
			"node pier-1 is not touched: it has no label rke.cattle.io/machine",
		},
		{"no node", nil, cordon, observed.PhaseCordoning, "the cluster has no node pier-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, append(tc.nodes, pod("web-1"))...)
				b.want(order("o1", tc.order))
				b.waits(time.Hour, tc.phase, tc.cause)
				if got := b.requests(); got != nil {
					t.Errorf("touched: %v", got)
				}
			})
		})
	}
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"), pod("web-1"))
		b.want(order("o1", func(o *pass.NodeOrder) {
			o.Cordon, o.Drain, o.Uncordon, o.Value = true, options(), true, `{"enabled":true}`
			o.PreHooks, o.PostHooks = []string{"hook.example/a", "hook.example/b"}, []string{"hook.example/c"}
		}))
		missing := func(phase, annotation, cause string) {
			t.Helper()
			if work := b.waits(time.Minute, phase, cause); work.Missing != annotation {
				t.Errorf("missing = %q, want %q", work.Missing, annotation)
			}
		}
		missing(observed.PhasePreHooks, "hook.example/a", "waiting for pre-drain hook hook.example/a on pier-1")
		b.hook(map[string]string{"hook.example/a": `{"enabled":true}`, "hook.example/b": `{"enabled": true}`})
		missing(observed.PhasePreHooks, "hook.example/b", "waiting for pre-drain hook hook.example/b on pier-1")
		if diff := cmp.Diff([]string{"patch nodes"}, b.requests()); diff != "" {
			t.Errorf("asked before the hooks were there (-want +got):\n%s", diff)
		}
		b.hook(map[string]string{"hook.example/b": `{"enabled":true}`})
		synctest.Wait() // not a second later
		if diff := cmp.Diff([]string{"patch nodes", "create pods/eviction"}, b.requests()); diff != "" {
			t.Errorf("asked when the hooks were there (-want +got):\n%s", diff)
		}
		missing(observed.PhasePostHooks, "hook.example/c", "waiting for post-drain hook hook.example/c on pier-1")
		if !b.node().Spec.Unschedulable {
			t.Error("uncordoned before the post-drain hook")
		}
		// A server that begins to lead now comes to the same point, and to the same end.
		b.stop()
		b.start()
		b.set(func() { b.secret["hook.example/c"] = `{"enabled":true}` })
		b.want(order("o1", func(o *pass.NodeOrder) {
			o.Cordon, o.Drain, o.Uncordon, o.Value = true, options(), true, `{"enabled":true}`
			o.PreHooks, o.PostHooks = []string{"hook.example/a", "hook.example/b"}, []string{"hook.example/c"}
		}))
		b.done(0, "o1")
		if b.node().Spec.Unschedulable {
			t.Error("still cordoned")
		}
	})
}

func TestErrorsAreShownAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"))
		b.broken = errors.New("no tunnel from fleet-default/custom-1 is open")
		b.want(order("o1", cordon))
		first := b.waits(time.Minute, observed.PhaseCordoning, "no tunnel from fleet-default/custom-1 is open")
		changes := 0
		b.set(func() { changes = b.changes })
		second := b.waits(time.Hour, observed.PhaseCordoning)
		if !second.Since.Equal(first.Since) || b.changes != changes {
			t.Errorf("an unchanged wait is a change: %s, %s, %d, %d", first.Since, second.Since, changes, b.changes)
		}
		b.set(func() { b.broken = nil })
		b.done(longestPause, "o1")
		if b.changes == changes {
			t.Error("the end of an order is not reported")
		}
	})
}

func TestOrdersThatAreNotWantedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"), pod("web-1"))
		b.held["web-1"] = "web"
		drain := order("o1", func(o *pass.NodeOrder) { o.Cordon, o.Drain = true, options() })
		b.want(drain)
		before := b.waits(time.Minute, observed.PhaseDraining)
		b.want(drain) // an unchanged one goes on
		if after := b.waits(0, observed.PhaseDraining); !after.Since.Equal(before.Since) {
			t.Errorf("an unchanged order began anew: %s, %s", before.Since, after.Since)
		}
		b.want()
		if work := b.nodes.Work(harbour); len(work) != 0 {
			t.Errorf("work without orders: %v", work)
		}
		b.set(func() { delete(b.held, "web-1") })
		asked := len(b.requests())
		b.work(time.Hour)
		if len(b.requests()) != asked || !b.node().Spec.Unschedulable {
			t.Errorf("a cancelled drain goes on, or lifted its cordon: %v", b.requests())
		}
		// Another order on the same node begins when the one before has ended.
		b.set(func() { b.held["web-1"] = "web" })
		b.want(drain)
		b.waits(time.Minute, observed.PhaseDraining)
		b.want(order("o2", func(o *pass.NodeOrder) { o.Uncordon = true }))
		b.done(0, "o2")
		if b.node().Spec.Unschedulable {
			t.Error("still cordoned")
		}
		// What is done stays done as long as it is wanted, and is looked at again after.
		asked = len(b.requests())
		b.update(node("u1", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
		b.want(order("o2", func(o *pass.NodeOrder) { o.Uncordon = true }))
		b.done(time.Hour, "o2")
		if len(b.requests()) != asked {
			t.Error("an order that is done was performed again")
		}
		b.want()
		b.want(order("o2", func(o *pass.NodeOrder) { o.Uncordon = true }))
		b.done(0, "o2")
		if len(b.requests()) == asked {
			t.Error("an order that is wanted again was not performed")
		}
	})
}

// TestOrdersOfOneMachineDoNotOverlap: an order waits until the request of a cancelled one has ended.
func TestOrdersOfOneMachineDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"))
		release := make(chan struct{})
		var first atomic.Bool
		b.nodes.Client = func(records.ClusterKey) (kubernetes.Interface, error) {
			if first.CompareAndSwap(false, true) {
				<-release
			}
			return b.api, nil
		}
		b.want(order("o1", cordon))
		b.want() // dropped while its request is on the way
		b.want(order("o2", func(o *pass.NodeOrder) { o.Uncordon = true }))
		if work := b.work(time.Minute); work.Done || work.Order != "o2" || work.Phase != "" {
			t.Errorf("did not wait for the order before: %+v", work)
		}
		close(release)
		b.done(0, "o2")
		if b.node().Spec.Unschedulable {
			t.Error("the first order had the last word")
		}
	})
}

func TestNoMoreThanSomeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []runtime.Object
		var orders []pass.NodeOrder
		for i := range atOnce + 3 {
			n := node("u1")
			n.Name = fmt.Sprintf("pier-%d", i)
			nodes = append(nodes, n)
			orders = append(orders, pass.NodeOrder{ID: n.Name, Machine: records.MachineKey("fleet-default/" + n.Name), UID: "u1", Node: n.Name, Cordon: true})
		}
		b := newBed(t, nodes...)
		release := make(chan struct{})
		now, most := 0, 0
		b.nodes.Client = func(records.ClusterKey) (kubernetes.Interface, error) {
			b.set(func() { now++; most = max(most, now) })
			<-release
			b.set(func() { now-- })
			return b.api, nil
		}
		b.want(orders...)
		queued := 0
		for _, w := range b.nodes.Work(harbour) {
			if w.Phase == "" && strings.Contains(w.Cause, "waits for its turn") {
				queued++
			}
		}
		if most != atOnce || queued != 3 {
			t.Errorf("%d at once, %d wait for their turn", most, queued)
		}
		close(release)
		synctest.Wait()
		for machine, w := range b.nodes.Work(harbour) {
			if !w.Done {
				t.Errorf("%s: %+v", machine, w)
			}
		}
	})
}

// TestOrdersEndWithLeadership: a server that does not lead touches nothing and takes no orders.
func TestOrdersEndWithLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"), pod("web-1"))
		b.held["web-1"] = "web"
		drain := order("o1", func(o *pass.NodeOrder) { o.Drain = options() })
		b.want(drain)
		b.waits(0, observed.PhaseDraining)
		b.stop()
		asked := len(b.requests())
		b.want(drain)
		if work := b.work(time.Hour); work.Order != "" || len(b.requests()) != asked {
			t.Errorf("after the end: %+v, %v", work, b.requests())
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, wait := reconcile.Begin(ctx, b.nodes.Worker(), slog.New(slog.DiscardHandler))
		if work := b.work(time.Hour); work.Order != "" {
			t.Errorf("an order of the period before: %+v", work)
		}
		b.want(drain)
		b.waits(0, observed.PhaseDraining)
		cancel()
		b.want(drain)
		wait()
	})
}
