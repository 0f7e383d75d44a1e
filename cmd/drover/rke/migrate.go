// drover rke migrate

package rke

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/installers/kubeconfig"
	rke2versions "github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/migrate"
	"github.com/drover-project/drover/rke1/migrate/live"
)

func (a *App) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "The way on to RKE2"}
	cmd.AddCommand(a.migratePlanCommand())
	return cmd
}

func (a *App) migratePlanCommand() *cobra.Command {
	var f flags
	var kubeconfigFile, releases, output string
	cmd := &cobra.Command{
		Use: "plan", Short: "Say what a move of the cluster to RKE2 would need, host by host; nothing is changed", Args: cobra.NoArgs,
		Long: `Say what a move of the cluster to RKE2 would need, for the cluster and host by host: the version,
network plugin, add-ons, registries, settings and flags, and with --kubeconfig also volumes, nodes
and pods that need Docker, which are listed through the cluster's API. Nothing is changed.

Each line has a level: "same" needs nothing, "set" is carried over by a setting of RKE2, "do" is work
for a person, and "without" has no equivalent.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output %q: is neither text nor json", output)
			}
			c, err := a.openConfig(cmd.Context(), f)
			if err != nil {
				return err
			}
			known, err := rke2versions.Load(releases)
			if err != nil {
				return err
			}
			in := migrate.Input{Config: c.config, Releases: known.List(rke2versions.RKE2)}
			if kubeconfigFile != "" {
				if in.Live, err = readLive(cmd.Context(), kubeconfigFile); err != nil {
					return err
				}
			}
			report := migrate.Plan(in)
			if output == "json" {
				text, err := json.MarshalIndent(report, "", "  ")
				if err != nil {
					return fmt.Errorf("encode the plan: %w", err)
				}
				_, err = fmt.Fprintf(a.Out, "%s\n", text)
				return err
			}
			return report.Text(a.Out)
		},
	}
	a.configFlag(cmd, &f)
	s := cmd.Flags()
	s.StringVar(&kubeconfigFile, "kubeconfig", "", "look at the running cluster too, with this kubeconfig")
	s.StringVar(&releases, "version-data", "", "file with versions of RKE2 beyond the built-in ones, in drover's or Rancher's form")
	s.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// readLive reads what only the running cluster knows.
func readLive(ctx context.Context, path string) (*migrate.Live, error) {
	text, err := durable.ReadFile(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	k, err := kubeconfig.Read(text)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	client, err := kube.Reach(k)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig %s: %w", path, err)
	}
	return live.Read(ctx, client)
}
