// The preview of a change as people read it: machine by machine, in the order in which it will happen.

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// preview prints what an apply would bring about.
func preview(t *table, p apitypes.Preview) {
	becomes := p.State
	if p.Message != "" {
		becomes += ": " + p.Message
	}
	if becomes != "" { // a fleet is in no state
		t.Row("  the cluster becomes " + becomes)
	}
	if len(p.Machines) == 0 {
		t.Row("  no host gets a new plan")
	}
	for i, m := range p.Machines {
		host := m.ID
		if m.NodeName != "" {
			host = m.NodeName + " (" + m.ID + ")"
		}
		number := fmt.Sprintf("  %d. ", i+1)
		switch {
		case m.Remove:
			t.Row(number + "host " + host + " is removed")
			continue
		case m.Plan == "":
			t.Row(number + "host " + host + " joins when there is a server to join")
			continue
		}
		gets := " gets plan "
		if m.Again {
			gets = " tries again plan "
		}
		t.Row(number + strings.TrimSpace(m.Tier+" host ") + " " + host + gets + m.Plan + "; " + when(m))
		for _, change := range m.Changes {
			t.Row("       " + change)
		}
		for _, f := range m.Files {
			t.Row("       " + f.Path + ":")
			for line := range strings.Lines(f.Diff) {
				t.Row("         " + strings.TrimRight(line, "\n"))
			}
		}
	}
	if p.Alone > 0 {
		t.Row(fmt.Sprintf("  %d machines are left alone", p.Alone))
	}
	if p.Restarts+p.Drains > 0 {
		t.Row(fmt.Sprintf("  %d are restarted, %d are drained first", p.Restarts, p.Drains))
	}
}

func when(m apitypes.MachinePreview) string {
	text := "in its turn"
	if m.Now {
		text = "at once"
	}
	if m.Drain {
		text += ", after its pods have left"
	}
	return text
}

func (a *app) clustersDiff() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use: "diff NAME [-f FILE]", Short: "Show what is still to be done on a cluster's machines, or what its document in a file would bring about", Args: needs("NAME"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			if len(files) > 0 {
				all, err := a.read(files, false)
				if err != nil {
					return err
				}
				return a.apply(ctx, all, applyOptions{dryRun: true, maxMachines: -1})
			}
			var p apitypes.Preview
			if err := c.Get(ctx, clusterPath(one)+"/preview", &p); err != nil {
				return fmt.Errorf("preview cluster %s: %w", one.Name, err)
			}
			return a.show(p, func(t *table) { preview(t, p) })
		}),
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with the cluster, directory of such files, or - for standard input (repeat)")
	return cmd
}
