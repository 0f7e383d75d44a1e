package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/contexts"
	"github.com/drover-project/drover/cmd/drover/execplugin"
	"github.com/drover-project/drover/cmd/drover/people"
)

// peopleCommands are users, roles, bindings, tokens, whoami and logout.
func (a *app) peopleCommands() []*cobra.Command {
	return (&people.App{
		Client: a.client, Usage: usage, Absent: absent, Needs: needs, Secret: a.secret, Forget: a.forget, In: a.In, Printer: a.printer, Errs: a.Err,
		End: func(ctx context.Context, c *client.Client) error {
			dir, err := a.tokenDir()
			if err != nil {
				return err
			}
			return execplugin.Forget(ctx, c, dir)
		},
		Show: func(value any, rows [][]string) error {
			if rows == nil && a.tabular() {
				return nil
			}
			return a.show(value, func(t *table) {
				for _, row := range rows {
					t.Row(row...)
				}
			})
		},
		Hint: func(text string) { a.hint(true, text) },
		Say: func(format string, args ...any) {
			if a.tabular() {
				fmt.Fprintf(a.Out, format+"\n", args...)
			}
		},
	}).Commands()
}

// forget removes the context that is used from the file of contexts.
func (a *app) forget() (string, error) {
	f, path, err := a.contexts()
	if err != nil {
		return "", err
	}
	name := firstOf(a.given.Context, f.Current)
	if _, ok := f.Contexts[name]; !ok {
		return "", errors.New("no context is remembered; a token of DROVER_TOKEN or of the command line is not kept in any file")
	}
	delete(f.Contexts, name)
	if f.Current == name {
		f.Current = ""
	}
	return name, contexts.WriteFile(path, f)
}
