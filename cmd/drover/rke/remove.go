// drover rke remove

package rke

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/engine"
)

func (a *App) removeCommand() *cobra.Command {
	var f flags
	var force, snapshots bool
	cmd := &cobra.Command{
		Use: "remove", Short: "Take a cluster off its hosts, with all its data but etcd's snapshots", Args: cobra.NoArgs,
		Long: `Take a cluster off its hosts: its containers and those of its pods, mounts of volumes, network devices, rules of iptables and
directories. What will be removed from which host is printed first, and with --dry-run that is all. Nothing is removed through a mount: one
that stays is named, and its directory is left as it is. Snapshots of etcd stay on the hosts unless --with-snapshots is given.`,
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
			work := c.work()
			work.RemoveSnapshots = snapshots
			changes, err := engine.PreviewRemove(cmd.Context(), o, work)
			if err != nil {
				return err
			}
			for _, line := range changes.Lines() {
				fmt.Fprintln(a.Out, line)
			}
			if f.dryRun {
				return nil
			}
			if !force && !confirmed(cmd.InOrStdin(), a.Err, fmt.Sprintf("This ends the cluster %s and deletes its data from %d hosts. Go on?", c.config.ClusterName, len(c.config.Nodes))) {
				return errors.New("nothing was removed: the answer was not yes (--force does not ask)")
			}
			if err := engine.Remove(cmd.Context(), o, work); err != nil {
				return err
			}
			for _, path := range []string{c.files.Kubeconfig, c.files.State} {
				if err := os.Rename(path, path+".removed"); err != nil && !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("set %s aside: %w", path, err)
				}
			}
			stay := ", and etcd's snapshots stay on the hosts in /opt/rke"
			if snapshots {
				stay = ""
			}
			fmt.Fprintf(a.Out, "the cluster is removed; its state is %s.removed%s\n", c.files.State, stay)
			return nil
		},
	}
	a.hostFlags(cmd, &f)
	localFlags(cmd, &f)
	cmd.Flags().BoolVar(&force, "force", false, "do not ask")
	cmd.Flags().BoolVar(&snapshots, "with-snapshots", false, "remove etcd's snapshots from the hosts, too")
	return cmd
}

// confirmed asks a question, and says whether the answer is yes.
func confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
