// The types of /v1: the same clusters and machines as Kubernetes objects.

package steve

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/state"
)

// Options are what /v1 stands on.
type Options struct {
	State    *state.State
	Clusters *clusters.Applier
	// Versions is the current version data.
	Versions func() *versions.Data
	// Others are types of other packages, to read.
	Others []Type
	// Changes are what subscribers see.
	Changes *subscribe.Feed
}

// API serves /v1.
type API struct {
	Options
	kinds []*kind
}

// New makes an API. Learn must be called before it serves.
func New(o Options) *API {
	a := &API{Options: o}
	a.kinds = []*kind{a.provisioningKind(), a.machineKind(), a.managementKind()}
	for _, t := range o.Others {
		a.kinds = append(a.kinds, kindOfOthers(t))
	}
	return a
}

// Learn takes from the table what can be done with the types: schemas and links show no
// more than it has.
func (a *API) Learn(rows []route.Row) {
	for _, row := range rows {
		if name, ok := typeOf(row.Pattern); ok && !below(row.Pattern) {
			if k := a.kindOf(name); k != nil && row.Access.Verb != "" {
				k.verbs = append(k.verbs, row.Access.Verb)
			}
		}
	}
}

// elsewhere is where the same API is found, too: terraform asks for it there.
const elsewhere = "/k8s/clusters/local"

func below(pattern string) bool { return strings.HasPrefix(pattern, elsewhere) }

// typeOf is the type in a pattern or a path of /v1.
func typeOf(pattern string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(pattern, elsewhere), "/v1/")
	name, _, _ := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	return name, ok
}

// kind is a type of /v1 with its objects.
type kind struct {
	schema Schema
	// list is all objects that the caller may list, in the order of their ids; get is one of them by its
	// id, "<namespace>/<name>" or "<name>", if the caller may see it.
	list func(*Request) []Object
	get  func(c *Request, id string) (Object, bool)
	// of is what auth.May knows the objects by, and cluster the id of the cluster that one belongs to; verbs
	// are what the table has.
	of      auth.Kind
	cluster func(Object) string
	verbs   []auth.Verb
	// other is the type of another package that it is; nil for clusters and machines.
	other *Type
}

// methods is the schema as the caller may use it; false when there is nothing to use.
func (k *kind) methods(who auth.Identity) (Schema, bool) {
	s := k.schema
	s.CollectionMethods, s.ResourceMethods = []string{}, []string{}
	for _, m := range []struct {
		verb   auth.Verb
		method string
		of     *[]string
	}{
		{auth.ListAll, "GET", &s.CollectionMethods}, {auth.Create, "POST", &s.CollectionMethods}, {auth.Get, "GET", &s.ResourceMethods},
		{auth.Update, "PUT", &s.ResourceMethods}, {auth.Patch, "PATCH", &s.ResourceMethods}, {auth.Remove, "DELETE", &s.ResourceMethods},
	} {
		if k.allows(who, m.verb) {
			*m.of = append(*m.of, m.method)
		}
	}
	return s, len(s.CollectionMethods)+len(s.ResourceMethods) > 0
}

// allows says whether a user may do something with some object of the type, and the table has it. Of what everybody has, all
// list and get their own.
func (k *kind) allows(who auth.Identity, verb auth.Verb) bool {
	if k.own() && (verb == auth.ListAll || verb == auth.Get) {
		return true
	}
	if k.own() && (verb == auth.Update || verb == auth.Remove) {
		return slices.Contains(k.verbs, verb) && (auth.Somewhere(who, verb, k.of) || auth.Somewhere(who, auth.Create, k.of)) // of their own
	}
	return slices.Contains(k.verbs, verb) && auth.Somewhere(who, verb, k.of)
}

// own says that the objects that a user sees are theirs.
func (k *kind) own() bool { return k.other != nil && k.other.Own }

// mayIn says whether a user may do something with the objects of the type that are in a cluster.
func (k *kind) mayIn(who auth.Identity, verb auth.Verb, clusterID string) bool {
	about := auth.In(clusterID, k.of)
	if k.of == auth.Cluster {
		about = auth.OfCluster(clusterID)
	}
	return auth.May(who, verb, about)
}

// Request is one to /v1.
type Request struct {
	*route.Call
	base string // the URL of this API
	kind *kind
	// namespace and id are from the path.
	namespace, id string
}

// Handler does what a request to a type asks for.
type Handler func(*Request) (route.Answer, error)

// start takes the path apart. The answer says where the schemas are.
func (a *API) start(c *route.Call) *Request {
	prefix := "/v1"
	if below(c.Row.Pattern) {
		prefix = elsewhere + "/v1"
	}
	c.SchemasAt(prefix)
	r := &Request{Call: c, base: c.URLs.Base + prefix, namespace: c.Param("namespace"), id: c.Param("name")}
	if r.namespace != "" {
		r.id = r.namespace + "/" + r.id
	}
	if name, ok := typeOf(c.Row.Pattern); ok {
		r.kind = a.kindOf(name)
	}
	return r
}

// id is "<namespace>/<name>", or the name.
func (k *kind) id(o Object) string {
	if k.schema.Namespaced {
		return o.text("metadata.namespace") + "/" + o.text("metadata.name")
	}
	return o.text("metadata.name")
}

func (c *Request) present(k *kind, o Object) Object {
	has := func(verb auth.Verb) bool {
		return slices.Contains(k.verbs, verb) && (k.own() || k.mayIn(c.Who, verb, k.cluster(o)))
	}
	return k.schema.Present(c.base, o, k.id(o), Links{Update: has(auth.Update), Remove: has(auth.Remove)})
}

func (a *API) kindOf(name string) *kind {
	i := slices.IndexFunc(a.kinds, func(k *kind) bool {
		return strings.EqualFold(k.schema.Plural(), name) || strings.EqualFold(k.schema.ID(), name)
	})
	if i < 0 {
		return nil
	}
	return a.kinds[i]
}

// Root is GET /v1.
func (a *API) Root(call *route.Call) (route.Answer, error) {
	c := a.start(call)
	links := map[string]string{"root": c.URLs.Base + "/", "self": c.base, "schemas": c.base + "/schemas", "subscribe": c.base + "/subscribe"}
	for _, k := range a.kinds {
		if k.allows(c.Who, auth.ListAll) {
			links[k.schema.Plural()] = c.base + "/" + k.schema.Plural()
		}
	}
	path := strings.TrimPrefix(c.base, c.URLs.Base)
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"id": "v1", "type": "apiRoot", "apiVersion": map[string]string{"group": "", "version": "v1", "path": path}, "links": links, "actions": map[string]string{},
	}}, nil
}

// Schemas is GET /v1/schemas and /v1/schemas/{schema}: those of types of which the caller may do something.
func (a *API) Schemas(call *route.Call) (route.Answer, error) {
	c := a.start(call)
	id := c.Param("schema")
	data := []map[string]any{}
	for _, k := range a.kinds {
		s, ok := k.methods(c.Who)
		if !ok {
			continue
		}
		if strings.EqualFold(id, s.ID()) {
			c.SendTagged(s.Document(c.base))
			return route.Answer{}, nil
		}
		data = append(data, s.Document(c.base))
	}
	if id != "" {
		return route.Answer{}, norman.Missing("schema", id)
	}
	c.SendTagged(map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": c.base + "/schemas"}, "actions": map[string]string{}, "data": data,
	})
	return route.Answer{}, nil
}

// Unknown is what /v1 answers where the table has no row.
func (a *API) Unknown(call *route.Call) (route.Answer, error) {
	seg := call.Params("rest")
	if k := a.kindOf(seg[0]); k != nil && k.allows(call.Who, auth.Get) {
		return route.Answer{}, norman.Missing("link", strings.Join(seg[1:], "/"))
	}
	return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no type %q", seg[0])
}

// List is GET of a type, or of its objects in one namespace.
func (a *API) List(call *route.Call) (route.Answer, error) {
	c := a.start(call)
	k := c.kind
	// The revision comes first: who watches from it may see something twice, but misses nothing.
	revision := strconv.FormatInt(a.State.Store.Revision(), 10)
	objects := k.list(c)
	if c.namespace != "" {
		objects = slices.DeleteFunc(objects, func(o Object) bool { return !slices.Contains(o.At("metadata.namespace"), c.namespace) })
	}
	query := c.Query()
	page := Select(objects, query)
	data := make([]Object, len(page.Objects))
	for i, o := range page.Objects {
		data[i] = Without(c.present(k, o), query)
	}
	self := c.base + "/" + k.schema.Plural()
	body := map[string]any{
		"type": "collection", "resourceType": k.schema.ID(), "links": map[string]string{"self": self}, "actions": map[string]string{},
		"count": page.Count, "pages": page.Pages, "revision": revision, "continue": page.Continue, "data": data,
	}
	if k.allows(c.Who, auth.Create) {
		body["createTypes"] = map[string]string{k.schema.ID(): self}
	}
	return route.Answer{Status: http.StatusOK, Body: body}, nil
}

// Type is a request to a type.
func (a *API) Type(do Handler) route.Handler {
	return func(c *route.Call) (route.Answer, error) { return do(a.start(c)) }
}

// Resource is a request to an object that exists and that the caller sees: others are told so.
func (a *API) Resource(do Handler) route.Handler {
	return func(call *route.Call) (route.Answer, error) {
		c := a.start(call)
		o, ok := c.kind.get(c, c.id)
		if !ok {
			return route.Answer{}, norman.Missing(c.kind.schema.ID(), c.id)
		}
		if !c.kind.mayIn(c.Who, c.Row.Access.Verb, c.kind.cluster(o)) {
			return route.Answer{}, c.Denied()
		}
		return do(c)
	}
}

// Get is GET of an object.
func (a *API) Get(call *route.Call) (route.Answer, error) {
	c := a.start(call)
	return a.show(c, c.id, http.StatusOK, norman.Missing(c.kind.schema.ID(), c.id))
}

// Shown answers with an object that the caller made or changed, by its id.
func (c *Request) Shown(id string, status int) (route.Answer, error) {
	o, ok := c.kind.get(c, id)
	if !ok {
		return route.Answer{}, norman.Missing(c.kind.schema.ID(), id)
	}
	return route.Answer{Status: status, Body: c.present(c.kind, o)}, nil
}

// show answers with an object; with missing where it is gone.
func (a *API) show(c *Request, id string, status int, missing error) (route.Answer, error) {
	o, ok := c.kind.get(c, id)
	switch {
	case ok:
		return route.Answer{Status: status, Body: c.present(c.kind, o)}, nil
	case missing != nil:
		return route.Answer{}, missing
	}
	return route.Answer{Status: http.StatusNoContent}, nil
}
