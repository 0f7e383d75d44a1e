// Package signin is logging in and out on the page, and one's own password. These pages work without scripts, and so do
// their forms.
package signin

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/ui"
)

// Pages are the pages of those who are not logged in yet, and of passwords.
type Pages struct {
	UI   *ui.UI
	Auth *auth.Auth
	// Setting is the value of a setting.
	Setting func(name string) string
	// Session is how long a login lasts.
	Session func() time.Duration
	// Doors are further ways to log in, from which a user comes back to an address of the page; nil is none.
	Doors func(to string) []Door
	// Directories take a name and a password, and Enter gives the browser a session of who they belong to. Nil is none.
	Directories func() []Directory
	Enter       func(c *route.Call, directory, username, password string) error
	Logger      *slog.Logger
}

// Door is a way to log in beside the local password: a directory or an identity provider. Its button stands below the
// form.
type Door struct {
	// Title is what the button says behind "Log in with", URL where it leads.
	Title, URL string
}

// Directory is one that people choose beside their name and password.
type Directory struct{ ID, Title string }

// maxForm bounds a form, in bytes.
const maxForm = 16 << 10

// loginView is the page on which people log in.
type loginView struct {
	// To is where they wanted to go, Username what they gave, Fault what was wrong with it.
	To, Username, Fault string
	// First says that no one has changed the password of the first start.
	First bool
	Over  bool
	Doors []Door
	// Directories take a name and a password, too; Directory is the one that was chosen.
	Directories []Directory
	Directory   string
}

// Login is the handler of GET /dashboard/login.
func (p *Pages) Login(c *route.Call) (route.Answer, error) {
	return route.Answer{}, p.showLogin(c, http.StatusOK, loginView{To: ui.Local(c.Query().Get("to")), Over: c.Query().Get("over") != ""})
}

func (p *Pages) showLogin(c *route.Call, status int, v loginView) error {
	if p.Setting("first-login") == "true" {
		if v.First = true; v.Username == "" {
			v.Username = "admin"
		}
	}
	if p.Doors != nil {
		v.Doors = p.Doors(v.To)
	}
	if p.Directories != nil {
		v.Directories = p.Directories()
	}
	return p.UI.Show(c, status, ui.View{Title: "Log in", Template: "login", Data: v, Command: "drover login URL --username NAME"})
}

// LogIn is the handler of POST /dashboard/login. The session is the same as that of a login by the API.
func (p *Pages) LogIn(c *route.Call) (route.Answer, error) {
	form, err := ui.ReadForm(c, maxForm)
	if err != nil {
		return route.Answer{}, err
	}
	v := loginView{To: ui.Local(form.Get("to")), Username: form.Get("username")}
	refuse := func(status int, fault string) (route.Answer, error) {
		v.Fault = fault
		return route.Answer{}, p.showLogin(c, status, v)
	}
	if auth.IsForeign(c.R) { // a page that logs people in as another user
		return refuse(http.StatusForbidden, "The form was sent from a page of another server. Log in here.")
	}
	if len(v.Username) > auth.MaxUsername {
		v.Username = ""
		return refuse(http.StatusUnprocessableEntity, "The user name is too long.")
	}
	if v.Directory = form.Get("directory"); v.Directory != "" {
		return p.logInBy(c, v, form.Get("password"), refuse)
	}
	c.Concern(p.Auth.Known(v.Username)) // what is no user's name could be a password
	user, err := p.Auth.Login(c.Ctx(), v.Username, form.Get("password"), c.Source())
	if err != nil {
		status, fault := p.loginFault(err, c)
		return refuse(status, fault)
	}
	text, token, err := p.Auth.IssueToken(c.Ctx(), records.Token{
		UserID: user.ID, Description: "login on the page", Session: true, TTLMillis: p.Session().Milliseconds(),
	})
	if err != nil {
		return route.Answer{}, err
	}
	c.Who = p.Auth.IdentityOf(user, token)
	auth.SetSession(c.W, text, token.Expires)
	if user.MustChange {
		return p.UI.LeadTo(c, ui.Home+"password"), nil
	}
	return p.UI.LeadTo(c, v.To), nil
}

// logInBy is a login by a directory that takes a name and a password.
func (p *Pages) logInBy(c *route.Call, v loginView, password string, refuse func(int, string) (route.Answer, error)) (route.Answer, error) {
	if p.Enter == nil {
		return refuse(http.StatusNotFound, "There is no such directory.")
	}
	err := p.Enter(c, v.Directory, v.Username, password)
	if refused, ok := errors.AsType[*norman.Error](err); ok {
		if refused.Status == http.StatusUnauthorized {
			return refuse(refused.Status, "User name and password do not belong together.")
		}
		return refuse(refused.Status, ui.Sentence(refused.Message))
	}
	if err != nil {
		status, fault := p.loginFault(err, c)
		return refuse(status, fault)
	}
	return p.UI.LeadTo(c, v.To), nil
}

// loginFault is why a user was not let in, as a sentence.
func (p *Pages) loginFault(err error, c *route.Call) (status int, fault string) {
	wait := func(e interface{ Error() string }, after float64) string {
		c.W.Header().Set("Retry-After", strconv.Itoa(int(after+0.999)))
		return ui.Sentence(e.Error())
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
		return http.StatusForbidden, "This user is disabled. An administrator of users can enable it: drover users enable NAME."
	}
	p.Logger.Error("log in on the page", "error", err)
	return http.StatusInternalServerError, "The server failed; its log says why. Try again in a moment."
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
func (p *Pages) Password(c *route.Call) (route.Answer, error) {
	return route.Answer{}, p.showPassword(c, http.StatusOK, "")
}

func (p *Pages) showPassword(c *route.Call, status int, fault string) error {
	v := passwordView{Fault: fault, Form: auth.FormToken(c.R), Must: c.Who.MustChangePassword, Least: p.leastPassword(), Username: c.Who.Username}
	return p.UI.Show(c, status, ui.View{Title: "Change your password", Template: "password", Data: v, Command: "drover users passwd"})
}

func (p *Pages) leastPassword() int {
	n, err := strconv.Atoi(p.Setting("password-min-length"))
	if err != nil { // checked when it was stored
		return 12
	}
	return n
}

// ChangePassword is the handler of POST /dashboard/password.
func (p *Pages) ChangePassword(c *route.Call) (route.Answer, error) {
	form, err := ui.ReadForm(c, maxForm)
	if err != nil {
		return route.Answer{}, err
	}
	if form.Get("new") != form.Get("again") {
		return route.Answer{}, p.showPassword(c, http.StatusUnprocessableEntity, "The two new passwords differ.")
	}
	err = p.Auth.ChangePassword(c.Ctx(), c.Who, form.Get("current"), form.Get("new"), p.leastPassword())
	if bad, ok := errors.AsType[*auth.PasswordError](err); ok {
		return route.Answer{}, p.showPassword(c, http.StatusUnprocessableEntity, ui.Sentence(bad.Reason))
	}
	if err != nil {
		status, fault := p.loginFault(err, c)
		return route.Answer{}, p.showPassword(c, status, fault)
	}
	return p.UI.LeadTo(c, ui.Home), nil
}

// Logout is the handler of POST /dashboard/logout. To log out again is no error.
func (p *Pages) Logout(c *route.Call) (route.Answer, error) {
	auth.EndSession(c.W)
	if c.Who.Session {
		if err := p.Auth.RevokeToken(c.Ctx(), c.Who.TokenName); err != nil {
			return route.Answer{}, err
		}
	}
	return p.UI.LeadTo(c, ui.Home+"login"), nil
}

// DoorsOf are the directories that people log in at through their browsers.
func DoorsOf(all []records.Directory, to string) []Door {
	var doors []Door
	for _, d := range all {
		if !d.Disabled && !directories.ByPassword(d.Kind) {
			doors = append(doors, Door{Title: titleOf(d), URL: directories.PathOf(d.Kind) + "/page?" + url.Values{"to": {to}}.Encode()})
		}
	}
	return doors
}

// Chosen are those that take a name and a password.
func Chosen(all []records.Directory) []Directory {
	var chosen []Directory
	for _, d := range all {
		if !d.Disabled && directories.ByPassword(d.Kind) {
			chosen = append(chosen, Directory{ID: d.Kind, Title: titleOf(d)})
		}
	}
	return chosen
}

// titleOf is what people who log in read of a directory.
func titleOf(d records.Directory) string {
	return cmp.Or(d.DisplayName, map[string]string{
		records.OpenLDAP: "OpenLDAP", records.ActiveDirectory: "Active Directory", records.GenericOIDC: "OpenID Connect", records.GitHub: "GitHub",
	}[d.Kind], d.Kind)
}
