// What a user typed when its form comes without a session, or with what a session before proved: the answer is a page that has
// the same form again, so that it is sent once more after the login. Nothing of it is kept by the server, nothing is done, and
// passwords are left out.

package signin

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// draft is the page with a form that came.
type draft struct {
	// Over says that no user is logged in; else the form is of an earlier session.
	Over bool
	// Path is where the form goes, Form what proves that it is of this page, Login where people log in.
	Path, Form, Login string
	Fields            []field
	// Passwords says that some were left out.
	Passwords bool
}

// field is one of the form's. Lines of text can be changed, other fields are shown, except those that are the form's own.
type field struct {
	Name, Value string
	Lines, Own  bool
}

// own are the fields of forms that are not typed.
var own = []string{"key", "base", "seen", "act", "to"}

// Refuse answers a request to a page that is refused, as a page. It is for route.Env.
func (p *Pages) Refuse(c *route.Call, e *norman.Error) {
	over, earlier := e.Status == http.StatusUnauthorized, e.Code == norman.InvalidCSRFToken
	said := *e
	switch {
	case c.R.Method != http.MethodPost:
	case over:
		said.Message = "Your session is over. Nothing was done: log in again in another window, then send it once more."
	case earlier:
		said.Message = "This page was opened before you logged in again. Nothing was done: load it anew, and send it once more."
	}
	switch {
	case c.R.Method != http.MethodPost:
		p.UI.Refuse(c, e)
	case ofScript(c.R):
		_, _ = io.WriteString(ui.Plain(c, e.Status), "drover: "+said.Message+"\n") // the client has gone when this fails
	case (over || earlier) && p.showDraft(c, over, e.Status):
	default:
		p.UI.Refuse(c, &said)
	}
}

// ofScript says that our script sent a form, and wants an answer of plain text.
func ofScript(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "text/plain") && !strings.Contains(accept, "text/html")
}

// showDraft answers with the form that came, unless there is none, or a page of another server sent it: a user who logs in must not
// find what an attacker wants them to send.
func (p *Pages) showDraft(c *route.Call, over bool, status int) bool {
	kind, _, _ := mime.ParseMediaType(c.R.Header.Get("Content-Type")) // one that cannot be read is none
	if kind != "application/x-www-form-urlencoded" || auth.IsForeign(c.R) {
		return false
	}
	form, err := ui.ReadForm(c, norman.PublicBody)
	if err != nil {
		return false
	}
	v := draft{Over: over, Path: "/" + strings.TrimLeft(c.R.URL.EscapedPath(), "/"), Form: auth.FormToken(c.R), Login: ui.Home + "login"}
	for name, values := range form {
		switch name {
		case "CSRF":
		case "password", "current", "new", "again":
			v.Passwords = true
		default:
			for _, value := range values {
				v.Fields = append(v.Fields, field{name, value, strings.Contains(value, "\n"), slices.Contains(own, name)})
			}
		}
	}
	if len(v.Fields) == 0 && over {
		return false
	}
	slices.SortStableFunc(v.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	page := ui.View{Title: "Send it once more", Template: "kept", Data: v}
	if over {
		page.Title = "Your session is over"
	} else if session, err := c.R.Cookie(auth.SessionCookie); err == nil {
		c.Who, _ = p.Auth.Check(session.Value) // whose page this is; it was good a moment ago
	}
	return p.UI.Show(c, status, page) == nil
}
