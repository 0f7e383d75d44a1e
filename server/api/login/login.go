// Package login serves the paths by which people log in: who can log in how, and logging
// in with user name and password.
//
// Wire source: rancher/rancher pkg/auth/providers/publicapi; rancher/cli cmd/kubectl_token.go.
package login

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// API serves /v3-public and /v1-public.
type API struct {
	Auth     *auth.Auth
	Settings *settings.Settings
	// Tokens shows new tokens, and Kubeconfigs makes those for kubectl.
	Tokens interface {
		Issued(c *route.Call, t records.Token, text string) route.Answer
	}
	Kubeconfigs interface {
		Token(userID, clusterID, description string) records.Token
	}
	State *state.State
	// Directories lets people of outside directories in; nil knows none.
	Directories *logins.Desk
	// PageAddress is an address of the page, or where it begins for anything else: no user is led to another server.
	PageAddress func(to string) string
}

// Root is GET /v3-public.
func (a *API) Root(c *route.Call) (route.Answer, error) {
	c.SchemasAt("/v3-public")
	base := c.URLs.Base + "/v3-public"
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"id": "/v3-public", "type": "apiRoot", "baseType": "apiRoot", "actions": map[string]string{},
		"apiVersion": norman.Version{Group: "management.cattle.io", Version: "v3public", Path: "/v3-public"},
		"links": map[string]string{
			"root": c.URLs.Base + "/", "self": base, "authProviders": base + "/authproviders", "localProviders": base + "/localproviders",
		},
	}}, nil
}

// Schemas is GET /v3-public/schemas.
func (a *API) Schemas(c *route.Call) (route.Answer, error) {
	data := []map[string]any{}
	for _, id := range []string{"authProvider", "localProvider", directories.TypeOf(records.ActiveDirectory), directories.TypeOf(records.GenericOIDC), directories.TypeOf(records.GitHub), directories.TypeOf(records.OpenLDAP)} {
		data = append(data, norman.Schema{
			ID: id, Plural: id + "s", Version: norman.Version{Group: "management.cattle.io", Version: "v3public", Path: "/v3-public"},
			CollectionMethods: []string{"GET"}, ResourceMethods: []string{"GET"}, Fields: norman.Fields(nil),
			ResourceActions: map[string]norman.Action{"login": {Input: "basicLogin", Output: "token"}},
		}.Document(c.URLs))
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": c.URLs.Base + "/v3-public/schemas"},
		"actions": map[string]string{}, "data": data,
	}}, nil
}

func (a *API) provider(c *route.Call) map[string]any {
	self := c.URLs.Base + "/v3-public/localProviders/local"
	return map[string]any{
		"id": "local", "type": "localProvider", "baseType": "authProvider", "links": map[string]string{"self": self},
		"actions": map[string]string{"login": self + "?action=login"},
	}
}

// Providers is GET of the types of ways to log in.
func (a *API) Providers(c *route.Call) (route.Answer, error) {
	return a.listed(c, append([]map[string]any{a.provider(c)}, a.directories(c)...)), nil
}

// LocalProviders is GET of the type of this server's own passwords.
func (a *API) LocalProviders(c *route.Call) (route.Answer, error) {
	return a.listed(c, []map[string]any{a.provider(c)}), nil
}

func (a *API) listed(c *route.Call, data []map[string]any) route.Answer {
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "authProvider", "links": map[string]string{"self": c.URLs.Base + "/v3-public/authproviders"},
		"actions": map[string]string{}, "data": data,
	}}
}

// Provider is GET of the way to log in that is always there.
func (a *API) Provider(c *route.Call) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: a.provider(c)}, nil
}

// NoAction is POST to the local provider that does not say which action is meant.
func (a *API) NoAction(*route.Call) (route.Answer, error) {
	return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "localProvider has the action login only: POST to …?action=login")
}

// PlainProviders is GET /v1-public/authproviders.
func (a *API) PlainProviders(*route.Call) (route.Answer, error) {
	data := []map[string]string{{"id": "local", "type": "localProvider"}}
	for _, kind := range a.enabled() {
		data = append(data, map[string]string{"id": kind, "type": directories.TypeOf(kind)})
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{"data": data}}, nil
}

// Login is the action login of the local provider.
func (a *API) Login(c *route.Call) (route.Answer, error) { return a.login(c, local) }

// PlainLogin is POST /v1-public/login, whose body names the provider.
func (a *API) PlainLogin(c *route.Call) (route.Answer, error) { return a.login(c, "") }

// local is the way to log in with a password of this server.
const local = "local"

// loginInput is the body of a login.
func loginInput() norman.Schema {
	text := norman.Field{Type: "string"}
	return norman.Schema{Fields: norman.Fields(map[string]norman.Field{
		"username": text, "password": {Type: "password"}, "description": text, "responseType": text, "ttl": {Type: "int"},
		"code": {Type: "password"}, "verifier": {Type: "password"},
	})}
}

// request is what a body asks for.
type request struct{ providerType, username, description, responseType string }

// login checks who a user is and makes a token: a session, or one for a kubeconfig. A ttl in the body has no effect: a session
// lasts as long as its setting says. Without a kind the body says the type of the provider.
func (a *API) login(c *route.Call, kind string) (route.Answer, error) {
	c.Limit = norman.PublicBody
	in, err := c.JSON(loginInput())
	if err != nil {
		return route.Answer{}, err
	}
	var w request
	for name, to := range map[string]*string{"type": &w.providerType, "username": &w.username, "description": &w.description, "responseType": &w.responseType} {
		if *to, err = in.String(name); err != nil {
			return route.Answer{}, err
		}
	}
	if len(w.username) > auth.MaxUsername {
		return route.Answer{}, norman.Invalid(norman.MaxLengthExceeded, "username", "has %d bytes; at most %d are possible", len(w.username), auth.MaxUsername)
	}
	if err := norman.CheckDescription(w.description); err != nil {
		return route.Answer{}, err
	}
	if kind == "" {
		if kind, err = a.kindOf(w.providerType); err != nil {
			return route.Answer{}, err
		}
	}
	if w.responseType == "cookie" && auth.IsForeign(c.R) { // a page that logs people in as another user
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "responseType cookie: the request was sent from a page of another server; log in at this server's own page")
	}
	user, err := a.who(c, kind, w.username, in)
	if err != nil {
		return route.Answer{}, refusal(err)
	}
	token, err := a.tokenForLogin(user, w.description, w.responseType)
	if err != nil {
		return route.Answer{}, err
	}
	if kind != local {
		token.Directory = kind
		c.Concern(user.ID)
	}
	tokenText, token, err := a.Auth.IssueToken(c.Ctx(), token)
	if err != nil {
		return route.Answer{}, err
	}
	c.Who = a.Auth.IdentityOf(user, token)
	if w.responseType == "cookie" {
		auth.SetSession(c.W, tokenText, token.Expires)
		return route.Answer{Status: http.StatusOK}, nil
	}
	return a.Tokens.Issued(c, token, tokenText), nil
}

// who is whom a name and a password belong to, or the code of a login through a browser.
func (a *API) who(c *route.Call, kind, username string, in norman.Input) (records.User, error) {
	if kind != local && !directories.ByPassword(kind) {
		code, err := in.Required("code")
		if err != nil {
			return records.User{}, err
		}
		verifier, err := in.Required("verifier")
		if err != nil {
			return records.User{}, err
		}
		return a.Directories.Collect(kind, code, verifier)
	}
	password, err := in.Required("password")
	if err != nil {
		return records.User{}, err
	}
	c.Concern(a.Auth.Known(username)) // whom a client tries to be; what is no user's name could be a password
	if kind == local {
		return a.Auth.Login(c.Ctx(), username, password, c.Source())
	}
	return a.Directories.Login(c.Ctx(), kind, username, password, c.Source())
}

// refusal is an error of a login as clients see it.
func refusal(err error) error {
	refused, admitted := errors.AsType[*people.RefusedError](err)
	_, away := errors.AsType[*directories.UnavailableError](err)
	switch {
	case errors.Is(err, auth.ErrWrongPassword):
		return norman.Errorf(http.StatusUnauthorized, norman.Unauthorized, "%v", err)
	case errors.Is(err, auth.ErrDisabled):
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", err)
	case admitted:
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%s", refused.Reason)
	case away:
		return norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "%v", logins.Public(err))
	case errors.Is(err, logins.ErrUnknown):
		return norman.Errorf(http.StatusNotFound, norman.NotFound, "%v", err)
	}
	if denied, ok := errors.AsType[*directories.DeniedError](err); ok {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidFormat, "%s", denied.Reason)
	}
	return err
}

// tokenForLogin follows responseType: json and cookie give a session, kubeconfig a
// token for kubectl, kubeconfig_<cluster id> one that is good for that cluster only.
func (a *API) tokenForLogin(user records.User, description, responseType string) (records.Token, error) {
	kind, clusterID, limited := strings.Cut(responseType, "_")
	switch {
	case kind == "kubeconfig":
		if limited {
			_, ok := a.State.ClustersByID.First(clusterID)
			if !ok || !auth.May(a.Auth.IdentityOf(user, records.Token{ClusterID: clusterID}), auth.Proxy, auth.OfCluster(clusterID)) {
				return records.Token{}, norman.Invalid(norman.InvalidReference, "responseType", "there is no cluster %.40q", clusterID)
			}
		}
		description = cmp.Or(description, "login for kubectl")
		return a.Kubeconfigs.Token(user.ID, clusterID, description), nil
	case responseType == "" || responseType == "json" || responseType == "cookie":
		return records.Token{
			UserID: user.ID, Description: description, Session: true, TTLMillis: a.Settings.Minutes("auth-user-session-ttl-minutes").Milliseconds(),
		}, nil
	}
	return records.Token{}, norman.Invalid(norman.InvalidOption, "responseType", "%.40q is none of json, cookie, kubeconfig, kubeconfig_<cluster id>", responseType)
}
