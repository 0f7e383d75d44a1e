// Patches.

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/patch"
)

// patchTries bounds how often a patch is made anew for an object that others change meanwhile.
const patchTries = 5

// Patch is PATCH of an object: a merge patch, a JSON patch, or server-side apply.
func (r *Resource) Patch(c *route.Call, q *Request) (route.Answer, error) {
	kind := patch.Type(c.R.Header.Get("Content-Type"))
	if kind == patch.Apply {
		return route.Answer{}, q.apply()
	}
	if _, err := q.current(auth.Patch); err != nil {
		return route.Answer{}, err
	}
	text, err := norman.ReadBody(c.W, c.R, c.Limit)
	if err != nil {
		return route.Answer{}, err
	}
	change, err := patch.Read(kind, text, clusterspec.MaxSize)
	if err != nil {
		return route.Answer{}, patchError(err)
	}
	next, err := q.again(func() (object, error) { return q.patched(change) })
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{}, q.answer(http.StatusOK, next)
}

// again does what another write got in the way of once more.
func (q *Request) again(do func() (object, error)) (object, error) {
	for try := 1; ; try++ {
		q.owners, q.decided = nil, false
		o, err := do()
		if !apierrors.IsConflict(err) || try == patchTries || !strings.Contains(err.Error(), errModified.Error()) {
			return o, err
		}
		q.W.Header().Del("Warning")
	}
}

func (q *Request) patched(change patch.Func) (object, error) {
	o, err := q.current(auth.Patch)
	if err != nil {
		return o, err
	}
	before, err := json.Marshal(o.content)
	if err != nil {
		return o, fmt.Errorf("patch %s: %w", o.key, err)
	}
	after, err := change(before)
	if err != nil {
		return o, patchError(err)
	}
	content, err := q.object(after)
	if err != nil {
		return o, err
	}
	return q.change(o, content)
}

func patchError(err error) error {
	switch {
	case errors.Is(err, patch.ErrTest):
		return invalidOption("the server rejected our request due to an error in our request: %v", err)
	case errors.Is(err, patch.ErrSize):
		return listing.Refuse(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "%v", err)
	case errors.Is(err, patch.ErrType):
		return listing.Refuse(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: %s, %s, %s", patch.JSON, patch.Merge, patch.Apply)
	}
	return listing.BadRequest("%v", err)
}
