package service

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/packaging/monitoring"
)

// monitoringCommand prints the rules for Prometheus, or a dashboard.
func (a *App) monitoringCommand() *cobra.Command {
	var runbooks, dashboard string
	cmd := &cobra.Command{
		Use:   "monitoring",
		Short: "Print rules for Prometheus: what of a server and its clusters needs a person; or a dashboard for Grafana",
		Long: `Print rules for Prometheus: what of a server and its clusters needs a person. Each rule leads to what it
means and what to do. They count on a scrape job with the name drover. With --dashboard it prints a dashboard
for Grafana instead, to be imported.`,
		Example: `  drover server monitoring > /etc/prometheus/rules/drover.yaml
  drover server monitoring --dashboard server > server.json
  drover server monitoring --runbooks https://drover.example.com/dashboard/docs/reference/alerts`,
		Args: usageerr.Needs(),
		RunE: func(*cobra.Command, []string) error {
			if dashboard != "" {
				text, err := monitoring.Dashboard(dashboard)
				if err == nil {
					_, err = fmt.Fprintf(a.Out, "%s\n", text)
				}
				return err
			}
			_, err := fmt.Fprint(a.Out, strings.ReplaceAll(monitoring.Rules, monitoring.Runbooks, runbooks))
			return err
		},
	}
	cmd.Flags().StringVar(&runbooks, "runbooks", monitoring.Runbooks, "address of the page with what each alert means, such as that of a server of yours")
	cmd.Flags().StringVar(&dashboard, "dashboard", "", "print this dashboard for Grafana: "+strings.Join(monitoring.Dashboards(), " or "))
	return cmd
}
