// Logging in and out, and one's own password. These pages work without scripts, and so do their forms.

package ui

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// loginView is the page on which people log in.
type loginView struct {
	// To is where they wanted to go, Username what they gave, Fault what was wrong with it.
	To, Username, Fault string
	// First says that nobody has changed the password of the first start.
	First bool
	Over  bool
	Doors []Door
	// Directories take a name and a password, too; Directory is the one that was chosen.
	Directories []Directory
	Directory   string
}

// Login is the handler of GET /dashboard/login.
func (u *UI) Login(c *route.Call) (route.Answer, error) {
	return route.Answer{}, u.showLogin(c, http.StatusOK, loginView{To: Local(c.Query().Get("to")), Over: c.Query().Get("over") != ""})
}

func (u *UI) showLogin(c *route.Call, status int, v loginView) error {
	if u.Setting("first-login") == "true" {
		if v.First = true; v.Username == "" {
			v.Username = "admin"
		}
	}
	if u.Doors != nil {
		v.Doors = u.Doors(v.To)
	}
	if u.Directories != nil {
		v.Directories = u.Directories()
	}
	return u.send(c, status, View{Title: "Log in", Template: "login", Data: v, Command: "drover login URL --username NAME"})
}

// LogIn is the handler of POST /dashboard/login. The session is the same as that of a login by the API.
func (u *UI) LogIn(c *route.Call) (route.Answer, error) {
	form, err := readForm(c)
	if err != nil {
		return route.Answer{}, err
	}
	v := loginView{To: Local(form.Get("to")), Username: form.Get("username")}
	refuse := func(status int, fault string) (route.Answer, error) {
		v.Fault = fault
		return route.Answer{}, u.showLogin(c, status, v)
	}
	if foreign(c.R) { // a page that logs people in as somebody else
		return refuse(http.StatusForbidden, "The form was sent from a page of another server. Log in here.")
	}
	if len(v.Username) > auth.MaxUsername {
		v.Username = ""
		return refuse(http.StatusUnprocessableEntity, "The user name is too long.")
	}
	if v.Directory = form.Get("directory"); v.Directory != "" {
		return u.logInBy(c, v, form.Get("password"), refuse)
	}
	c.Concern(u.Auth.Known(v.Username)) // what is nobody's name could be a password
	user, err := u.Auth.Login(c.Ctx(), v.Username, form.Get("password"), c.Source())
	if err != nil {
		status, fault := loginFault(err, c)
		return refuse(status, fault)
	}
	text, token, err := u.Auth.IssueToken(c.Ctx(), records.Token{
		UserID: user.ID, Description: "login on the page", Session: true, TTLMillis: u.Session().Milliseconds(),
	})
	if err != nil {
		return route.Answer{}, err
	}
	c.Who = u.Auth.IdentityOf(user, token)
	auth.SetSession(c.W, text, token.Expires)
	if user.MustChange {
		return u.leadTo(c, Home+"password"), nil
	}
	return u.leadTo(c, v.To), nil
}

// logInBy is a login by a directory that takes a name and a password.
func (u *UI) logInBy(c *route.Call, v loginView, password string, refuse func(int, string) (route.Answer, error)) (route.Answer, error) {
	if u.Enter == nil {
		return refuse(http.StatusNotFound, "There is no such directory.")
	}
	err := u.Enter(c, v.Directory, v.Username, password)
	if refused, ok := errors.AsType[*norman.Error](err); ok {
		if refused.Status == http.StatusUnauthorized {
			return refuse(refused.Status, "User name and password do not belong together.")
		}
		return refuse(refused.Status, sentence(refused.Message))
	}
	if err != nil {
		status, fault := loginFault(err, c)
		return refuse(status, fault)
	}
	return u.leadTo(c, v.To), nil
}

// loginFault is why somebody was not let in, as a sentence.
func loginFault(err error, c *route.Call) (status int, fault string) {
	wait := func(e interface{ Error() string }, after float64) string {
		c.W.Header().Set("Retry-After", strconv.Itoa(int(after+0.999)))
		return sentence(e.Error())
	}
	if many, ok := errors.AsType[*auth.TooManyError](err); ok {
		return http.StatusTooManyRequests, wait(many, many.RetryAfter.Seconds())
	}
	if busy, ok := errors.AsType[*auth.BusyError](err); ok {
		return http.StatusServiceUnavailable, wait(busy, busy.RetryAfter.Seconds())
	}
	switch {
	case errors.Is(err, auth.ErrWrongPassword):
		return http.StatusUnauthorized, "User name and password do not belong together."
	case errors.Is(err, auth.ErrDisabled):
		return http.StatusForbidden, "This user is disabled. Somebody who looks after users can enable it: drover users enable NAME."
	}
	return http.StatusInternalServerError, "The server failed: " + err.Error()
}

// passwordView is the page on which people change their own password.
type passwordView struct {
	Fault, Form string
	// Must says that they have to before they see anything else.
	Must     bool
	Least    int
	Username string
}

// Password is the handler of GET /dashboard/password.
func (u *UI) Password(c *route.Call) (route.Answer, error) {
	return route.Answer{}, u.showPassword(c, http.StatusOK, "")
}

func (u *UI) showPassword(c *route.Call, status int, fault string) error {
	v := passwordView{Fault: fault, Form: auth.FormToken(c.R), Must: c.Who.MustChangePassword, Least: u.leastPassword(), Username: c.Who.Username}
	return u.send(c, status, View{Title: "Change your password", Template: "password", Data: v, Command: "drover users passwd"})
}

func (u *UI) leastPassword() int {
	n, err := strconv.Atoi(u.Setting("password-min-length"))
	if err != nil { // checked when it was stored
		return 12
	}
	return n
}

// ChangePassword is the handler of POST /dashboard/password.
func (u *UI) ChangePassword(c *route.Call) (route.Answer, error) {
	form, err := readForm(c)
	if err != nil {
		return route.Answer{}, err
	}
	if form.Get("new") != form.Get("again") {
		return route.Answer{}, u.showPassword(c, http.StatusUnprocessableEntity, "The two new passwords differ.")
	}
	err = u.Auth.ChangePassword(c.Ctx(), c.Who, form.Get("current"), form.Get("new"), u.leastPassword())
	if bad, ok := errors.AsType[*auth.PasswordError](err); ok {
		return route.Answer{}, u.showPassword(c, http.StatusUnprocessableEntity, sentence(bad.Reason))
	}
	if err != nil {
		status, fault := loginFault(err, c)
		return route.Answer{}, u.showPassword(c, status, fault)
	}
	return u.leadTo(c, Home), nil
}

// Logout is the handler of POST /dashboard/logout. To log out again is no error.
func (u *UI) Logout(c *route.Call) (route.Answer, error) {
	auth.EndSession(c.W)
	if c.Who.Session {
		if err := u.Auth.RevokeToken(c.Ctx(), c.Who.TokenName); err != nil {
			return route.Answer{}, err
		}
	}
	return u.leadTo(c, Home+"login"), nil
}

// maxForm bounds a form, in bytes.
const maxForm = 16 << 10

func readForm(c *route.Call) (url.Values, error) {
	text, err := norman.ReadBody(c.W, c.R, maxForm)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the form cannot be read") // the cause could have a password in it
	}
	return form, nil
}

// foreign says that a page of another server sent a form.
func foreign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "same-origin" && site != "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	at, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(at.Host, r.Host)
}

// loginURL leads back to what was asked for once somebody has logged in.
func loginURL(r *http.Request) string {
	q := url.Values{}
	asked := r.URL.Query()
	asked.Del("seen")
	to := (&url.URL{Path: r.URL.Path, RawQuery: asked.Encode()}).String()
	if r.Method == http.MethodGet && Local(to) == to && to != Home && to != Home+"clusters" {
		q.Set("to", to)
	}
	if _, err := r.Cookie(auth.SessionCookie); err == nil {
		q.Set("over", "1")
	}
	if len(q) == 0 {
		return Home + "login"
	}
	return Home + "login?" + q.Encode()
}

// Local is an address of the page, or its begin for anything else: nobody is led to another server.
func Local(to string) string {
	at, err := url.Parse(to)
	if err != nil || at.Scheme != "" || at.Host != "" || !strings.HasPrefix(at.Path, Home) || strings.Contains(to, "\\") || path.Clean(at.Path) != strings.TrimSuffix(at.Path, "/") {
		return Home + "clusters"
	}
	return at.RequestURI()
}

// sentence is an error as a sentence.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
