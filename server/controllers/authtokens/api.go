// The requests to a cluster's API, for kinds that no client knows.

package authtokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/plans/clusterauth"
	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/tunnel/answers"
)

const (
	managed   = "app.kubernetes.io/managed-by"
	managedBy = "drover"
	// tokenLabel is on the Secrets of tokens, beside others of the namespace.
	tokenLabel = "drover.cattle.io/cluster-auth-token"
	// owner is the field manager of what the server applies.
	owner = "drover"
)

// object is an object of any kind as it is sent.
type object map[string]any

// place is where objects of a kind are: the path of all of them.
func place(apiVersion, kind string) string {
	const inNamespace = "/namespaces/" + clusterauth.Namespace + "/"
	resource := strings.ToLower(kind) + "s"
	root := "/apis/" + apiVersion
	if apiVersion == "v1" {
		root = "/api/v1"
	}
	switch kind {
	case "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition":
		return root + "/" + resource
	}
	return root + inNamespace + resource
}

// path is where an object is.
func (o object) path() (string, error) {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if version == "" || kind == "" || name == "" {
		return "", errors.New("an object without apiVersion, kind or name")
	}
	return place(version, kind) + "/" + name, nil
}

// api is a cluster's.
type api struct{ rest rest.Interface }

// apply makes an object what it should be, and leaves alone the fields that it does not have.
func (a api) apply(ctx context.Context, o object) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("apply %s: %w", path, err)
	}
	err = a.rest.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", owner).Param("force", "true").Body(text).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply %s: %w", path, err)
	}
	return nil
}

// delete removes an object; one that is gone is no error.
func (a api) delete(ctx context.Context, path string) error {
	err := a.rest.Delete().AbsPath(path).Param("propagationPolicy", string(metav1.DeletePropagationBackground)).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// named is an object of a list, with what it has beside its metadata.
type named[T any] struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Value    T                 `json:"-"`
}

// list are the objects of a kind that have labels, by name. An error that apierrors.IsNotFound takes is
// that the cluster does not have the kind.
func list[T any](ctx context.Context, a api, path, labels string) (map[string]T, error) {
	ctx, all := answers.Together(ctx, "a whole list", bounds.Kept), map[string]T{}
	for next := ""; ; {
		text, err := a.rest.Get().AbsPath(path).Param("labelSelector", labels).Param("limit", fmt.Sprint(bounds.Page)).Param("continue", next).Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		for _, item := range page.Items {
			var n named[T]
			if err := errors.Join(json.Unmarshal(item, &n), json.Unmarshal(item, &n.Value)); err != nil {
				return nil, fmt.Errorf("list %s: %w", path, err)
			}
			all[n.Metadata.Name] = n.Value
		}
		if next = page.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}

// labelled says whether an object is there and has our mark.
func (a api) labelled(ctx context.Context, path string) (bool, error) {
	text, err := a.rest.Get().AbsPath(path).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s: %w", path, err)
	}
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return false, fmt.Errorf("get %s: %w", path, err)
	}
	return o.Metadata.Labels[managed] == managedBy, nil
}
