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
	"github.com/drover-project/drover/server/references"
)

// schema is the type as /v1 has it.
var schema = steve.Schema{Version: "v1", Kind: objects.Secret, Resource: "secrets", Namespaced: true}

// Type is the type of /v1.
func (a *API) Type() steve.Type {
	return steve.Type{
		Schema: schema, Of: auth.SharedObject, Own: true, Reveals: true,
		List: func() (all []steve.Seen) {
			for _, d := range a.State.Objects.ListIn(objects.Secret + "/") {
				all = append(all, seen(d))
			}
			return all
		},
		Get: func(id string) (steve.Seen, bool) {
			d, ok := a.State.Objects.Get(objects.Secret + "/" + id)
			return seen(d), ok
		},
		Collection: subscribe.Objects,
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			id, gone, is := changed(c)
			if gone == nil {
				return id, nil, is
			}
			last := seen(*gone)
			return id, &last, true
		},
	}
}

// changed is the Secret, by namespace and name, that a change of objects is about, with its last form when it is gone.
func changed(c subscribe.Change) (key string, last *references.Document, ok bool) {
	key, ok = strings.CutPrefix(c.Key, objects.Secret+"/")
	if removed, gone := c.Removed.(objects.Object); ok && gone {
		last = &references.Document{Key: c.Key, Revision: c.Revision, Value: removed}
	}
	return key, last, ok
}

func seen(d references.Document) steve.Seen {
	o := d.Value.Form(d.Revision)
	schema.Escape(o)
	return steve.Seen{About: references.About(d.Value), Content: o}
}

// Create is POST of the type.
func (a *API) Create(c *steve.Request) (route.Answer, error) {
	return a.put(c, c.Param("namespace"), "", http.StatusCreated)
}

// Replace is PUT of one that the caller may read.
func (a *API) Replace(c *steve.Request) (route.Answer, error) {
	if _, ok := references.Secret(a.State, c.Who, c.Param("namespace"), c.Param("name")); !ok {
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
	at := references.At{New: name == ""}
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
	d, err := references.Put(c.Ctx(), a.State, c.Who, o, at)
	if err != nil {
		return route.Answer{}, err
	}
	if text := references.Unbound(d.Value); text != "" {
		c.Warn(text)
	}
	c.Concern(strings.TrimPrefix(d.Key, objects.Secret+"/"))
	return c.Shown(d.Value.Namespace+"/"+d.Value.Name, status)
}

// Remove is DELETE of a Secret that the caller may read. A Secret that a cluster uses stays.
func (a *API) Remove(c *steve.Request) (route.Answer, error) {
	d, ok := references.Secret(a.State, c.Who, c.Param("namespace"), c.Param("name"))
	switch {
	case !ok:
		return route.Answer{}, norman.Missing("secret", c.Param("namespace")+"/"+c.Param("name"))
	case !auth.May(c.Who, auth.Remove, references.About(d.Value)):
		return route.Answer{}, c.Denied()
	}
	return route.Answer{Status: http.StatusNoContent}, references.Remove(c.Ctx(), a.State, d.Key)
}
