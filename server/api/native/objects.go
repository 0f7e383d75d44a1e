// Secrets and ConfigMaps that clusters refer to: which there are, never what is in them.

package native

import (
	"net/http"
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Objects serves Secrets and ConfigMaps by their names.
type Objects struct{ *Common }

// List is GET /v1-drover/objects: those that the caller may read.
func (a Objects) List(c *route.Call) (route.Answer, error) {
	seen := slices.DeleteFunc(a.State.Objects.List(), func(d store.Document[objects.Object]) bool { return !auth.May(c.Who, auth.Get, auth.OfShared(d.Value)) })
	return route.Page(c, seen, func(d store.Document[objects.Object]) string { return d.Key }, func(d store.Document[objects.Object]) apitypes.NamedObject { return views.OfObject(d.Value) })
}

// Remove is DELETE /v1-drover/objects/{kind}/{namespace}/{name}, where kind is Secret or ConfigMap. An object that a
// cluster refers to stays: 409.
func (a Objects) Remove(c *route.Call) (route.Answer, error) {
	key := objects.KeyOf(c.Param("kind"), c.Param("namespace"), c.Param("name"))
	d, ok := a.State.Objects.Get(key)
	if !ok || !auth.May(c.Who, c.Row.Access.Verb, auth.Object{Kind: c.Row.Access.Kind, Key: key, Owner: d.Value.CreatorID}) {
		return route.Answer{}, norman.Missing("object", key)
	}
	if err := clusters.RemoveObject(c.Ctx(), a.State, key); err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfObject(d.Value)}, nil
}
