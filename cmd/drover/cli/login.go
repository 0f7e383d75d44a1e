package cli

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/contexts"
	"github.com/drover-project/drover/cmd/drover/signin"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

func (a *app) loginCommand() *cobra.Command {
	var checksum, name string
	var how signin.How
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Remember a server and a token, and use it from now on",
		Long: `Remember a server and a token, and use it from now on.

The token is taken from --token, DROVER_TOKEN or standard input. With --username
the password is read from standard input and a token is made of it. A terminal is
asked for either, and shows nothing of what is typed. --provider names the outside
directory that knows the name and the password; without it a terminal is asked where
there are several ways. --browser prints a URL and waits until you have logged in
there, at a directory that works through a browser; --paste is for a browser on another
machine. The server's
authority is given by --ca-file, or fetched and checked against --ca-checksum (as the
join command shows it); without either the system's authorities decide.`,
		Args: needs("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := contexts.Context{Server: strings.TrimRight(args[0], "/"), Token: firstOf(a.given.Token, a.environ("DROVER_TOKEN"))}
			if err := a.trust(cmd, &c, checksum); err != nil {
				return err
			}
			if err := a.credential(cmd, &c, how); err != nil {
				return err
			}
			return a.remember(cmd, c, name)
		},
	}
	cmd.Flags().StringVar(&checksum, "ca-checksum", "", "SHA-256 of the server's authority, as the join command shows it")
	cmd.Flags().StringVar(&name, "name", "", "name of the context (default: the server's host)")
	cmd.Flags().StringVar(&how.Username, "username", "", "log in with a password, read from standard input")
	cmd.Flags().StringVar(&how.Provider, "provider", "", "log in by this directory: openldap, activedirectory, genericoidc, github, or local for a password of the server itself")
	cmd.Flags().BoolVar(&how.Browser, "browser", false, "log in through a browser")
	cmd.Flags().BoolVar(&how.Paste, "paste", false, "as --browser, with a browser on another machine: read the address that it ends at")
	return cmd
}

func (a *app) trust(cmd *cobra.Command, c *contexts.Context, checksum string) error {
	file := firstOf(a.given.CAFile, a.environ("DROVER_CA_FILE"))
	if file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the authority to trust: %w", err)
		}
		c.CA = string(pem)
		return nil
	}
	if checksum == "" {
		return nil
	}
	pem, err := client.FetchCA(cmd.Context(), c.Server, checksum)
	c.CA = pem
	return err
}

// credential makes sure of a token, by standard input, by a password or through a browser.
func (a *app) credential(cmd *cobra.Command, c *contexts.Context, how signin.How) error {
	if !how.Given() {
		if c.Token == "" {
			line, err := a.secret("token: ")
			if c.Token = strings.TrimSpace(line); c.Token == "" {
				return errors.Join(errors.New("log in: no token; give --token, DROVER_TOKEN or standard input"), ignoreEOF(err))
			}
		}
		return nil
	}
	if err := how.Check(); err != nil {
		return usage("%v", err)
	}
	guest, err := client.New(client.Config{Server: c.Server, CA: c.CA})
	if err != nil {
		return err
	}
	at := signin.At{Client: guest, Out: a.Err, Secret: a.secret}
	if _, ok := a.terminal(); ok {
		at.Line = a.line
	}
	c.Token, err = at.Token(cmd.Context(), how)
	return err
}

// terminal is the standard input where it is one.
func (a *app) terminal() (*os.File, bool) {
	file, ok := a.In.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

// line reads a line that a terminal shows.
func (a *app) line(prompt string) (string, error) {
	fmt.Fprint(a.Err, prompt)
	if a.lines == nil {
		a.lines = bufio.NewReader(a.In) // one for all lines: it reads ahead
	}
	return a.lines.ReadString('\n')
}

// secret reads a line; a terminal is asked for it and does not show it.
func (a *app) secret(prompt string) (string, error) {
	file, ok := a.terminal()
	if !ok {
		if a.lines == nil {
			a.lines = bufio.NewReader(a.In) // one for all lines: it reads ahead
		}
		return a.lines.ReadString('\n')
	}
	fmt.Fprint(a.Err, prompt)
	line, err := term.ReadPassword(int(file.Fd()))
	fmt.Fprintln(a.Err)
	return string(line), err
}

func (a *app) remember(cmd *cobra.Command, c contexts.Context, name string) error {
	asked, err := client.New(c.Config())
	if err != nil {
		return err
	}
	if err := asked.Get(cmd.Context(), "/v3", nil); err != nil {
		return fmt.Errorf("log in to %s: %w", c.Server, err)
	}
	path, err := contexts.FilePath(a.environ)
	if err != nil {
		return err
	}
	f, err := contexts.ReadFile(path)
	if err != nil {
		return err
	}
	if name == "" {
		u, err := url.Parse(c.Server)
		if err != nil {
			return fmt.Errorf("server %q: %w", c.Server, err)
		}
		name = u.Hostname()
	}
	f.Contexts[name], f.Current = c, name
	if err := contexts.WriteFile(path, f); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "logged in to %s; context %s is current (%s)\n", c.Server, name, path)
	a.hint(true, "next: `drover whoami` shows your roles, `drover clusters ls` your clusters")
	return nil
}

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "context", Short: "The servers that `drover login` remembered"}
	type row struct {
		Name    string `json:"name"`
		Server  string `json:"server"`
		Current bool   `json:"current"`
	}
	list := &cobra.Command{
		Use: "ls", Short: "List them", Args: needs(),
		RunE: func(*cobra.Command, []string) error {
			f, _, err := a.contexts()
			if err != nil {
				return err
			}
			rows := []row{}
			for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
				rows = append(rows, row{Name: name, Server: f.Contexts[name].Server, Current: name == f.Current})
			}
			a.hint(len(rows) == 0, "no server is remembered; `drover login URL` remembers one")
			return a.show(rows, func(t *table) {
				t.Row("CURRENT", "NAME", "SERVER")
				for _, r := range rows {
					mark := ""
					if r.Current {
						mark = "*"
					}
					t.Row(mark, r.Name, r.Server)
				}
			})
		},
	}
	use := &cobra.Command{
		Use: "use NAME", Short: "Use another one from now on", Args: needs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, path, err := a.contexts()
			if err != nil {
				return err
			}
			if _, ok := f.Contexts[args[0]]; !ok {
				return absent("there is no context %q; %s", args[0], usageerr.Hint(args[0], slices.Sorted(maps.Keys(f.Contexts)), "drover context ls"))
			}
			f.Current = args[0]
			return contexts.WriteFile(path, f)
		},
	}
	cmd.AddCommand(list, use)
	return cmd
}

func (a *app) contextNames() []string {
	f, _, err := a.contexts()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(f.Contexts))
}

func (a *app) contexts() (contexts.File, string, error) {
	path, err := contexts.FilePath(a.environ)
	if err != nil {
		return contexts.File{}, "", err
	}
	f, err := contexts.ReadFile(path)
	return f, path, err
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
