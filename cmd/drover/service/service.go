// Package service is the part of drover's command line that is the server: drover server with its flags and its configuration file, what
// makes it a service of its host, and what looks whether it can be one.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/output"
	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/server/options"
)

// Serve runs a server until the context ends.
type Serve func(context.Context, options.Options) error

// App is what the commands need of the program.
type App struct {
	Out, Err io.Writer
	Environ  func(string) string
	// DataDir is that of --data-dir, which is a flag of all commands.
	DataDir func() string
	// Show prints a value for programs, or for people the table that fill makes.
	Show func(value any, fill func(*output.Table)) error
	// Secret reads a file that others may not read.
	Secret func(name string) (string, error)
	// Ask says how people reach the server with a data directory on this host, and whether a password is the administrator's: of servers
	// that share an etcd the first one has made it.
	Ask func(ctx context.Context, dataDir, password string) (url string, is bool, err error)
	// Client is for the server that runs.
	Client func() (*client.Client, error)
	Serve  Serve
	// Others are further commands below drover server.
	Others []*cobra.Command
}

const (
	unitName = "drover.service"
	userName = "drover"
	dataDir  = "/var/lib/drover"
)

func (a *App) installCommand() *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use: "install", Short: "Make this program the server of this host: a user, a unit of systemd, a configuration file", Args: cobra.NoArgs,
		Long: `Make this program the server of this host, as root: it is copied to /usr/local/bin, gets a user (drover)
and a unit of systemd (drover.service) with a sandbox, and a configuration file in which everything is a
comment but what is given here. It returns when the server serves, and prints its address and the first
login. Nothing is fetched.

Run it again with another release to upgrade: what was there is kept beside it until the new one serves,
and comes back if it does not. The configuration file and the data are left as they are.

Of a package (deb, rpm), which brings program, unit and configuration file, it starts the server, and
prints the same.`,
		Example: `  sudo ./drover server install --server-url https://drover.example.com:8443
  sudo ./drover server install                        # again, with the program of a newer release`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.install(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.serverURL, "server-url", "", "https URL by which hosts and people reach this server (default: this host's first address); written into the configuration file")
	f.StringVar(&o.listen, "listen", "", "address to serve https on (default: :8443); written into the configuration file")
	return cmd
}

func (a *App) uninstallCommand() *cobra.Command {
	var purge, yes bool
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Take the server off this host; its data stay, unless --purge is given", Args: cobra.NoArgs,
		Long: `Take the server off this host, as root: the unit and the program go. The data (/var/lib/drover), the
configuration (/etc/drover) and the user stay, so that an install goes on where it was. With --purge they
go, too, but for the key file and the authority, which are moved to /var/backups: without them no backup
can be read, and hosts that have joined trust no other server.`,
		Example: `  sudo drover server uninstall
  sudo drover server uninstall --purge --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if purge && !yes {
				return usageerr.Errorf("--purge removes all that the server keeps, of which no other copy may exist: make a backup (drover server backup), and give --yes")
			}
			return a.uninstall(cmd.Context(), purge)
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove data, configuration and user, too")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask whether that is meant")
	return cmd
}

// mayInstall says why this host or this user cannot have a unit of systemd; nil when they can.
func mayInstall() error {
	if os.Geteuid() != 0 {
		return errors.New("a service of the host is installed by root: run it with sudo")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return errors.New("systemd does not run here: start `drover server` by what starts services on this host, or in a container")
	}
	return nil
}

// systemctl runs systemctl. The error has what it printed.
func systemctl(ctx context.Context, args ...string) error { return command(ctx, "systemctl", args...) }

// command runs a program of the host. The error has what it printed.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}
