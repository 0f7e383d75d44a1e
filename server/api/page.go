// The web page: its routes, and what it shows.

package api

import (
	"net/http"
	"time"

	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/login"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/ui/actions"
	"github.com/drover-project/drover/server/ui/change"
	"github.com/drover-project/drover/server/ui/facts"
	"github.com/drover-project/drover/server/ui/live"
	"github.com/drover-project/drover/server/ui/signin"
	"github.com/drover-project/drover/server/ui/terminal"
)

// page is what people with a browser see: what there is, how they log in, and what they do.
type page struct {
	*ui.UI
	signin   *signin.Pages
	actions  *actions.Pages
	change   *change.Editor
	terminal *terminal.Terminal
}

// page makes the page over the state of the server; stop ends what tells it of changes.
func (o Options) page(logins *login.API, offered []Verb) (p page, stop func(), err error) {
	source := &facts.Source{
		State: o.State, Settings: o.Settings, Registration: o.Registration, DayTwo: o.DayTwo, Events: o.Events, Audit: o.Audit,
		Versions: o.Versions, VersionStatus: o.VersionStatus, OnVersions: o.OnVersions, API: o.reach().api, Presence: o.Presence, Leader: o.Leader, Used: o.Auth.Uses.Last, Now: o.Now,
	}
	changes := &live.Hub{}
	shown := ui.Options{
		Facts: source.Facts(), Changes: changes, Auth: o.Auth, Now: o.Now, Logger: o.Logger,
		Offers: func(who auth.Identity, thing any) []ui.Offer { return p.actions.Offers(who, thing) },
		Notice: func(done string) string {
			if done == change.Again {
				return change.AgainNotice
			}
			return p.actions.Notice(done)
		},
	}
	if p.UI, err = ui.New(shown); err != nil {
		return p, nil, err
	}
	var all []verbs.Verb
	for _, v := range offered {
		all = append(all, v.Verb)
	}
	p.actions = actions.New(p.UI, shown.Facts, o.Now, all)
	p.change = change.New(p.UI, o.Now, func(text []byte) error {
		_, err := clusterspec.ParseStream(text, o.Versions())
		return err
	}, func() string { return o.Versions().Default(versions.K3s) })
	p.signin = &signin.Pages{
		UI: p.UI, Auth: o.Auth, Setting: func(name string) string { return o.Settings.Get(name).Value },
		Session:     func() time.Duration { return o.Settings.Minutes("auth-user-session-ttl-minutes") },
		Doors:       func(to string) []signin.Door { return signin.DoorsOf(o.directories(), to) },
		Directories: func() []signin.Directory { return signin.Chosen(o.directories()) }, Enter: logins.Enter, Logger: o.Logger,
	}
	return p, source.Watch(changes), nil
}

// directories are those that there are.
func (o Options) directories() []records.Directory {
	if o.Directories == nil {
		return nil
	}
	return o.Directories.All()
}

// terminal runs lines of kubectl, whose requests come to the handler like those of any other client.
func (o Options) terminal(page *ui.UI, handler http.HandlerFunc) *terminal.Terminal {
	return terminal.New(page, handler, func(key string) (string, bool) {
		d, ok := o.State.Clusters.Get(key)
		return d.Value.ID, ok
	}, o.Logger)
}

// pageRows are the pages for people, which answer what they refuse as pages too. A GET that accepts text/event-stream
// gets the stream of a page.
func pageRows(u page) []row {
	s := u.signin
	may, object, loggedIn := route.May, route.Object, route.Login
	return []row{
		{"GET", "/dashboard/assets/{name}", route.Open(), u.Asset},
		{"GET", "/dashboard/docs", route.Open().Page(), ui.Docs(u.UI)},
		{"GET", "/dashboard/docs/{path...}", route.Open().Page(), ui.Docs(u.UI)},
		{"GET", "/dashboard/login", route.Open().Page(), s.Login},
		{"POST", "/dashboard/login", route.Open().For(auth.Login, auth.Token).Page(), s.LogIn},
		{"POST", "/dashboard/logout", route.Leaving().For(auth.CollectionAction("logout"), auth.Token).Page(), s.Logout},
		{"GET", "/dashboard/password", loggedIn().Page(), s.Password},
		{"POST", "/dashboard/password", may(auth.CollectionAction("changepassword"), auth.User).Page(), s.ChangePassword},

		{"GET", "/dashboard", route.Open(), u.Lead(ui.Home + "clusters")},
		{"GET", "/dashboard/clusters", may(auth.List, auth.Cluster).Page(), u.Common(u.Clusters)},
		{"GET", "/dashboard/clusters/{namespace}/{name}", object(auth.Get, auth.Cluster).Page(), u.Common(u.Cluster)},
		{"GET", "/dashboard/clusters/{namespace}/{name}/join", object(auth.Get, auth.RegistrationToken).Reveals().Page(), u.Serve(u.Join)},
		{"GET", "/dashboard/clusters/{namespace}/{name}/change", object(auth.Update, auth.Cluster).Page(), u.change.Form},
		{"POST", "/dashboard/clusters/{namespace}/{name}/change", object(auth.Update, auth.Cluster).Page(), u.change.Send},
		{"GET", "/dashboard/new", may(auth.Create, auth.Cluster).Page(), u.change.Form},
		{"POST", "/dashboard/new", may(auth.Create, auth.Cluster).Page(), u.change.Send},
		{"POST", "/dashboard/check", loggedIn().Checks(), u.change.CheckText},
		{"GET", "/dashboard/do/{action}", loggedIn().Page(), u.actions.Form},
		{"POST", "/dashboard/do/{action}", loggedIn().Page(), u.actions.Do},
		{"GET", "/dashboard/do/{action}/{key...}", loggedIn().Page(), u.actions.Form},
		{"POST", "/dashboard/do/{action}/{key...}", loggedIn().Page(), u.actions.Do},
		{"GET", "/dashboard/clusters/{namespace}/{name}/terminal", object(auth.Terminal, auth.Cluster).Page(), u.Serve(u.terminal.Page)},
		{"POST", "/dashboard/clusters/{namespace}/{name}/terminal", object(auth.Terminal, auth.Cluster).Opens().Page(), u.terminal.Run},
		{"GET", "/dashboard/machines", may(auth.List, auth.Machine).Page(), u.Common(u.Machines)},
		{"GET", "/dashboard/machines/{namespace}/{name}", object(auth.Get, auth.Machine).Page(), u.Serve(u.Machine)},
		{"GET", "/dashboard/operations/{id}", object(auth.Get, auth.Operation).Page(), u.Common(u.Operation)},
		{"GET", "/dashboard/fleets", may(auth.ListAll, auth.Fleet).Page(), u.Common(u.Fleets)},
		{"GET", "/dashboard/fleets/{name}", object(auth.Get, auth.Fleet).Page(), u.Common(u.Fleet)},
		{"GET", "/dashboard/roles", may(auth.List, auth.RoleTemplate).Page(), u.Serve(u.Roles)},
		{"GET", "/dashboard/bindings", may(auth.List, auth.ClusterBinding).Page(), u.Serve(u.Bindings)},
		{"GET", "/dashboard/servers", may(auth.ListAll, auth.Tunnel).Page(), u.Serve(u.Servers)},
		{"GET", "/dashboard/versions", loggedIn().Page(), u.Serve(u.Versions)},
		{"GET", "/dashboard/tokens", may(auth.List, auth.Token).Page(), u.Serve(u.Tokens)},
		{"GET", "/dashboard/users", may(auth.List, auth.User).Page(), u.Serve(u.Users)},
		{"GET", "/dashboard/settings", may(auth.List, auth.Setting).Page(), u.Serve(u.Settings)},
		{"GET", "/dashboard/audit", may(auth.ListAll, auth.Audit).Page(), u.Serve(u.Audit)},
		{"GET", "/dashboard/{rest...}", loggedIn().Page(), u.Serve(u.Nothing)},
	}
}
