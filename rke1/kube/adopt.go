// Objects that others applied before: RKE's Jobs with kubectl, or drover with an older text.

package kube

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"
)

// kubectl is how the API server calls who applied an object with kubectl.
const kubectl = "kubectl-client-side-apply"

// put applies an object. What kubectl applied of it before counts as ours from then on: else a
// field that the new text has no more would stay, or stand in the way of one, as a port of the
// same name does.
func put(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	is, refused := client.Apply(ctx, o.GetName(), o, options)
	if refused != nil {
		if !apierrors.IsInvalid(refused) {
			return refused
		}
		var err error
		if is, err = client.Get(ctx, o.GetName(), metav1.GetOptions{}); err != nil {
			return refused // it is new, and the text is at fault
		}
	}
	ours, err := adopt(ctx, client, is)
	if err != nil {
		return err
	}
	if ours {
		_, refused = client.Apply(ctx, o.GetName(), o, options)
	}
	if kind := o.GetKind(); apierrors.IsInvalid(refused) && (kind == "RoleBinding" || kind == "ClusterRoleBinding") {
		// The role of a binding cannot be changed in place.
		if err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, refused = client.Apply(ctx, o.GetName(), o, options)
	}
	return refused
}

// adopt makes what kubectl applied of an object ours, and says whether there was such.
func adopt(ctx context.Context, client dynamic.ResourceInterface, is *unstructured.Unstructured) (bool, error) {
	if is == nil || !slices.ContainsFunc(is.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == kubectl && f.Operation == metav1.ManagedFieldsOperationUpdate && f.Subresource == ""
	}) {
		return false, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(is, sets.New(kubectl), manager)
	if err != nil || len(patch) == 0 {
		return false, err
	}
	_, err = client.Patch(ctx, is.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	return err == nil, err
}

// gone are the objects that an add-on had by the text before and has not by the new one. What
// carries other people's data with it stays: namespaces, kinds of objects, and claims of disks.
func gone(before, now []*unstructured.Unstructured) []*unstructured.Unstructured {
	key := func(o *unstructured.Unstructured) string {
		ns := o.GetNamespace()
		if ns == "" {
			ns = "default" // where objects go that name none
		}
		return o.GroupVersionKind().GroupKind().String() + " " + ns + "/" + o.GetName()
	}
	stays := map[string]bool{}
	for _, o := range now {
		stays[key(o)] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(o *unstructured.Unstructured) bool {
		kind := o.GetKind()
		return stays[key(o)] || kind == "Namespace" || kind == "CustomResourceDefinition" || kind == "PersistentVolumeClaim"
	})
}
