// Add-ons: texts of YAML with many objects. Each text is kept in a ConfigMap under RKE's name,
// and its objects are applied by the API server's own apply, which says at once what it refuses
// and why. RKE runs a Job with kubectl in it for that, whose end says nothing.

package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// maxText bounds the text of one add-on in bytes, maxObjects its objects.
const (
	maxText    = 1 << 20
	maxObjects = 2000
)

// AddonError is that objects of an add-on could not be applied or deleted.
type AddonError struct {
	Addon string
	// Objects are those that failed, as "Kind namespace/name: why".
	Objects []string
}

func (e *AddonError) Error() string {
	return fmt.Sprintf("add-on %s: %d of its objects failed: %s", e.Addon, len(e.Objects), strings.Join(e.Objects, "; "))
}

// Addon is the text that was applied last under a name; empty when there was none. The error is that of the API, after some tries.
func (a *API) Addon(ctx context.Context, name string) (text string, err error) {
	err = retryWhileBusy(ctx, func() error {
		m, err := a.Client.CoreV1().ConfigMaps(System).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			text = m.Data[name]
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read add-on %s: %w", name, err)
	}
	return text, nil
}

// Apply applies every object of an add-on, deletes those that it had by the text before and has
// no more, and then keeps the text, so that an interrupted one is applied again. With an empty
// text before nothing is deleted. Objects that cannot be applied hold no others; they are an
// *AddonError.
func (a *API) Apply(ctx context.Context, name, text, before string) error {
	objects, err := Objects(text)
	if err != nil {
		return fmt.Errorf("add-on %s: %w", name, err)
	}
	old, err := Objects(before)
	if err != nil {
		return fmt.Errorf("add-on %s: the text of ConfigMap %s/%s: %w", name, System, name, err)
	}
	failed := &AddonError{Addon: name}
	for _, o := range inOrder(objects) {
		if err := retryWhileBusy(ctx, func() error { return a.apply(ctx, o) }); err != nil {
			failed.Objects = append(failed.Objects, describe(o)+": "+err.Error())
		}
		if ctx.Err() != nil {
			return fmt.Errorf("add-on %s: %w", name, context.Cause(ctx))
		}
	}
	if len(failed.Objects) > 0 {
		return failed
	}
	for _, o := range gone(old, objects) {
		if err := retryWhileBusy(ctx, func() error { return a.remove(ctx, o) }); err != nil {
			return fmt.Errorf("add-on %s: delete %s, which it has no more: %w", name, describe(o), err)
		}
	}
	return a.keep(ctx, name, text)
}

// apply gives an object to the API server. What its kind was not known for may have become
// known: its definition can stand before it in the same text.
func (a *API) apply(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := a.client(o)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset()
		client, err = a.client(o)
	}
	if err != nil {
		return err
	}
	return put(ctx, client, o)
}

func (a *API) client(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.dynamic.Resource(mapping.Resource), nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(corev1.NamespaceDefault)
	}
	return a.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

func (a *API) keep(ctx context.Context, name, text string) error {
	maps := a.Client.CoreV1().ConfigMaps(System)
	err := retryWhileBusy(ctx, func() error {
		is, err := maps.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: System}, Data: map[string]string{name: text}}
			_, err = maps.Create(ctx, m, metav1.CreateOptions{})
			return err
		}
		if err != nil || is.Data[name] == text {
			return err
		}
		is.Data = map[string]string{name: text}
		_, err = maps.Update(ctx, is, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the text of add-on %s: %w", name, err)
	}
	return nil
}

// Remove deletes the objects of the text that is kept under a name, the last one first, and
// then the text. Nothing kept means nothing to delete. It returns an *AddonError that names the objects which could not be deleted; the text is kept
// then.
func (a *API) Remove(ctx context.Context, name string) error {
	text, err := a.Addon(ctx, name)
	if err != nil || text == "" {
		return err
	}
	objects, err := Objects(text)
	if err != nil {
		return fmt.Errorf("add-on %s: %w", name, err)
	}
	objects = inOrder(objects)
	slices.Reverse(objects)
	failed := &AddonError{Addon: name}
	for _, o := range objects {
		if err := retryWhileBusy(ctx, func() error { return a.remove(ctx, o) }); err != nil {
			failed.Objects = append(failed.Objects, describe(o)+": "+err.Error())
		}
	}
	if len(failed.Objects) > 0 {
		return failed
	}
	err = a.Client.CoreV1().ConfigMaps(System).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the text of add-on %s: %w", name, err)
	}
	return nil
}

// Object names an object.
type Object struct{ APIVersion, Kind, Namespace, Name string }

// Discard deletes objects and waits until they are gone, so that others can have their names. The error names the object that stays.
func (a *API) Discard(ctx context.Context, objects []Object) error {
	for _, o := range objects {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(o.APIVersion)
		u.SetKind(o.Kind)
		u.SetNamespace(o.Namespace)
		u.SetName(o.Name)
		err := retryWhileBusy(ctx, func() error {
			if err := a.remove(ctx, u); err != nil {
				return err
			}
			client, err := a.client(u)
			if err != nil {
				return ignoreNoMatch(err)
			}
			_, err = client.Get(ctx, u.GetName(), metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return errors.New("it is still being deleted")
		})
		if err != nil {
			return fmt.Errorf("delete %s: %w", describe(u), err)
		}
	}
	return nil
}

// ignoreNoMatch is nil for a kind that the cluster does not know: nothing of it is there.
func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

func (a *API) remove(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := a.client(o)
	if err != nil {
		return ignoreNoMatch(err) // its definition has gone, and it with it
	}
	background := metav1.DeletePropagationBackground
	err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Objects are the objects of a text of YAML, with those of lists in their places. Empty
// documents are left out. What the text says is read as kubectl reads it; that it is one that
// may be read, rke1/addons has checked, and the cluster's own ConfigMap has what was checked before. The error says which document is no object of
// Kubernetes.
func Objects(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes, more than the %d that a ConfigMap holds", len(text), maxText)
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		var fields map[string]any
		if err == nil {
			err = yaml.Unmarshal(document, &fields)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d is not an object of Kubernetes: %w", n, err)
		}
		if len(fields) == 0 {
			continue
		}
		o := &unstructured.Unstructured{Object: fields}
		if !o.IsList() {
			objects = append(objects, o)
		} else if err := o.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
				return nil, fmt.Errorf("document %d has no apiVersion, kind or metadata.name", n)
			}
		}
		if len(objects) > maxObjects {
			return nil, fmt.Errorf("it has more than %d objects", maxObjects)
		}
	}
}

// inOrder puts what others need before them: namespaces and definitions of kinds.
func inOrder(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	rank := map[string]int{"Namespace": -2, "CustomResourceDefinition": -1}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank[a.GetKind()] - rank[b.GetKind()] })
	return objects
}

func describe(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
