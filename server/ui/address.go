// Addresses of the page, and forms that come to them.

package ui

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
)

// ReadForm reads a form of at most so many bytes. The errors are *norman.Error, without what was in the form.
func ReadForm(c *route.Call, most int64) (url.Values, error) {
	text, err := norman.ReadBody(c.W, c.R, most)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the form cannot be read") // the cause could have a password in it
	}
	for _, values := range form {
		for i, value := range values {
			values[i] = strings.ReplaceAll(value, "\r\n", "\n") // as browsers send the ends of lines
		}
	}
	return form, nil
}

// here is the address that was asked for, as a page.
func here(r *http.Request) string {
	asked := r.URL.Query()
	asked.Del("seen")
	return (&url.URL{Path: r.URL.Path, RawQuery: asked.Encode()}).String()
}

// loginURL leads back to what was asked for once the user has logged in.
func loginURL(r *http.Request) string {
	q := url.Values{}
	to := here(r)
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

// Local is an address of the page, or its begin for anything else: no user is led to another server.
func Local(to string) string {
	at, err := url.Parse(to)
	if err != nil || at.Scheme != "" || at.Host != "" || !strings.HasPrefix(at.Path, Home) || strings.Contains(to, "\\") || path.Clean(at.Path) != strings.TrimSuffix(at.Path, "/") {
		return Home + "clusters"
	}
	return at.RequestURI()
}

// IsPrincipal says that a text is the principal of a user, as directories have them, and not the ID of a user.
func IsPrincipal(text string) bool { return strings.Contains(text, "://") }

// Sentence is an error as a sentence.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
