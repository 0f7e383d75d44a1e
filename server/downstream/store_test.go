package downstream

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestAStoreKeepsOnlySoMuch of a cluster that reports nodes without end, in whichever way they come.
func TestAStoreKeepsOnlySoMuch(t *testing.T) {
	node := func(i, labels int) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("n", i), Labels: map[string]string{"a": strings.Repeat("a", labels)}, Annotations: map[string]string{"b": strings.Repeat("b", 1000)},
			},
			Status: corev1.NodeStatus{Images: make([]corev1.ContainerImage, 1000)},
		}
	}
	exceeded, changed := 0, 0
	all := cache.NewStore(cache.MetaNamespaceKeyFunc)
	s := &nodeStore{Store: all, Changed: func() { changed++ }, Exceeded: func() { exceeded++ }}
	const labels, fit = 100_000, maxKeptOfNodes / (100_000 + 2*perNode)
	for i := range 2 * maxKeptOfNodes / labels {
		if err := s.Add(node(i, labels)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(all.List()); n < fit || n > maxKeptOfNodes/labels || exceeded == 0 || changed != n {
		t.Errorf("%d nodes are kept, %d would fit; it was told %d times of more, and %d changes", n, fit, exceeded, changed)
	}
	// What goes makes room, what becomes larger takes some.
	exceeded = 0
	for i := range 2 * maxKeptOfNodes / labels {
		if err := s.Delete(node(i, labels)); err != nil {
			t.Fatal(err)
		}
	}
	if s.total != 0 || len(s.sizes) != 0 {
		t.Errorf("%d bytes are counted of nothing", s.total)
	}
	for range 300 {
		if err := s.Update(node(1, labels)); err != nil {
			t.Fatal(err)
		}
	}
	if exceeded != 0 || len(all.List()) != 1 {
		t.Errorf("one node, again and again: told %d times", exceeded)
	}
	if err := s.Update(node(1, maxKeptOfNodes)); err != nil || exceeded != 1 {
		t.Errorf("a node that has become too large: %v", err)
	}
	// At once.
	var many []any
	for i := range 20_000 {
		many = append(many, node(i, 0))
	}
	changed, exceeded = 0, 0
	if err := s.Replace(many, "1"); err != nil || changed != 0 || exceeded != 1 {
		t.Errorf("too many nodes at once: %v, %d changes, told %d times", err, changed, exceeded)
	}
	if err := s.Replace(many[:5000], "1"); err != nil || changed != 1 || len(all.List()) != 5000 {
		t.Errorf("five thousand nodes: %v, %d are kept", err, len(all.List()))
	}
	kept, _, _ := all.GetByKey("n7")
	if n := kept.(*corev1.Node); len(n.Annotations) != 0 || len(n.Status.Images) != 0 {
		t.Errorf("more is kept of a node than is shown: %+v", n)
	}
}
