// drover rke config

package rke

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/config/starter"
	"github.com/drover-project/drover/rke1/versions"
)

func (a *App) configCommand() *cobra.Command {
	var name, version string
	var toOutput, minimal, empty, list, images, all, questions bool
	cmd := &cobra.Command{
		Use: "config", Short: "Write a cluster.yml to begin with, or list the Kubernetes versions", Args: cobra.NoArgs,
		Long: `Write a cluster.yml to begin with. On a terminal it asks for hosts and settings as rke does, where an empty answer takes what stands
in brackets; otherwise, and with --print or --minimal, it is a file with comments on every setting.

--list-version prints the version that a cluster gets that names none, and --system-images what hosts pull for it, or for --version, a line an image.
With --all they do so for all versions that are offered. The patch levels in between, which clusters may be running, are known as well.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.loadVersions(cmd.Context())
			if err != nil {
				return err
			}
			chosen := []string{cmp.Or(version, v.Default())}
			if all {
				chosen = v.List()
			}
			switch {
			case images:
				return printImages(a, v, chosen)
			case version != "" || all && !list:
				return errors.New("--version and --all are for --system-images, and --all for --list-version: give one of these, too")
			case list:
				_, err := fmt.Fprintln(a.Out, strings.Join(chosen, "\n"))
				return err
			}
			text := starter.File(v.Default(), minimal || empty)
			if asked, err := asks(cmd, questions, toOutput || minimal || empty); err != nil {
				return err
			} else if asked {
				if _, err := os.Stat(name); err == nil {
					return fmt.Errorf("%s is there, and is not overwritten: move it away, or give another --name", name)
				}
				if text, err = a.answers(cmd, v); err != nil {
					return err
				}
			}
			if toOutput {
				_, err := a.Out.Write(text)
				return err
			}
			if err = writeNew(name, text); err == nil {
				fmt.Fprintf(a.Out, "%s is written: look it through, with your hosts in it, and then run `drover rke up --config %s`\n", shown(name), name)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&name, "name", "n", "cluster.yml", "file to write")
	cmd.Flags().BoolVarP(&toOutput, "print", "p", false, "print it instead of writing a file")
	cmd.Flags().BoolVar(&questions, "ask", false, "ask for hosts and settings, as is done anyway on a terminal where neither --print nor --minimal is given; --ask=false does not")
	cmd.Flags().BoolVar(&minimal, "minimal", false, "only what has to be written, without comments on the rest")
	cmd.Flags().BoolVarP(&empty, "empty", "e", false, "the same as --minimal")
	cmd.Flags().BoolVarP(&list, "list-version", "l", false, "print the Kubernetes version of a cluster that names none; with --all those that are offered, newest first")
	cmd.Flags().BoolVarP(&images, "system-images", "s", false, "print the images that the hosts of a cluster pull")
	cmd.Flags().StringVar(&version, "version", "", "Kubernetes version of --system-images")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "with --list-version and --system-images: all versions that are offered")
	return cmd
}

// writeNew writes a file that is not there yet.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the config (a file that is there is not overwritten): %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	return nil
}

// printImages prints what hosts pull for versions, each image once. Those of Windows are no part of it, as no host here has it.
func printImages(a *App, v *versions.Data, chosen []string) error {
	p, _ := a.surroundings()
	for _, version := range chosen {
		images, err := v.Images(version)
		if err != nil {
			return err
		}
		p.Line("Generating images list for version [" + version + "]:")
		images.WindowsPodInfraContainer = ""
		said := map[string]bool{"": true}
		for _, image := range images.List() {
			if !said[image] {
				fmt.Fprintln(a.Out, image)
			}
			said[image] = true
		}
	}
	return nil
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

// answers is the config that the user asks for, with what is still wrong with it as warnings.
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
	p, _ := a.surroundings()
	p.Warnings(append(errs, warnings...))
	return text, nil
}
