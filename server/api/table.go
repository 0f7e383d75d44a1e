// Every request of /v3 with the access it needs. What is not in the table does not
// exist; schemas, links and actions are made from it, so that no client is shown what
// it may not do.

package api

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
)

// Verbs of requests. Actions are "action NAME" on a resource and "collection action
// NAME" on a type.
const (
	list             = "list"
	get              = "get"
	create           = "create"
	update           = "update"
	remove           = "remove"
	action           = "action "
	collectionAction = "collection action "
)

// access is who may do something to objects that they can see. Which objects somebody
// can see is decided by the kind.
type access int

const (
	// admin is for administrators.
	admin access = iota
	// signedIn is for everybody who is logged in.
	signedIn
)

func (x access) allows(who auth.Identity) bool { return x == signedIn || who.Admin }

// handler does what a request asks for. The error is answered as envelope says.
type handler func(*call) (answer, error)

// route is one row: a request and the access it needs. Lists and gets need no handler:
// the kind knows its objects.
type route struct {
	kind   string
	verb   string
	access access
	do     handler
	// open says that some resources are for everybody, without login.
	open func(id string) bool
}

func (a *API) table() []route {
	return []route{
		{kind: "cluster", verb: list, access: signedIn},
		{kind: "cluster", verb: get, access: signedIn},
		{kind: "cluster", verb: update, access: admin, do: a.updateCluster},
		{kind: "cluster", verb: remove, access: admin, do: a.removeCluster},
		{kind: "cluster", verb: action + "generateKubeconfig", access: signedIn, do: a.generateKubeconfig},

		{kind: "clusterRegistrationToken", verb: list, access: signedIn},
		{kind: "clusterRegistrationToken", verb: get, access: signedIn},
		{kind: "clusterRegistrationToken", verb: create, access: admin, do: a.createRegistrationToken},
		{kind: "clusterRegistrationToken", verb: remove, access: admin, do: a.removeRegistrationToken},

		{kind: "node", verb: list, access: signedIn},
		{kind: "node", verb: get, access: signedIn},
		{kind: "node", verb: remove, access: admin, do: a.removeNode},

		{kind: "nodePool", verb: list, access: signedIn},
		{kind: "nodePool", verb: get, access: signedIn},

		{kind: "project", verb: list, access: signedIn},
		{kind: "project", verb: get, access: signedIn},

		{kind: "setting", verb: list, access: signedIn},
		{kind: "setting", verb: get, access: signedIn, open: isOpenSetting},
		{kind: "setting", verb: update, access: admin, do: a.updateSetting},

		{kind: "token", verb: list, access: signedIn},
		{kind: "token", verb: get, access: signedIn},
		{kind: "token", verb: create, access: signedIn, do: a.createToken},
		{kind: "token", verb: update, access: signedIn, do: a.updateToken},
		{kind: "token", verb: remove, access: signedIn, do: a.removeToken},
		{kind: "token", verb: collectionAction + "logout", access: signedIn, do: a.logout},
		{kind: "token", verb: collectionAction + "logoutAll", access: signedIn, do: a.logoutAll},

		{kind: "user", verb: list, access: signedIn},
		{kind: "user", verb: get, access: signedIn},
		{kind: "user", verb: action + "setpassword", access: admin, do: a.setPassword},
		{kind: "user", verb: collectionAction + "changepassword", access: signedIn, do: a.changePassword},
	}
}

// kind is a type of /v3 with its objects.
type kind struct {
	schema norman.Schema
	// list is what the caller can see, get one of them.
	list func(*call) []norman.Object
	get  func(c *call, id string) (norman.Object, bool)
}

// answer is what a handler gives back.
type answer struct {
	status int
	// object is shown as a resource of the kind; extra fields are in this answer only.
	object *norman.Object
	extra  map[string]any
	// body is sent as it is; with neither, the answer is empty.
	body any
}

// build joins the kinds with the rows of the table.
func (a *API) build() ([]*kind, map[string]map[string]route) {
	kinds := []*kind{
		a.clusterKind(), a.registrationTokenKind(), a.nodeKind(), nodePoolKind(),
		a.projectKind(), a.settingKind(), a.tokenKind(), a.userKind(),
	}
	routes := map[string]map[string]route{}
	for _, r := range a.table() {
		if routes[r.kind] == nil {
			routes[r.kind] = map[string]route{}
		}
		routes[r.kind][r.verb] = r
	}
	for _, k := range kinds {
		k.schema.Version = management()
		has := func(verb string) bool { _, ok := routes[k.schema.ID][verb]; return ok }
		for _, m := range []struct {
			verb, method string
			of           *[]string
		}{
			{list, "GET", &k.schema.CollectionMethods}, {create, "POST", &k.schema.CollectionMethods},
			{get, "GET", &k.schema.ResourceMethods}, {update, "PUT", &k.schema.ResourceMethods}, {remove, "DELETE", &k.schema.ResourceMethods},
		} {
			if has(m.verb) {
				*m.of = append(*m.of, m.method)
			}
		}
	}
	return kinds, routes
}

func management() norman.Version {
	return norman.Version{Group: "management.cattle.io", Version: "v3", Path: "/v3"}
}

// kindOf finds a type by id or plural, in any case.
func (a *API) kindOf(segment string) *kind {
	i := slices.IndexFunc(a.kinds, func(k *kind) bool {
		return strings.EqualFold(k.schema.ID, segment) || strings.EqualFold(k.schema.Plural, segment)
	})
	if i < 0 {
		return nil
	}
	return a.kinds[i]
}

// allows says whether the caller may do something to objects of the kind.
func (a *API) allows(who auth.Identity, k *kind, verb string) bool {
	r, ok := a.routes[k.schema.ID][verb]
	return ok && r.access.allows(who)
}

// present shows an object to the caller.
func (c *call) present(k *kind, o norman.Object) map[string]any {
	return k.schema.Present(o, c.urls, norman.Allowed{
		Update: c.api.allows(c.who, k, update),
		Remove: c.api.allows(c.who, k, remove),
		Action: func(name string) bool { return c.api.allows(c.who, k, action+name) },
	})
}

// collection shows a list to the caller; self is its URL when it is not the type's own.
func (c *call) collection(k *kind, objects []norman.Object, self string) map[string]any {
	var actions []string
	for verb := range c.api.routes[k.schema.ID] {
		if name, ok := strings.CutPrefix(verb, collectionAction); ok && c.api.allows(c.who, k, verb) {
			actions = append(actions, name)
		}
	}
	return k.schema.Collection(objects, norman.List{
		URLs: c.urls, Values: c.query(), Self: self, Creates: c.api.allows(c.who, k, create), Actions: actions,
		Show: func(o norman.Object) map[string]any { return c.present(k, o) },
	})
}
