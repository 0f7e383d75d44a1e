// Package management is /v3: the types of the management API as the original CLI,
// terraform and dashboards know them. What a resource looks like is in the file of its
// name; which requests there are, and who may send them, is in the table of package api.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3, pkg/api/norman;
// rancher/norman.
package management

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Options are what /v3 stands on.
type Options struct {
	State *state.State
	// These are the types that are kept here.
	Clusters           Clusters
	Kubeconfigs        Kubeconfigs
	Nodes              Nodes
	Backups            Backups
	Tokens             Tokens
	RegistrationTokens RegistrationTokens
	Settings           Settings
	// Project is the type project; what changes one is elsewhere.
	Project norman.Schema
	// Inside are types of which the objects are inside clusters, and are served elsewhere.
	Inside []norman.Schema
	// Kinds are types that are kept elsewhere.
	Kinds []Kind
	// Changes are what subscribers see.
	Changes *subscribe.Feed
}

// API serves /v3.
type API struct {
	Options
	kinds []*Kind // in the order in which links and schemas show them
	verbs map[auth.Kind][]auth.Verb
	subs  []subAPI
}

// New makes an API. Learn must be called before it serves.
func New(o Options) *API {
	a := &API{Options: o, verbs: map[auth.Kind][]auth.Verb{}}
	a.kinds = []*Kind{
		o.Clusters.kind(), o.RegistrationTokens.kind(), o.Nodes.kind(), nodePoolKind(), o.Backups.kind(),
		a.projectKind(), o.Settings.kind(), o.Tokens.kind(),
	}
	for _, k := range o.Kinds {
		a.kinds = append(a.kinds, &k)
	}
	a.subs = a.subAPIs()
	return a
}

// Learn takes from the table what can be done with the types: schemas, links and actions
// show no more than it has.
func (a *API) Learn(rows []route.Row) {
	for _, row := range rows {
		if strings.HasPrefix(row.Pattern, "/v3/") && row.Access.Verb != "" {
			a.verbs[row.Access.Kind] = append(a.verbs[row.Access.Kind], row.Access.Verb)
		}
	}
	for _, k := range a.kinds {
		k.Schema.Version = version()
		for _, m := range []struct {
			verb   auth.Verb
			method string
			of     *[]string
		}{
			{auth.List, "GET", &k.Schema.CollectionMethods}, {auth.Create, "POST", &k.Schema.CollectionMethods},
			{auth.Get, "GET", &k.Schema.ResourceMethods}, {auth.Update, "PUT", &k.Schema.ResourceMethods}, {auth.Remove, "DELETE", &k.Schema.ResourceMethods},
		} {
			if slices.Contains(a.verbs[k.of()], m.verb) {
				*m.of = append(*m.of, m.method)
			}
		}
	}
}

// SchemaOf is the schema of a type.
func (a *API) SchemaOf(kind auth.Kind) (norman.Schema, bool) {
	k := a.kindOf(string(kind))
	if k == nil {
		return norman.Schema{}, false
	}
	return k.Schema, true
}

func version() norman.Version {
	return norman.Version{Group: "management.cattle.io", Version: "v3", Path: "/v3"}
}

// Kind is a type with its objects.
type Kind struct {
	Schema norman.Schema
	// List is all objects; Get is one of them.
	List func(*route.Call) []norman.Object
	Get  func(c *route.Call, id string) (norman.Object, bool)
	// Owner is the id of the user whom an object belongs to; nil for types that belong to no user.
	Owner func(norman.Object) string
	// Changed is the id of the object that a change is about, "" for none, with its last form where it is gone.
	Changed func(c *route.Call, change subscribe.Change) (id string, removed *norman.Object)
}

// ShownOf is a Kind's Changed for the documents of a collection that are shown by their key.
func ShownOf[T any](change subscribe.Change, collection string, show func(T) norman.Object) (id string, removed *norman.Object) {
	if change.Collection != collection {
		return "", nil
	}
	id, removed, _ = subscribe.Shown(func(d store.Document[T]) norman.Object { return show(d.Value) })(change)
	return id, removed
}

// of is what auth.May knows the type by.
func (k *Kind) of() auth.Kind { return auth.Kind(k.Schema.ID) }

func (k *Kind) about(o norman.Object) auth.Object {
	about := auth.Object{Kind: k.of(), Key: o.ID}
	about.Cluster, _ = o.Fields["clusterId"].(string)
	about.Project, _ = o.Fields["projectId"].(string)
	if k.Owner != nil {
		about.Owner = k.Owner(o)
	}
	return about
}

// kindOf finds a type by id or plural, in any case.
func (a *API) kindOf(name string) *Kind {
	i := slices.IndexFunc(a.kinds, func(k *Kind) bool {
		return strings.EqualFold(k.Schema.ID, name) || strings.EqualFold(k.Schema.Plural, name)
	})
	if i < 0 {
		return nil
	}
	return a.kinds[i]
}

// visible are the objects that the caller may see.
func (k *Kind) visible(c *route.Call) []norman.Object {
	if k.Owner == nil && !auth.Somewhere(c.Who, auth.Get, k.of()) {
		return nil
	}
	return slices.DeleteFunc(k.List(c), func(o norman.Object) bool { return !auth.May(c.Who, auth.Get, k.about(o)) })
}

// find is one object that the caller may see.
func (k *Kind) find(c *route.Call, id string) (norman.Object, bool) {
	o, ok := k.Get(c, id)
	return o, ok && auth.May(c.Who, auth.Get, k.about(o))
}

// allows says whether the caller may do something to an object, and the table has it.
func (a *API) allows(who auth.Identity, verb auth.Verb, o auth.Object) bool {
	return slices.Contains(a.verbs[o.Kind], verb) && auth.May(who, verb, o)
}

// present shows an object to the caller.
func (a *API) present(c *route.Call, k *Kind, o norman.Object) map[string]any {
	about := k.about(o)
	return k.Schema.Present(o, c.URLs, norman.Allowed{
		Update: a.allows(c.Who, auth.Update, about),
		Remove: a.allows(c.Who, auth.Remove, about),
		Action: func(name string) bool { return a.allows(c.Who, auth.Action(name), about) },
	})
}

// collection shows a list to the caller; self is its URL when it is not the type's own.
func (a *API) collection(c *route.Call, k *Kind, objects []norman.Object, self string) map[string]any {
	var actions []string
	all := auth.Object{Kind: k.of()}
	for name := range k.Schema.CollectionActions {
		if a.allows(c.Who, auth.CollectionAction(name), all) {
			actions = append(actions, name)
		}
	}
	return k.Schema.Collection(objects, norman.List{
		URLs: c.URLs, Values: c.Query(), Self: self, Creates: slices.Contains(a.verbs[all.Kind], auth.Create) && auth.Somewhere(c.Who, auth.Create, all.Kind), Actions: actions,
		Show: func(o norman.Object) map[string]any { return a.present(c, k, o) },
	})
}

// Issued shows a new token with its text, for the only time.
func (a *API) Issued(c *route.Call, t records.Token, text string) route.Answer {
	r := &Request{Call: c, api: a, kind: a.kindOf("token")}
	return a.shown(r, http.StatusCreated, a.Tokens.object(c, t), map[string]any{"token": text})
}
