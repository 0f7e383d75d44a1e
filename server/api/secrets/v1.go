// Secrets as objects of /v1.

package secrets

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/state"
)

// schema is the type as /v1 has it.
var schema = steve.Schema{Version: "v1", Kind: objects.Secret, Resource: "secrets", Namespaced: true}

// Type is the type of /v1.
func (a *API) Type() steve.Type {
	s := shown[steve.Seen]{a.State, seen}
	return steve.Type{
		Schema: schema, Of: auth.SharedObject, Own: true, Reveals: true,
		List: s.list, Get: s.get, Changed: s.changed, Collection: subscribe.Objects,
	}
}

// shown are Secrets as a surface has them.
type shown[T any] struct {
	state *state.State
	show  func(clusters.StoredObject) T
}

func (s shown[T]) list() (all []T) {
	for _, d := range s.state.Objects.ListIn(objects.Secret + "/") {
		all = append(all, s.show(d))
	}
	return all
}

func (s shown[T]) get(key string) (T, bool) {
	d, ok := s.state.Objects.Get(objects.Secret + "/" + key)
	return s.show(d), ok
}

// changed is the Secret that a change is about, as it was when it is gone.
func (s shown[T]) changed(c subscribe.Change) (key string, last *T, ok bool) {
	key, ok = strings.CutPrefix(c.Key, objects.Secret+"/")
	if removed, gone := c.Removed.(objects.Object); ok && gone {
		was := s.show(clusters.StoredObject{Key: c.Key, Revision: c.Revision, Value: removed})
		last = &was
	}
	return key, last, ok
}

func seen(d clusters.StoredObject) steve.Seen {
	o := d.Value.Form(d.Revision)
	schema.Escape(o)
	return steve.Seen{About: auth.OfShared(d.Value), Content: o}
}

// Create is POST of the type.
func (a *API) Create(c *steve.Request) (route.Answer, error) {
	return a.put(c, c.Param("namespace"), "", http.StatusCreated)
}

// Replace is PUT of one that the caller may read.
func (a *API) Replace(c *steve.Request) (route.Answer, error) {
	if _, ok := clusters.Secret(a.State, c.Who, c.Param("namespace"), c.Param("name")); !ok {
		return route.Answer{}, norman.Missing("secret", c.Param("namespace")+"/"+c.Param("name"))
	}
	return a.put(c, c.Param("namespace"), c.Param("name"), http.StatusOK)
}

func (a *API) put(c *steve.Request, namespace, name string, status int) (route.Answer, error) {
	fields, err := body(c.Call)
	if err != nil {
		return route.Answer{}, err
	}
	schema.Unescape(fields)
	at := clusters.SecretAt{New: name == ""}
	if at.Revision, err = version(fields); err != nil {
		return route.Answer{}, err
	}
	if at.New {
		at.Revision = 0
	}
	text, err := filled(fields, namespace, name)
	if err != nil {
		return route.Answer{}, err
	}
	o, err := read(text, namespace, name)
	if err != nil {
		return route.Answer{}, err
	}
	d, err := clusters.PutSecret(c.Ctx(), a.State, c.Who, o, at)
	if err != nil {
		return route.Answer{}, err
	}
	if text := clusters.Unbound(d.Value); text != "" {
		c.Warn(text)
	}
	c.Concern(strings.TrimPrefix(d.Key, objects.Secret+"/"))
	return c.Shown(d.Value.Namespace+"/"+d.Value.Name, status)
}

// Remove is DELETE of a Secret that the caller may read. A Secret that a cluster uses stays.
func (a *API) Remove(c *steve.Request) (route.Answer, error) {
	d, ok := clusters.Secret(a.State, c.Who, c.Param("namespace"), c.Param("name"))
	switch {
	case !ok:
		return route.Answer{}, norman.Missing("secret", c.Param("namespace")+"/"+c.Param("name"))
	case !auth.May(c.Who, auth.Remove, auth.OfShared(d.Value)):
		return route.Answer{}, c.Denied()
	}
	return route.Answer{Status: http.StatusNoContent}, clusters.RemoveObject(c.Ctx(), a.State, d.Key)
}
