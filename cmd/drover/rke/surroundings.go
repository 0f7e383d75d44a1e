// Flags of all commands: how much is said, and where version data come from.

package rke

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/rke/console"
	"github.com/drover-project/drover/rke1/versions"
)

// global are the flags before or behind any command.
type global struct {
	debug, quiet bool
	versionData  string
}

func globalFlags(a *App, cmd *cobra.Command) {
	s := cmd.PersistentFlags()
	s.BoolVarP(&a.debug, "debug", "d", false, "print what connections and files do as well")
	s.BoolVar(&a.debug, "trace", false, "the same as --debug")
	s.BoolVarP(&a.quiet, "quiet", "q", false, "print warnings, errors and results alone")
	s.StringVar(&a.versionData, "version-data", "", "file or http(s) URL of KDM's data.json, in place of the built-in versions of RKE1 (RANCHER_METADATA_URL)")
}

// surroundings are where a command reports and logs. Standard output stays free for results.
func (a *App) surroundings() (*console.Printer, *slog.Logger) {
	p := console.New(a.Err)
	p.Quiet = a.quiet
	if !a.debug || a.quiet {
		return p, slog.New(slog.DiscardHandler)
	}
	return p, p.Debug()
}

// loadVersions reads the version data that the flag or the environment names, or else the built-in ones.
func (a *App) loadVersions(ctx context.Context) (*versions.Data, error) {
	return versions.Load(ctx, cmp.Or(a.versionData, a.Environ("RANCHER_METADATA_URL")), versions.Options{})
}
