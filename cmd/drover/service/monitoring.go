package service

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/packaging/monitoring"
)

// monitoringCommand prints the rules for Prometheus.
func (a *App) monitoringCommand() *cobra.Command {
	var runbooks string
	cmd := &cobra.Command{
		Use:   "monitoring",
		Short: "Print rules for Prometheus: what of a server and its clusters needs a person",
		Long: `Print rules for Prometheus: what of a server and its clusters needs a person. Each rule leads to what it
means and what to do. They count on a scrape job with the name drover.`,
		Example: `  drover server monitoring > /etc/prometheus/rules/drover.yaml
  drover server monitoring --runbooks https://drover.example.com/dashboard/docs/reference/alerts`,
		Args: usageerr.Needs(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.Out, strings.ReplaceAll(monitoring.Rules, monitoring.Runbooks, runbooks))
			return err
		},
	}
	cmd.Flags().StringVar(&runbooks, "runbooks", monitoring.Runbooks, "address of the page with what each alert means, such as that of a server of yours")
	return cmd
}
