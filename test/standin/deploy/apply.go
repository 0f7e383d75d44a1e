// The calls to the cluster.

package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager owns what the controller sets.
const fieldManager = "deploy@k3s-standin"

// ref names an object of the cluster.
type ref struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// same ignores the version: an object written with another version is the same object.
func (r ref) same(o ref) bool {
	r.Version = o.Version
	return r == o
}

// apply makes all objects of a file. It goes on after an error, so that one bad object does not hold back the rest.
func (c *Controller) apply(ctx context.Context, content []byte) ([]ref, error) {
	objects, err := parse(content)
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(c.Kinds)
	if err != nil {
		return nil, fmt.Errorf("ask the API for its kinds: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	var made []ref
	var errs []error
	for _, o := range objects {
		client, r, err := c.client(mapper, o)
		if err == nil {
			_, err = client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", o.GetKind(), o.GetName(), err))
		}
		made = append(made, r)
	}
	return made, errors.Join(errs...)
}

// client finds the place of an object and gives it the namespace "default" if it needs one and has none.
func (c *Controller) client(mapper meta.RESTMapper, o *unstructured.Unstructured) (dynamic.ResourceInterface, ref, error) {
	gvk := o.GroupVersionKind()
	r := ref{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, r, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		r.Namespace = ""
		o.SetNamespace("")
		return c.Objects.Resource(mapping.Resource), r, nil
	}
	if r.Namespace == "" {
		r.Namespace = metav1.NamespaceDefault
		o.SetNamespace(r.Namespace)
	}
	return c.Objects.Resource(mapping.Resource).Namespace(r.Namespace), r, nil
}

// remove deletes what was made before and is not wanted now.
func (c *Controller) remove(ctx context.Context, before, now []ref) error {
	var errs []error
	for _, old := range slices.Backward(before) {
		if slices.ContainsFunc(now, old.same) {
			continue
		}
		groups, err := restmapper.GetAPIGroupResources(c.Kinds)
		if err != nil {
			return fmt.Errorf("ask the API for its kinds: %w", err)
		}
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: old.Group, Version: old.Version, Kind: old.Kind})
		o.SetNamespace(old.Namespace)
		o.SetName(old.Name)
		client, _, err := c.client(restmapper.NewDiscoveryRESTMapper(groups), o)
		if meta.IsNoMatchError(err) {
			continue // its kind is gone, and so is it
		}
		if err == nil {
			err = client.Delete(ctx, old.Name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s %q, which the file no longer has: %w", old.Kind, old.Name, err))
		}
	}
	return errors.Join(errs...)
}
