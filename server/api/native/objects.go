// Secrets and ConfigMaps that clusters refer to: which there are, never what is in them.

package native

import (
	"net/http"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// ListObjects is GET /v1-drover/objects.
func (a *API) ListObjects(c *route.Call) (route.Answer, error) {
	return route.Page(c, a.State.Objects.List(), func(d store.Document[objects.Object]) string { return d.Key },
		func(d store.Document[objects.Object]) views.NamedObject { return views.OfObject(d.Value) })
}

// RemoveObject is DELETE /v1-drover/objects/{kind}/{namespace}/{name}, where kind is Secret or ConfigMap. One that a
// cluster refers to stays: 409.
func (a *API) RemoveObject(c *route.Call) (route.Answer, error) {
	key := objects.KeyOf(c.Param("kind"), c.Param("namespace"), c.Param("name"))
	d, ok := a.State.Objects.Get(key)
	if !ok || !auth.May(c.Who, c.Row.Access.Verb, auth.Object{Kind: c.Row.Access.Kind, Key: key}) {
		return route.Answer{}, norman.Missing("object", key)
	}
	if err := a.DropObject(c.Ctx(), key); err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfObject(d.Value)}, nil
}
