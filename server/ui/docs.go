// The documentation below /dashboard/docs/: the files of the repository, which are in the binary. They are for everybody, so that a user
// who cannot log in reads them, too.

package ui

import (
	"html/template"
	"net/http"

	"github.com/drover-project/drover/docs"
	"github.com/drover-project/drover/server/api/route"
)

// shownDocs is what the template gets: a page, or what was found.
type shownDocs struct {
	Text  template.HTML
	Parts []docs.Part
	Query string
	Found []docs.Hit
}

// Docs is GET /dashboard/docs/{path...}: a page, a picture, or with ?q= what was found.
func Docs(u *UI) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		if who, err := u.Auth.Authenticate(c.R); err == nil && who.ClusterID == "" {
			c.Who = who // for the sections in the frame; the page itself is the same for all
		}
		path, query := c.Param("path"), c.Query().Get("q")
		if to, moved := docs.Moved(path); moved {
			return u.LeadTo(c, docs.Base+to), nil
		}
		if docs.Picture(path) {
			headers(c.W.Header())
			http.ServeFileFS(c.W, c.R, docs.Files, path)
			return route.Answer{}, nil
		}
		all := docs.Read()
		view := View{Template: "doc", Section: "docs", Trail: []Link{{Title: "Documentation", URL: Home + "docs"}}}
		if query != "" {
			view.Title, view.Data = "Found in the documentation", shownDocs{Query: query, Found: all.Search(query)}
			return route.Answer{}, u.Show(c, http.StatusOK, view)
		}
		page, found := all.Pages[path]
		if !found {
			return route.NotFound(c)
		}
		if path == "" {
			view.Trail = nil
		}
		view.Title, view.Data = page.Title, shownDocs{Text: page.Text, Parts: page.Parts}
		return route.Answer{}, u.Show(c, http.StatusOK, view)
	}
}

// Described answers with the description of all routes, which is made of their table when that changes.
func Described(*route.Call) (route.Answer, error) {
	all, err := docs.OpenAPI()
	return route.Answer{Status: http.StatusOK, Body: all}, err
}
