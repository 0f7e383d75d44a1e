// The paths that need no login: who can log in how, and logging in.

package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// publicRow is one path; segments compare in any case.
type publicRow struct {
	method, path string
	do           func(*call) (answer, error)
}

// publicNorman is /v3-public.
func publicNorman(a *API) []publicRow {
	return []publicRow{
		{http.MethodGet, "", a.publicRoot},
		{http.MethodGet, "schemas", a.publicSchemas},
		{http.MethodGet, "authproviders", a.listProviders},
		{http.MethodGet, "localproviders", a.listProviders},
		{http.MethodGet, "authproviders/local", a.getProvider},
		{http.MethodGet, "localproviders/local", a.getProvider},
		{http.MethodPost, "localproviders/local", a.loginAction},
		{http.MethodPost, "authproviders/local", a.loginAction},
	}
}

// publicPlain is /v1-public.
func publicPlain(a *API) []publicRow {
	return []publicRow{
		{http.MethodGet, "authproviders", func(*call) (answer, error) {
			return answer{status: http.StatusOK, body: map[string]any{"data": []map[string]string{{"id": "local", "type": "localProvider"}}}}, nil
		}},
		{http.MethodPost, "login", func(c *call) (answer, error) { return a.login(c, true) }},
	}
}

func (a *API) servePublic(c *call, rows func(*API) []publicRow, seg []string) {
	c.limit = norman.PublicBody
	path, known := strings.ToLower(strings.Join(seg, "/")), false
	for _, row := range rows(a) {
		if row.path != path {
			continue
		}
		known = true
		if row.method == c.method || row.method == http.MethodGet && c.method == http.MethodHead {
			c.do(route{do: row.do})
			return
		}
	}
	if known {
		c.fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.method))
		return
	}
	c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is nothing at %s", c.r.URL.Path))
}

func (a *API) publicRoot(c *call) (answer, error) {
	c.schemasAt("/v3-public")
	base := c.urls.Base + "/v3-public"
	return answer{status: http.StatusOK, body: map[string]any{
		"id": "/v3-public", "type": "apiRoot", "baseType": "apiRoot", "actions": map[string]string{},
		"apiVersion": norman.Version{Group: "management.cattle.io", Version: "v3public", Path: "/v3-public"},
		"links": map[string]string{
			"root": c.urls.Base + "/", "self": base, "authProviders": base + "/authproviders", "localProviders": base + "/localproviders",
		},
	}}, nil
}

func (a *API) publicSchemas(c *call) (answer, error) {
	data := []map[string]any{}
	for _, id := range []string{"authProvider", "localProvider"} {
		data = append(data, norman.Schema{
			ID: id, Plural: id + "s", Version: norman.Version{Group: "management.cattle.io", Version: "v3public", Path: "/v3-public"},
			CollectionMethods: []string{"GET"}, ResourceMethods: []string{"GET"}, Fields: norman.Fields(nil),
			ResourceActions: map[string]norman.Action{"login": {Input: "basicLogin", Output: "token"}},
		}.Document(c.urls))
	}
	return answer{status: http.StatusOK, body: map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": c.urls.Base + "/v3-public/schemas"},
		"actions": map[string]string{}, "data": data,
	}}, nil
}

func (a *API) provider(c *call) map[string]any {
	self := c.urls.Base + "/v3-public/localProviders/local"
	return map[string]any{
		"id": "local", "type": "localProvider", "baseType": "authProvider", "links": map[string]string{"self": self},
		"actions": map[string]string{"login": self + "?action=login"},
	}
}

func (a *API) listProviders(c *call) (answer, error) {
	return answer{status: http.StatusOK, body: map[string]any{
		"type": "collection", "resourceType": "authProvider", "links": map[string]string{"self": c.urls.Base + "/v3-public/authproviders"},
		"actions": map[string]string{}, "data": []map[string]any{a.provider(c)},
	}}, nil
}

func (a *API) getProvider(c *call) (answer, error) {
	return answer{status: http.StatusOK, body: a.provider(c)}, nil
}

func (a *API) loginAction(c *call) (answer, error) {
	if name := c.query().Get("action"); name != "login" {
		return answer{}, norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "localProvider has no action %q", name)
	}
	return a.login(c, false)
}

// loginInput is the body of a login.
func loginInput() norman.Schema {
	text := norman.Field{Type: "string"}
	return norman.Schema{Fields: norman.Fields(map[string]norman.Field{
		"username": text, "password": {Type: "password"}, "description": text, "responseType": text, "ttl": {Type: "int"},
	})}
}

// login checks user and password and makes a token: a session, or one for a kubeconfig.
// A ttl in the body has no effect: a session lasts as long as its setting says.
func (a *API) login(c *call, typed bool) (answer, error) {
	in, err := c.input(loginInput())
	if err != nil {
		return answer{}, err
	}
	var text [4]string
	for i, name := range []string{"type", "username", "description", "responseType"} {
		if text[i], err = in.String(name); err != nil {
			return answer{}, err
		}
	}
	providerType, username, description, responseType := text[0], text[1], text[2], text[3]
	if typed && providerType != "localProvider" {
		return answer{}, norman.Invalid(norman.InvalidOption, "type", "%.40q is no provider here; localProvider is", providerType)
	}
	password, err := in.Required("password")
	if err != nil {
		return answer{}, err
	}
	user, err := a.Auth.Login(c.ctx(), username, password, a.Origin.Source(c.r))
	switch {
	case errors.Is(err, auth.ErrWrongPassword):
		return answer{}, norman.Errorf(http.StatusUnauthorized, norman.Unauthorized, "%v", err)
	case errors.Is(err, auth.ErrDisabled):
		return answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", err)
	case err != nil:
		return answer{}, err
	}
	token, err := a.tokenForLogin(user, description, responseType)
	if err != nil {
		return answer{}, err
	}
	tokenText, token, err := a.Auth.IssueToken(c.ctx(), token)
	if err != nil {
		return answer{}, err
	}
	if responseType == "cookie" {
		auth.SetSession(c.w, tokenText, token.Expires)
		auth.EnsureForgeryCookie(c.w, c.r)
		return answer{status: http.StatusOK}, nil
	}
	c.who = auth.Identity{UserID: user.ID, Username: user.Username, Admin: user.Admin, TokenName: token.Name, Session: token.Session}
	c.kind = a.kindOf("token")
	object := a.tokenObject(c, token)
	return answer{status: http.StatusCreated, object: &object, extra: map[string]any{"token": tokenText}}, nil
}

// tokenForLogin follows responseType: json and cookie give a session, kubeconfig a
// token for kubectl, kubeconfig_<cluster id> one that is good for that cluster only.
func (a *API) tokenForLogin(user records.User, description, responseType string) (records.Token, error) {
	kind, clusterID, limited := strings.Cut(responseType, "_")
	switch {
	case kind == "kubeconfig":
		if limited {
			if _, ok := a.clusterByID(clusterID); !ok || !user.Admin {
				return records.Token{}, norman.Invalid(norman.InvalidReference, "responseType", "there is no cluster %.40q", clusterID)
			}
		}
		if description == "" {
			description = "login for kubectl"
		}
		return a.kubeconfigToken(user.ID, clusterID, description), nil
	case responseType == "" || responseType == "json" || responseType == "cookie":
		return records.Token{
			UserID: user.ID, Description: description, Session: true, TTLMillis: a.minutes("auth-user-session-ttl-minutes").Milliseconds(),
		}, nil
	}
	return records.Token{}, norman.Invalid(norman.InvalidOption, "responseType", "%.40q is none of json, cookie, kubeconfig, kubeconfig_<cluster id>", responseType)
}
