package kube_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/rke1/kube"
)

// A pod without an owner would not come back.
func TestDeletePods(t *testing.T) {
	pod := func(name, key, value string, owned bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{key: value}}}
		if owned {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r"}}
		}
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(pod("dns", "k8s-app", "kube-dns", true), pod("net", "k8s-app", "canal", true), pod("bare", "k8s-app", "canal", false),
			pod("ingress", "app", "ingress-nginx", true), pod("users", "app", "shop", true))
		n, err := c.DeletePods(t.Context(), kube.ClusterPods())
		if err != nil || n != 3 {
			t.Errorf("%d deleted, %v", n, err)
		}
		left, err := c.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range left.Items {
			names = append(names, p.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"bare", "users"}) {
			t.Errorf("left are %v", names)
		}
	})
}

func TestPodsTrust(t *testing.T) {
	ca := func(namespace, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: namespace}, Data: map[string]string{"ca.crt": text}}
	}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "a"}}
	if err := newCluster(ca("a", "new\n"), ca("b", "new"), other).PodsTrust(t.Context(), "new\n"); err != nil {
		t.Error(err)
	}
	err := newCluster(ca("a", "new\n"), ca("b", "old"), other).PodsTrust(t.Context(), "new\n")
	if late := new(kube.TrustError); !errors.As(err, &late) || late.Namespace != "b" {
		t.Errorf("got %v", err)
	}
}
