// Package people is the part of drover's command line about people: drover users, roles, bindings,
// tokens and directories, whoami and logout. It speaks /v3, as other clients do, and finds names there.
package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/output"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

// App is what the commands need of the program.
type App struct {
	// Client finds the server.
	Client func() (*client.Client, error)
	// Show prints a value for programs, or rows for people.
	Show func(value any, rows [][]string) error
	// Printer prints what goes on, and Errs gets what happens to its connection.
	Printer func() output.Printer
	Errs    io.Writer
	// Say prints a sentence for people, and nothing for programs.
	Say func(format string, args ...any)
	// Hint says what to do next, for people alone.
	Hint func(text string)
	// Secret reads a line that a terminal does not show.
	Secret func(prompt string) (string, error)
	// In is the standard input.
	In io.Reader
	// Forget removes the current context from the file of contexts.
	Forget func() (name string, err error)
	// End ends the tokens that kubectl got by the login of a client.
	End func(ctx context.Context, c *client.Client) error
	// Usage is an error about the command line, Absent one about a name that nothing has, and Needs says
	// which arguments a command takes.
	Usage  func(format string, args ...any) error
	Absent func(format string, args ...any) error
	Needs  func(names ...string) cobra.PositionalArgs
}

// Commands are those below drover.
func (a *App) Commands() []*cobra.Command {
	return []*cobra.Command{
		a.usersCommand(), a.rolesCommand(), a.bindingsCommand(), a.projectsCommand(), a.tokensCommand(), a.directoriesCommand(), a.whoamiCommand(), a.logoutCommand(),
	}
}

// resource is what the commands read of an object of /v3.
type resource struct {
	ID                 string `json:"id"`
	Type               string `json:"type"`
	Name               string `json:"name"`
	Description        string `json:"description,omitempty"`
	Username           string `json:"username,omitempty"`
	Enabled            *bool  `json:"enabled,omitempty"`
	MustChangePassword bool   `json:"mustChangePassword,omitempty"`
	Me                 bool   `json:"me,omitempty"`

	PrincipalIDs []string `json:"principalIds,omitempty"`

	Context         string   `json:"context,omitempty"`
	Builtin         bool     `json:"builtin,omitempty"`
	Locked          bool     `json:"locked,omitempty"`
	RoleTemplateIDs []string `json:"roleTemplateIds,omitempty"`
	Rules           []rule   `json:"rules,omitempty"`

	GlobalRoleID   string `json:"globalRoleId,omitempty"`
	RoleTemplateID string `json:"roleTemplateId,omitempty"`
	ClusterID      string `json:"clusterId,omitempty"`
	ProjectID      string `json:"projectId,omitempty"`
	State          string `json:"state,omitempty"`
	UserID         string `json:"userId,omitempty"`
	Group          string `json:"groupPrincipalId,omitempty"`
	Created        string `json:"created,omitempty"`
	Expires        string `json:"expiresAt,omitempty"`
}

type rule struct {
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	Verbs           []string `json:"verbs,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// list reads all objects of a type that the query selects.
func list(ctx context.Context, c *client.Client, plural string, query url.Values) ([]resource, error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", "-1")
	var page struct {
		Data []resource `json:"data"`
	}
	if err := c.Get(ctx, "/v3/"+plural+"?"+query.Encode(), &page); err != nil {
		return nil, err
	}
	return page.Data, nil
}

// find is the object of a type with an ID, or with a value in a field.
func (a *App) find(ctx context.Context, c *client.Client, plural, field, name string) (resource, error) {
	what := strings.TrimSuffix(plural, "s")
	found, err := list(ctx, c, plural, url.Values{field: {name}})
	if err != nil {
		return resource{}, fmt.Errorf("find %s %s: %w", what, name, err)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return resource{}, a.Usage("%d of the type %s are called %q; give the ID of one", len(found), what, name)
	}
	var one resource
	err = c.Get(ctx, "/v3/"+plural+"/"+url.PathEscape(name), &one)
	if errors.Is(err, client.ErrNotFound) {
		return resource{}, a.Absent("there is no %s %q, or you may not see it%s", what, name, a.meant(ctx, c, plural, name))
	}
	return one, err
}

// meant is what a user may have meant who mistyped the name of an object, behind a semicolon; "" for nothing.
func (a *App) meant(ctx context.Context, c *client.Client, plural, name string) string {
	all, err := list(ctx, c, plural, nil)
	if err != nil {
		return ""
	}
	var known []string
	for _, one := range all {
		known = append(known, cmp.Or(one.Username, one.Name))
	}
	if like := usageerr.Suggest(name, known); len(like) > 0 {
		return "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return ""
}

// role finds a role by its ID, or by its name in any case, among those of both types.
func (a *App) role(ctx context.Context, c *client.Client, name string) (resource, error) {
	r, known, err := a.roleAmong(ctx, c, name)
	if err != nil || r.ID != "" {
		return r, err
	}
	if like := usageerr.Suggest(name, known); len(like) > 0 {
		return resource{}, a.Absent("there is no role %q; did you mean %s?", name, strings.Join(like, " or "))
	}
	return resource{}, a.Absent("there is no role %q, or you may not see it; `drover roles ls` shows those there are", name)
}

// roleAmong is a role by its ID or name, or the IDs of those that the caller sees.
func (a *App) roleAmong(ctx context.Context, c *client.Client, name string) (r resource, known []string, err error) {
	for _, plural := range []string{"roletemplates", "globalroles"} {
		all, err := list(ctx, c, plural, nil)
		if err != nil {
			return resource{}, nil, fmt.Errorf("list roles: %w", err)
		}
		for _, r := range all {
			if r.ID == name || strings.EqualFold(r.Name, name) {
				return r, nil, nil
			}
			known = append(known, r.ID)
		}
	}
	return resource{}, known, nil
}

func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(commands...)
	return cmd
}

// password asks for a password, twice where it is typed.
func (a *App) password(prompt string) (string, error) {
	text, err := a.Secret(prompt)
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		return "", a.Usage("no password on standard input")
	}
	_ = err // the end of the input ends a line as well as a line break does
	return text, nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
