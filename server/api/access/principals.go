// The type principal: people and groups as bindings name them, and who the caller is.

package access

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/views"
)

func (a *API) principalKind() management.Kind {
	text := norman.Field{Type: "string"}
	return management.Kind{
		Schema: norman.Schema{
			ID: "principal", Plural: "principals",
			Fields: norman.Fields(map[string]norman.Field{
				"name": text, "loginName": text, "provider": text, "principalType": {Type: "enum", Options: []string{"user", "group"}},
				"me": {Type: "boolean", Default: false}, "memberOf": {Type: "boolean", Default: false},
			}),
			CollectionActions: map[string]norman.Action{"search": {Input: "searchPrincipalsInput", Output: "collection"}},
		},
		Owner: func(o norman.Object) string { owner, _ := o.Fields["ownerId"].(string); return owner },
		List: func(c *route.Call) []norman.Object {
			d, ok := a.State.Users.Get(c.Who.UserID)
			if !ok {
				return nil
			}
			own := []norman.Object{userPrincipal(c, d.Value)}
			for _, principal := range d.Value.Elsewhere {
				own = append(own, outsidePrincipal(c, d.Value, principal))
			}
			for _, group := range d.Value.Groups {
				own = append(own, groupPrincipal(c, group))
			}
			return own
		},
		Get: func(c *route.Call, id string) (norman.Object, bool) {
			if local, ok := roles.LocalUserID(id); ok {
				d, exists := a.State.Users.Get(local)
				return userPrincipal(c, d.Value), exists
			}
			if d, ok := a.State.UsersByPrincipal.First(id); ok {
				return outsidePrincipal(c, d.Value, id), true
			}
			d, ok := a.State.Users.Get(c.Who.UserID)
			for _, group := range d.Value.Groups {
				if ok && group == id {
					return groupPrincipal(c, group), true
				}
			}
			return a.boundGroup(id)
		},
	}
}

// userPrincipal is a person. The field ownerId is for the question who may see it.
func userPrincipal(c *route.Call, u records.User) norman.Object {
	return norman.Object{ID: u.Principal(), Fixed: true, Kept: true, Fields: map[string]any{
		"name": cmp.Or(u.DisplayName, u.Username), "loginName": u.Username, "principalType": "user", "provider": "local", "me": u.ID == c.Who.UserID, "memberOf": false,
		"ownerId": u.ID, "created": u.Created, "creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
}

// outsidePrincipal is a person as a directory knows them.
func outsidePrincipal(c *route.Call, u records.User, principal string) norman.Object {
	o := userPrincipal(c, u)
	o.ID = principal
	o.Fields["provider"], _ = directories.KindOf(principal)
	return o
}

// groupPrincipal is a group that the caller is in.
func groupPrincipal(c *route.Call, group string) norman.Object {
	_, name, _ := strings.Cut(group, "://")
	o := foundPrincipal(directories.Found{Principal: group, Name: name, Group: true})
	o.Fields["memberOf"], o.Fields["ownerId"] = true, c.Who.UserID
	return o
}

// foundPrincipal is a user, or a group, whom only a directory knows.
func foundPrincipal(f directories.Found) norman.Object {
	provider, _ := directories.KindOf(f.Principal)
	kind := "user"
	if f.Group {
		kind = "group"
	}
	return norman.Object{ID: f.Principal, Fixed: true, Kept: true, Fields: map[string]any{
		"name": cmp.Or(f.Name, f.Login), "loginName": f.Login, "principalType": kind, "provider": provider, "me": false, "memberOf": false,
		"creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
}

// boundGroup is a group that some binding names: lists of members ask for it.
func (a *API) boundGroup(id string) (norman.Object, bool) {
	if b, ok := a.State.BindingsBySubject.First(id); !ok || b.Value.Group != id {
		return norman.Object{}, false
	}
	_, name, _ := strings.Cut(id, "://")
	return foundPrincipal(directories.Found{Principal: id, Name: name, Group: true}), true
}

// maxFound bounds what a search finds of each.
const maxFound = 100

// SearchPrincipals is the action search with {"name": "an", "principalType": "user"}: people and groups, of this server and of
// directories, whose login name or name begins so, in any case. Whom a directory finds and this server knows is in the answer once.
func (a *API) SearchPrincipals(c *management.Request) (route.Answer, error) {
	in, err := c.Input(norman.Schema{Fields: norman.Fields(map[string]norman.Field{"name": {Type: "string"}, "principalType": {Type: "string"}})})
	if err != nil {
		return route.Answer{}, err
	}
	name, err := in.Required("name")
	if err != nil {
		return route.Answer{}, err
	}
	kind, err := in.String("principalType")
	if err != nil {
		return route.Answer{}, err
	}
	want, known := map[string]directories.Sought{"": directories.Anybody, "user": directories.People, "group": directories.Groups}[kind]
	if !known {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "principalType", "%.80q is neither user nor group", kind)
	}
	found := []map[string]any{}
	for _, o := range a.search(c.Call, name, want) {
		found = append(found, c.Schema().Present(o, c.URLs, norman.Allowed{Action: func(string) bool { return false }}))
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "principal", "links": map[string]string{"self": c.URLs.Base + "/v3/principals"}, "actions": map[string]string{}, "data": found,
	}}, nil
}

// search finds people of this server first, then whom only directories know.
func (a *API) search(c *route.Call, name string, want directories.Sought) []norman.Object {
	var found []norman.Object
	begins := func(text string) bool { return strings.HasPrefix(strings.ToLower(text), strings.ToLower(name)) }
	if want != directories.Groups { // of which this server has none of its own
		for _, u := range a.Auth.Users() {
			if (begins(u.Username) || begins(u.DisplayName)) && len(found) < maxFound {
				found = append(found, userPrincipal(c, u))
			}
		}
	}
	if a.Directories == nil {
		return found
	}
	for _, f := range a.Directories.Search(c.Ctx(), name, want, maxFound) {
		if _, here := a.State.UsersByPrincipal.First(f.Principal); !here && len(found) < 2*maxFound {
			found = append(found, foundPrincipal(f))
		}
	}
	return found
}

// WhoAmI is GET /v1-drover/whoami: the caller, their token and their roles, which everybody may know of themselves.
func (a *API) WhoAmI(c *route.Call) (route.Answer, error) {
	answer := apitypes.WhoAmI{
		Type: "whoami", UserID: c.Who.UserID, Username: c.Who.Username, Name: c.Who.DisplayName, Token: c.Who.TokenName, Expires: c.Who.Expires,
		Admin: c.Who.Admin, MustChangePassword: c.Who.MustChangePassword, Roles: []apitypes.HeldRole{},
	}
	d, _ := a.State.Users.Get(c.Who.UserID)
	answer.Principals, answer.Groups, answer.Asked = d.Value.Elsewhere, d.Value.Groups, d.Value.Asked
	for _, principal := range d.Value.Principals() {
		for _, b := range a.State.BindingsBySubject.Find(principal) {
			held := apitypes.HeldRole{Binding: b.Key, Role: b.Value.Role, ClusterID: b.Value.ClusterID, ProjectID: b.Value.ProjectID, Group: b.Value.Group}
			if cluster, ok := a.State.ClustersByID.First(held.ClusterID); ok && auth.May(c.Who, auth.Get, auth.OfCluster(held.ClusterID)) {
				held.Cluster = cluster.Value.Name
			}
			answer.Roles = append(answer.Roles, held)
		}
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// ListTokens is GET /v1-drover/tokens?all=true: the caller's own, or with all those of everybody, for administrators.
func (a *API) ListTokens(c *route.Call) (route.Answer, error) {
	all := c.Query().Get("all") == "true"
	if all && !auth.May(c.Who, auth.ListAll, auth.Object{Kind: auth.Token}) {
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s sees no tokens but their own", c.Who.Username)
	}
	var tokens []records.Token
	for _, d := range a.State.Tokens.List() {
		if all || auth.May(c.Who, auth.Get, auth.Object{Kind: auth.Token, Key: d.Key, Owner: d.Value.UserID}) {
			tokens = append(tokens, d.Value)
		}
	}
	return route.Page(c, tokens, func(t records.Token) string { return t.Name }, func(t records.Token) apitypes.Token { return views.OfToken(t, a.Auth.Uses.Last(t.Name)) })
}

// RevokeToken is DELETE /v1-drover/tokens/{name}: the caller's own token, or any user's for administrators.
func (a *API) RevokeToken(c *route.Call) (route.Answer, error) {
	t, ok := a.Auth.Token(c.Param("name"))
	if !ok || !auth.May(c.Who, c.Row.Access.Verb, auth.Object{Kind: auth.Token, Key: t.Name, Owner: t.UserID}) {
		return route.Answer{}, norman.Missing("token", c.Param("name"))
	}
	if t.Name == c.Who.TokenName && c.Who.Session {
		return route.Answer{}, norman.Invalid(norman.InvalidState, "", "this is the token of the session that asks: log out instead")
	}
	return route.Answer{Status: http.StatusNoContent}, a.Auth.RevokeToken(c.Ctx(), t.Name)
}
