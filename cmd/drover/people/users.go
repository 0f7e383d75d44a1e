// drover users, whoami and logout.

package people

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

func (a *App) usersCommand() *cobra.Command {
	ls := a.command(listing{
		what: "users", short: "List users: all of them, or yourself", types: []string{"user"},
		heading: []string{"USER", "NAME", "ID", "STATE", "DIRECTORY", "ME"},
		cells: func(u resource) []string {
			state := "enabled"
			if u.Enabled != nil && !*u.Enabled {
				state = "disabled"
			}
			return []string{u.Username, u.Name, u.ID, state, elsewhere(u), yes(u.Me)}
		},
	})
	return group("users", "People and programs that log in", ls, a.createUser(),
		a.changeUser("disable", "Keep a user from logging in, and end what they have open", map[string]any{"enabled": false}, "disabled"),
		a.changeUser("enable", "Let a disabled user log in again", map[string]any{"enabled": true}, "enabled"),
		a.passwordCommand(), a.linkUser(), a.refreshUser(), a.removeUser())
}

// elsewhere are the principals by which directories know a user.
func elsewhere(u resource) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(u.PrincipalIDs), func(p string) bool { return strings.HasPrefix(p, "local://") }), ",")
}

func (a *App) linkUser() *cobra.Command {
	return &cobra.Command{
		Use: "link USER [PRINCIPAL...]", Short: "Say by which principals directories know a user; none parts them", Args: cobra.MinimumNArgs(1),
		Example: "  drover users link ann openldap_user://uid=ann,ou=people,dc=example,dc=com",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onUser(cmd.Context(), args[0], func(c *client.Client, u resource) error {
				if err := c.Send(cmd.Context(), "PUT", "/v3/users/"+url.PathEscape(u.ID), map[string]any{"principalIds": args[1:]}, nil); err != nil {
					return fmt.Errorf("link user %s: %w", u.Username, err)
				}
				a.Say("user %s has %d principals of directories", u.Username, len(args)-1)
				return nil
			})
		},
	}
}

func (a *App) refreshUser() *cobra.Command {
	return &cobra.Command{Use: "refresh USER", Short: "Ask the directories about a user's groups now", Args: a.Needs("USER"), RunE: func(cmd *cobra.Command, args []string) error {
		return a.onUser(cmd.Context(), args[0], func(c *client.Client, u resource) error {
			if err := c.Send(cmd.Context(), "POST", "/v3/users/"+url.PathEscape(u.ID)+"?action=refreshauthprovideraccess", nil, nil); err != nil {
				return fmt.Errorf("refresh user %s: %w", u.Username, err)
			}
			a.Say("the directories were asked about user %s", u.Username)
			return nil
		})
	}}
}

func (a *App) createUser() *cobra.Command {
	var name, description string
	var roles []string
	var mustChange bool
	cmd := &cobra.Command{
		Use: "create USERNAME", Short: "Make a user, with a password from standard input or a prompt", Args: a.Needs("USERNAME"),
		Example: "  drover users create ann --name \"Ann Example\" --global-role user",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			known, err := list(cmd.Context(), c, "globalroles", nil)
			for _, name := range roles { // before anything is made, for callers who see roles
				if err == nil && len(known) > 0 && !slices.ContainsFunc(known, func(r resource) bool { return r.ID == name }) {
					return a.Absent("there is no global role %q; `drover roles ls` shows those there are", name)
				}
			}
			password, err := a.password("password of " + args[0] + ": ")
			if err != nil {
				return err
			}
			var made resource
			body := map[string]any{"username": args[0], "name": name, "description": description, "password": password, "mustChangePassword": mustChange}
			if err := c.Send(cmd.Context(), "POST", "/v3/users", body, &made); err != nil {
				return fmt.Errorf("create user %s: %w", args[0], err)
			}
			for _, role := range roles {
				if err := c.Send(cmd.Context(), "POST", "/v3/globalrolebindings", map[string]any{"globalRoleId": role, "userId": made.ID}, nil); err != nil {
					return fmt.Errorf("user %s is made, but does not have the role %s: %w", args[0], role, err)
				}
			}
			a.Say("user %s made (%s)", made.Username, made.ID)
			a.Hint(fmt.Sprintf("next: `drover bindings add --cluster NAME --user %s --role cluster-member` gives them a cluster", made.Username))
			return a.Show(made, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "the person's name")
	f.StringVar(&description, "description", "", "what the user is for")
	f.StringSliceVar(&roles, "global-role", []string{"user"}, "global role that they get (repeat); \"\" for none")
	f.BoolVar(&mustChange, "must-change", false, "mark the password as one that is to be changed")
	return cmd
}

func (a *App) changeUser(verb, short string, change map[string]any, done string) *cobra.Command {
	return &cobra.Command{Use: verb + " USER", Short: short, Args: a.Needs("USER"), RunE: func(cmd *cobra.Command, args []string) error {
		return a.onUser(cmd.Context(), args[0], func(c *client.Client, u resource) error {
			if err := c.Send(cmd.Context(), "PUT", "/v3/users/"+url.PathEscape(u.ID), change, nil); err != nil {
				return fmt.Errorf("%s user %s: %w", verb, u.Username, err)
			}
			a.Say("user %s is %s", u.Username, done)
			return nil
		})
	}}
}

func (a *App) passwordCommand() *cobra.Command {
	return &cobra.Command{
		Use: "passwd [USER]", Short: "Give a user another password, or yourself; their other sessions end", Args: usageerr.Between(0, "USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.onUser(cmd.Context(), args[0], func(c *client.Client, u resource) error {
					password, err := a.password("new password of " + u.Username + ": ")
					if err != nil {
						return err
					}
					if err := c.Send(cmd.Context(), "POST", "/v3/users/"+url.PathEscape(u.ID)+"?action=setpassword", map[string]string{"newPassword": password}, nil); err != nil {
						return fmt.Errorf("set the password of user %s: %w", u.Username, err)
					}
					a.Say("user %s has a new password", u.Username)
					return nil
				})
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			current, err := a.password("current password: ")
			if err != nil {
				return err
			}
			changed, err := a.password("new password: ")
			if err != nil {
				return err
			}
			if err := c.Send(cmd.Context(), "POST", "/v3/users?action=changepassword", map[string]string{"currentPassword": current, "newPassword": changed}, nil); err != nil {
				return fmt.Errorf("change your password: %w", err)
			}
			a.Say("your password is changed; your other sessions have ended")
			return nil
		},
	}
}

func (a *App) removeUser() *cobra.Command {
	return &cobra.Command{Use: "rm USER", Short: "Remove a user with their tokens and roles", Args: a.Needs("USER"), RunE: func(cmd *cobra.Command, args []string) error {
		return a.onUser(cmd.Context(), args[0], func(c *client.Client, u resource) error {
			if err := c.Send(cmd.Context(), "DELETE", "/v3/users/"+url.PathEscape(u.ID), nil, nil); err != nil {
				return fmt.Errorf("remove user %s: %w", u.Username, err)
			}
			a.Say("user %s is removed", u.Username)
			return nil
		})
	}}
}

func (a *App) onUser(ctx context.Context, name string, do func(*client.Client, resource) error) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	u, err := a.find(ctx, c, "users", "username", name)
	if err != nil {
		return err
	}
	return do(c, u)
}

// shownGroups is how many groups whoami shows to people.
const shownGroups = 20

func (a *App) whoamiCommand() *cobra.Command {
	return &cobra.Command{Use: "whoami", Short: "Print who you are to the server, and your roles", Args: a.Needs(), RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		var me apitypes.WhoAmI
		if err := c.Get(cmd.Context(), "/v1-drover/whoami", &me); err != nil {
			return err
		}
		expires := "never"
		if !me.Expires.IsZero() {
			expires = me.Expires.UTC().Format("2006-01-02T15:04:05Z")
		}
		rows := [][]string{{"server", c.Server()}, {"user", me.Username + " (" + me.UserID + ")"}, {"token", me.Token + ", ends " + expires}}
		for _, principal := range me.Principals {
			rows = append(rows, []string{"known as", principal})
		}
		for _, group := range me.Groups[:min(len(me.Groups), shownGroups)] {
			rows = append(rows, []string{"group", group})
		}
		if more := len(me.Groups) - shownGroups; more > 0 {
			rows = append(rows, []string{"group", fmt.Sprintf("and %d more; -o json shows them", more)})
		}
		for _, r := range me.Roles {
			where := "everywhere"
			switch {
			case r.ProjectID != "":
				where = "project " + r.ProjectID
			case r.ClusterID != "":
				where = "cluster " + r.Cluster + " (" + r.ClusterID + ")"
			}
			rows = append(rows, []string{"role", r.Role + ", " + where})
		}
		if me.MustChangePassword {
			rows = append(rows, []string{"password", "to be changed: drover users passwd"})
		}
		return a.Show(me, rows)
	}}
}

func (a *App) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "End the session of the current context with the tokens that kubectl got by it, and forget it", Args: a.Needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			ended := errors.Join(a.End(cmd.Context(), c), c.Send(cmd.Context(), "POST", "/v3/tokens?action=logout", nil, nil))
			name, err := a.Forget()
			if err != nil {
				return err
			}
			if ended != nil {
				a.Say("not all could be ended at the server: %v", ended)
			}
			a.Say("context %s is forgotten", name)
			return nil
		},
	}
}
