// Server-side apply: PATCH with the fields that their manager wants.

package kube

import (
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/patch"
)

// apply is server-side apply: PATCH with the fields that their manager wants.
func (q *Request) apply() error {
	if q.Query().Get("fieldManager") == "" {
		return invalidOption("fieldManager: Required value: is required for apply patch")
	}
	force := false
	if text := q.Query().Get("force"); text != "" {
		var err error
		if force, err = strconv.ParseBool(text); err != nil {
			return listing.BadRequest("force %.40q is neither true nor false", text)
		}
	}
	if _, err := q.current(auth.Patch); err != nil && !(apierrors.IsNotFound(err) && q.res.create != nil && auth.Somewhere(q.Who, auth.Create, q.res.Of)) {
		return err
	}
	applied, err := q.body(patch.Apply)
	if err != nil {
		return err
	}
	status := http.StatusOK
	next, err := q.again(func() (object, error) {
		o, err := q.current(auth.Patch)
		if apierrors.IsNotFound(err) && q.res.create != nil {
			status = http.StatusCreated
			return q.applyNew(applied, force)
		}
		if err != nil {
			return o, err
		}
		content, err := q.merged(o.content, applied, force)
		if err != nil {
			return o, err
		}
		return q.change(o, content)
	})
	if err != nil {
		return err
	}
	return q.answer(status, next)
}

// applyNew makes an object that is not there.
func (q *Request) applyNew(applied map[string]any, force bool) (object, error) {
	if !auth.May(q.Who, auth.Create, q.res.in(metadataText(applied, "namespace"))) {
		return object{}, q.res.forbidden(q.Call, auth.Create, "")
	}
	empty := map[string]any{"apiVersion": applied["apiVersion"], "kind": applied["kind"], "metadata": map[string]any{"name": metadataText(applied, "name"), "namespace": metadataText(applied, "namespace")}}
	content, err := q.merged(empty, applied, force)
	if err != nil {
		return object{}, err
	}
	o, err := q.res.create(q, content)
	return o, q.explain(err, metadataText(applied, "name"))
}

// merged is an object with what its manager applies, and says whose the fields are then.
func (q *Request) merged(before, applied map[string]any, force bool) (content map[string]any, err error) {
	if q.res.create == nil { // a setting, of which nothing but the value can be applied
		content = runtime.DeepCopyJSON(before)
		if value, ok := applied["value"]; ok {
			content["value"] = value
		}
		return content, nil
	}
	content, q.owners, err = appliedBy(q.res.GVK(), before, applied, q.manager, force)
	q.decided = true
	return content, err
}
