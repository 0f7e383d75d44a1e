// Ways to log in by outside directories: what any client may know of them, and logins through a browser.

package login

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/records"
)

// enabled are the kinds of the directories that let people in.
func (a *API) enabled() []string {
	if a.Directories == nil {
		return nil
	}
	var kinds []string
	for _, d := range a.Directories.All() {
		if !d.Disabled {
			kinds = append(kinds, d.Kind)
		}
	}
	return kinds
}

// kindOf is the kind of a type that the body of a login names.
func (a *API) kindOf(providerType string) (string, error) {
	possible := ""
	for _, kind := range append([]string{local}, a.enabled()...) {
		if directories.TypeOf(kind) == providerType {
			return kind, nil
		}
		possible += ", " + directories.TypeOf(kind)
	}
	return "", norman.Invalid(norman.InvalidOption, "type", "%.40q is not a provider of this server; it has %s", providerType, possible[2:])
}

func (a *API) directories(c *route.Call) []map[string]any {
	all := []map[string]any{}
	for _, kind := range a.enabled() {
		d, _ := a.Directories.Enabled(kind)
		all = append(all, directory(c, d))
	}
	return all
}

// directory is what any client may know of one. displayName is drover's own; redirectUrl is where logins through a browser begin.
func directory(c *route.Call, d records.Directory) map[string]any {
	self := c.URLs.Base + directories.PathOf(d.Kind)
	o := map[string]any{
		"id": d.Kind, "type": directories.TypeOf(d.Kind), "baseType": "authProvider", "links": map[string]string{"self": self},
		"actions": map[string]string{"login": self + "?action=login"},
	}
	if d.DisplayName != "" {
		o["displayName"] = d.DisplayName
	}
	if !directories.ByPassword(d.Kind) {
		o["redirectUrl"] = self + "/begin"
	}
	return o
}

// Directory is GET of a way to log in by a directory.
func (a *API) Directory(kind string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		d, ok := a.on(kind)
		if !ok {
			return route.Answer{}, refusal(logins.ErrUnknown)
		}
		return route.Answer{Status: http.StatusOK, Body: directory(c, d)}, nil
	}
}

// DirectoriesOf is GET of the type of one kind.
func (a *API) DirectoriesOf(kind string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		data := []map[string]any{}
		if d, ok := a.on(kind); ok {
			data = append(data, directory(c, d))
		}
		return a.listed(c, data), nil
	}
}

func (a *API) on(kind string) (records.Directory, bool) {
	if a.Directories == nil {
		return records.Directory{}, false
	}
	return a.Directories.Enabled(kind)
}

// DirectoryLogin is the action login of a directory.
func (a *API) DirectoryLogin(kind string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		if _, ok := a.on(kind); !ok {
			return route.Answer{}, refusal(logins.ErrUnknown)
		}
		return a.login(c, kind)
	}
}

// browserCookie binds a login to the browser that began it; it has the name of Rancher's.
const browserCookie = "R_OIDC_ID"

// Begin is GET …/begin?port=&challenge=&answer=: it sends the browser to the directory. See logins.Request for the parameters.
func (a *API) Begin(kind string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		if _, ok := a.on(kind); !ok {
			return route.Answer{}, refusal(logins.ErrUnknown)
		}
		q := c.Query()
		port, err := strconv.Atoi(q.Get("port"))
		if err != nil {
			port = 0 // which no request may have
		}
		at, cookie, err := a.Directories.SetOut(c.Ctx(), kind, logins.Request{Port: port, Challenge: q.Get("challenge"), Answer: q.Get("answer")})
		if err != nil {
			return route.Answer{}, refusal(err)
		}
		return setOut(c, at, cookie), nil
	}
}

// BeginPage is Begin for a login on the page: GET …/page?to=, an address below /dashboard/.
func (a *API) BeginPage(kind string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		if _, ok := a.on(kind); !ok {
			return route.Answer{}, refusal(logins.ErrUnknown)
		}
		at, cookie, err := a.Directories.SetOut(c.Ctx(), kind, logins.Request{To: a.PageAddress(c.Query().Get("to"))})
		if err != nil {
			return route.Answer{}, refusal(err)
		}
		return setOut(c, at, cookie), nil
	}
}

// setOut sends a browser to a directory.
func setOut(c *route.Call, at, cookie string) route.Answer {
	http.SetCookie(c.W, &http.Cookie{Name: browserCookie, Value: cookie, Path: logins.ReturnPath, MaxAge: 600, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	return redirect(c, at)
}

// Return is GET /verify-auth, where a directory sends browsers back to. A person reads its errors.
func (a *API) Return(c *route.Call) (route.Answer, error) {
	if a.Directories == nil {
		return route.NotFound(c)
	}
	q := c.Query()
	r := logins.Returned{State: q.Get("state"), Code: q.Get("code"), Problem: q.Get("error")}
	if cookie, err := c.R.Cookie(browserCookie); err == nil {
		r.Cookie = cookie.Value
	}
	arrived, err := a.Directories.Return(c.Ctx(), r, c.Source())
	if denied, ok := errors.AsType[*directories.DeniedError](err); ok {
		header := c.W.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", "default-src 'none'")
		header.Set("Cache-Control", "no-store")
		c.W.WriteHeader(http.StatusUnprocessableEntity)
		_, err := fmt.Fprintf(c.W, "<!doctype html><title>drover</title><p>You are not logged in: %s</p>\n<p><a href=\"/dashboard/login\">Log in on the page</a></p>\n", html.EscapeString(denied.Reason))
		return route.Answer{}, err
	}
	if err != nil {
		return route.Answer{}, err
	}
	http.SetCookie(c.W, &http.Cookie{Name: browserCookie, Path: logins.ReturnPath, MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	if arrived.User != nil {
		if err := a.Welcome(c, *arrived.User, arrived.Kind); err != nil {
			return route.Answer{}, err
		}
	}
	return redirect(c, arrived.At), nil
}

// Enter is a login on the page by a directory that takes a name and a password. The errors are refusals of 401, 404 and 503, and those of Welcome.
func (a *API) Enter(c *route.Call, kind, username, password string) error {
	if _, ok := a.on(kind); !ok {
		return refusal(logins.ErrUnknown)
	}
	user, err := a.Directories.Login(c.Ctx(), kind, username, password, c.Source())
	if err != nil {
		return refusal(err)
	}
	return a.Welcome(c, user, kind)
}

// Welcome gives a user whom a directory knows a session in the browser that asks. The error is that of the store.
func (a *API) Welcome(c *route.Call, user records.User, kind string) error {
	text, token, err := a.Auth.IssueToken(c.Ctx(), records.Token{
		UserID: user.ID, Description: "login on the page", Session: true, Directory: kind, TTLMillis: a.Settings.Minutes("auth-user-session-ttl-minutes").Milliseconds(),
	})
	if err != nil {
		return err
	}
	c.Concern(user.ID)
	c.Who = a.Auth.IdentityOf(user, token)
	auth.SetSession(c.W, text, token.Expires)
	return nil
}

// redirect sends a browser on; what is in the URL is for no cache or log.
func redirect(c *route.Call, at string) route.Answer {
	c.W.Header().Set("Cache-Control", "no-store")
	c.W.Header().Set("Referrer-Policy", "no-referrer")
	c.W.Header().Set("Location", at)
	c.W.WriteHeader(http.StatusFound)
	return route.Answer{}
}
