// How a request to /v3 reaches a type or one of its resources, and the roots and schemas
// that clients ask for first.

package management

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
)

// Request is one to a type or, with an id, to one of its resources, as it was when the
// request came.
type Request struct {
	*route.Call
	api    *API
	kind   *Kind
	id     string
	object norman.Object
}

// ID is that of the resource.
func (r *Request) ID() string { return r.id }

// Object is the resource as it was when the request came.
func (r *Request) Object() norman.Object { return r.object }

// Schema is that of the type.
func (r *Request) Schema() norman.Schema { return r.kind.Schema }

// Shown is the answer that shows a resource as it is now.
func (r *Request) Shown(status int, o norman.Object) route.Answer {
	return r.api.shown(r, status, o, nil)
}

// AfterRemoval shows what is left of the resource, if anything is.
func (r *Request) AfterRemoval() (route.Answer, error) {
	if object, ok := r.kind.find(r.Call, r.id); ok {
		return r.Shown(http.StatusOK, object), nil
	}
	return route.Answer{Status: http.StatusNoContent}, nil
}

// of is the request as one about a resource of another type.
func (r *Request) of(kind, id string) *Request {
	return &Request{Call: r.Call, api: r.api, kind: r.api.kindOf(kind), id: id}
}

// Handler does what a request to a type asks for.
type Handler func(*Request) (route.Answer, error)

// Body does something by the body of a request, which is as the schema of its kind says.
type Body func(*Request, norman.Input) (route.Answer, error)

// Handler reads the body first.
func (do Body) Handler(c *Request) (route.Answer, error) {
	in, err := c.Input(c.kind.Schema)
	if err != nil {
		return route.Answer{}, err
	}
	return do(c, in)
}

// Roots is GET /: the roots of all versions.
func (a *API) Roots(c *route.Call) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "apiRoot", "links": map[string]string{"self": c.URLs.Base + "/"},
		"actions": map[string]string{}, "data": []map[string]any{a.root(c)},
	}}, nil
}

// Root is GET /v3.
func (a *API) Root(c *route.Call) (route.Answer, error) {
	c.SchemasAt("/v3")
	return route.Answer{Status: http.StatusOK, Body: a.root(c)}, nil
}

func (a *API) root(c *route.Call) map[string]any {
	v := version()
	links := map[string]string{"root": c.URLs.Base + "/", "self": c.URLs.Base + v.Path, "subscribe": c.URLs.Base + v.Path + "/subscribe"}
	for _, k := range a.kinds {
		links[k.Schema.Plural] = c.URLs.Collection(k.Schema)
	}
	return map[string]any{"id": v.Path, "type": "apiRoot", "baseType": "apiRoot", "apiVersion": v, "actions": map[string]string{}, "links": links}
}

// Schemas is GET /v3/schemas and /v3/schemas/{schema}.
func (a *API) Schemas(c *route.Call) (route.Answer, error) {
	c.SchemasAt("/v3")
	schemas := make([]norman.Schema, len(a.kinds))
	for i, k := range a.kinds {
		schemas[i] = k.Schema
	}
	return sendSchemas(c, c.URLs, schemas)
}

// sendSchemas lists schemas, or shows the one that the path names.
func sendSchemas(c *route.Call, u norman.URLs, schemas []norman.Schema) (route.Answer, error) {
	id := c.Param("schema")
	data := []map[string]any{}
	for _, s := range schemas {
		if strings.EqualFold(s.ID, id) {
			c.SendTagged(s.Document(u))
			return route.Answer{}, nil
		}
		data = append(data, s.Document(u))
	}
	if id != "" {
		return route.Answer{}, norman.Missing("schema", id)
	}
	c.SendTagged(map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": u.At("/v3", "schemas")},
		"actions": map[string]string{}, "data": data,
	})
	return route.Answer{}, nil
}

// Unknown is what /v3 answers where the table has no row.
func (a *API) Unknown(c *route.Call) (route.Answer, error) {
	seg := c.Params("rest")
	if a.kindOf(seg[0]) != nil && len(seg) > 2 {
		return route.Answer{}, norman.Missing("link", strings.Join(seg[2:], "/"))
	}
	return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no type %q", seg[0])
}

// List is GET of a type.
func (a *API) List(c *route.Call) (route.Answer, error) {
	k := a.start(c)
	if sub, ok := a.subOf(k); ok && strings.HasSuffix(c.R.URL.Path, "/") { // the CLI without a context
		c.SchemasAt("/v3/" + sub.word)
	}
	return route.Answer{Status: http.StatusOK, Body: a.collection(c, k, k.visible(c), "")}, nil
}

// start is the type that the row is for.
func (a *API) start(c *route.Call) *Kind {
	c.SchemasAt("/v3")
	return a.kindOf(string(c.Row.Access.Kind))
}

// Get is GET of a resource.
func (a *API) Get(c *route.Call) (route.Answer, error) {
	r, err := a.resource(c)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: a.present(c, r.kind, r.object)}, nil
}

// Type is a request to a type that the table has allowed.
func (a *API) Type(do Handler) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		return do(&Request{Call: c, api: a, kind: a.start(c)})
	}
}

// Resource is a request to a resource: the caller must see it, be allowed to do it, and it
// must have the action now.
func (a *API) Resource(do Handler) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		r, err := a.resource(c)
		if err != nil {
			return route.Answer{}, err
		}
		verb := c.Row.Access.Verb
		if !auth.May(c.Who, verb, r.kind.about(r.object)) {
			return route.Answer{}, c.Denied()
		}
		if name, ok := verb.ActionName(); ok && !slices.Contains(r.object.Actions, name) {
			return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "%s %s has no action %q now", r.kind.Schema.ID, r.id, name)
		}
		return do(r)
	}
}

func (a *API) resource(c *route.Call) (*Request, error) {
	r := &Request{Call: c, api: a, kind: a.start(c), id: c.Param("id")}
	var ok bool
	if r.object, ok = r.kind.find(c, r.id); !ok {
		return nil, norman.Missing(r.kind.Schema.ID, r.id)
	}
	if sub, ok := a.subOf(r.kind); ok {
		c.SchemasAt(sub.path(r.id))
	}
	return r, nil
}

// shown is the answer that shows a resource; extra fields are in this answer only.
func (a *API) shown(r *Request, status int, o norman.Object, extra map[string]any) route.Answer {
	if status == http.StatusCreated {
		if !route.Concerned(r.Call) {
			r.Concern(o.ID)
		}
		_ = route.Again(r.Call) // the maker may do more with it than when they asked
	}
	body := a.present(r.Call, r.kind, o)
	maps.Copy(body, extra)
	Ignored(r.Call, body)
	return route.Answer{Status: status, Body: body}
}

// Ignored names in an answer the fields of the request that nothing was done about, as the header does that Call.Input sets.
func Ignored(c *route.Call, body map[string]any) {
	if names := c.W.Header().Get("X-Drover-Ignored-Fields"); names != "" {
		body["ignoredFields"] = strings.Split(names, ",")
	}
}

// subAPI is the API in the context of one cluster or project. Its types are published,
// since the CLI looks for them, but drover shows none of them: that is the business of
// the cluster's own API.
type subAPI struct {
	// word is what its paths begin with; kind the type whose ids follow.
	word    string
	kind    *Kind
	schemas []norman.Schema
	// filter is the field by which types of the management API are narrowed to the context.
	filter string
}

func (s subAPI) path(id string) string { return "/v3/" + s.word + "/" + url.PathEscape(id) }

func (a *API) subOf(k *Kind) (subAPI, bool) {
	i := slices.IndexFunc(a.subs, func(s subAPI) bool { return s.kind == k })
	if i < 0 {
		return subAPI{}, false
	}
	return a.subs[i], true
}

// context is the cluster or project, of the type of that name, in which the request is;
// its id is empty where the path names none.
func (a *API) context(c *route.Call, word string) (sub subAPI, id string, u norman.URLs, err error) {
	sub, _ = a.subOf(a.kindOf(word))
	u, id = c.URLs, c.Param("context")
	c.SchemasAt("/v3")
	u.Path = "/v3/" + sub.word
	if id == "" {
		return sub, id, u, nil
	}
	u.Path = sub.path(id)
	if _, ok := sub.kind.find(c, id); !ok {
		return sub, id, u, norman.Missing(sub.word, id)
	}
	c.SchemasAt(u.Path)
	return sub, id, u, nil
}

// Context is the cluster or project, of the type of that name, in which the request is, with the URLs of what is in it. The error is 404.
func (a *API) Context(c *route.Call, word string) (id string, u norman.URLs, err error) {
	_, id, u, err = a.context(c, word)
	return id, u, err
}

// SchemasIn is GET …/schemas in the context of a cluster or project, or of none.
func (a *API) SchemasIn(word string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		sub, _, u, err := a.context(c, word)
		if err != nil {
			return route.Answer{}, err
		}
		return sendSchemas(c, u, sub.schemas)
	}
}

// ListIn is GET of a type of the management API in the context of a cluster or project.
func (a *API) ListIn(word string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		sub, id, u, err := a.context(c, word)
		if err != nil {
			return route.Answer{}, err
		}
		k := a.kindOf(string(c.Row.Access.Kind))
		within := []norman.Condition{{Field: sub.filter, Modifier: "eq", Values: []string{id}}}
		objects := slices.DeleteFunc(k.visible(c), func(o norman.Object) bool { return !k.Schema.Match(o, within) })
		self := u.At("", strings.ToLower(k.Schema.Plural))
		return route.Answer{Status: http.StatusOK, Body: a.collection(c, k, objects, self)}, nil
	}
}

// TypeIn is Type in the context of a cluster or project; it asks May itself, since a caller who
// does not see the context learns no more.
func (a *API) TypeIn(word string, do Handler) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		_, id, _, err := a.context(c, word)
		if err != nil {
			return route.Answer{}, err
		}
		k := a.kindOf(string(c.Row.Access.Kind))
		if !auth.May(c.Who, c.Row.Access.Verb, auth.In(id, k.of())) {
			return route.Answer{}, c.Denied()
		}
		return do(&Request{Call: c, api: a, kind: k})
	}
}

// UnknownIn is what the context of a cluster or project answers where the table has no row.
func (a *API) UnknownIn(word string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		sub, _, _, err := a.context(c, word)
		if err != nil {
			return route.Answer{}, err
		}
		name := c.Params("link")[0]
		for _, s := range sub.schemas {
			if strings.EqualFold(s.ID, name) || strings.EqualFold(s.Plural, name) {
				if way := notMade()[s.ID]; way != "" && c.Method == http.MethodPost {
					return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "drover makes no %s: %s", s.ID, way)
				}
				return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound,
					"drover does not show %s; ask the cluster's own API, with kubectl and the kubeconfig of the cluster", s.Plural)
			}
		}
		return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no type or link %q here", name)
	}
}

// subAPIs are the two contexts with the types that clients expect in them. None of
// these may repeat a type of the management API: clients take the last one they find.
func (a *API) subAPIs() []subAPI {
	only := func(group, word string, ids ...string) []norman.Schema {
		v := norman.Version{Group: group, Version: "v3", Path: "/v3/" + word}
		schemas := make([]norman.Schema, len(ids))
		for i, id := range ids {
			if at := slices.IndexFunc(a.Inside, func(s norman.Schema) bool { return s.ID == id }); at >= 0 {
				schemas[i] = a.Inside[at]
				continue
			}
			schemas[i] = norman.Schema{
				ID: id, Plural: plural(id), Version: v, CollectionMethods: []string{"GET"}, ResourceMethods: []string{"GET"},
				Fields: norman.Fields(map[string]norman.Field{"name": {Type: "string"}}),
			}
			if notMade()[id] != "" {
				schemas[i].CollectionMethods = append(schemas[i].CollectionMethods, http.MethodPost) // so that clients come and are told
			}
		}
		return schemas
	}
	return []subAPI{
		{
			word: "cluster", kind: a.kindOf("cluster"), filter: "clusterId",
			schemas: only("cluster.cattle.io", "cluster", "namespace", "persistentVolume", "storageClass"),
		},
		{
			word: "project", kind: a.kindOf("project"), filter: "projectId",
			schemas: only("project.cattle.io", "project", "secret", "workload", "namespacedSecret", "dockerCredential", "namespacedDockerCredential", "certificate", "namespacedCertificate"),
		},
	}
}

// notMade are the types of projects that clients try to make and that are made otherwise, by their ids, with the way.
func notMade() map[string]string {
	const (
		secret      = "make the Secret in its namespace, with kubectl through the kubeconfig of the cluster, or without a namespace as a secret of the project, which is in all of its namespaces"
		registry    = "make a Secret of the type kubernetes.io/dockerconfigjson in its namespace, with kubectl create secret docker-registry through the kubeconfig of the cluster; for the hosts of a cluster, registries are in its document"
		certificate = "make a Secret of the type kubernetes.io/tls in its namespace, with kubectl create secret tls through the kubeconfig of the cluster"
	)
	return map[string]string{
		"namespacedSecret": secret, "dockerCredential": registry, "namespacedDockerCredential": registry, "certificate": certificate, "namespacedCertificate": certificate,
	}
}

func plural(id string) string {
	if strings.HasSuffix(id, "s") {
		return id + "es"
	}
	return id + "s"
}
