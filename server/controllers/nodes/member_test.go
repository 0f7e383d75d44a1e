package nodes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
)

func removeMember(o *pass.NodeOrder) { o.RemoveMember = true }

func annotated(pairs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			n.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func TestRemovalOfAnEtcdMember(t *testing.T) {
	for _, distribution := range []string{"k3s", "rke2"} {
		t.Run(distribution, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				prefix := "etcd." + distribution + ".cattle.io/"
				b := newBed(t, node("u1", etcd, annotated(prefix+"node-name", "pier-1-aa")))
				b.runtime = distribution
				b.want(order("o1", func(o *pass.NodeOrder) { o.RemoveMember, o.Delete = true, true }))
				b.waits(time.Minute, observed.PhaseMember, "waiting for "+distribution+" to take the member of node pier-1 out of etcd")
				if got := b.node().Annotations[prefix+"remove"]; got != "true" {
					t.Fatalf("the removal was not asked for: %v", b.node().Annotations)
				}
				b.update(node("u1", etcd, annotated(prefix+"remove", "true", prefix+"removed-node-name", "pier-1-aa")))
				b.done(2*longestPause, "o1")
				if diff := cmp.Diff([]string{"patch nodes", "delete nodes"}, b.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAnswersToTheRemovalOfAMember(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []runtime.Object
		cause string // empty: done
	}{
		{"removed before", []runtime.Object{node("u1", etcd, annotated("etcd.k3s.cattle.io/removed-node-name", "pier-1-aa"))}, ""},
		{"node gone", nil, ""},
		{
			"joined again after an earlier removal",
			[]runtime.Object{node("u1", etcd, annotated("etcd.k3s.cattle.io/removed-node-name", "pier-1-aa", "etcd.k3s.cattle.io/node-name", "pier-1-bb"))},
			"waiting for k3s",
		},
		{"an answer of the other distribution", []runtime.Object{node("u1", etcd, annotated("etcd.rke2.cattle.io/removed-node-name", "x"))}, "waiting for k3s"},
		{"never a member", []runtime.Object{node("u1")}, "has no label node-role.kubernetes.io/etcd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, tc.nodes...)
				b.want(order("o1", removeMember))
				if tc.cause == "" {
					b.done(0, "o1")
					return
				}
				b.waits(time.Minute, observed.PhaseMember, tc.cause)
			})
		})
	}
}

// TestTheLastVoterStays: the distribution takes the request back, again and again.
func TestTheLastVoterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1", etcd))
		b.api.PrependReactor("patch", "nodes", func(kubetest.Action) (bool, runtime.Object, error) {
			return true, node("u1", etcd), nil // and nothing of it stays
		})
		b.want(order("o1", removeMember))
		b.waits(0, observed.PhaseMember, "asked k3s to take the member")
		b.waits(time.Hour, observed.PhaseMember, "k3s refused to take the member of node pier-1 out of etcd, as it does with the last member that votes")
	})
}

func TestDeletionOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, node("u1", func(n *corev1.Node) { n.Finalizers = []string{"cloud.example/instance"} }))
		held := node("u1", func(n *corev1.Node) {
			n.Finalizers = []string{"cloud.example/instance"}
			now := metav1.Now()
			n.DeletionTimestamp = &now
		})
		b.update(held)
		b.want(order("o1", func(o *pass.NodeOrder) { o.Delete = true }))
		b.waits(time.Minute, observed.PhaseDeleting, "cloud.example/instance")
		if b.requests() != nil {
			t.Errorf("asked again: %v", b.requests())
		}
		if err := b.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "pier-1"); err != nil {
			t.Fatal(err)
		}
		b.done(longestPause, "o1")
		// Once a node is gone there is nothing left of an order that ends with that.
		b.want(order("o2", func(o *pass.NodeOrder) {
			o.Cordon, o.Drain, o.PreHooks, o.RemoveMember, o.Delete = true, options(), []string{"h"}, true, true
		}))
		b.done(0, "o2")
	})
}
