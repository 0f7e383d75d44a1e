// drover rke config

package rke

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/config/starter"
	"github.com/drover-project/drover/rke1/versions"
)

func (a *App) configCommand() *cobra.Command {
	var name string
	var print, minimal, list, questions bool
	cmd := &cobra.Command{
		Use: "config", Short: "Write a cluster.yml to begin with, or list the Kubernetes versions", Args: cobra.NoArgs,
		Long: `Write a cluster.yml to begin with. On a terminal it asks for hosts and settings as rke does, where an empty answer takes what stands
in brackets; otherwise, and with --print or --minimal, it is a file with comments on every setting.`,
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
			if asked, err := asks(cmd, questions, print || minimal); err != nil {
				return err
			} else if asked {
				if _, err := os.Stat(name); err == nil {
					return fmt.Errorf("%s is there, and is not overwritten: move it away, or give another --name", name)
				}
				if text, err = a.answers(cmd, v); err != nil {
					return err
				}
			}
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
			fmt.Fprintf(a.Out, "%s is written: look it through, with your hosts in it, and then run `drover rke up --config %s`\n", shown(name), name)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "cluster.yml", "file to write")
	cmd.Flags().BoolVarP(&print, "print", "p", false, "print it instead of writing a file")
	cmd.Flags().BoolVar(&questions, "ask", false, "ask for hosts and settings, as is done anyway on a terminal where neither --print nor --minimal is given; --ask=false does not")
	cmd.Flags().BoolVar(&minimal, "minimal", false, "only what has to be written, without comments on the rest")
	cmd.Flags().BoolVarP(&list, "list-version", "l", false, "list the Kubernetes versions that there are data for, newest first")
	return cmd
}

// asks says whether a person is to be asked; file is that a ready text is wanted.
func asks(cmd *cobra.Command, questions, file bool) (bool, error) {
	switch {
	case questions && file:
		return false, errors.New("--print and --minimal give a ready file: give one of them or --ask")
	case cmd.Flags().Changed("ask") || file:
		return questions, nil
	}
	in, is := cmd.InOrStdin().(*os.File)
	return is && term.IsTerminal(int(in.Fd())), nil
}

// answers is the config that somebody asks for, with what is still wrong with it as warnings.
func (a *App) answers(cmd *cobra.Command, v *versions.Data) ([]byte, error) {
	all, err := starter.Ask(cmd.InOrStdin(), a.Err, v.Default(), v.Known)
	if err != nil {
		return nil, err
	}
	text, err := config.Write(starter.FromAnswers(all))
	if err != nil {
		return nil, err
	}
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, text)
	if err != nil {
		return nil, err
	}
	errs, warnings := check.Cluster(config.WithDefaults(file.Cluster, known(v)), known(v), file)
	newPrinter(a.Err).warnings(append(errs, warnings...))
	return text, nil
}
