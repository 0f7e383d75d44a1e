// drover rke cert

package rke

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
)

func (a *App) certCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cert", Short: "Give a cluster new certificates, or request them elsewhere"}
	cmd.AddCommand(a.rotateCommand(), a.requestCommand())
	return cmd
}

func (a *App) rotateCommand() *cobra.Command {
	var f flags
	var what pki.Rotation
	cmd := &cobra.Command{
		Use: "rotate", Short: "Issue certificates again and deploy them host by host", Args: cobra.NoArgs,
		Long: `Issue certificates again and deploy them: all but the CAs', or those of some services, or with --rotate-ca
the CAs' too. What reads them restarts host by host, each when the one before works. A new CA comes in three steps, so that at no
time a component meets one that it does not trust.

A rotation that was interrupted is continued by the same command; ` + "`drover rke up`" + ` refuses to run in the middle of
one with --rotate-ca. Certificates that have ended can be rotated, too. The config's other changes stay for up.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.dayTwo(cmd, f, func(c *cluster, o engine.Options) ([]string, error) {
				return engine.PreviewRotate(cmd.Context(), o, c.work(), what)
			}, func(c *cluster, o engine.Options) error {
				now, err := engine.Rotate(cmd.Context(), o, c.work(), what)
				return errors.Join(err, c.writeAdmin(now.Current.Certificates))
			})
		},
	}
	a.hostFlags(cmd, &f)
	cmd.Flags().StringSliceVar(&what.Services, "service", nil, "only the certificates of this service, can be given several times: "+strings.Join(pki.Services(), ", "))
	cmd.Flags().BoolVar(&what.CA, "rotate-ca", false, "the CAs, too, and all certificates, with any --service")
	return cmd
}

// dayTwo is a command on a cluster that is there: its preview with --dry-run, else its work.
func (a *App) dayTwo(cmd *cobra.Command, f flags, preview func(*cluster, engine.Options) ([]string, error), do func(*cluster, engine.Options) error) error {
	c, err := a.open(cmd.Context(), f)
	if err != nil {
		return err
	}
	if c.state == nil {
		return fmt.Errorf("%s is not there, so that there is no cluster yet; `drover rke util get-state-file` gets it back from one that runs", c.files.State)
	}
	o, done, err := c.options()
	if err != nil {
		return err
	}
	defer done()
	if !f.dryRun {
		return do(c, o)
	}
	lines, err := preview(c, o)
	c.print(lines)
	return err
}

func (c *cluster) print(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(c.Out, line)
	}
}

// writeAdmin writes the kubeconfig that the API servers accept now.
func (c *cluster) writeAdmin(b pki.Bundle) error {
	if b[pki.Admin].Config == "" {
		return nil
	}
	return c.saveKubeconfig(b[pki.Admin].Config)
}

func (a *App) requestCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "generate-csr", Short: "Write requests for all certificates of a cluster, for a CA elsewhere", Args: cobra.NoArgs,
		Long: `Write a key and a request for each certificate of the cluster into a directory. Put the certificates that the CA issues
beside them as NAME.pem, and the CA's own as kube-ca.pem, and run ` + "`drover rke up --custom-certs`" + `. Keys that are there stay.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.openConfig(cmd.Context(), f)
			if err != nil {
				return err
			}
			return c.writeRequests(c.certificates())
		},
	}
	a.configFlag(cmd, &f)
	cmd.Flags().StringVar(&f.certDir, "cert-dir", "", "directory to write to (default: the config's name without its ending, and _certs)")
	return cmd
}

func (c *cluster) writeRequests(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of certificates: %w", err)
	}
	before, err := pki.ReadRequests(os.DirFS(dir))
	if err != nil {
		return err
	}
	requests, err := pki.Requests(c.config, before, pki.NewSource(time.Now()))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		r := requests[name]
		// The key first: a request whose key is lost would be signed in vain.
		for _, file := range []struct{ name, text string }{{name + "-key.pem", r.KeyPEM}, {name + "-csr.pem", r.CSRPEM}} {
			if err := durable.WriteFile(filepath.Join(dir, file.name), []byte(file.text), pki.RequestMode); err != nil {
				return fmt.Errorf("write a request: %w", err)
			}
		}
	}
	fmt.Fprintf(c.Out, "%d requests and their keys are in %s\n", len(requests), dir)
	return nil
}
