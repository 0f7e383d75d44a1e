// drover rke import

package rke

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// adoption is what import is asked for.
type adoption struct {
	flags
	state, kubeconfig, dir string
	hosts, accept          bool
}

func (a *App) importCommand() *cobra.Command {
	var f adoption
	cmd := &cobra.Command{
		Use: "import", Short: "See whether a running cluster is as its files say, before drover takes it over", Args: cobra.NoArgs,
		Long: `See whether a running cluster is as its files say, before drover takes it over. The files are
those of rke, or of an export. The state is read from its file, or with --kubeconfig from the
Secret that the cluster itself keeps, or with --hosts from its hosts, where it is looked for in that
Secret, in files and in snapshots. Certificates, the state and every host are looked at, and
nothing is changed on them.

"0 changes" means that ` + "`drover rke up`" + ` will leave every container alone. With --dir the files are
then written there, ready for it. Otherwise what differs is listed, and the exit code is 1.`,
		Example: `  drover rke import --config cluster.yml --state cluster.rkestate --dir adopted
  drover rke import --config cluster.yml --kubeconfig kube_config_cluster.yml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.openRunning(cmd.Context(), f)
			if err != nil {
				return err
			}
			return c.adopt(cmd.Context(), f)
		},
	}
	a.hostFlags(cmd, &f.flags)
	cmd.Flags().Lookup("dry-run").Hidden = true // it always is one
	s := cmd.Flags()
	s.StringVar(&f.state, "state", "", "state of the cluster (default: beside the config)")
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "administrator's kubeconfig, to read the state from the cluster instead")
	s.BoolVar(&f.hosts, "hosts", false, "read the state from the hosts instead, for who has no kubeconfig either")
	s.StringVar(&f.dir, "dir", "", "directory to write the files to when nothing differs; it is new or empty")
	s.BoolVar(&f.accept, "accept-changes", false, "write the files although something differs; `drover rke up` will change it")
	cmd.MarkFlagsMutuallyExclusive("state", "kubeconfig", "hosts")
	return cmd
}

// openRunning reads and checks the files of a cluster that another program made.
func (a *App) openRunning(ctx context.Context, f adoption) (*cluster, error) {
	if f.kubeconfig == "" && f.state == "" && !f.hosts {
		f.state = state.FilesOf(f.config).State
	}
	c, err := a.openConfig(ctx, f.flags)
	if err != nil {
		return nil, err
	}
	switch {
	case f.kubeconfig != "":
		return c, c.readFromCluster(ctx, f.kubeconfig)
	case f.hosts:
		found, err := c.onHosts(ctx)
		if err != nil {
			return nil, err
		}
		c.state = found.State
		return c, c.state.Check(state.Against{Config: c.config})
	}
	c.files.State = f.state
	if !exists(f.state) {
		return nil, fmt.Errorf("%s is not there; with --kubeconfig the state is read from the cluster, with --hosts from its hosts", f.state)
	}
	s, unknown, err := state.Load(c.files, state.Against{Config: c.config})
	if err != nil {
		return nil, err
	}
	for _, key := range unknown {
		c.printer.Warn(fmt.Sprintf("%s: %s is not known here, and is lost with the first run", f.state, key))
	}
	c.state = s
	return c, nil
}

// readFromCluster takes the state that the cluster keeps.
func (c *cluster) readFromCluster(ctx context.Context, kubeconfigFile string) error {
	credentials, err := administrator(kubeconfigFile)
	if err != nil {
		return err
	}
	o, done, err := c.options()
	if err != nil {
		return err
	}
	defer done()
	c.state, err = engine.StateOf(ctx, o, c.config, credentials)
	return err
}

// adopt looks at the certificates, the state and the hosts.
func (c *cluster) adopt(ctx context.Context, f adoption) error {
	remarks, err := export.Examine(c.config, c.state, known(c.versions), time.Now())
	if err != nil {
		return err
	}
	for _, remark := range remarks {
		c.printer.Warn(remark)
	}
	if c.state.Current.Config == nil {
		return fmt.Errorf("%s is not that of a running cluster: `drover rke up` makes new ones", c.files.State)
	}
	o, done, err := c.options()
	if err != nil {
		return err
	}
	defer done()
	changes, err := engine.Preview(ctx, o, c.work())
	if err != nil {
		return err
	}
	return c.conclude(f, changes)
}

// conclude says what differs, and writes the files when that is nothing.
func (c *cluster) conclude(f adoption, changes *engine.Changes) error {
	for _, line := range changes.Lines() {
		fmt.Fprintln(c.Out, line)
	}
	fmt.Fprintln(c.Out, changes.Summary())
	if (!changes.Empty() || len(changes.Unknown) > 0) && !f.accept {
		return errors.New("the cluster is not known to be as the files say, and nothing was changed or written: mend what is listed, or take it with --accept-changes")
	}
	if f.dir == "" {
		return nil
	}
	if err := c.writeAdopted(f); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "the files are in %s; `drover rke up --config %s` takes the cluster from there\n", f.dir, filepath.Join(f.dir, export.ConfigFile))
	return nil
}

// writeAdopted writes the config as its owner wrote it, and beside it the state and the kubeconfig.
func (c *cluster) writeAdopted(f adoption) error {
	text, err := read(f.config)
	if err != nil {
		return err
	}
	encoded, err := state.Encode(c.state)
	if err != nil {
		return err
	}
	admin := []byte(c.state.Desired.Certificates[pki.Admin].Config)
	if _, err := kubeconfig.Read(admin); err != nil {
		return fmt.Errorf("write %s, as the state has it: %w", export.KubeconfigFile, err)
	}
	return export.Save(f.dir, []export.File{
		{Name: export.ConfigFile, Content: text},
		{Name: export.StateFile, Content: encoded},
		{Name: export.KubeconfigFile, Content: admin},
	})
}
