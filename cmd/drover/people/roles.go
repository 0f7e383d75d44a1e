// drover roles, bindings and tokens.

package people

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

func (a *App) rolesCommand() *cobra.Command {
	ls := a.command(listing{
		what: "roles", short: "List the roles that you may see", types: []string{"globalRole", "roleTemplate"},
		heading: []string{"ROLE", "NAME", "SCOPE", "BUILT-IN", "LOCKED"},
		cells:   func(r resource) []string { return []string{r.ID, r.Name, contextOf(r), yes(r.Builtin), yes(r.Locked)} },
	})
	show := &cobra.Command{Use: "show ROLE", Short: "Show what a role allows", Args: a.Needs("ROLE"), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		r, err := a.role(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		rows := [][]string{{"role", r.ID}, {"name", r.Name}, {"scope", contextOf(r)}}
		if r.Locked {
			rows = append(rows, []string{"locked", "it is given to no one any more"})
		}
		for _, id := range r.RoleTemplateIDs {
			rows = append(rows, []string{"inherits", id})
		}
		for _, one := range r.Rules {
			rows = append(rows, []string{"allows", one.String()})
		}
		return a.Show(r, rows)
	}}
	rm := &cobra.Command{Use: "rm ROLE", Short: "Remove a role that no one has", Args: a.Needs("ROLE"), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		r, err := a.role(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		if err := c.Send(cmd.Context(), "DELETE", "/v3/"+strings.ToLower(r.Type)+"s/"+url.PathEscape(r.ID), nil, nil); err != nil {
			return fmt.Errorf("remove role %s: %w", r.ID, err)
		}
		a.Say("role %s is removed", r.ID)
		return nil
	}}
	return group("roles", "What people may do", ls, show, a.createRole(), rm)
}

func contextOf(r resource) string {
	if r.Context == "" {
		return "global"
	}
	return r.Context
}

// String is the rule as --allow takes it.
func (r rule) String() string {
	if len(r.NonResourceURLs) > 0 {
		return strings.Join(r.Verbs, ",") + " " + strings.Join(r.NonResourceURLs, ",")
	}
	text := strings.Join(r.Verbs, ",") + " " + strings.Join(r.Resources, ",") + " in " + strings.Join(r.APIGroups, ",")
	if len(r.ResourceNames) > 0 {
		text += " named " + strings.Join(r.ResourceNames, ",")
	}
	return text
}

func (a *App) createRole() *cobra.Command {
	var where, description string
	var allow, inherits []string
	cmd := &cobra.Command{
		Use: "create NAME --scope SCOPE", Short: "Make a role, which allows no more than you may do", Args: a.Needs("NAME"),
		Example: "  drover roles create \"Watch nodes\" --scope cluster --allow management.cattle.io/nodes=get,list,watch",
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"name": args[0], "description": description}
			plural := "globalroles"
			switch where {
			case "global":
			case "cluster", "project":
				plural, body["context"] = "roletemplates", where
			default:
				return a.Usage("--scope %q is none of global, cluster and project", where)
			}
			var rules []rule
			for _, text := range allow {
				name, verbs, ok := strings.Cut(text, "=")
				if !ok || verbs == "" || name == "" {
					return a.Usage("--allow %q is not of the form GROUP/RESOURCE=VERB,VERB", text)
				}
				cut := strings.Index(name, "/")
				rules = append(rules, rule{APIGroups: []string{name[:max(cut, 0)]}, Resources: []string{name[cut+1:]}, Verbs: strings.Split(verbs, ",")})
			}
			if body["rules"] = rules; len(inherits) > 0 {
				body["roleTemplateIds"] = inherits
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			var made resource
			if err := c.Send(cmd.Context(), "POST", "/v3/"+plural, body, &made); err != nil {
				return fmt.Errorf("create role %s: %w", args[0], err)
			}
			a.Say("role %s made (%s)", made.Name, made.ID)
			return a.Show(made, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&where, "scope", "", "where the role is given: global, cluster or project")
	f.StringVar(&description, "description", "", "what the role is for")
	f.StringArrayVar(&allow, "allow", nil, "GROUP/RESOURCE=VERB,VERB; without a group the core one of Kubernetes (repeat)")
	f.StringSliceVar(&inherits, "inherit", nil, "ID of a role template whose rules it has, too (repeat)")
	return cmd
}

// wanted is which binding the user means.
type wanted struct{ user, group, role, globalRole, cluster, project string }

func (w *wanted) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.user, "user", "", "whom it is for: a login name or an ID")
	f.StringVar(&w.group, "group", "", "or the principal of a group of a directory")
	f.StringVar(&w.role, "role", "", "role in a cluster or a project")
	f.StringVar(&w.globalRole, "global-role", "", "or role at the whole server")
	f.StringVar(&w.cluster, "cluster", "", "cluster of --role, or of --project")
	f.StringVar(&w.project, "project", "", "or ID or name of the project of --role")
}

// resolve is the type of the binding and the fields that the flags give.
func (a *App) resolve(ctx context.Context, c *client.Client, w wanted) (plural string, body map[string]any, err error) {
	body = map[string]any{}
	switch {
	case w.globalRole != "" && w.role+w.cluster+w.project == "":
		plural, body["globalRoleId"] = "globalrolebindings", w.globalRole
	case w.role != "" && w.globalRole == "" && w.cluster+w.project != "":
		r, known, err := a.roleAmong(ctx, c, w.role)
		switch like := usageerr.Suggest(w.role, known); {
		case err == nil && r.ID != "":
			body["roleTemplateId"] = r.ID
		case len(like) > 0:
			return "", nil, a.Absent("there is no role %q; did you mean %s?", w.role, strings.Join(like, " or "))
		default:
			body["roleTemplateId"] = w.role // who does not see roles may know the ID of one
		}
		if w.project != "" {
			plural, body["projectId"] = "projectroletemplatebindings", w.project
			p, err := a.project(ctx, c, w.cluster, w.project)
			switch {
			case err == nil:
				body["projectId"] = p.ID
			case !strings.Contains(w.project, ":"): // else who does not see projects may know the ID of one
				return "", nil, err
			}
			break
		}
		cluster, err := a.find(ctx, c, "clusters", "name", w.cluster)
		if err != nil {
			return "", nil, err
		}
		plural, body["clusterId"] = "clusterroletemplatebindings", cluster.ID
	default:
		return "", nil, a.Usage("give --global-role, or --role with --cluster or --project")
	}
	switch {
	case w.group != "" && w.user == "":
		body["groupPrincipalId"] = w.group
	case w.user != "" && w.group == "":
		body["userId"], err = a.userID(ctx, c, w.user)
	default:
		err = a.Usage("give one of --user and --group")
	}
	return plural, body, err
}

// userID finds a user by login name or ID: of those that the caller manages, or by a search for people.
func (a *App) userID(ctx context.Context, c *client.Client, name string) (string, error) {
	if u, err := a.find(ctx, c, "users", "username", name); err == nil {
		return u.ID, nil
	}
	if strings.HasPrefix(name, "u-") || strings.HasPrefix(name, "user-") {
		var known struct {
			ID string `json:"id"`
		}
		if err := c.Get(ctx, "/v3/principals/"+url.PathEscape("local://"+name), &known); err == nil {
			return name, nil
		}
	}
	var page struct {
		Data []struct {
			ID        string `json:"id"`
			LoginName string `json:"loginName"`
		} `json:"data"`
	}
	if err := c.Send(ctx, "POST", "/v3/principals?action=search", map[string]string{"name": name, "principalType": "user"}, &page); err == nil {
		for _, p := range page.Data {
			if strings.EqualFold(p.LoginName, name) {
				return strings.TrimPrefix(p.ID, "local://"), nil
			}
		}
	}
	return "", a.Absent("there is no user %q, or you may not see them", name)
}

func (a *App) bindingsCommand() *cobra.Command {
	ls := a.command(listing{
		what: "bindings", short: "List who has which role, as far as you may see", types: []string{"globalRoleBinding", "clusterRoleTemplateBinding", "projectRoleTemplateBinding"},
		heading: []string{"BINDING", "ROLE", "FOR", "WHERE"},
		cells: func(b resource) []string {
			return []string{b.ID, b.GlobalRoleID + b.RoleTemplateID, b.UserID + b.Group, b.ClusterID + b.ProjectID}
		},
	})
	var add, gone wanted
	give := &cobra.Command{
		Use: "add", Short: "Give a user or a group a role", Args: a.Needs(),
		Example: "  drover bindings add --cluster prod --user ann --role cluster-member\n  drover bindings add --user ann --global-role clusters-create",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			plural, body, err := a.resolve(cmd.Context(), c, add)
			if err != nil {
				return err
			}
			if there, err := bound(cmd.Context(), c, plural, body); err == nil && len(there) > 0 {
				a.Say("binding %s gives that role already", there[0].ID)
				return a.Show(there[0], nil)
			}
			var made resource
			if err := c.Send(cmd.Context(), "POST", "/v3/"+plural, body, &made); err != nil {
				return fmt.Errorf("give the role: %w", err)
			}
			a.Say("binding %s made; it is in force", made.ID)
			return a.Show(made, nil)
		},
	}
	add.flags(give)
	rm := &cobra.Command{
		Use: "rm [BINDING...]", Short: "Take a role away: by the IDs of bindings, or by the flags of add", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.unbind(cmd.Context(), args, gone) },
	}
	gone.flags(rm)
	return group("bindings", "Who has which role", ls, give, rm)
}

// bound are the bindings that are as a body says.
func bound(ctx context.Context, c *client.Client, plural string, body map[string]any) ([]resource, error) {
	query, group := url.Values{}, ""
	for field, value := range body {
		if field == "groupPrincipalId" {
			group = fmt.Sprint(value)
			continue
		}
		query.Set(field, fmt.Sprint(value))
	}
	found, err := list(ctx, c, plural, query)
	return slices.DeleteFunc(found, func(b resource) bool { return b.Group != group }), err
}

// unbind removes bindings by ID, or all that are as the flags say.
func (a *App) unbind(ctx context.Context, ids []string, w wanted) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	paths := []string{}
	for _, id := range ids {
		plural := "globalrolebindings"
		if strings.Contains(id, ":crtb-") {
			plural = "clusterroletemplatebindings"
		} else if strings.Contains(id, ":prtb-") {
			plural = "projectroletemplatebindings"
		}
		paths = append(paths, plural+"/"+url.PathEscape(id))
	}
	if len(ids) == 0 {
		plural, body, err := a.resolve(ctx, c, w)
		if err != nil {
			return err
		}
		found, err := bound(ctx, c, plural, body)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return a.Absent("no one has that role there, or you may not see it")
		}
		for _, b := range found {
			paths = append(paths, plural+"/"+url.PathEscape(b.ID))
		}
	}
	for _, path := range paths {
		if err := c.Send(ctx, "DELETE", "/v3/"+path, nil, nil); err != nil {
			return fmt.Errorf("take the role away: %w", err)
		}
		a.Say("binding %s is removed", path[strings.Index(path, "/")+1:])
	}
	return nil
}
