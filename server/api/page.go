// The web page: its routes, and what it shows.

package api

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/drover-project/drover/server/api/login"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/ui/facts"
	"github.com/drover-project/drover/server/ui/live"
	"github.com/drover-project/drover/server/ui/terminal"
)

// page makes the page over the state of the server; stop ends what tells it of changes.
func (o Options) page(logins *login.API) (page *ui.UI, stop func(), err error) {
	source := &facts.Source{
		State: o.State, Settings: o.Settings, Registration: o.Registration, DayTwo: o.DayTwo, Events: o.Events, Audit: o.Audit,
		Versions: o.Versions, VersionStatus: o.VersionStatus, Now: o.Now,
	}
	changes := &live.Hub{}
	page, err = ui.New(ui.Options{
		Facts: source.Facts(), Changes: changes, Auth: o.Auth, Setting: func(name string) string { return o.Settings.Get(name).Value },
		Doors: func(to string) []ui.Door { return o.doors(to) }, Directories: o.chosenDirectories, Enter: logins.Enter,
		Session: func() time.Duration { return o.Settings.Minutes("auth-user-session-ttl-minutes") }, Now: o.Now,
	})
	if err != nil {
		return nil, nil, err
	}
	return page, source.Watch(changes), nil
}

// doors are the directories that people log in at through their browsers.
func (o Options) doors(to string) []ui.Door {
	var doors []ui.Door
	for _, d := range o.lettingIn() {
		if !directories.ByPassword(d.Kind) {
			doors = append(doors, ui.Door{Title: titleOf(d), URL: login.PathOf(d.Kind) + "/page?" + url.Values{"to": {to}}.Encode()})
		}
	}
	return doors
}

// chosenDirectories are those that take a name and a password.
func (o Options) chosenDirectories() []ui.Directory {
	var chosen []ui.Directory
	for _, d := range o.lettingIn() {
		if directories.ByPassword(d.Kind) {
			chosen = append(chosen, ui.Directory{ID: d.Kind, Title: titleOf(d)})
		}
	}
	return chosen
}

// lettingIn are the directories that are not disabled.
func (o Options) lettingIn() []records.Directory {
	if o.Directories == nil {
		return nil
	}
	return slices.DeleteFunc(o.Directories.All(), func(d records.Directory) bool { return d.Disabled })
}

// titleOf is what people who log in read of a directory.
func titleOf(d records.Directory) string {
	return cmp.Or(d.DisplayName, map[string]string{
		records.OpenLDAP: "OpenLDAP", records.ActiveDirectory: "Active Directory", records.GenericOIDC: "OpenID Connect", records.GitHub: "GitHub",
	}[d.Kind], d.Kind)
}

// terminal runs lines of kubectl, whose requests come to the handler like those of anybody else.
func (o Options) terminal(page *ui.UI, handler http.HandlerFunc) *terminal.Terminal {
	return terminal.New(page, handler, func(key string) (string, bool) {
		d, ok := o.State.Clusters.Get(key)
		return d.Value.ID, ok
	})
}

// pageRows are the pages for people, which answer what they refuse as pages too. A GET that accepts text/event-stream
// gets the stream of a page.
func pageRows(u *ui.UI, t *terminal.Terminal) []row {
	may, object, login := route.May, route.Object, route.Login
	return []row{
		{"GET", "/dashboard/assets/{name}", route.Open(), u.Asset},
		{"GET", "/dashboard/login", route.Open().Page(), u.Login},
		{"POST", "/dashboard/login", route.Open().For(auth.Login, auth.Token).Page(), u.LogIn},
		{"POST", "/dashboard/logout", route.Leaving().For(auth.CollectionAction("logout"), auth.Token).Page(), u.Logout},
		{"GET", "/dashboard/password", login().Page(), u.Password},
		{"POST", "/dashboard/password", may(auth.CollectionAction("changepassword"), auth.User).Page(), u.ChangePassword},

		{"GET", "/dashboard", route.Open(), u.Lead(ui.Home + "clusters")},
		{"GET", "/dashboard/clusters", may(auth.List, auth.Cluster).Page(), u.Serve(u.Clusters)},
		{"GET", "/dashboard/clusters/{namespace}/{name}", object(auth.Get, auth.Cluster).Page(), u.Serve(u.Cluster)},
		{"GET", "/dashboard/clusters/{namespace}/{name}/join", object(auth.Get, auth.RegistrationToken).Reveals().Page(), u.Serve(u.Join)},
		{"GET", "/dashboard/clusters/{namespace}/{name}/terminal", object(auth.Terminal, auth.Cluster).Page(), u.Serve(t.Page)},
		{"POST", "/dashboard/clusters/{namespace}/{name}/terminal", object(auth.Terminal, auth.Cluster).Opens().Page(), t.Run},
		{"GET", "/dashboard/machines", may(auth.List, auth.Machine).Page(), u.Serve(u.Machines)},
		{"GET", "/dashboard/machines/{namespace}/{name}", object(auth.Get, auth.Machine).Page(), u.Serve(u.Machine)},
		{"GET", "/dashboard/operations/{id}", object(auth.Get, auth.Operation).Page(), u.Serve(u.Operation)},
		{"GET", "/dashboard/fleets", may(auth.ListAll, auth.Fleet).Page(), u.Serve(u.Fleets)},
		{"GET", "/dashboard/versions", login().Page(), u.Serve(u.Versions)},
		{"GET", "/dashboard/tokens", may(auth.List, auth.Token).Page(), u.Serve(u.Tokens)},
		{"GET", "/dashboard/users", may(auth.List, auth.User).Page(), u.Serve(u.Users)},
		{"GET", "/dashboard/settings", may(auth.List, auth.Setting).Page(), u.Serve(u.Settings)},
		{"GET", "/dashboard/audit", may(auth.ListAll, auth.Audit).Page(), u.Serve(u.Audit)},
		{"GET", "/dashboard/{rest...}", login().Page(), u.Serve(u.Nothing)},
	}
}
