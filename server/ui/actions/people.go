// Users, their tokens, roles and who has them, and the server's settings.

package actions

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/ui"
)

func userAt(s Subject) string { return "/v3/users/" + url.PathEscape(s.ID) }

// changed is a change of a user by some fields.
func changed(name, title, about, done string, body map[string]any, fits func(ui.User) bool) Action {
	return Action{
		Name: name + "-user", Title: title, About: about, Done: done, Of: auth.User,
		May:     func(who auth.Identity, s Subject) bool { return s.may(who, auth.Update) },
		Fits:    func(s Subject) bool { return fits(*s.User) },
		Ask:     func(s Subject, _ Given) route.Asked { return send(http.MethodPut, userAt(s), body) },
		Command: command("users " + name),
	}
}

func ofPeople() []Action {
	return []Action{
		{
			Name: "new-user", Title: "New user", Makes: auth.User, Done: "The user is made.",
			About: "A user who logs in with a name and a password of this server, and is asked to choose their own.",
			May: func(who auth.Identity, _ Subject) bool {
				return auth.May(who, auth.Create, auth.Object{Kind: auth.User})
			},
			Fields: func(_ Subject, k Known) []Field {
				fields := []Field{
					{Name: "username", Label: "User name", Kind: "text", Required: true}, {Name: "name", Label: "Name", Kind: "text"},
					{Name: "description", Label: "Description", Kind: "text"}, {Name: "password", Label: "Password", Kind: "password", Required: true},
					{Name: "mustchange", Label: "They have to choose their own at first", Kind: "tick", Value: "on"},
				}
				if auth.Somewhere(k.Who, auth.Create, auth.GlobalRoleBinding) {
					fields = append(fields, Field{Name: "role", Label: "Role at the whole server", Kind: "text", Value: usualRole, Hint: "empty for none", Known: rolesOf(k, roles.Global)})
				}
				return fields
			},
			Ask: func(_ Subject, g Given) route.Asked {
				return send(http.MethodPost, "/v3/users", map[string]any{
					"username": g.Text("username"), "name": g.Text("name"), "description": g.Text("description"), "password": url.Values(g).Get("password"), "mustChangePassword": g.On("mustchange"),
				})
			},
			Also:    giveGlobal,
			Next:    func(Subject, route.Reply) string { return ui.Home + "users" },
			Command: createUser,
		},
		changed("disable", "Disable", "The user cannot log in any more, and their tokens are refused from now on.", "The user is disabled.", map[string]any{"enabled": false},
			func(u ui.User) bool { return !u.Disabled && !u.Me }),
		changed("enable", "Enable", "The user may log in again.", "The user is enabled.", map[string]any{"enabled": true}, func(u ui.User) bool { return u.Disabled }),
		{
			Name: "set-password", Title: "Set password", Of: auth.User, Done: "The user has a new password.",
			About: "The user gets another password, and their sessions end.",
			May:   func(who auth.Identity, s Subject) bool { return s.may(who, auth.Action("setpassword")) },
			Fits:  func(s Subject) bool { return !s.User.Me },
			Fields: func(Subject, Known) []Field {
				return []Field{{Name: "password", Label: "New password", Kind: "password", Required: true}}
			},
			Ask: func(s Subject, g Given) route.Asked {
				return send(http.MethodPost, userAt(s)+"?action=setpassword", map[string]any{"newPassword": url.Values(g).Get("password")})
			},
			Command: command("users passwd"),
		},
		{
			Name: "remove-user", Title: "Remove", Of: auth.User, Dangerous: true, Done: "The user is removed.",
			About:   "The user is removed with their tokens and roles. Clusters that they made stay.",
			May:     func(who auth.Identity, s Subject) bool { return s.may(who, auth.Remove) },
			Fits:    func(s Subject) bool { return !s.User.Me },
			Ask:     func(s Subject, _ Given) route.Asked { return route.Asked{Method: http.MethodDelete, Target: userAt(s)} },
			Command: command("users rm"),
		},
		newToken(),
		{
			Name: "end-token", Title: "End", Of: auth.Token, Done: "The token is ended.",
			About: "Requests with the token are refused from now on, and its open connections end.",
			May:   func(who auth.Identity, s Subject) bool { return s.may(who, auth.Action("revoke")) },
			Ask: func(s Subject, _ Given) route.Asked {
				return route.Asked{Method: http.MethodDelete, Target: "/v1-drover/tokens/" + url.PathEscape(s.ID)}
			},
			Command: command("tokens rm"),
		},
		{
			Name: "set-setting", Title: "Change", Of: auth.Setting, Done: "The setting is changed.",
			About: "A setting of the whole server. Empty returns to the default.",
			May:   func(who auth.Identity, s Subject) bool { return s.may(who, auth.Update) },
			Fits:  func(s Subject) bool { return !s.Setting.ReadOnly },
			Fields: func(s Subject, _ Known) []Field {
				return []Field{{Name: "value", Label: s.Name, Kind: "area", Value: s.Setting.Value}}
			},
			Ask: func(s Subject, g Given) route.Asked {
				return send(http.MethodPut, "/v3/settings/"+url.PathEscape(s.ID), map[string]any{"value": g.Text("value")})
			},
			Command: func(s Subject, g Given) string {
				return ui.ShellLine("drover settings set", []string{s.Name, g.Text("value")})
			},
		},
	}
}

// usualRole is the role at the whole server that new users have, unless an administrator says otherwise; it is that of drover
// users create.
const usualRole = "user"

// giveGlobal gives a user who has just been made the role that was chosen.
func giveGlobal(g Given, reply route.Reply) []route.Asked {
	var made struct {
		ID string `json:"id"`
	}
	if g.Text("role") == "" || reply.Decode(&made) != nil || made.ID == "" {
		return nil
	}
	return []route.Asked{send(http.MethodPost, "/v3/globalrolebindings", map[string]any{"globalRoleId": g.Text("role"), "userId": made.ID})}
}

func createUser(_ Subject, g Given) string {
	role, must := "", ""
	switch g.Text("role") {
	case usualRole:
	case "":
		role = "--global-role ''"
	default:
		role = ui.ShellFlag("--global-role", g.Text("role"))
	}
	if g.On("mustchange") {
		must = "--must-change"
	}
	return ui.ShellLine("drover users create", []string{orWord(g.Text("username"), "USERNAME")},
		ui.ShellFlag("--name", g.Text("name")), ui.ShellFlag("--description", g.Text("description")), role, must)
}

func newToken() Action {
	return Action{
		Name: "new-token", Title: "New token", Makes: auth.Token,
		About: "A token of yours for the API and the command line. It has all your rights, or those in one cluster. It is shown once.",
		Fields: func(_ Subject, k Known) []Field {
			return []Field{
				{Name: "description", Label: "What it is for", Kind: "text"},
				{Name: "ttl", Label: "How long it lives", Kind: "choice", Choices: []Choice{{"", "the server's default"}, {"24h", "a day"}, {"720h", "30 days"}, {"2160h", "90 days"}, {"8760h", "a year"}}},
				{Name: "cluster", Label: "Only for the Kubernetes API of a cluster, by its ID", Kind: "text", Hint: "c-m-…; empty for all", Known: clusterIDs(k)},
			}
		},
		Ask: func(_ Subject, g Given) route.Asked {
			body := map[string]any{"description": g.Text("description"), "ttl": 0}
			if ttl, err := time.ParseDuration(g.Text("ttl")); err == nil {
				body["ttl"] = ttl.Milliseconds()
			}
			if g.Text("cluster") != "" {
				body["clusterId"] = g.Text("cluster")
			}
			return send(http.MethodPost, "/v3/tokens", body)
		},
		Command: func(_ Subject, g Given) string {
			return ui.ShellLine("drover tokens create", nil, ui.ShellFlag("--description", g.Text("description")), ui.ShellFlag("--ttl", g.Text("ttl")), ui.ShellFlag("--cluster", g.Text("cluster")))
		},
		Shows: func(_ Subject, reply route.Reply) (Shown, error) {
			var made struct {
				Token string `json:"token"`
			}
			err := reply.Decode(&made)
			return Shown{Title: "Your new token. It is not shown again.", Text: made.Token}, err
		},
	}
}

func ofRoles() []Action {
	return []Action{
		{
			Name: "give-role", Title: "Give a role", Makes: auth.ClusterBinding, Done: "The role is given; it is in force.",
			About: "A user or a group gets a role, at the whole server or in one cluster. No one can give more than they have.",
			May: func(who auth.Identity, _ Subject) bool {
				return auth.Somewhere(who, auth.Create, auth.ClusterBinding) || auth.Somewhere(who, auth.Create, auth.GlobalRoleBinding)
			},
			Fields: giveFields,
			Ask:    give,
			Next:   func(Subject, route.Reply) string { return ui.Home + "bindings" },
			Command: func(_ Subject, g Given) string {
				role, to := "--global-role", "--user"
				if g.Text("cluster") != "" {
					role = "--role"
				}
				if g.Text("group") != "" {
					to = "--group"
				}
				return ui.ShellLine("drover bindings add", nil, ui.ShellFlag("--cluster", g.Text("cluster")),
					ui.ShellFlag(to, orWord(g.Text("group")+g.Text("user"), "USER")), ui.ShellFlag(role, orWord(g.Text("role"), "ROLE")))
			},
		},
		{
			Name: "take-role", Title: "Take away", Of: auth.ClusterBinding, Done: "The role is taken away.",
			About: "They lose the role at once, and what they have open by it ends.",
			May:   func(who auth.Identity, s Subject) bool { return s.may(who, auth.Remove) },
			Ask: func(s Subject, _ Given) route.Asked {
				return route.Asked{Method: http.MethodDelete, Target: "/v3/" + string(s.About.Kind) + "s/" + url.PathEscape(s.ID)}
			},
			Command: command("bindings rm"),
		},
	}
}

func giveFields(_ Subject, k Known) []Field {
	return []Field{
		{Name: "user", Label: "User", Kind: "text", Hint: "the user's ID (u-…), or a principal of a directory", Known: known(k.Users(k.Who), func(u ui.User) Choice { return Choice{u.ID, u.Username} })},
		{Name: "group", Label: "Or group", Kind: "text", Hint: "a principal of a directory"},
		{Name: "role", Label: "Role", Kind: "text", Required: true, Hint: "of the server without a cluster, of clusters with one", Known: slices.Concat(rolesOf(k, roles.Global), rolesOf(k, roles.Cluster))},
		{Name: "cluster", Label: "In cluster", Kind: "text", Hint: "the cluster's ID (c-m-…); empty for the whole server", Known: clusterIDs(k)},
	}
}

// rolesOf are the roles of a context.
func rolesOf(k Known, context roles.Context) []Choice {
	all := slices.DeleteFunc(k.Roles(k.Who), func(r ui.Role) bool { return r.Context != string(context) })
	return known(all, func(r ui.Role) Choice { return Choice{r.ID, r.Name + " (" + r.Context + ")"} })
}

func clusterIDs(k Known) []Choice {
	return known(k.Clusters(k.Who), func(c ui.ClusterRow) Choice { return Choice{c.ID, c.Name} })
}

func give(_ Subject, g Given) route.Asked {
	body, at := map[string]any{}, "/v3/globalrolebindings"
	if cluster := g.Text("cluster"); cluster != "" {
		at, body["clusterId"], body["roleTemplateId"] = "/v3/clusterroletemplatebindings", cluster, g.Text("role")
	} else {
		body["globalRoleId"] = g.Text("role")
	}
	switch user := g.Text("user"); {
	case g.Text("group") != "":
		body["groupPrincipalId"] = g.Text("group")
	case ui.IsPrincipal(user):
		body["userPrincipalId"] = user
	default:
		body["userId"] = user
	}
	return send(http.MethodPost, at, body)
}
