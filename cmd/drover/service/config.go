package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/cmd/drover/check"
	"github.com/drover-project/drover/cmd/drover/config"
	"github.com/drover-project/drover/cmd/drover/output"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

// configCommand shows what a server would start with.
func (a *App) configCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings that a server on this host starts with, and where each is from",
		Long: `Show the settings that a server on this host starts with, and where each is from: a flag, a line of
the configuration file, or the default. The file is YAML whose keys are the names of the flags of
drover server; a key that is none, or is there twice, is refused with its line.`,
		Args: usageerr.Needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := f.configured(a, cmd)
			if err != nil {
				return err
			}
			return a.Show(values, func(t *output.Table) {
				t.Row("NAME", "VALUE", "FROM")
				for _, v := range values {
					t.Row(v.Name, v.Value, v.From)
				}
			})
		},
	}
	f.register(cmd)
	return cmd
}

// configured fills in what the configuration file says and the command line does not.
func (f *serverFlags) configured(a *App, cmd *cobra.Command) ([]config.Value, error) {
	isKey := func(flag *pflag.Flag) bool {
		return flag.Name == "data-dir" || flag.Name != "config" && flag.Name != "help" && cmd.LocalNonPersistentFlags().Lookup(flag.Name) != nil
	}
	file, err := config.Read(f.config, cmd.Flags().Changed("config"))
	if err == nil {
		err = file.Into(cmd.Flags(), isKey)
	}
	if err != nil {
		return nil, err
	}
	// Credentials of the unit, by their usual names.
	for name, into := range map[string]*string{"drover.bootstrap-password": &f.bootstrapPassword, "drover.encryption-key": &f.Store.KeyFile} {
		if path := filepath.Join(a.Environ("CREDENTIALS_DIRECTORY"), name); *into == "" && filepath.IsAbs(path) {
			if _, err := os.Stat(path); err == nil {
				*into = path
			}
		}
	}
	return file.Effective(cmd.Flags(), isKey), nil
}

// checkCommand looks at what a server needs of its host.
func (a *App) checkCommand() *cobra.Command {
	var f serverFlags
	var quick bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look at what a server needs of this host, before it starts or while it runs",
		Long: `Look at what a server needs of this host, before it starts or while it runs: clock, data directory and
keys, room and speed of the disk, open files, etcd, the port, the certificate, the address by which
hosts reach it, the proxy. It takes the flags and the file of the server, and changes nothing.

The exit code is 1 when an error was found: the server would not start, or would not be reached. A
warning is what becomes one. With --quick it says only whether the server answers, for health checks.`,
		Args: usageerr.Needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := f.configured(a, cmd); err != nil {
				return err
			}
			if quick {
				if !check.Answers(cmd.Context(), a.DataDir(), 5*time.Second) {
					return fmt.Errorf("the server of %s does not answer", a.DataDir())
				}
				return nil
			}
			in, err := f.toCheck(cmd.Context(), a)
			if err != nil {
				return err
			}
			found := check.Run(cmd.Context(), in)
			if err := a.showFindings(found); err != nil {
				return err
			}
			if check.Worst(found) == check.Error {
				return fmt.Errorf("a server with these settings does not work on this host: see the lines with %s", check.Error)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&quick, "quick", false, "look only whether the server of the data directory answers")
	return cmd
}

// Findings is what a server with the configuration of this host would miss. The errors are those of the configuration.
func (a *App) Findings(ctx context.Context) ([]check.Finding, error) {
	var f serverFlags
	cmd := &cobra.Command{Use: "check"}
	cmd.Flags().String("data-dir", a.DataDir(), "")
	f.register(cmd)
	if _, err := f.configured(a, cmd); err != nil {
		return nil, err
	}
	in, err := f.toCheck(ctx, a)
	if err != nil {
		return nil, err
	}
	return check.Run(ctx, in), nil
}

func (a *App) showFindings(found []check.Finding) error {
	return a.Show(found, func(t *output.Table) {
		t.Row("LEVEL", "CHECK", "FOUND", "WHAT TO DO")
		for _, one := range found {
			t.Row(string(one.Level), one.Check, one.Says, one.Do)
		}
	})
}

// upgradeCheckCommand looks at the server that runs, for the release that this program is of.
func (a *App) upgradeCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade-check",
		Short: "Look whether the server that runs may be upgraded to this program's release",
		Long: `Look whether the server that runs may be upgraded to this program's release: the step between the
releases, the age of the newest backup, what is under way, agents that are too old, and room for the copy
of the store. It is run with the program of the newer release, before anything is installed, and changes
nothing. The exit code is 1 when an error was found.`,
		Example: `  ./drover server upgrade-check`,
		Args:    usageerr.Needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			found, err := check.Upgrade{Client: c, To: drover.Version, DataDir: a.DataDir(), Now: time.Now}.Run(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.showFindings(found); err != nil {
				return err
			}
			if check.Worst(found) == check.Error {
				return fmt.Errorf("the server is not ready for %s: see the lines with %s", drover.Version, check.Error)
			}
			return nil
		},
	}
}

// toCheck is what a server with the flags would start with.
func (f serverFlags) toCheck(ctx context.Context, a *App) (check.Input, error) {
	var trust *tls.Config
	if len(f.Store.Endpoints) > 0 {
		var err error
		if trust, err = f.etcdTLS(); err != nil {
			return check.Input{}, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		program = "" // the clock is not compared then
	}
	return check.Input{
		DataDir: a.DataDir(), Listen: f.Listen, ServerURL: strings.TrimRight(f.ServerURL, "/"), CertFile: f.CertFile, CertKeyFile: f.KeyFile, CAFile: f.CAFile,
		EncryptionKeyFile: f.Store.KeyFile, Endpoints: f.Store.Endpoints, EndpointTLS: trust, Environ: a.Environ, Now: time.Now, Program: program,
		Running: check.Answers(ctx, a.DataDir(), 5*time.Second),
	}, nil
}
