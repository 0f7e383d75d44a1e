package nodes

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
)

// options are those of a drain that asks for nothing special.
func options(change ...func(*clusterspec.DrainOptions)) *clusterspec.DrainOptions {
	o := &clusterspec.DrainOptions{Enabled: true}
	for _, f := range change {
		f(o)
	}
	return o
}

func drainBy(o *clusterspec.DrainOptions) pass.NodeOrder {
	return order("o1", func(order *pass.NodeOrder) { order.Drain = o })
}

func bare(p *corev1.Pod) { p.OwnerReferences = nil }

func ofDaemonSet(p *corev1.Pod) {
	p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "DaemonSet", "agent"
}

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func mirror(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

// ending is a pod that was deleted as long ago as its deletion should have taken and more.
func ending(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		at := metav1.NewTime(time.Now().Add(-ago))
		p.DeletionTimestamp = &at
		p.Finalizers = []string{"example/held"}
	}
}

var daemonSet = &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}}

func TestWhatIsDrained(t *testing.T) {
	no := false
	for _, tc := range []struct {
		name    string
		pods    func() []runtime.Object
		options *clusterspec.DrainOptions
		asked   []string
		cause   string // empty: done
	}{
		{"nothing there", nil, options(), nil, ""},
		{"pods", pods("web-1", "web-2"), options(), []string{"create pods/eviction", "create pods/eviction"}, ""},
		{"pods deleted instead", pods("web-1"), options(func(o *clusterspec.DrainOptions) { o.DisableEviction = true }), []string{"delete pods"}, ""},
		{"pods of a DaemonSet stay", func() []runtime.Object { return []runtime.Object{pod("agent-1", ofDaemonSet), pod("web-1")} }, options(), []string{"create pods/eviction"}, ""},
		{
			"pods of a DaemonSet, not to be ignored", func() []runtime.Object { return []runtime.Object{pod("agent-1", ofDaemonSet), pod("web-1")} },
			options(func(o *clusterspec.DrainOptions) { o.IgnoreDaemonSets = &no }), nil, "default/agent-1",
		},
		{"static pods stay", func() []runtime.Object { return []runtime.Object{pod("kube-apiserver", mirror, bare)} }, options(), nil, ""},
		{"a bare pod", func() []runtime.Object { return []runtime.Object{pod("lonely", bare), pod("web-1")} }, options(), nil, "default/lonely"},
		{"a bare pod by force", func() []runtime.Object { return []runtime.Object{pod("lonely", bare)} }, options(func(o *clusterspec.DrainOptions) { o.Force = true }), []string{"create pods/eviction"}, ""},
		{"an empty directory", func() []runtime.Object { return []runtime.Object{pod("scratch", withEmptyDir)} }, options(), nil, "default/scratch"},
		{
			"an empty directory to be deleted", func() []runtime.Object { return []runtime.Object{pod("scratch", withEmptyDir)} },
			options(func(o *clusterspec.DrainOptions) { o.DeleteEmptyDirData = true }), []string{"create pods/eviction"}, "",
		},
		{
			"long in deletion, not waited for", func() []runtime.Object { return []runtime.Object{pod("stuck", ending(time.Minute))} },
			options(func(o *clusterspec.DrainOptions) { o.SkipWaitForDeleteTimeoutSeconds = 30 }), nil, "",
		},
		{
			"other nodes' pods", func() []runtime.Object {
				return []runtime.Object{pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "pier-2" })}
			}, options(), nil, "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := []runtime.Object{node("u1"), daemonSet}
				if tc.pods != nil {
					objects = append(objects, tc.pods()...)
				}
				b := newBed(t, objects...)
				byNode(b)
				b.want(drainBy(tc.options))
				if tc.cause == "" {
					b.done(longestPause, "o1")
				} else {
					b.waits(time.Hour, observed.PhaseDraining, "drain node pier-1", tc.cause)
				}
				if diff := cmp.Diff(tc.asked, b.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func pods(names ...string) func() []runtime.Object {
	return func() (all []runtime.Object) {
		for _, name := range names {
			all = append(all, pod(name))
		}
		return all
	}
}

// byNode has the fake list pods by their node, as an API does; it knows no field selectors.
func byNode(b *bed) {
	b.api.PrependReactor("list", "pods", func(action kubetest.Action) (bool, runtime.Object, error) {
		o, err := b.api.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), "")
		if err != nil {
			return true, nil, err
		}
		all, of := o.(*corev1.PodList), action.(kubetest.ListAction).GetListRestrictions().Fields
		list := &corev1.PodList{}
		for _, p := range all.Items {
			if wanted, _ := of.RequiresExactMatch("spec.nodeName"); wanted == p.Spec.NodeName {
				list.Items = append(list.Items, p)
			}
		}
		return true, list, nil
	})
}

func TestGracePeriods(t *testing.T) {
	seconds := func(n int) *int { return &n }
	for want, given := range map[string]*int{"the pod's own": nil, "0": seconds(0), "5": seconds(5)} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, node("u1"), pod("web-1"))
				b.want(drainBy(options(func(o *clusterspec.DrainOptions) { o.GracePeriod = given })))
				b.done(longestPause, "o1")
				for _, a := range b.api.Actions() {
					if a.GetSubresource() != "eviction" {
						continue
					}
					got := "the pod's own"
					if s := a.(kubetest.CreateAction).GetObject().(*policyv1.Eviction).DeleteOptions.GracePeriodSeconds; s != nil {
						got = fmt.Sprint(*s)
					}
					if got != want {
						t.Errorf("grace period %s, want %s", got, want)
					}
				}
			})
		})
	}
}

func TestPodsThatHoldADrainAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"), pod("web-1"), pod("web-2"), pod("slow"))
		b.held["web-1"], b.lingering["slow"] = "web", true
		b.want(drainBy(options()))
		work := b.waits(time.Minute, observed.PhaseDraining,
			"draining node pier-1: waiting for default/slow, default/web-1 to end",
			"the API refuses to evict default/web-1: Cannot evict pod as it would violate the pod's disruption budget.",
			"The disruption budget web needs 1 healthy pods and has 1 currently")
		if diff := cmp.Diff([]string{"default/slow", "default/web-1"}, work.Pods); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
		if evictions := b.evictions("slow"); evictions != 1 {
			t.Errorf("a pod that is ending was asked %d times to go", evictions)
		}
		if evictions := b.evictions("web-1"); evictions < 12 || evictions > 60 {
			t.Errorf("a refused eviction was tried %d times in a minute", evictions)
		}
		b.set(func() { delete(b.held, "web-1") })
		b.waits(2*longestPause, observed.PhaseDraining, "waiting for default/slow to end")
		// When the time of a try is over, every pod is asked again.
		work = b.waits(defaultTimeout, observed.PhaseDraining, "this is try 2, each of 10m0s")
		if evictions := b.evictions("slow"); evictions != 2 {
			t.Errorf("a pod was asked %d times to go in two tries", evictions)
		}
		if !work.Since.Before(time.Now().Add(-defaultTimeout)) {
			t.Errorf("the next try is shown as another drain, since %s", work.Since)
		}
		if err := b.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", "slow"); err != nil {
			t.Fatal(err)
		}
		b.done(longestPause, "o1")
	})
}

// evictions is how often the eviction of a pod was asked for.
func (b *bed) evictions(name string) (n int) {
	for _, a := range b.api.Actions() {
		if a.GetSubresource() == "eviction" && a.(kubetest.CreateAction).GetObject().(*policyv1.Eviction).Name == name {
			n++
		}
	}
	return n
}

func TestManyPodsAreNamedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{node("u1")}
		for i := range 50 {
			objects = append(objects, pod(fmt.Sprintf("web-%02d", i)))
		}
		b := newBed(t, objects...)
		for i := range 50 {
			b.held[fmt.Sprintf("web-%02d", i)] = "web"
		}
		b.want(drainBy(options()))
		work := b.waits(time.Minute, observed.PhaseDraining, "default/web-02 and 47 more to end")
		if len(work.Pods) != observed.MaxPods || len(work.Cause) > maxCause {
			t.Errorf("%d pods, a cause of %d bytes", len(work.Pods), len(work.Cause))
		}
	})
}

// TestAnAPIThatBreaksDuringADrain: an error on the way is not a pod's refusal.
func TestAnAPIThatBreaksDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1"), pod("web-1"))
		var mended atomic.Bool
		b.api.PrependReactor("create", "pods/eviction", func(kubetest.Action) (bool, runtime.Object, error) {
			if !mended.Load() {
				return true, nil, fmt.Errorf("the tunnel ended")
			}
			return false, nil, nil
		})
		b.want(drainBy(options()))
		if work := b.waits(time.Minute, observed.PhaseDraining, "drain node pier-1: evict default/web-1: the tunnel ended"); work.Pods != nil {
			t.Errorf("pods %v", work.Pods)
		}
		mended.Store(true)
		b.done(2*longestPause, "o1")
	})
}
