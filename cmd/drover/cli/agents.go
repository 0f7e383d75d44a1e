// The agents on hosts: of which release they are, and their update.

package cli

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
)

func agentsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "agents", Aliases: []string{"agent"}, Short: "The agents on hosts, their releases and their update"}
	cmd.AddCommand(agentsList(a))
	return cmd
}

func agentsList(a *app) *cobra.Command {
	return list(a, listing[apitypes.Agent]{
		what: "agents", short: "List the agents on hosts with their releases", path: "/v1-drover/agents",
		none:    "no host has joined; `drover clusters join-command NAME` prints the line for it",
		heading: []string{"MACHINE", "NODE", "CLUSTER", "AGENT", "SERVER", "STATE"},
		cells: func(one apitypes.Agent, _ time.Time) []string {
			return []string{one.Machine, orDash(one.NodeName), one.Cluster, cmp.Or(one.Agent, "not known"), one.Release, string(one.State)}
		},
		only: "only those of this cluster or fleet", cluster: a.homeID,
	})
}
