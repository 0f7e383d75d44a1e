package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/daemon/outputstream"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans"
)

// machinesOutput shows what instructions print while they run, from the host itself.
func (a *app) machinesOutput() *cobra.Command {
	place := outputstream.Place{Attempt: -1, Periodic: true}
	cmd := &cobra.Command{
		Use:   "output NAME",
		Short: "Show what the instructions of a machine's plan print, as it comes with -f",
		Long: `Show what the instructions of a machine's newest plan print. The output comes from the
agent on the host, which keeps the newest part of it; with -f it is followed, over lost
connections and restarts of the agent too, until Ctrl-C or the end of --instruction. When no
instruction runs, standard error has why, and what was applied last.`,
		Args: needs("NAME"),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m apitypes.Machine) error {
			place.Only = place.Instruction != ""
			a.explainIdle(ctx, c, m, place)
			return a.output(ctx, c, m, place)
		}),
	}
	cmd.Flags().BoolVarP(&place.Follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().StringVar(&place.Instruction, "instruction", "", "only this instruction, by name or index")
	return cmd
}

func (a *app) output(ctx context.Context, c *client.Client, m apitypes.Machine, place outputstream.Place) error {
	open := func(ctx context.Context, q url.Values) (io.ReadCloser, error) {
		return c.Stream(ctx, machinePath(m)+"/output?"+q.Encode())
	}
	printer := outputstream.NewPrinter(a.Out)
	show := printer.Print
	if a.printer().Format.JSON() {
		lines := json.NewEncoder(a.Out)
		show = func(r outputstream.Record) { _ = lines.Encode(r) } // the reader may have gone, which a signal reports
	}
	some := false
	each := func(r outputstream.Record) {
		some = true
		show(r)
	}
	lost := func(err error) { fmt.Fprintf(a.Err, "%s: %v; asked again\n", m.Name, err) }
	err := outputstream.Follow(ctx, place, open, each, lost)
	printer.Flush()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("output of machine %s: %w", m.Name, err)
	}
	if err == nil && !some {
		fmt.Fprintf(a.Err, "%s: the agent keeps no output of %s\n", m.Name, wanted(place))
	}
	return nil
}

// explainIdle says why there may be nothing to see and, with -f, what is waited for. An agent
// that cannot be asked, or is too old for this, is not an error here: the output itself says why.
func (a *app) explainIdle(ctx context.Context, c *client.Client, m apitypes.Machine, place outputstream.Place) {
	var s status.Status
	if err := c.Get(ctx, machinePath(m)+"/status", &s); err != nil || s.Version == "" {
		return
	}
	idle := s.Idle()
	for _, line := range idle {
		fmt.Fprintf(a.Err, "%s: %s\n", m.Name, plans.SafeLine(line))
	}
	if len(idle) > 0 {
		fmt.Fprintf(a.Err, "%s: the agent's journal from here: drover machines logs %s --unit rancher-system-agent.service\n", m.Name, m.Name)
		if place.Follow {
			fmt.Fprintf(a.Err, "%s: waiting for the next output of %s; Ctrl-C ends this\n", m.Name, wanted(place))
		}
	}
}

// wanted is whose output was asked for.
func wanted(place outputstream.Place) string {
	if place.Instruction != "" {
		return "instruction " + place.Instruction
	}
	return "any instruction"
}
