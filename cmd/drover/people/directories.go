// drover directories.

package people

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
)

func (a *App) directoriesCommand() *cobra.Command {
	ls := &cobra.Command{Use: "ls", Short: "List outside directories", Args: a.Needs(), RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		var page apitypes.List[apitypes.Directory]
		if err := c.Get(cmd.Context(), "/v1-drover/directories", &page); err != nil {
			return fmt.Errorf("list directories: %w", err)
		}
		rows := [][]string{{"KIND", "NAME", "STATE", "ACCESS", "ALLOWED", "AT"}}
		for _, d := range page.Data {
			state := "enabled"
			if !d.Enabled {
				state = "disabled"
			}
			rows = append(rows, []string{d.Kind, d.DisplayName, state, d.Access, strconv.Itoa(len(d.Allowed)), at(d)})
		}
		return a.Show(page.Data, rows)
	}}
	show := &cobra.Command{Use: "show KIND", Short: "Show how a directory is configured, without its secrets", Args: a.Needs("KIND"), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		var d apitypes.Directory
		if err := c.Get(cmd.Context(), "/v1-drover/directories/"+url.PathEscape(args[0]), &d); err != nil {
			return fmt.Errorf("show directory %s: %w", args[0], err)
		}
		rows := [][]string{{"kind", d.Kind}, {"enabled", strconv.FormatBool(d.Enabled)}, {"at", at(d)}, {"access", d.Access}}
		for _, p := range d.Allowed {
			rows = append(rows, []string{"allowed", p})
		}
		return a.Show(d, rows)
	}}
	return group("directories", "Outside directories whose people log in here: LDAP, Active Directory, OpenID Connect, GitHub", ls, show,
		a.setDirectory(), a.testDirectory(), a.searchDirectories(), a.removeDirectory())
}

func (a *App) searchDirectories() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use: "search TEXT", Short: "Find people and groups whose names begin with a text, here and in LDAP and Active Directory", Args: a.Needs("TEXT"),
		Example: "  drover directories search dev --type group\n  drover bindings add --group openldap_group://cn=dev,… --role cluster-member --cluster prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			var page struct {
				Data []principal `json:"data"`
			}
			if err := c.Send(cmd.Context(), "POST", "/v3/principals?action=search", map[string]string{"name": args[0], "principalType": kind}, &page); err != nil {
				return fmt.Errorf("search for %q: %w", args[0], err)
			}
			rows := [][]string{{"PRINCIPAL", "TYPE", "LOGIN", "NAME"}}
			for _, p := range page.Data {
				rows = append(rows, []string{p.ID, p.Type, p.Login, p.Name})
			}
			return a.Show(page.Data, rows)
		},
	}
	cmd.Flags().StringVar(&kind, "type", "", "user or group; default both")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions([]string{"user", "group"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// principal is a user, or a group, as bindings name them.
type principal struct {
	ID       string `json:"id"`
	Type     string `json:"principalType"`
	Login    string `json:"loginName,omitempty"`
	Name     string `json:"name,omitempty"`
	Provider string `json:"provider"`
}

// at is where a directory is.
func at(d apitypes.Directory) string {
	switch {
	case d.LDAP != nil:
		return d.LDAP.URL
	case d.OIDC != nil:
		return d.OIDC.Issuer
	case d.GitHub != nil && d.GitHub.URL != "":
		return d.GitHub.URL
	case d.GitHub != nil:
		return "https://github.com"
	}
	return ""
}

// maxDocument is more than the server takes, in bytes.
const maxDocument = 1 << 20

func (a *App) setDirectory() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "set -f FILE", Short: "Configure a directory by a YAML document; secrets that it leaves out stay", Args: a.Needs(),
		Example: "  drover directories set -f openldap.yaml && drover directories test openldap --username ann",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return a.Usage("say by -f which document configures the directory; - is the standard input")
			}
			from := a.In
			if file != "-" {
				f, err := os.Open(file)
				if err != nil {
					return fmt.Errorf("read the document: %w", err)
				}
				defer f.Close()
				from = f
			}
			text, err := io.ReadAll(io.LimitReader(from, maxDocument))
			if err != nil {
				return fmt.Errorf("read the document: %w", err)
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			var d apitypes.Directory
			if err := c.Do(cmd.Context(), "POST", "/v1-drover/directories/set", "application/yaml", text, &d); err != nil {
				return fmt.Errorf("configure a directory: %w", err)
			}
			a.Say("directory %s is configured; `drover directories test %s` asks it", d.Kind, d.Kind)
			return a.Show(d, nil)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the document; - is the standard input")
	return cmd
}

func (a *App) testDirectory() *cobra.Command {
	var username string
	cmd := &cobra.Command{
		Use: "test KIND", Short: "Ask whether a directory answers, or who a user is to it, without a login", Args: a.Needs("KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			body := map[string]string{}
			if username != "" {
				password, err := a.password("password of " + username + ": ")
				if err != nil {
					return err
				}
				body = map[string]string{"username": username, "password": password}
			}
			var found apitypes.TestedDirectory
			if err := c.Send(cmd.Context(), "POST", "/v1-drover/directories/"+url.PathEscape(args[0])+"/test", body, &found); err != nil {
				return fmt.Errorf("test directory %s: %w", args[0], err)
			}
			rows := [][]string{{"directory", args[0] + " answers"}}
			if found.Principal != "" {
				rows = append(rows, []string{"principal", found.Principal}, []string{"name", strings.TrimSpace(found.Login + " " + found.Name)})
			}
			for _, g := range found.Groups {
				rows = append(rows, []string{"group", g})
			}
			return a.Show(found, rows)
		},
	}
	cmd.Flags().StringVar(&username, "username", "", "a login name; its password is read from standard input")
	return cmd
}

func (a *App) removeDirectory() *cobra.Command {
	return &cobra.Command{Use: "rm KIND", Short: "Forget a directory; its people stay, without their groups and sessions of it", Args: a.Needs("KIND"), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		if err := c.Send(cmd.Context(), "POST", "/v1-drover/directories/"+url.PathEscape(args[0])+"/remove", nil, nil); err != nil {
			return fmt.Errorf("remove directory %s: %w", args[0], err)
		}
		a.Say("directory %s is forgotten", args[0])
		return nil
	}}
}
