// The agents on hosts: of which release they are, and their update.

package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

func agentsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "agents", Aliases: []string{"agent"}, Short: "The agents on hosts, their releases and their update"}
	cmd.AddCommand(agentsList(a), agentsUpdate(a),
		agentsPin(a, "pin", "Have the agents on the hosts of a cluster or a fleet stay of the releases that they are of", true),
		agentsPin(a, "unpin", "Let the agents on the hosts of a cluster or a fleet be updated again", false))
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

func agentsUpdate(a *app) *cobra.Command {
	var o askOptions
	var machines []string
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Update the agents on the hosts of a cluster or a fleet to the server's release, one first and the others in waves", Args: needs("NAME"),
		Long: `Update the agents on the hosts of a cluster or a fleet to the server's release: all whose release is another one. One is the first; when it
works, as many follow at a time as workers of the cluster may be away in an upgrade, and a tenth of a fleet. Nothing restarts but the agents, and
what they carry out goes on. A new agent that does not work is taken back by its own host, and no further machine gets it; drover operations
retry goes on. A machine of a fleet keeps the files and probes of the plan that it has, whose instructions are not carried out again.`,
		Example: "  drover agents update harbour --wait\n  drover agents update harbour --machine pier-4",
		RunE: on(a, a.findHome, func(ctx context.Context, c *client.Client, of home) error {
			names, err := a.machineNames(ctx, c, machines)
			if err != nil {
				return err
			}
			return a.ask(ctx, c, of.path(), apitypes.Asked{Kind: apitypes.KindUpdateAgents, Machines: names}, o)
		}),
	}
	cmd.Flags().StringArrayVar(&machines, "machine", nil, "only the agent of this machine, also of the same release or pinned (repeat)")
	o.flags(cmd)
	return cmd
}

func agentsPin(a *app, name, short string, pinned bool) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Args: needs("NAME"),
		RunE: on(a, a.findHome, func(ctx context.Context, c *client.Client, of home) error {
			var answer apitypes.AskedPin
			if err := c.Send(ctx, "POST", of.path()+"/agents/pin", apitypes.AskedPin{Pinned: pinned}, &answer); err != nil {
				return fmt.Errorf("%s the agents of %s: %w", name, of, err)
			}
			return a.show(answer, func(t *table) {
				t.Row(fmt.Sprintf("the agents of %s are %sned", of, name))
			})
		}),
	}
}
