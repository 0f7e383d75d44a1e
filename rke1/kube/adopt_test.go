package kube_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/rke1/kube"
)

// object is one with fields that a manager owns.
func object(owner, operation string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{
		"name": "m", "namespace": "tools", "resourceVersion": "1", "managedFields": []any{map[string]any{"manager": owner, "operation": operation, "apiVersion": "rbac.authorization.k8s.io/v1",
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:roleRef": map[string]any{}}}},
	}}}
}

func TestObjectsOfOthers(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, "m", nil)
	theirs, ours := object("kubectl-client-side-apply", "Update"), object("drover", "Apply")
	for name, c := range map[string]struct {
		kind    string
		is      *unstructured.Unstructured // what the API server has; nil for nothing
		refuses []error                    // each apply in its order
		want    []string
		refused bool
	}{
		"ours":                        {"RoleBinding", ours, nil, []string{"apply"}, false},
		"kubectl's":                   {"RoleBinding", theirs, nil, []string{"apply", "json", "apply"}, false},
		"kubectl's is in the way":     {"RoleBinding", theirs, []error{invalid}, []string{"apply", "get", "json", "apply"}, false},
		"another role":                {"RoleBinding", ours, []error{invalid}, []string{"apply", "get", "delete", "apply"}, false},
		"kubectl's with another role": {"RoleBinding", theirs, []error{invalid, invalid}, []string{"apply", "get", "json", "apply", "delete", "apply"}, false},
		"a text that is wrong":        {"RoleBinding", nil, []error{invalid}, []string{"apply", "get"}, true},
		"what cannot be changed":      {"ConfigMap", ours, []error{invalid, invalid}, []string{"apply", "get"}, true},
		"no right":                    {"ConfigMap", ours, []error{apierrors.NewForbidden(schema.GroupResource{}, "m", nil)}, []string{"apply"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMapper()
			m.Add(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}, meta.RESTScopeNamespace)
			d := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			var got []string
			d.PrependReactor("*", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
				switch p, is := a.(kubetesting.PatchAction); {
				case !is && a.GetVerb() == "get" && c.is == nil:
					got = append(got, "get")
					return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "m")
				case !is:
					got = append(got, a.GetVerb())
					return true, c.is, nil
				case p.GetPatchType() == types.JSONPatchType:
					got = append(got, "json")
					return true, ours, nil
				}
				got = append(got, "apply")
				if len(c.refuses) > 0 {
					err := c.refuses[0]
					c.refuses = c.refuses[1:]
					return true, nil, err
				}
				if slices.Contains(got, "json") || slices.Contains(got, "delete") {
					return true, ours, nil
				}
				return true, c.is, nil
			})
			version := "v1"
			if c.kind == "RoleBinding" {
				version = "rbac.authorization.k8s.io/v1"
			}
			text := "{apiVersion: " + version + ", kind: " + c.kind + ", metadata: {name: m, namespace: tools}}"
			err := kube.With(fake.NewClientset(), d, m).Apply(t.Context(), "rke-user-addon", text, "")
			if (err != nil) != c.refused {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What an add-on has no more is deleted, but for what carries other people's data with it.
func TestObjectsThatAnAddonHasNoMore(t *testing.T) {
	const before = `{apiVersion: v1, kind: Namespace, metadata: {name: tools}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stays}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, namespace: other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: goes, namespace: tools}}
`
	const now = "{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, namespace: default}}\n"
	for text, want := range map[string][]string{"": nil, before: {"configmaps other/stays", "configmaps tools/goes"}} {
		c := newCluster()
		if err := c.Apply(t.Context(), "rke-metrics-addon", now, text); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.deleted); diff != "" {
			t.Errorf("from %q: %s", text, diff)
		}
	}
}
