// Who set which field of an object: managed fields, and server-side apply, which is made of
// them. All of it is a function of objects, but for the times that it writes beside the names.
//
// Wire source: k8s.io/apimachinery pkg/util/managedfields, sigs.k8s.io/structured-merge-diff.

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/drover-project/drover/server/listing"
)

// maxOwners bounds what is kept of managed fields, in bytes.
const maxOwners = 256 << 10

// plain is how managed fields handle objects of one version, which need no conversion and no defaults.
type plain struct{ gvk kschema.GroupVersionKind }

func (plain) Convert(any, any, any) error { return fmt.Errorf("there is one version only") }
func (plain) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (plain) ConvertFieldLabel(_ kschema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (plain) Default(runtime.Object) {}
func (p plain) New(kschema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(p.gvk)
	return o, nil
}

// merger makes what merges objects of a kind.
func merger(gvk kschema.GroupVersionKind) (*managedfields.FieldManager, error) {
	p := plain{gvk}
	m, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), p, p, p, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, fmt.Errorf("keep who set which field: %w", err)
	}
	return m, nil
}

// owned is an object as its owners see it: without what the server writes.
func owned(content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	delete(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "metadata", "finalizers")
	return o
}

// createdBy is whose the fields of a new object are. The errors are those of Updated.
func createdBy(gvk kschema.GroupVersionKind, content map[string]any, manager string) (json.RawMessage, error) {
	return updatedBy(gvk, map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind}, content, manager)
}

// updatedBy is whose the fields are when a client puts an object in place of another; nil when that changes nothing. It refuses bad managedFields.
func updatedBy(gvk kschema.GroupVersionKind, before, after map[string]any, manager string) (json.RawMessage, error) {
	m, err := merger(gvk)
	if err != nil {
		return nil, err
	}
	live := owned(before)
	next, err := m.Update(live, owned(after), manager)
	if err != nil {
		return nil, listing.BadRequest("metadata.managedFields: %v", err)
	}
	return ownersIn(live, next)
}

// appliedBy is an object with what its manager applies, and whose the fields are then; nil when that changes nothing.
// A conflict with other managers is an error of Kubernetes, unless force takes the fields over.
func appliedBy(gvk kschema.GroupVersionKind, before, applied map[string]any, manager string, force bool) (map[string]any, json.RawMessage, error) {
	m, err := merger(gvk)
	if err != nil {
		return nil, nil, err
	}
	live := owned(before)
	next, err := m.Apply(live, owned(applied), manager, force)
	if _, known := errors.AsType[*apierrors.StatusError](err); known {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, listing.BadRequest("the configuration cannot be applied: %v", err)
	}
	owners, err := ownersIn(live, next)
	if err != nil {
		return nil, nil, err
	}
	content, ok := next.(*unstructured.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("apply: %T is not an object", next)
	}
	return content.Object, owners, nil
}

// ownersIn is what is to be kept; nil when it is there already, but for the times.
func ownersIn(before *unstructured.Unstructured, after runtime.Object) (json.RawMessage, error) {
	next, ok := after.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("keep who set which field: %T is not an object", after)
	}
	was, err := json.Marshal(timeless(before.GetManagedFields()))
	if err != nil {
		return nil, fmt.Errorf("keep who set which field: %w", err)
	}
	is, err := json.Marshal(timeless(next.GetManagedFields()))
	if err != nil {
		return nil, fmt.Errorf("keep who set which field: %w", err)
	}
	if string(was) == string(is) {
		return nil, nil
	}
	entries := next.GetManagedFields()
	if entries == nil {
		entries = []metav1.ManagedFieldsEntry{}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("keep who set which field: %w", err)
	}
	if len(text) > maxOwners {
		return nil, listing.Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.managedFields: too many managers: they take %d bytes, more than the %d that are kept", len(text), maxOwners)
	}
	return text, nil
}

func timeless(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range entries {
		entries[i].Time = nil
	}
	return entries
}
