// drover rke util

package rke

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
)

func (a *App) utilCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "util", Short: "Get back the files of a cluster that runs"}
	cmd.AddCommand(a.stateCommand(), a.kubeconfigCommand())
	return cmd
}

func (a *App) stateCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "get-state-file", Short: "Write the state that the cluster itself keeps, where its file is missing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path := state.FilesOf(f.config).State; exists(path) {
				return fmt.Errorf("%s is there, and is not overwritten: move it away first", path)
			}
			c, err := a.openConfig(cmd.Context(), f)
			if err != nil {
				return err
			}
			credentials, err := administrator(c.files.Kubeconfig)
			if err != nil {
				return err
			}
			o, done, err := c.options()
			if err != nil {
				return err
			}
			defer done()
			s, err := engine.StateOf(cmd.Context(), o, c.config, credentials)
			if err != nil {
				return err
			}
			if err := c.save(cmd.Context(), s); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s is written\n", c.files.State)
			return nil
		},
	}
	a.hostFlags(cmd, &f)
	return cmd
}

func (a *App) kubeconfigCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "get-kubeconfig", Short: "Write the administrator's kubeconfig again, from the state", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd.Context(), f)
			if err != nil {
				return err
			}
			if c.state == nil {
				return c.noState()
			}
			if err := c.writeKubeconfig(""); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s is written\n", c.files.Kubeconfig)
			return nil
		},
	}
	a.configFlag(cmd, &f)
	// As rke has them; no host is asked.
	cmd.Flags().BoolVar(&f.sshAgentAuth, "ssh-agent-auth", false, "taken and not needed: no host is asked")
	cmd.Flags().BoolVar(&f.ignoreDockerVersion, "ignore-docker-version", false, "taken and not needed: no host is asked")
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// administrator are the credentials of a kubeconfig, which RKE's have inside.
func administrator(path string) (kube.Credentials, error) {
	text, err := durable.ReadFile(path, maxConfig)
	if err != nil {
		return kube.Credentials{}, fmt.Errorf("read the administrator's kubeconfig, which opens the cluster: %w", err)
	}
	k, err := kubeconfig.Read(text)
	if err != nil {
		return kube.Credentials{}, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	return kube.Credentials{CA: k.CA, Certificate: k.Certificate, Key: k.Key}, nil
}

// saveKubeconfig writes the administrator's kubeconfig. A state can come from others, and kubectl does what a kubeconfig says.
func (c *cluster) saveKubeconfig(text string) error {
	if _, err := kubeconfig.Read([]byte(text)); err != nil {
		return fmt.Errorf("write %s, as the state has it: %w", c.files.Kubeconfig, err)
	}
	if err := durable.WriteFile(c.files.Kubeconfig, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

// StateFile is where the state of a cluster.yml is: beside it.
func StateFile(config string) string { return state.FilesOf(config).State }
