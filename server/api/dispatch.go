// How a request of /v3 finds its row in the table, and the order of the checks:
// authenticated, route and method, visible, allowed, body.

package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
)

// serveRoots is GET /: the roots of all versions.
func (a *API) serveRoots(c *call) {
	if !c.onlyReads() {
		return
	}
	data := []map[string]any{a.root(c)}
	c.send(http.StatusOK, map[string]any{
		"type": "collection", "resourceType": "apiRoot", "links": map[string]string{"self": c.urls.Base + "/"},
		"actions": map[string]string{}, "data": data,
	})
}

func (a *API) root(c *call) map[string]any {
	v := management()
	links := map[string]string{"root": c.urls.Base + "/", "self": c.urls.Base + v.Path, "subscribe": c.urls.Base + v.Path + "/subscribe"}
	for _, k := range a.kinds {
		links[k.schema.Plural] = c.urls.Collection(k.schema)
	}
	return map[string]any{"id": v.Path, "type": "apiRoot", "baseType": "apiRoot", "apiVersion": v, "actions": map[string]string{}, "links": links}
}

func (a *API) serveV3(c *call, seg []string) {
	first := ""
	if len(seg) > 0 {
		first = strings.ToLower(seg[0])
	}
	if first == "import" { // kubectl fetches manifests here, without login, and shows plain text
		norman.Uncached(c.w.Header())
		http.Error(c.w, "there is no manifest at this address: this version of drover does not import clusters", http.StatusNotFound)
		return
	}
	if k := a.kindOf(first); k != nil && len(seg) == 2 && c.reading() && a.isOpen(k, seg[1]) {
		a.serveOpen(c, k, seg[1])
		return
	}
	if c.logoutRepeated(seg) || !c.authenticate() {
		return
	}
	c.schemasAt("/v3")
	switch first {
	case "":
		if c.onlyReads() {
			c.send(http.StatusOK, a.root(c))
		}
	case "schemas":
		schemas := make([]norman.Schema, len(a.kinds))
		for i, k := range a.kinds {
			schemas[i] = k.schema
		}
		a.serveSchemas(c, c.urls, schemas, seg[1:])
	case "subscribe":
		a.subscribeNorman(c, subAPI{}, "")
	default:
		if sub, ok := a.subOf(first); ok && a.serveSub(c, sub, seg[1:]) {
			return
		}
		a.serveKind(c, seg)
	}
}

// serveSchemas lists schemas, or shows one.
func (a *API) serveSchemas(c *call, u norman.URLs, schemas []norman.Schema, seg []string) {
	if !c.onlyReads() {
		return
	}
	if len(seg) > 1 {
		c.fail(norman.Missing("link", seg[1]))
		return
	}
	data := []map[string]any{}
	for _, s := range schemas {
		if len(seg) == 1 && strings.EqualFold(s.ID, seg[0]) {
			a.reply.SendTagged(c.w, c.r, s.Document(u))
			return
		}
		data = append(data, s.Document(u))
	}
	if len(seg) == 1 {
		c.fail(norman.Missing("schema", seg[0]))
		return
	}
	a.reply.SendTagged(c.w, c.r, map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": u.At("/v3", "schemas")},
		"actions": map[string]string{}, "data": data,
	})
}

// isOpen says that a resource is for everybody.
func (a *API) isOpen(k *kind, id string) bool {
	r := a.routes[k.schema.ID][get]
	return r.open != nil && r.open(id)
}

// serveOpen shows a resource without login; whoever logs in sees what they may do with it.
func (a *API) serveOpen(c *call, k *kind, id string) {
	if who, err := a.Auth.Authenticate(c.r); err == nil && who.ClusterID == "" {
		c.who = who
	}
	c.schemasAt("/v3")
	o, ok := k.get(c, id)
	if !ok {
		c.fail(norman.Missing(k.schema.ID, id))
		return
	}
	c.send(http.StatusOK, c.present(k, o))
}

// serveKind serves /v3/<type>[/<id>[/<link>]].
func (a *API) serveKind(c *call, seg []string) {
	k := a.kindOf(seg[0])
	if k == nil {
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no type %q", seg[0]))
		return
	}
	switch len(seg) {
	case 1:
		a.serveCollection(c, k, k.list, "")
	case 2:
		a.serveResource(c, k, seg[1])
	default:
		c.fail(norman.Missing("link", strings.Join(seg[2:], "/")))
	}
}

func (a *API) serveCollection(c *call, k *kind, objects func(*call) []norman.Object, self string) {
	c.kind = k
	verb := create
	switch c.method {
	case http.MethodGet, http.MethodHead:
		verb = list
	case http.MethodPost:
		if name := c.query().Get("action"); name != "" {
			verb = collectionAction + name
		}
	default:
		verb = ""
	}
	r, ok := c.route(k, verb)
	if !ok {
		return
	}
	if verb == list {
		c.send(http.StatusOK, c.collection(k, objects(c), self))
		return
	}
	if !r.access.allows(c.who) {
		c.deny(verb)
		return
	}
	c.do(r)
}

func (a *API) serveResource(c *call, k *kind, id string) {
	c.kind, c.id = k, id
	verb := ""
	switch c.method {
	case http.MethodGet, http.MethodHead:
		verb = get
	case http.MethodPut:
		verb = update
	case http.MethodDelete:
		verb = remove
	case http.MethodPost:
		switch name := c.query().Get("action"); name {
		case "":
		case "remove":
			verb = remove
		default:
			verb = action + name
		}
	}
	r, ok := c.route(k, verb)
	if !ok {
		return
	}
	if c.object, ok = k.get(c, id); !ok {
		c.fail(norman.Missing(k.schema.ID, id))
		return
	}
	if verb == get {
		c.send(http.StatusOK, c.present(k, c.object))
		return
	}
	if !r.access.allows(c.who) {
		c.deny(verb)
		return
	}
	if name, isAction := strings.CutPrefix(verb, action); isAction && !slices.Contains(c.object.Actions, name) {
		c.fail(norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "%s %s has no action %q now", k.schema.ID, id, name))
		return
	}
	c.do(r)
}

// route finds the row; it has answered when there is none.
func (c *call) route(k *kind, verb string) (route, bool) {
	r, ok := c.api.routes[k.schema.ID][verb]
	if ok {
		return r, true
	}
	if strings.Contains(verb, action) {
		name := verb[strings.LastIndexByte(verb, ' ')+1:]
		c.fail(norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "%s has no action %q", k.schema.ID, name))
		return r, false
	}
	c.fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.method))
	return r, false
}

func (c *call) deny(verb string) {
	c.fail(norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not do %q with type %s", c.who.Username, verb, c.kind.schema.ID))
}

// do runs the handler and sends what it gives back.
func (c *call) do(r route) {
	a, err := r.do(c)
	if err != nil {
		c.fail(err)
		return
	}
	switch {
	case a.object != nil:
		resource := c.present(c.kind, *a.object)
		maps.Copy(resource, a.extra)
		c.send(a.status, resource)
	case a.body != nil:
		c.send(a.status, a.body)
	default:
		norman.Uncached(c.w.Header())
		c.w.WriteHeader(a.status)
	}
}

// onlyReads says that the request only reads; it has answered when it does not.
func (c *call) onlyReads() bool {
	if c.reading() {
		return true
	}
	c.fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.method))
	return false
}

// reading is onlyReads without an answer.
func (c *call) reading() bool { return c.method == http.MethodGet || c.method == http.MethodHead }

// subAPI is the API in the context of one cluster or project. Its types are published,
// since the CLI looks for them, but drover shows none of them: that is the business of
// the cluster's own API.
type subAPI struct {
	// word and plural are the first segment of its paths; kind the type whose ids follow.
	word, plural string
	kind         *kind
	version      norman.Version
	schemas      []norman.Schema
	// filter is the field by which types of the management API are narrowed to the context.
	filter string
}

func (a *API) subOf(word string) (subAPI, bool) {
	i := slices.IndexFunc(a.subs, func(s subAPI) bool { return s.word == word || s.plural == word })
	if i < 0 {
		return subAPI{}, false
	}
	return a.subs[i], true
}

// serveSub serves what lies behind /v3/cluster[s] and /v3/project[s], but for the
// type's own requests, for which it sets the header and returns false.
func (a *API) serveSub(c *call, sub subAPI, seg []string) bool {
	if len(seg) == 0 {
		if strings.HasSuffix(c.r.URL.Path, "/") { // the CLI without a context
			c.schemasAt("/v3/" + sub.word)
		}
		return false
	}
	u := c.urls
	if strings.EqualFold(seg[0], "schemas") {
		u.Path = "/v3/" + sub.word
		a.serveSchemas(c, u, sub.schemas, seg[1:])
		return true
	}
	u.Path = "/v3/" + sub.word + "/" + url.PathEscape(seg[0])
	if len(seg) == 1 {
		if _, ok := sub.kind.get(c, seg[0]); ok {
			c.schemasAt(u.Path)
		}
		return false
	}
	if _, ok := sub.kind.get(c, seg[0]); !ok {
		c.fail(norman.Missing(sub.word, seg[0]))
		return true
	}
	c.schemasAt(u.Path)
	a.serveInContext(c, sub, u, seg[0], seg[1:])
	return true
}

func (a *API) serveInContext(c *call, sub subAPI, u norman.URLs, id string, seg []string) {
	name := strings.ToLower(seg[0])
	switch k := a.kindOf(name); {
	case name == "schemas":
		a.serveSchemas(c, u, sub.schemas, seg[1:])
	case name == "subscribe":
		a.subscribeNorman(c, sub, id)
	case k != nil && len(seg) == 1 && k.schema.Fields[sub.filter].Type != "":
		within := []norman.Condition{{Field: sub.filter, Modifier: "eq", Values: []string{id}}}
		a.serveCollection(c, k, func(c *call) []norman.Object {
			return slices.DeleteFunc(k.list(c), func(o norman.Object) bool { return !k.schema.Match(o, within) })
		}, u.At("", name))
	default:
		for _, s := range sub.schemas {
			if strings.EqualFold(s.ID, name) || strings.EqualFold(s.Plural, name) {
				c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound,
					"drover does not show %s; ask the cluster's own API, with kubectl and the kubeconfig of the cluster", s.Plural))
				return
			}
		}
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no type or link %q here", seg[0]))
	}
}

// subAPIs are the two contexts with the types that clients expect in them. None of
// these may repeat a type of the management API: clients take the last one they find.
func (a *API) subAPIs() []subAPI {
	only := func(group, word string, ids ...string) (norman.Version, []norman.Schema) {
		v := norman.Version{Group: group, Version: "v3", Path: "/v3/" + word}
		schemas := make([]norman.Schema, len(ids))
		for i, id := range ids {
			schemas[i] = norman.Schema{
				ID: id, Plural: plural(id), Version: v, CollectionMethods: []string{"GET"}, ResourceMethods: []string{"GET"},
				Fields: norman.Fields(map[string]norman.Field{"name": {Type: "string"}}),
			}
		}
		return v, schemas
	}
	cluster := subAPI{word: "cluster", plural: "clusters", kind: a.kindOf("cluster"), filter: "clusterId"}
	cluster.version, cluster.schemas = only("cluster.cattle.io", "cluster", "namespace", "persistentVolume", "storageClass")
	project := subAPI{word: "project", plural: "projects", kind: a.kindOf("project"), filter: "projectId"}
	project.version, project.schemas = only("project.cattle.io", "project", "namespacedSecret", "secret", "workload")
	return []subAPI{cluster, project}
}

func plural(id string) string {
	if strings.HasSuffix(id, "s") {
		return id + "es"
	}
	return id + "s"
}
