// Package cli is drover's command line: the commands of an operator, each a few
// requests to a server and a table, and the command that is the server.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/cmd/drover/auditlog"
	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/cmd/drover/rke"
)

// DefaultDataDir is where a server keeps everything unless configured otherwise.
const DefaultDataDir = "/var/lib/drover"

// Streams are the program's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is what all commands share.
type app struct {
	Streams
	environ func(string) string
	given   client.Given
	format  string
	// lines reads secrets where the input is not a terminal.
	lines *bufio.Reader
}

// Main runs the command line and returns the exit code: see exitCodes.
func Main(ctx context.Context, args []string, streams Streams, environ func(string) string) int {
	a := &app{Streams: streams, environ: environ}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return 130
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(streams.Err, "error: "+strings.TrimSuffix(line, "\n"))
	}
	return codeOf(err)
}

// Exit codes beside 0, 130 and those of programs that were run.
const (
	codeFailed = 1
	codeUsage  = 2
	codeDenied = 3
	codeAbsent = 4
)

// exitCodes describes them.
const exitCodes = `| code | meaning |
|---|---|
| 0 | done |
| 1 | it could not be done; standard error has why. Of ` + "`why`" + `: something is wrong |
| 2 | the command line is wrong |
| 3 | the server does not take the token, or its user may not do this |
| 4 | what was named does not exist |
| 130 | ended by Ctrl-C |
| other | that of the program that ` + "`machines docker`" + ` ran |
`

func codeOf(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return codeUsage
	}
	if _, ok := errors.AsType[*absentError](err); ok {
		return codeAbsent
	}
	if refused, ok := errors.AsType[*client.Error](err); ok {
		switch refused.Status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return codeDenied
		case http.StatusNotFound:
			return codeAbsent
		}
	}
	return codeFailed
}

// usageError says what is wrong with a command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// absentError reports that nothing has the name that was given.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text }

func absent(format string, args ...any) error { return &absentError{fmt.Sprintf(format, args...)} }

// needs says which arguments a command takes, in a sentence for whoever forgot them.
func needs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s needs %s, as in `%s`", cmd.CommandPath(), strings.Join(names[len(args):], " and "), cmd.UseLine())
		case len(args) > len(names):
			return usage("%s takes %d arguments, and %q is one more; `%s --help` shows how it is used", cmd.CommandPath(), len(names), args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "drover",
		Short:         "Provision and look after Kubernetes clusters on hosts that already exist",
		Version:       drover.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.given.Server, "server", "", "URL of the server (DROVER_SERVER)")
	flags.StringVar(&a.given.Token, "token", "", "API token; prefer DROVER_TOKEN or a context, as others can read a command line (DROVER_TOKEN)")
	flags.StringVar(&a.given.CAFile, "ca-file", "", "PEM file of the authority to trust (DROVER_CA_FILE)")
	flags.StringVar(&a.given.Context, "context", "", "context of drover login to use instead of the current one")
	flags.StringVar(&a.given.DataDir, "data-dir", dataDir(a.environ), "data directory of a server on this host (DROVER_DATA_DIR)")
	flags.StringVarP(&a.format, "output", "o", "table", "table, json or yaml")
	root.AddCommand(a.serverCommand(), a.applyCommand(), a.clustersCommand(), a.fleetsCommand(), a.machinesCommand(), a.objectsCommand(), a.operationsCommand(), a.snapshotsCommand(), a.eventsCommand(), a.auditCommand(), a.whyCommand(), a.tunnelsCommand(), a.versionsCommand(), a.settingsCommand(),
		a.loginCommand(), a.contextCommand(), a.versionCommand(), (&rke.App{Out: a.Out, Err: a.Err, Environ: a.environ}).Command())
	root.AddCommand(a.peopleCommands()...)
	refuseUnknown(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v; `%s --help` shows its flags", err, cmd.CommandPath())
	})
	// Asked here before the library does, whose error looks like one of the command's own.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil {
			return usage("%v; `%s --help` shows its flags", err, cmd.CommandPath())
		}
		return nil
	}
	a.complete(root)
	return root
}

// refuseUnknown has a command that only holds others refuse what is none of them; the library
// would show its help and call that a success. One that does something itself sees to its arguments.
func refuseUnknown(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		refuseUnknown(sub)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		see := fmt.Sprintf("`%s --help` shows those there are", cmd.CommandPath())
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			see = fmt.Sprintf("did you mean %s?", strings.Join(like, " or "))
		}
		return usage("unknown command %q of %s; %s", args[0], cmd.CommandPath(), see)
	}
}

func dataDir(environ func(string) string) string {
	if dir := environ("DROVER_DATA_DIR"); dir != "" {
		return dir
	}
	return DefaultDataDir
}

// client finds the server and makes a client for it.
func (a *app) client() (*client.Client, error) {
	a.given.DataDirAsked = a.given.DataDir != DefaultDataDir
	c, err := client.Resolve(a.given, a.environ)
	if err != nil {
		return nil, err
	}
	return client.New(c)
}

func (a *app) auditCommand() *cobra.Command {
	return (&auditlog.App{
		Client: a.client, Tabular: a.tabular, Print: func(v any) error { return a.show(v, nil) }, Usage: usage, Out: a.Out, Err: a.Err,
		Table: func(rows [][]string) error {
			return a.show(nil, func(t *table) {
				for _, cells := range rows {
					t.row(cells...)
				}
			})
		},
	}).Command(needs())
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  needs(),
		RunE: func(*cobra.Command, []string) error {
			return a.show(map[string]string{"version": drover.Version}, func(t *table) { t.row(drover.Version) })
		},
	}
}
