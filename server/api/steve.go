// /v1: the same clusters and machines as Kubernetes objects. Every request with the
// access it needs is in steveTable.

package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/auth"
)

const patch = "patch"

// steveRow is one request and the access it needs.
type steveRow struct {
	kind   string
	verb   string
	access access
	do     func(*steveCall) (answer, error)
}

func (a *API) steveTable() []steveRow {
	return []steveRow{
		{"provisioning.cattle.io.clusters", list, admin, nil},
		{"provisioning.cattle.io.clusters", get, admin, nil},
		{"provisioning.cattle.io.clusters", create, admin, a.steveCreateCluster},
		{"provisioning.cattle.io.clusters", update, admin, a.steveUpdateCluster},
		{"provisioning.cattle.io.clusters", patch, admin, a.stevePatchCluster},
		{"provisioning.cattle.io.clusters", remove, admin, a.steveRemoveCluster},

		{"cluster.x-k8s.io.machines", list, admin, nil},
		{"cluster.x-k8s.io.machines", get, admin, nil},

		{"management.cattle.io.clusters", list, admin, nil},
		{"management.cattle.io.clusters", get, admin, nil},
		{"management.cattle.io.clusters", action + "generateKubeconfig", admin, a.steveKubeconfig},
	}
}

// steveKind is a type of /v1 with its objects.
type steveKind struct {
	schema steve.Schema
	// list is all objects in the order of their ids; get is one of them by its id,
	// "<namespace>/<name>" or "<name>".
	list func(*steveCall) []steve.Object
	get  func(c *steveCall, id string) (steve.Object, bool)
	rows map[string]steveRow
}

func (a *API) steveKinds() []*steveKind {
	kinds := []*steveKind{a.provisioningKind(), a.machineKind(), a.managementKind()}
	for _, k := range kinds {
		k.rows = map[string]steveRow{}
		for _, row := range a.steveTable() {
			if row.kind == k.schema.Plural() {
				k.rows[row.verb] = row
			}
		}
	}
	return kinds
}

// methods is the schema as the caller may use it; false when there is nothing to use.
func (k *steveKind) methods(who auth.Identity) (steve.Schema, bool) {
	s := k.schema
	s.CollectionMethods, s.ResourceMethods = []string{}, []string{}
	for _, m := range []struct {
		verb, method string
		of           *[]string
	}{
		{list, "GET", &s.CollectionMethods}, {create, "POST", &s.CollectionMethods}, {get, "GET", &s.ResourceMethods},
		{update, "PUT", &s.ResourceMethods}, {patch, "PATCH", &s.ResourceMethods}, {remove, "DELETE", &s.ResourceMethods},
	} {
		if k.allows(who, m.verb) {
			*m.of = append(*m.of, m.method)
		}
	}
	return s, len(s.CollectionMethods)+len(s.ResourceMethods) > 0
}

func (k *steveKind) allows(who auth.Identity, verb string) bool {
	row, ok := k.rows[verb]
	return ok && row.access.allows(who)
}

// steveCall is one request to /v1.
type steveCall struct {
	*call
	base string // the URL of this API
	kind *steveKind
	// namespace and id are from the path.
	namespace, id string
}

func (c *steveCall) present(k *steveKind, o steve.Object) steve.Object {
	id := o.At("metadata.name")[0]
	if k.schema.Namespaced {
		id = o.At("metadata.namespace")[0] + "/" + id
	}
	return k.schema.Present(c.base, o, id, steve.Links{Update: k.allows(c.who, update), Remove: k.allows(c.who, remove)})
}

// serveSteve serves below prefix, /v1 or where else the same API is found.
func (a *API) serveSteve(plain *call, prefix string, seg []string) {
	if prefix == "/v1" && len(seg) == 1 && seg[0] == "logout" {
		a.serveLogout(plain)
		return
	}
	if !plain.authenticate() {
		return
	}
	plain.schemasAt(prefix)
	c := &steveCall{call: plain, base: plain.urls.Base + prefix}
	first := ""
	if len(seg) > 0 {
		first = strings.ToLower(seg[0])
	}
	switch first {
	case "":
		if c.onlyReads() {
			c.send(http.StatusOK, a.steveRoot(c, prefix))
		}
	case "schemas":
		a.steveSchemas(c, seg[1:])
	case "subscribe":
		a.subscribeSteve(c)
	default:
		k := a.steveKindOf(c.who, first)
		if k == nil {
			c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no type %q", seg[0]))
			return
		}
		c.kind = k
		a.steveRequest(c, seg[1:])
	}
}

func (a *API) steveKindOf(who auth.Identity, name string) *steveKind {
	for _, k := range a.steve {
		if strings.EqualFold(k.schema.Plural(), name) || strings.EqualFold(k.schema.ID(), name) {
			if _, ok := k.methods(who); ok {
				return k
			}
		}
	}
	return nil
}

func (a *API) steveRoot(c *steveCall, prefix string) map[string]any {
	links := map[string]string{"root": c.urls.Base + "/", "self": c.base, "schemas": c.base + "/schemas", "subscribe": c.base + "/subscribe"}
	for _, k := range a.steve {
		if k.allows(c.who, list) {
			links[k.schema.Plural()] = c.base + "/" + k.schema.Plural()
		}
	}
	return map[string]any{"id": "v1", "type": "apiRoot", "apiVersion": map[string]string{"group": "", "version": "v1", "path": prefix}, "links": links, "actions": map[string]string{}}
}

func (a *API) steveSchemas(c *steveCall, seg []string) {
	if !c.onlyReads() {
		return
	}
	data := []map[string]any{}
	for _, k := range a.steve {
		s, ok := k.methods(c.who)
		if !ok {
			continue
		}
		if len(seg) == 1 && strings.EqualFold(seg[0], s.ID()) {
			a.reply.SendTagged(c.w, c.r, s.Document(c.base))
			return
		}
		data = append(data, s.Document(c.base))
	}
	if len(seg) > 0 {
		c.fail(norman.Missing("schema", strings.Join(seg, "/")))
		return
	}
	a.reply.SendTagged(c.w, c.r, map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": c.base + "/schemas"}, "actions": map[string]string{}, "data": data,
	})
}

// steveRequest is a request to /v1/{type}, to the type in a namespace, or to a resource.
func (a *API) steveRequest(c *steveCall, seg []string) {
	full := 1
	if c.kind.schema.Namespaced {
		full = 2
	}
	if len(seg) > full {
		c.fail(norman.Missing("link", strings.Join(seg[full:], "/")))
		return
	}
	c.id = strings.Join(seg, "/")
	if len(seg) == full {
		a.steveResource(c)
		return
	}
	c.namespace = c.id
	a.steveCollection(c)
}

func (a *API) steveCollection(c *steveCall) {
	switch c.method {
	case http.MethodGet, http.MethodHead:
		if c.permitted(list) {
			c.send(http.StatusOK, a.steveList(c))
		}
	case http.MethodPost:
		if c.permitted(create) {
			c.doSteve(create)
		}
	default:
		c.permitted("")
	}
}

func (a *API) steveList(c *steveCall) map[string]any {
	k := c.kind
	// The revision comes first: who watches from it may see something twice, but misses nothing.
	revision := strconv.FormatInt(a.State.Store.Revision(), 10)
	objects := k.list(c)
	if c.namespace != "" {
		objects = slices.DeleteFunc(objects, func(o steve.Object) bool { return !slices.Contains(o.At("metadata.namespace"), c.namespace) })
	}
	query := c.query()
	page := steve.Select(objects, query)
	data := make([]steve.Object, len(page.Objects))
	for i, o := range page.Objects {
		data[i] = steve.Without(c.present(k, o), query)
	}
	self := c.base + "/" + k.schema.Plural()
	answer := map[string]any{
		"type": "collection", "resourceType": k.schema.ID(), "links": map[string]string{"self": self}, "actions": map[string]string{},
		"count": page.Count, "pages": page.Pages, "revision": revision, "continue": page.Continue, "data": data,
	}
	if k.allows(c.who, create) {
		answer["createTypes"] = map[string]string{k.schema.ID(): self}
	}
	return answer
}

func (a *API) steveResource(c *steveCall) {
	verb := ""
	switch c.method {
	case http.MethodGet, http.MethodHead:
		verb = get
	case http.MethodPut:
		verb = update
	case http.MethodPatch:
		verb = patch
	case http.MethodDelete:
		verb = remove
	case http.MethodPost:
		verb = action + c.query().Get("action")
	}
	o, ok := c.kind.get(c, c.id)
	if !ok {
		c.fail(norman.Missing(c.kind.schema.ID(), c.id))
		return
	}
	if !c.permitted(verb) {
		return
	}
	if verb == get {
		c.send(http.StatusOK, c.present(c.kind, o))
		return
	}
	c.doSteve(verb)
}

// permitted says whether the caller may do it; it has answered when they may not.
func (c *steveCall) permitted(verb string) bool {
	row, ok := c.kind.rows[verb]
	switch {
	case !ok && strings.HasPrefix(verb, action) && verb != action:
		c.fail(norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "%s has no %s", c.kind.schema.ID(), verb))
	case !ok:
		c.fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.method))
	case !row.access.allows(c.who):
		c.fail(norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not do %q with type %s", c.who.Username, verb, c.kind.schema.ID()))
	default:
		return true
	}
	return false
}

func (c *steveCall) doSteve(verb string) {
	c.do(route{do: func(*call) (answer, error) { return c.kind.rows[verb].do(c) }})
}

// serveLogout is POST /v1/logout.
func (a *API) serveLogout(c *call) {
	switch {
	case c.method != http.MethodPost:
		c.fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.method))
	case c.isLoggedOut():
	case c.authenticate():
		c.do(route{do: a.logout})
	}
}

// isLoggedOut answers a browser that logs out of a session that is over: to do so again
// is no error.
func (c *call) isLoggedOut() bool {
	cookie, err := c.r.Cookie(auth.SessionCookie)
	if err != nil || c.r.Header.Get("Authorization") != "" {
		return false
	}
	if _, err := c.api.Auth.Check(cookie.Value); err == nil {
		return false
	}
	auth.EndSession(c.w)
	norman.Uncached(c.w.Header())
	c.w.WriteHeader(http.StatusOK)
	return true
}

// logoutRepeated is isLoggedOut for POST /v3/tokens?action=logout.
func (c *call) logoutRepeated(seg []string) bool {
	name := c.query().Get("action")
	return c.method == http.MethodPost && len(seg) == 1 && strings.EqualFold(seg[0], "tokens") &&
		(name == "logout" || name == "logoutAll") && c.isLoggedOut()
}
