// drover rke up

package rke

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
)

func (a *App) upCommand() *cobra.Command {
	var f flags
	var init, noPorts, updateOnly bool
	cmd := &cobra.Command{
		Use: "up", Short: "Bring a cluster to what its cluster.yml says", Args: cobra.NoArgs,
		Long: `Bring a cluster to what its cluster.yml says: a new one, or one that drover or rke made.

A run that was interrupted is continued by the next one. With --dry-run everything is looked at,
and what would be done is printed; a cluster that is as it should be has no lines there.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd.Context(), f)
			if err != nil {
				return err
			}
			work := c.work()
			work.DisablePortCheck, work.UpdateOnly = noPorts, updateOnly
			if _, err := addons.Of(c.config, c.versions); err != nil && !updateOnly {
				return err // before any container is changed
			}
			switch {
			case init && f.dryRun:
				return errors.New("--init does nothing on hosts, so that there is nothing to preview: give one of --init and --dry-run")
			case init:
				return c.init(cmd, work)
			case f.dryRun:
				return c.preview(cmd, work)
			}
			return c.up(cmd, work)
		},
	}
	a.hostFlags(cmd, &f)
	localFlags(cmd, &f)
	certificateFlags(cmd, &f)
	cmd.Flags().BoolVar(&init, "init", false, "make certificates and write the state; go to no host")
	cmd.Flags().BoolVar(&noPorts, "disable-port-check", false, "do not check the ports of new hosts")
	cmd.Flags().BoolVar(&updateOnly, "update-only", false, "change workers alone")
	return cmd
}

func (c *cluster) init(cmd *cobra.Command, work engine.Work) error {
	next, changes, err := run.Init(work, pki.NewSource(time.Now()))
	if err != nil {
		return err
	}
	for _, change := range changes {
		c.printer.Line(change.Line)
	}
	if err := c.save(cmd.Context(), next); err != nil {
		return err
	}
	c.printer.Line(fmt.Sprintf("Successfully Deployed state file at [%s]", c.files.State))
	return c.writeKubeconfig("")
}

func (c *cluster) up(cmd *cobra.Command, work engine.Work) error {
	o, done, err := c.options()
	if err != nil {
		return err
	}
	defer done()
	_, err = engine.Up(cmd.Context(), o, work)
	if c.state != nil {
		err = errors.Join(err, c.writeKubeconfig(""))
	}
	return err
}

// preview prints what a run would do, a line a change.
func (c *cluster) preview(cmd *cobra.Command, work engine.Work) error {
	o, done, err := c.options()
	if err != nil {
		return err
	}
	defer done()
	changes, err := engine.Preview(cmd.Context(), o, work)
	if err != nil {
		return err
	}
	for _, line := range changes.Lines() {
		fmt.Fprintln(c.Out, line)
	}
	fmt.Fprintln(c.Out, changes.Summary())
	return nil
}

// writeKubeconfig writes the administrator's kubeconfig, to the API server of the address, or of
// the first control plane host.
func (c *cluster) writeKubeconfig(address string) error {
	text := c.state.Desired.Certificates[pki.Admin].Config
	if address != "" {
		text = pki.AdminKubeconfig(c.state.Desired.Certificates, c.config.ClusterName, address)
	}
	return c.saveKubeconfig(text)
}
