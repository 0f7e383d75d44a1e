// drover rke config

package rke

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/config/starter"
	"github.com/drover-project/drover/rke1/versions"
)

func (a *App) configCommand() *cobra.Command {
	var name string
	var print, minimal, list bool
	cmd := &cobra.Command{
		Use: "config", Short: "Write a cluster.yml to begin with, or list the Kubernetes versions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := versions.Load(cmd.Context(), a.Environ("RANCHER_METADATA_URL"), versions.Options{})
			if err != nil {
				return err
			}
			if list {
				for _, version := range v.List() {
					fmt.Fprintln(a.Out, version)
				}
				return nil
			}
			text := starter.File(v.Default(), minimal)
			if print {
				_, err := a.Out.Write(text)
				return err
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("write the config (a file that is there is not overwritten): %w", err)
			}
			if _, err := f.Write(text); err != nil {
				f.Close()
				return fmt.Errorf("write the config: %w", err)
			}
			if err := f.Close(); err != nil {
				return fmt.Errorf("write the config: %w", err)
			}
			fmt.Fprintf(a.Out, "%s is written: put your hosts into it, and then run `drover rke up --config %s`\n", shown(name), name)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "cluster.yml", "file to write")
	cmd.Flags().BoolVarP(&print, "print", "p", false, "print it instead of writing a file")
	cmd.Flags().BoolVar(&minimal, "minimal", false, "only what has to be written, without comments on the rest")
	cmd.Flags().BoolVarP(&list, "list-version", "l", false, "list the Kubernetes versions that there are data for, newest first")
	return cmd
}
