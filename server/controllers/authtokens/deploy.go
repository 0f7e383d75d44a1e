// What answers a cluster's API servers, on each of its control-plane hosts.

package authtokens

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

//go:embed manifest.yaml
var manifest string

// daemonSet is the object that is made last and removed last: while it is there, the rest may be.
const daemonSet = "/apis/apps/v1/namespaces/cattle-system/daemonsets/kube-api-auth"

// Manifest are the objects of kube-api-auth with an image, in the order in which they are needed. All but the namespace have our mark. The error is YAML's.
func Manifest(image string) ([]map[string]any, error) {
	var all []map[string]any
	for decoder := yaml.NewDecoder(strings.NewReader(strings.ReplaceAll(manifest, "IMAGE", image))); ; {
		var o map[string]any
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("make the manifest of kube-api-auth with the image %q: %w", image, err)
		}
		if meta, ok := o["metadata"].(map[string]any); ok && o["kind"] != "Namespace" {
			meta["labels"] = map[string]any{managed: managedBy, "app": "kube-api-auth"}
		}
		all = append(all, o)
	}
}

// deploy makes a cluster have kube-api-auth.
func deploy(ctx context.Context, client kubernetes.Interface, image string) error {
	objects, err := Manifest(image)
	if err != nil {
		return err
	}
	a := api{client.Discovery().RESTClient()}
	for _, o := range objects {
		if err := a.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes away what a cluster has of the endpoint, and says what it did. The types stay: they may have foreign
// objects, and do no harm.
func withdraw(ctx context.Context, client kubernetes.Interface) (changes []string, err error) {
	a := api{client.Discovery().RESTClient()}
	ours, err := a.labelled(ctx, daemonSet)
	if err != nil || !ours {
		return nil, err
	}
	have, err := a.found(ctx)
	if apierrors.IsNotFound(err) {
		have, err = found{}, nil
	}
	if err != nil {
		return nil, err
	}
	s := &syncing{api: a}
	s.clear(ctx, have, Objects{})
	objects, err := Manifest("none")
	if err != nil {
		return nil, err
	}
	slices.Reverse(objects)
	for _, o := range slices.DeleteFunc(objects[1:], func(o map[string]any) bool { return stays(o["kind"]) }) {
		path, err := object(o).path()
		if err == nil {
			err = a.delete(ctx, path)
		}
		if err != nil {
			s.errors = append(s.errors, err)
		}
	}
	if len(s.errors) == 0 {
		s.did("kube-api-auth", "removed", a.delete(ctx, daemonSet))
	}
	return s.changes, errors.Join(s.errors...)
}

func stays(kind any) bool { return kind == "Namespace" || kind == "CustomResourceDefinition" }
