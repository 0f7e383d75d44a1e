package kube_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/rke1/kube"
)

// mapper knows a few kinds; Widgets only after it was reset so often.
type mapper struct {
	*meta.DefaultRESTMapper
	resets, widgetsAfter int
}

func newMapper() *mapper {
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil), widgetsAfter: 1}
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	return m
}

func (m *mapper) Reset() {
	if m.resets++; m.resets == m.widgetsAfter {
		m.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, meta.RESTScopeNamespace)
	}
}

// cluster is an API in memory; applied are the objects that were applied, in order.
type cluster struct {
	*kube.API
	client  *fake.Clientset
	mapper  *mapper
	applied []string
	deleted []string
	refuse  map[string]error
}

func newCluster(objects ...runtime.Object) *cluster {
	c := &cluster{client: fake.NewClientset(objects...), mapper: newMapper(), refuse: map[string]error{}}
	d := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	d.PrependReactor("patch", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
		p := a.(kubetesting.PatchAction)
		name := p.GetResource().Resource + " " + p.GetNamespace() + "/" + p.GetName()
		c.applied = append(c.applied, name)
		return true, nil, c.refuse[name]
	})
	d.PrependReactor("delete", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
		p := a.(kubetesting.DeleteAction)
		c.deleted = append(c.deleted, p.GetResource().Resource+" "+p.GetNamespace()+"/"+p.GetName())
		return true, nil, nil
	})
	c.API = kube.With(c.client, d, c.mapper)
	return c
}

// failOnce makes the next call of a verb on a kind fail.
func (c *cluster) failOnce(verb, kind string, err error) {
	failed := false
	c.client.PrependReactor(verb, kind, func(kubetesting.Action) (bool, runtime.Object, error) {
		if failed {
			return false, nil, nil
		}
		failed = true
		return true, nil, err
	})
}

func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "full-cluster-state", Namespace: "kube-system"}, Data: map[string]string{"full-cluster-state": "old"}}
		c := newCluster(old)
		ctx := t.Context()
		if text, err := c.ReadState(ctx); err != nil || string(text) != "old" {
			t.Errorf("of an old CLI's ConfigMap: %q, %v", text, err)
		}
		c.failOnce("create", "secrets", apierrors.NewInternalError(errors.New("etcd elects a leader")))
		if err := c.SaveState(ctx, []byte("one")); err != nil {
			t.Fatal(err)
		}
		if err := c.SaveState(ctx, []byte("two")); err != nil {
			t.Fatal(err)
		}
		c.failOnce("get", "secrets", apierrors.NewTooManyRequests("later", 1))
		if text, err := c.ReadState(ctx); err != nil || string(text) != "two" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := c.client.CoreV1().ConfigMaps("kube-system").Get(ctx, "full-cluster-state", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the ConfigMap with all keys: %v, want that it is gone", err)
		}
	})
}

func TestNoState(t *testing.T) {
	if _, err := newCluster().ReadState(t.Context()); !errors.Is(err, kube.ErrNoState) {
		t.Errorf("got %v", err)
	}
}

// What will be refused again is not asked for again.
func TestARefusalIsFinal(t *testing.T) {
	c := newCluster()
	asked := 0
	c.client.PrependReactor("create", "secrets", func(kubetesting.Action) (bool, runtime.Object, error) {
		asked++
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "full-cluster-state", errors.New("no right"))
	})
	if err := c.SaveState(t.Context(), nil); !apierrors.IsForbidden(err) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-" + name, Labels: map[string]string{"kubernetes.io/hostname": name, "theirs": "stays", "gone": "x"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "theirs", Effect: "NoSchedule"}, {Key: "gone", Effect: "NoExecute"}, {Key: "ours", Value: "old", Effect: "NoSchedule"}}}}
}

func TestMark(t *testing.T) {
	c := newCluster(node("Alpha"))
	marks := kube.Marks{
		Labels: map[string]string{"node-role.kubernetes.io/etcd": "true"}, Annotations: map[string]string{"rke.cattle.io/internal-ip": "10.0.0.1"},
		Taints: []corev1.Taint{{Key: "ours", Value: "new", Effect: "NoSchedule"}}, GoneLabels: []string{"gone"}, GoneTaints: []corev1.Taint{{Key: "gone", Effect: "NoExecute"}},
	}
	changed, err := c.Mark(t.Context(), "alpha", marks)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	got, err := c.client.CoreV1().Nodes().Get(t.Context(), "ip-Alpha", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.ManagedFields = nil
	want := node("Alpha")
	want.Labels = map[string]string{"kubernetes.io/hostname": "Alpha", "theirs": "stays", "node-role.kubernetes.io/etcd": "true"}
	want.Annotations = marks.Annotations
	want.Spec.Taints = []corev1.Taint{{Key: "theirs", Effect: "NoSchedule"}, {Key: "ours", Value: "new", Effect: "NoSchedule"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c.client.ClearActions()
	if changed, err = c.Mark(t.Context(), "alpha", marks); err != nil || changed {
		t.Errorf("a second time: %t, %v", changed, err)
	}
	for _, a := range c.client.Actions() {
		if a.GetVerb() != "list" {
			t.Errorf("a second time: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	var missing *kube.NodeMissingError
	if _, err := c.Mark(t.Context(), "beta", marks); !errors.As(err, &missing) || missing.Host != "beta" {
		t.Errorf("a host without a node: %v", err)
	}
}

func TestCordons(t *testing.T) {
	for name, c := range map[string]struct {
		before, during, after bool
	}{
		"a node in use":                 {false, true, false},
		"one that an operator cordoned": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("alpha")
			n.Spec.Unschedulable = c.before
			k := newCluster(n)
			is := func() bool {
				n, err := k.client.CoreV1().Nodes().Get(t.Context(), "ip-alpha", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return n.Spec.Unschedulable
			}
			if err := k.Cordon(t.Context(), "alpha"); err != nil || is() != c.during {
				t.Errorf("cordoned: %t, %v", is(), err)
			}
			if err := k.Uncordon(t.Context(), "alpha"); err != nil || is() != c.after {
				t.Errorf("uncordoned: still cordoned %t, %v", is(), err)
			}
		})
	}
}

func TestReady(t *testing.T) {
	for name, c := range map[string]struct {
		conditions []corev1.NodeCondition
		want       bool
	}{
		"ready":     {[]corev1.NodeCondition{{Type: "Ready", Status: "True"}}, true},
		"not ready": {[]corev1.NodeCondition{{Type: "Ready", Status: "False", Message: "no CNI"}}, false},
		"unknown":   {[]corev1.NodeCondition{{Type: "Ready", Status: "Unknown", Message: "silent"}}, false},
		"new":       {nil, false},
	} {
		ready, message := kube.Ready(corev1.Node{Status: corev1.NodeStatus{Conditions: c.conditions}})
		if ready != c.want || !ready && message == "" {
			t.Errorf("%s: %t %q", name, ready, message)
		}
	}
}

func TestDeleteNode(t *testing.T) {
	c := newCluster(node("alpha"))
	for range 2 {
		if err := c.DeleteNode(t.Context(), "ALPHA"); err != nil {
			t.Error(err)
		}
	}
	if nodes, err := c.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("%v, %v", nodes, err)
	}
}

// The API server makes the binding of kubelets without a subject in it.
func TestGrantComponents(t *testing.T) {
	empty := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:node"},
		RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:node"}}
	c := newCluster(empty)
	for range 2 {
		if err := c.GrantComponents(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range got.Items {
		for _, s := range b.Subjects {
			names = append(names, b.Name+" "+b.RoleRef.Name+" "+s.Kind+" "+s.Namespace+"/"+s.Name)
		}
	}
	slices.Sort(names)
	want := []string{
		"job-deployer cluster-admin ServiceAccount kube-system/rke-job-deployer",
		"proxy-role-binding-kubernetes-master proxy-clusterrole-kubeapiserver User /kube-apiserver",
		"system:node system:node Group /system:nodes",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestRewriteSecrets(t *testing.T) {
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(secret("a"), secret("b"), secret("c"))
		c.failOnce("update", "secrets", apierrors.NewServerTimeout(schema.GroupResource{Resource: "secrets"}, "update", 1))
		c.failOnce("list", "secrets", apierrors.NewResourceExpired("too old"))
		if n, err := c.RewriteSecrets(t.Context()); err != nil || n != 3 {
			t.Errorf("%d rewritten, %v", n, err)
		}
		c.client.PrependReactor("update", "secrets", func(kubetesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New("no right"))
		})
		if n, err := c.RewriteSecrets(t.Context()); err == nil || n != 0 || !strings.Contains(err.Error(), "default/a") {
			t.Errorf("%d rewritten, %v", n, err)
		}
	})
}

const addon = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: tools}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
---
# nothing
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}
- {apiVersion: v1, kind: Namespace, metadata: {name: tools}}
`

func TestAddons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		ctx := t.Context()
		c.mapper.widgetsAfter = 2 // the definition takes effect a moment later
		if err := c.Apply(ctx, "rke-user-addon", addon, ""); err != nil {
			t.Fatal(err)
		}
		want := []string{"namespaces /tools", "customresourcedefinitions /widgets.example.com", "widgets tools/w", "configmaps default/m"}
		if diff := cmp.Diff(want, c.applied); diff != "" {
			t.Error(diff)
		}
		if text, err := c.Addon(ctx, "rke-user-addon"); err != nil || text != addon {
			t.Errorf("kept: %q, %v", text, err)
		}
		if err := c.Remove(ctx, "rke-user-addon"); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(want)
		if diff := cmp.Diff(want, c.deleted); diff != "" {
			t.Error(diff)
		}
		if text, err := c.Addon(ctx, "rke-user-addon"); err != nil || text != "" {
			t.Errorf("kept after the removal: %q, %v", text, err)
		}
	})
}

// An object that is refused holds no others, is named, and the text does not count as applied.
func TestAnAddonThatIsRefused(t *testing.T) {
	c := newCluster()
	c.refuse["configmaps default/m"] = apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "m", nil)
	text := "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}\n"
	err := c.Apply(t.Context(), "rke-user-addon", text, "")
	var failed *kube.AddonError
	if !errors.As(err, &failed) || len(failed.Objects) != 1 || !strings.HasPrefix(failed.Objects[0], "ConfigMap default/m: ") {
		t.Errorf("got %v", err)
	}
	if !slices.Contains(c.applied, "configmaps default/other") {
		t.Errorf("applied: %v", c.applied)
	}
	if kept, err := c.Addon(t.Context(), "rke-user-addon"); err != nil || kept != "" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestTextsThatAreNoAddons(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                        "document 1 is not an object of Kubernetes",
		"apiVersion: v1\nkind: Pod\n": "document 1 has no apiVersion, kind or metadata.name",
		"- a\n":                       "document 1 is not an object of Kubernetes",
		"{apiVersion: v1, kind: List, items: [{kind: Pod}]}": "document 1 has no apiVersion",
	} {
		if _, err := kube.Objects(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		tries := 0
		c.client.PrependReactor("get", "version", func(kubetesting.Action) (bool, runtime.Object, error) {
			tries++
			return true, nil, errors.New("connection refused")
		})
		err := c.Await(t.Context(), 3, 1, func(int, error) {})
		if tries != 3 || err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%d tries: %v", tries, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := c.Await(ctx, 3, 1e18, func(int, error) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
