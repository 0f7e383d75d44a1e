// Package cli is drover's command line: the commands of an operator, each a few
// requests to a server and a table, and the command that is the server.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/auditlog"
	"github.com/drover-project/drover/cmd/drover/complete"
	"github.com/drover-project/drover/cmd/drover/contexts"
	"github.com/drover-project/drover/cmd/drover/execplugin"
	"github.com/drover-project/drover/cmd/drover/output"
	"github.com/drover-project/drover/cmd/drover/rke"
	"github.com/drover-project/drover/cmd/drover/usageerr"
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
	serve   Serve
	verbs   []verbs.Verb
	given   contexts.Given
	format  string
	// usualDataDir is that of the server that is installed on this host; empty is DefaultDataDir.
	usualDataDir string
	// lines reads secrets where the input is not a terminal.
	lines *bufio.Reader
}

// Main runs the command line and returns the exit code: see exitCodes. A server, which drover server is, is run by serve.
func Main(ctx context.Context, args []string, streams Streams, environ func(string) string, serve Serve) int {
	streams.Out, streams.Err = output.Screen(streams.Out), output.Screen(streams.Err)
	a := &app{Streams: streams, environ: environ, serve: serve, verbs: verbs.All()}
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
	for line := range strings.Lines(err.Error() + contexts.Advice(err)) {
		fmt.Fprintln(streams.Err, output.Error(streams.Err, environ)+" "+strings.TrimSuffix(line, "\n"))
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
var exitCodes = [][2]string{
	{"0", "done"},
	{"1", "it could not be done; standard error has why. Of `why`: something is wrong"},
	{"2", "the command line is wrong"},
	{"3", "the server does not take the token, or its user may not do this"},
	{"4", "what was named does not exist"},
	{"130", "ended by Ctrl-C"},
	{"other", "that of the program that `machines docker` ran"},
}

// about is the first text that a user reads.
var about = func() string {
	text := "Provision and look after Kubernetes clusters on hosts that already exist.\n\nFirst steps:\n" +
		"  drover login https://SERVER --username NAME   log in to a server\n" +
		"  drover apply -f cluster.yaml                  make a cluster, or change one\n" +
		"  drover clusters join-command NAME --all-roles what a host runs to join it\n" +
		"  drover clusters kubeconfig NAME --exec        a kubeconfig for it\n" +
		"  drover why NAME                               why something is not active\n\nExit codes:\n"
	for _, code := range exitCodes {
		text += fmt.Sprintf("  %-6s %s\n", code[0], code[1])
	}
	return strings.TrimSuffix(text, "\n")
}()

func codeOf(err error) int {
	if _, ok := errors.AsType[*usageerr.Error](err); ok {
		return codeUsage
	}
	if _, ok := errors.AsType[*absentError](err); ok {
		return codeAbsent
	}
	if _, ok := errors.AsType[*contexts.ContextError](err); ok {
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

func usage(format string, args ...any) error { return usageerr.Errorf(format, args...) }

// absentError reports that nothing has the name that was given.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text }

func absent(format string, args ...any) error { return &absentError{fmt.Sprintf(format, args...)} }

// needs says which arguments a command takes.
func needs(names ...string) cobra.PositionalArgs { return usageerr.Needs(names...) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "drover",
		Short:         "Provision and look after Kubernetes clusters on hosts that already exist",
		Long:          about,
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
	flags.StringVarP(&a.format, "output", "o", "table", output.Usage)
	root.AddCommand(a.serverCommand(), a.applyCommand(), a.clustersCommand(), a.fleetsCommand(), a.machinesCommand(), agentsCommand(a), a.objectsCommand(), a.operationsCommand(), a.snapshotsCommand(), a.eventsCommand(), a.auditCommand(), a.whyCommand(), a.tunnelsCommand(), a.serversCommand(), a.versionsCommand(), a.settingsCommand(),
		supportBundleCommand(a), airgapCommand(a), a.loginCommand(), a.contextCommand(), a.versionCommand(), a.credentialCommand(), (&rke.App{Out: a.Out, Err: a.Err, Environ: a.environ}).Command())
	root.AddCommand(a.peopleCommands()...)
	a.addVerbs(root, a.verbs)
	usageerr.Unknown(root)
	root.SetFlagErrorFunc(usageerr.Flag)
	// Asked here before the library does, whose error looks like one of the command's own.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := output.Parse(a.format); err != nil {
			return usage("%v", err)
		}
		if dir := contexts.InstalledDataDir(); dir != "" && !cmd.Flags().Changed("data-dir") && a.environ("DROVER_DATA_DIR") == "" {
			a.usualDataDir, a.given.DataDir = dir, dir
		}
		return usageerr.Together(cmd)
	}
	complete.App{Client: a.client, Outputs: output.Formats(), Contexts: a.contextNames}.Into(root)
	return root
}

func dataDir(environ func(string) string) string {
	if dir := environ("DROVER_DATA_DIR"); dir != "" {
		return dir
	}
	return DefaultDataDir
}

// client finds the server and makes a client for it.
func (a *app) client() (*client.Client, error) {
	a.given.DataDirAsked = a.given.DataDir != cmp.Or(a.usualDataDir, DefaultDataDir)
	c, err := contexts.Resolve(a.given, a.environ)
	if err != nil {
		return nil, err
	}
	return client.New(c.Config())
}

func (a *app) auditCommand() *cobra.Command {
	return (&auditlog.App{Client: a.client, Printer: a.printer, Usage: usage, Err: a.Err}).Command(needs())
}

// credentialCommand is drover token, which kubeconfigs of `clusters kubeconfig --exec` run.
func (a *app) credentialCommand() *cobra.Command {
	return (&execplugin.App{Client: a.client, Find: a.findCluster, Dir: a.tokenDir, Usage: usage, Out: a.Out, Now: time.Now, Parent: os.Getppid()}).Command(needs())
}

// tokenDir is where the tokens of kubectl are kept: beside the file of contexts.
func (a *app) tokenDir() (string, error) {
	file, err := contexts.FilePath(a.environ)
	return filepath.Join(filepath.Dir(file), "tokens"), err
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version; -o json has the commit and its time, too",
		Args:  needs(),
		RunE: func(*cobra.Command, []string) error {
			return a.show(versionOf(drover.Version), func(t *table) { t.Row(drover.Version) })
		},
	}
}

// versionOf is a version with what Go has written into the program: the commit that it is made of and its time, where it was made in a
// repository, and whether that had changes beside it.
func versionOf(version string) map[string]string {
	all := map[string]string{"version": version, "platform": runtime.GOOS + "/" + runtime.GOARCH, "go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return all
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			all["commit"] = s.Value
		case "vcs.time":
			all["date"] = s.Value
		case "vcs.modified":
			all["modified"] = s.Value
		}
	}
	return all
}
