package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/cmd/drover/config"
	"github.com/drover-project/drover/cmd/drover/usageerr"
	backups "github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/options"
	"github.com/drover-project/drover/tunnel"
)

type serverFlags struct {
	options.Options
	etcdCA, etcdCert, etcdKey, logLevel, pprof, collector string
	config, bootstrapPassword                             string
	ephemeral                                             bool

	backupRecipients []string
	backupPassphrase string
	backupBucket     string
	backupKeys       bool
}

// Command is drover server, with the commands below it.
func (a *App) Command() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the management server",
		Long: `Run the management server: https on --listen, documents in an etcd of its own below
the data directory (or in --etcd-endpoints), an authority of its own unless a
certificate is given. The first start makes the administrator: its password is
generated and printed once, or taken from --bootstrap-password-file, or from
DROVER_BOOTSTRAP_PASSWORD (or CATTLE_BOOTSTRAP_PASSWORD). The server drops these
variables from its environment as soon as it has read them, but root still finds the
first value in /proc/PID/environ and in the unit or manifest that set it: use the
file where that matters, and set the variable at the first start alone.

Settings are flags, or keys of the same names in the file --config; ` + "`drover server config`" + `
shows what counts.`,
		Args: usageerr.Needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := f.configured(a, cmd)
			if err == nil {
				err = a.serve(cmd.Context(), f)
			}
			Ended(err)
			return err
		},
	}
	f.register(cmd)
	cmd.AddCommand(a.Others...)
	cmd.AddCommand(a.configCommand(), a.checkCommand(), a.upgradeCheckCommand(), a.installCommand(), a.uninstallCommand(), a.monitoringCommand())
	return cmd
}

// serve runs a server, and tells systemd's watchdog that it answers.
func (a *App) serve(ctx context.Context, f serverFlags) error {
	o, err := f.options(a)
	if err != nil {
		return err
	}
	tunnel.LogTo(o.Logger)
	if a.Environ("GOGC") == "" {
		// A quarter less memory at its height for a tenth more processor time, while thousands of hosts report.
		debug.SetGCPercent(50)
	}
	if len(o.Store.Endpoints) == 0 { // copies of an etcd of others are theirs
		if err := keepBefore(o.DataDir, drover.Version, o.Logger); err != nil {
			return err
		}
	}
	if f.collector != "" {
		tracer, stop, err := openTraces(ctx, f.collector, o.Logger)
		if err != nil {
			return err
		}
		defer stop()
		o.Tracer = tracer
	}
	stopWatch := Watch(ctx, o.DataDir, o.Logger)
	defer stopWatch()
	defer giveBack(ctx)()
	if f.pprof == "" {
		return a.Serve(ctx, o)
	}
	stop, err := serveProfiles(ctx, f.pprof)
	if err != nil {
		return err
	}
	return errors.Join(a.Serve(ctx, o), stop())
}

// register makes the flags, which are the keys of the configuration file, too.
func (f *serverFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", config.Path, "configuration file: YAML whose keys are the names of these flags, which win over it")
	flags.StringVar(&f.Listen, "listen", ":8443", "address to serve https on")
	flags.StringVar(&f.ServerURL, "server-url", "", "https URL by which hosts and people reach this server (default: this host's first address)")
	flags.StringVar(&f.PeerURL, "peer-url", "", "https URL by which other servers on the same etcd reach this one (default: this host's first address)")
	flags.StringSliceVar(&f.TLSNames, "tls-san", nil, "further names and addresses for the server's own certificate")
	flags.StringVar(&f.CertFile, "tls-cert", "", "PEM certificate (chain) to serve instead of one of the server's own")
	flags.StringVar(&f.KeyFile, "tls-key", "", "its PEM key")
	flags.StringVar(&f.CAFile, "tls-ca", "", "PEM authority of --tls-cert that agents pin; leave out for a public one")
	flags.BoolVar(&f.NewAuthority, "new-authority", false, "take a new authority when the one that hosts have pinned is lost; all hosts have to join again")
	flags.StringSliceVar(&f.Store.Endpoints, "etcd-endpoints", nil, "URLs of an etcd cluster instead of the embedded one")
	flags.StringVar(&f.etcdCA, "etcd-ca", "", "PEM authority of the etcd cluster")
	flags.StringVar(&f.etcdCert, "etcd-cert", "", "PEM client certificate for the etcd cluster")
	flags.StringVar(&f.etcdKey, "etcd-key", "", "its PEM key")
	flags.StringVar(&f.Store.KeyFile, "encryption-key-file", "", "keys that encrypt sensitive documents (default: encryption.key in the data directory)")
	flags.StringVar(&f.AssetsDir, "assets", "", "directory with the agents that hosts download (default: those inside this binary, else beside it)")
	flags.StringVar(&f.VersionData, "version-data", "", "file or http(s) URL with Kubernetes versions beyond the built-in ones, in drover's or Rancher's form")
	flags.StringVar(&f.collector, "otlp-endpoint", "", "collector of OpenTelemetry that gets traces, https://HOST:4317 (OTLP over gRPC); empty sends none")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.pprof, "pprof", "", "loopback address to serve profiles on, for developers")
	cmd.Flag("pprof").Hidden = true
	flags.StringVar(&f.bootstrapPassword, "bootstrap-password-file", "", "file whose first line is the first administrator's password, which others may not read")
	flags.BoolVar(&f.ephemeral, "ephemeral", false, "start in a container whose data directory goes with it, and lose all that the server keeps at its end")
	f.backupFlags(cmd)
}

func (f serverFlags) options(a *App) (options.Options, error) {
	o := f.Options
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return o, usageerr.Errorf("--log-level %q is none of debug, info, warn, error", f.logLevel)
	}
	if !f.ephemeral {
		if err := checkKept(a.DataDir(), a.Environ); err != nil {
			return o, err
		}
	}
	if err := errors.Join(checkOwner(a.DataDir()), checkListen(o.Listen, a.DataDir())); err != nil {
		return o, err
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return o, usageerr.Errorf("--tls-cert and --tls-key go together")
	}
	if len(o.Store.Endpoints) > 0 {
		trust, err := f.etcdTLS()
		if err != nil {
			return o, err
		}
		o.Store.TLS = trust
	}
	o.ServerURL, o.PeerURL = strings.TrimRight(o.ServerURL, "/"), strings.TrimRight(o.PeerURL, "/")
	o.DataDir = a.DataDir()
	var err error
	if err = f.schedule(&o); err != nil {
		return o, err
	}
	if o.BootstrapPassword, err = bootstrapPassword(a.Environ); err != nil {
		return o, err
	}
	if f.bootstrapPassword != "" {
		text, err := a.Secret(f.bootstrapPassword)
		if err != nil {
			return o, fmt.Errorf("the first administrator's password: %w", err)
		}
		o.BootstrapPassword, _, _ = strings.Cut(text, "\n")
	}
	o.Environ, o.Out, o.Now = a.Environ, a.Out, time.Now
	o.Logger = slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
	return o, nil
}

func (f *serverFlags) backupFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Backups.Dir, "backup-dir", "", "directory to make backups of this server in by itself, on another disk or host; empty makes none")
	flags.DurationVar(&f.Backups.Every, "backup-every", 24*time.Hour, "time from one of them to the next")
	flags.IntVar(&f.Backups.Keep, "backup-keep", 7, "how many of them stay")
	flags.StringVar(&f.backupBucket, "backup-s3", "", "file of a bucket of S3 that gets them, too (YAML, mode 0600; docs/how-to/back-up-the-server.md has its fields); they have to be encrypted then")
	flags.StringArrayVar(&f.backupRecipients, "backup-encrypt-to", nil, "encrypt them for this public key of age or SSH (repeat)")
	flags.StringVar(&f.backupPassphrase, "backup-passphrase-file", "", "encrypt them with the first line of this file")
	flags.BoolVar(&f.backupKeys, "backup-with-keys", false, "put the key file and the authority into them; they have to be encrypted then")
}

// schedule is what the flags say of backups.
func (f serverFlags) schedule(o *options.Options) (err error) {
	s := &o.Backups
	if s.Dir == "" {
		if len(f.backupRecipients) > 0 || f.backupPassphrase != "" || f.backupBucket != "" || f.backupKeys {
			return usageerr.Errorf("--backup-s3, --backup-encrypt-to, --backup-passphrase-file and --backup-with-keys are of no use without --backup-dir")
		}
		return nil
	}
	if s.Seal, err = backups.NewSealing(f.backupRecipients, f.backupPassphrase); err != nil {
		return fmt.Errorf("scheduled backups: %w", err)
	}
	if f.backupBucket != "" {
		if s.Offsite, err = backups.ReadOffsite(f.backupBucket); err != nil {
			return fmt.Errorf("scheduled backups: %w", err)
		}
	}
	if f.backupKeys {
		keys := backups.KeysIn(o.DataDir, o.Store.KeyFile)
		s.Keys = &keys
	}
	return nil
}

// bootstrapPassword takes the first administrator's password out of the environment, so that no
// program that the server starts inherits it.
func bootstrapPassword(environ func(string) string) (password string, err error) {
	for _, name := range []string{"DROVER_BOOTSTRAP_PASSWORD", "CATTLE_BOOTSTRAP_PASSWORD"} {
		password = cmp.Or(password, environ(name))
		if err := os.Unsetenv(name); err != nil {
			return "", fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	return password, nil
}

// checkOwner says that a data directory is another user's: what a server wrote there as this one, that user's could not read.
func checkOwner(dataDir string) error {
	info, err := os.Stat(dataDir)
	if err != nil {
		return nil // the server makes it, or says what is wrong
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	owner := fmt.Sprint("user ", stat.Uid)
	if u, err := user.LookupId(fmt.Sprint(stat.Uid)); err == nil {
		owner = "user " + u.Username
	}
	return fmt.Errorf("the data directory %s belongs to %s: start the server as that user (`systemctl start drover` where it is installed), or give the directory to this one with chown -R", dataDir, owner)
}

// checkListen says what is wrong with an address to listen on before the first start makes
// anything. Where there is a data directory already, who else uses that is the better thing to say.
func checkListen(address, dataDir string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usageerr.Errorf("--listen %q is not an address and a port, as in :8443 or 192.0.2.10:8443", address)
	}
	if _, err := os.Stat(dataDir); err == nil {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; if another program has the port (ss -ltnp shows it), stop it or choose another with --listen", address, err)
	}
	return listener.Close()
}

func (f serverFlags) etcdTLS() (*tls.Config, error) {
	if f.etcdCA == "" && f.etcdCert == "" {
		return nil, nil
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.etcdCA != "" {
		pem, err := os.ReadFile(f.etcdCA)
		if err != nil {
			return nil, fmt.Errorf("read --etcd-ca: %w", err)
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read --etcd-ca: %s is not a PEM certificate", f.etcdCA)
		}
	}
	if f.etcdCert != "" {
		pair, err := tls.LoadX509KeyPair(f.etcdCert, f.etcdKey)
		if err != nil {
			return nil, fmt.Errorf("read --etcd-cert and --etcd-key: %w", err)
		}
		trust.Certificates = []tls.Certificate{pair}
	}
	return trust, nil
}
