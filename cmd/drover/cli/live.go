package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/daemon/feed"
	"github.com/spf13/cobra"
)

// machinesOutput shows what instructions print while they run, from the host itself.
func (a *app) machinesOutput() *cobra.Command {
	place := feed.Place{Attempt: -1}
	cmd := &cobra.Command{
		Use:   "output NAME",
		Short: "Show what the instructions of a machine's plan print, as it comes with -f",
		Long: `Show what the instructions of a machine's newest plan print. The output comes from the
agent on the host, which keeps the newest part of it; with -f it is followed, over lost
connections and restarts of the agent too, until Ctrl-C or the end of --instruction.`,
		Args: cobra.ExactArgs(1),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m machine) error {
			place.Only = place.Instruction != ""
			return a.output(ctx, c, m, place)
		}),
	}
	cmd.Flags().BoolVarP(&place.Follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().StringVar(&place.Instruction, "instruction", "", "only this instruction, by name or index")
	return cmd
}

func (a *app) output(ctx context.Context, c *client.Client, m machine, place feed.Place) error {
	open := func(ctx context.Context, q url.Values) (io.ReadCloser, error) {
		return c.Stream(ctx, "/v1-drover/machines/"+m.Machine+"/output?"+q.Encode())
	}
	printer := feed.NewPrinter(a.Out)
	each := printer.Print
	if a.format == "json" {
		lines := json.NewEncoder(a.Out)
		each = func(r feed.Record) { _ = lines.Encode(r) } // nobody may listen any more, which a signal tells
	}
	lost := func(err error) { fmt.Fprintf(a.Err, "%s: %v; asked again\n", m.title(), err) }
	err := feed.Follow(ctx, place, open, each, lost)
	printer.Flush()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("output of machine %s: %w", m.title(), err)
	}
	return nil
}
