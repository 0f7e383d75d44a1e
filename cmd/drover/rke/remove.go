// drover rke remove

package rke

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/engine"
)

func (a *App) removeCommand() *cobra.Command {
	var f flags
	var force bool
	cmd := &cobra.Command{
		Use: "remove", Short: "Take a cluster off its hosts, with all its data but etcd's snapshots", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd.Context(), f)
			if err != nil {
				return err
			}
			if c.state == nil {
				return fmt.Errorf("%s is not there, so that there is no cluster to remove", c.files.State)
			}
			o, done, err := c.options()
			if err != nil {
				return err
			}
			defer done()
			changes, err := engine.PreviewRemove(cmd.Context(), o, c.work())
			if err != nil {
				return err
			}
			for _, line := range changes.Lines() {
				fmt.Fprintln(a.Out, line)
			}
			if f.dryRun {
				return nil
			}
			if !force {
				fmt.Fprintf(a.Err, "This ends the cluster %s and deletes its data from %d hosts. Go on? [y/N] ", c.config.ClusterName, len(c.config.Nodes))
				answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
				if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
					return errors.New("nothing was removed: the answer was not yes (--force does not ask)")
				}
			}
			if err := engine.Remove(cmd.Context(), o, c.work()); err != nil {
				return err
			}
			for _, path := range []string{c.files.Kubeconfig, c.files.State} {
				if err := os.Rename(path, path+".removed"); err != nil && !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("set %s aside: %w", path, err)
				}
			}
			fmt.Fprintf(a.Out, "the cluster is removed; its state is %s.removed, and etcd's snapshots stay on the hosts in /opt/rke\n", c.files.State)
			return nil
		},
	}
	a.hostFlags(cmd, &f)
	cmd.Flags().BoolVar(&force, "force", false, "do not ask")
	return cmd
}
