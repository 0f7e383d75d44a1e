// drover rke export

package rke

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/pki"
)

func (a *App) exportCommand() *cobra.Command {
	var f flags
	var dir, user, keyPath, bastion string
	var recipients []string
	var unfinished bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write the files with which the rke command line takes a cluster over", Args: cobra.NoArgs,
		Long: `Write the files with which the rke command line takes a cluster over: cluster.yml with every
value that is in effect, cluster.rkestate, kube_config_cluster.yml, their checksums, and a README
that says what to do in which order. No host is asked, so that it works when none answers.

Before they are written, the files are held to what a takeover needs: a trial run with them may
change nothing but the administrator's certificate. The directory appears whole or not at all.
Every private key of the cluster is in it; with --encrypt-to it has one file that only the
recipients can read.`,
		Example: `  drover rke export --dir out
  drover rke export --dir out --ssh-user ops --ssh-key-path ~/.ssh/ops --encrypt-to age1…`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(recipients) > 0 {
				if _, err := export.Recipients(recipients); err != nil {
					return fmt.Errorf("--encrypt-to: %w", err)
				}
			}
			o := export.Options{SSH: export.SSH{User: user, KeyPath: keyPath}, Unfinished: unfinished}
			if bastion != "" {
				var err error
				if o.SSH.Bastion, err = ReadBastion(bastion); err != nil {
					return err
				}
			}
			c, err := a.open(cmd.Context(), f)
			if err != nil {
				return err
			}
			return c.export(dir, o, recipients)
		},
	}
	a.configFlag(cmd, &f)
	s := cmd.Flags()
	s.StringVar(&dir, "dir", "", "directory to write to, which is new or empty")
	s.StringVar(&user, "ssh-user", "", "user on every host, in the place of those of cluster.yml")
	s.StringVar(&keyPath, "ssh-key-path", "", "private key for every host, on the machine where rke will run")
	s.StringVar(&bastion, "bastion", "", "host through which the others are reached: [USER@]ADDRESS[:PORT]")
	s.StringArrayVar(&recipients, "encrypt-to", nil, "encrypt to a public key, age1… or ssh-ed25519 …; may be repeated")
	s.BoolVar(&unfinished, "unfinished", false, "export also when the last run was interrupted; the first run of rke finishes it")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return err }
	}
	return cmd
}

func (c *cluster) export(dir string, o export.Options, recipients []string) error {
	if c.state == nil {
		return c.noState()
	}
	pending, err := export.Pending(c.config, c.state, known(c.versions))
	if err != nil {
		return err
	}
	if len(pending) > 0 {
		c.printer.Warn(fmt.Sprintf("%s has changes that no run has deployed, and they are not exported: %s", c.files.Config, strings.Join(pending, ", ")))
	}
	now := time.Now()
	o.Versions, o.Source = c.versions, pki.NewSource(now)
	made, err := export.Make(c.state, o, now)
	if err != nil {
		return err
	}
	for _, note := range made.Notes {
		c.printer.Warn(note)
	}
	files, next := made.Files, "read "+filepath.Join(dir, export.ReadmeFile)+" before the first `rke up`"
	if len(recipients) > 0 {
		sealed, err := export.Seal(files, recipients, now)
		if err != nil {
			return err
		}
		files = []export.File{sealed}
		next = fmt.Sprintf("open it with `age --decrypt --identity KEY %s | tar --extract`, and read README before the first `rke up`", filepath.Join(dir, export.SealedFile))
	}
	if err := export.Save(dir, files); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "the cluster %s is in %s, checked by a trial run; %s\n", c.config.ClusterName, dir, next)
	return nil
}

// noState is that a command needs the state, which is not there.
func (c *cluster) noState() error {
	return fmt.Errorf("%s is not there; `drover rke util get-state-file` gets it back from the cluster", c.files.State)
}

// ReadBastion reads [USER@]ADDRESS[:PORT], as --bastion has it. The error says that a text is not of this form.
func ReadBastion(text string) (config.BastionHost, error) {
	b := config.BastionHost{Address: text}
	if user, rest, found := strings.Cut(text, "@"); found {
		b.User, b.Address = user, rest
	}
	if host, port, err := net.SplitHostPort(b.Address); err == nil {
		b.Address, b.Port = host, port
	}
	if b.Address == "" || strings.ContainsAny(b.Address, "@/ ") {
		return config.BastionHost{}, fmt.Errorf("--bastion %s: is not of the form [USER@]ADDRESS[:PORT]", text)
	}
	return b, nil
}
