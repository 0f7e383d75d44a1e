// Package login serves the paths by which people log in: who can log in how, and logging
// in with user name and password.
//
// Wire source: rancher/rancher pkg/auth/providers/publicapi; rancher/cli cmd/kubectl_token.go.
package login

import (
	"errors"
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

// API serves /v3-public and /v1-public.
type API struct {
	Auth     *auth.Auth
	Settings *settings.Settings
	// Tokens shows tokens and makes those for kubectl.
	Tokens *management.API
	// ClusterByID finds a cluster by its management id.
	ClusterByID func(id string) (store.Document[records.Cluster], bool)
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
	for _, id := range []string{"authProvider", "localProvider"} {
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
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "authProvider", "links": map[string]string{"self": c.URLs.Base + "/v3-public/authproviders"},
		"actions": map[string]string{}, "data": []map[string]any{a.provider(c)},
	}}, nil
}

// Provider is GET of the one way to log in that there is.
func (a *API) Provider(c *route.Call) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: a.provider(c)}, nil
}

// NoAction is POST to the local provider that does not say which action is meant.
func (a *API) NoAction(*route.Call) (route.Answer, error) {
	return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "localProvider has the action login only: POST to …?action=login")
}

// PlainProviders is GET /v1-public/authproviders.
func (a *API) PlainProviders(*route.Call) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: map[string]any{"data": []map[string]string{{"id": "local", "type": "localProvider"}}}}, nil
}

// Login is the action login of the local provider.
func (a *API) Login(c *route.Call) (route.Answer, error) { return a.login(c, false) }

// PlainLogin is POST /v1-public/login, whose body names the provider.
func (a *API) PlainLogin(c *route.Call) (route.Answer, error) { return a.login(c, true) }

// loginInput is the body of a login.
func loginInput() norman.Schema {
	text := norman.Field{Type: "string"}
	return norman.Schema{Fields: norman.Fields(map[string]norman.Field{
		"username": text, "password": {Type: "password"}, "description": text, "responseType": text, "ttl": {Type: "int"},
	})}
}

// login checks user and password and makes a token: a session, or one for a kubeconfig.
// A ttl in the body has no effect: a session lasts as long as its setting says.
func (a *API) login(c *route.Call, typed bool) (route.Answer, error) {
	c.Limit = norman.PublicBody
	in, err := c.JSON(loginInput())
	if err != nil {
		return route.Answer{}, err
	}
	var text [4]string
	for i, name := range []string{"type", "username", "description", "responseType"} {
		if text[i], err = in.String(name); err != nil {
			return route.Answer{}, err
		}
	}
	providerType, username, description, responseType := text[0], text[1], text[2], text[3]
	if len(username) > auth.MaxUsername {
		return route.Answer{}, norman.Invalid(norman.MaxLengthExceeded, "username", "has %d bytes; at most %d are possible", len(username), auth.MaxUsername)
	}
	if err := norman.CheckDescription(description); err != nil {
		return route.Answer{}, err
	}
	if typed && providerType != "localProvider" {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "type", "%.40q is not a provider of this server; localProvider is", providerType)
	}
	password, err := in.Required("password")
	if err != nil {
		return route.Answer{}, err
	}
	c.Concern(a.Auth.Known(username)) // whom somebody tries to be; what is nobody's name could be a password
	user, err := a.Auth.Login(c.Ctx(), username, password, c.Source())
	switch {
	case errors.Is(err, auth.ErrWrongPassword):
		return route.Answer{}, norman.Errorf(http.StatusUnauthorized, norman.Unauthorized, "%v", err)
	case errors.Is(err, auth.ErrDisabled):
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", err)
	case err != nil:
		return route.Answer{}, err
	}
	token, err := a.tokenForLogin(user, description, responseType)
	if err != nil {
		return route.Answer{}, err
	}
	tokenText, token, err := a.Auth.IssueToken(c.Ctx(), token)
	if err != nil {
		return route.Answer{}, err
	}
	c.Who = a.Auth.IdentityOf(user, token)
	if responseType == "cookie" {
		auth.SetSession(c.W, tokenText, token.Expires)
		return route.Answer{Status: http.StatusOK}, nil
	}
	return a.Tokens.Issued(c, token, tokenText), nil
}

// tokenForLogin follows responseType: json and cookie give a session, kubeconfig a
// token for kubectl, kubeconfig_<cluster id> one that is good for that cluster only.
func (a *API) tokenForLogin(user records.User, description, responseType string) (records.Token, error) {
	kind, clusterID, limited := strings.Cut(responseType, "_")
	switch {
	case kind == "kubeconfig":
		if limited {
			_, ok := a.ClusterByID(clusterID)
			if !ok || !auth.May(a.Auth.IdentityOf(user, records.Token{ClusterID: clusterID}), auth.Proxy, auth.OfCluster(clusterID)) {
				return records.Token{}, norman.Invalid(norman.InvalidReference, "responseType", "there is no cluster %.40q", clusterID)
			}
		}
		if description == "" {
			description = "login for kubectl"
		}
		return a.Tokens.KubeconfigToken(user.ID, clusterID, description), nil
	case responseType == "" || responseType == "json" || responseType == "cookie":
		return records.Token{
			UserID: user.ID, Description: description, Session: true, TTLMillis: a.Settings.Minutes("auth-user-session-ttl-minutes").Milliseconds(),
		}, nil
	}
	return records.Token{}, norman.Invalid(norman.InvalidOption, "responseType", "%.40q is none of json, cookie, kubeconfig, kubeconfig_<cluster id>", responseType)
}
