// Package rke is `drover rke`: RKE1 clusters without a server, over SSH, with the commands, files
// and flags of the rke command line, which has come to its end. Both work on the same
// cluster.yml and cluster.rkestate, in turns.
package rke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/proxy"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/cmd/drover/rke/console"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
)

// maxConfig bounds a cluster.yml, in bytes.
const maxConfig = 8 << 20

// App is what the commands have of their surroundings.
type App struct {
	Out, Err io.Writer
	Environ  func(string) string

	global
}

// Login is how commands log in on hosts, beside what a cluster.yml says.
type Login struct {
	sshAgentAuth      bool
	acceptNewHostKeys bool
	knownHosts        string
}

// Flags adds the flags that set it.
func (l *Login) Flags(s *pflag.FlagSet) {
	s.BoolVar(&l.sshAgentAuth, "ssh-agent-auth", false, "log in with the keys of the agent at SSH_AUTH_SOCK")
	s.BoolVar(&l.acceptNewHostKeys, "accept-new-host-keys", false, "add the keys of hosts that are not known to known_hosts; a changed key is refused all the same")
	s.StringVar(&l.knownHosts, "known-hosts", "~/.ssh/known_hosts", "file with the keys of hosts")
}

// flags are those that several commands have.
type flags struct {
	config string
	Login
	ignoreDockerVersion bool
	dryRun              bool
	certDir             string
	customCerts         bool
	local, dind         bool
}

func (a *App) configFlag(cmd *cobra.Command, f *flags) {
	path := cmp.Or(a.Environ("RKE_CONFIG"), "cluster.yml")
	cmd.Flags().StringVar(&f.config, "config", path, "cluster's configuration; its state is beside it, named .rkestate (RKE_CONFIG)")
}

// hostFlags are those of commands that go to hosts.
func (a *App) hostFlags(cmd *cobra.Command, f *flags) {
	a.configFlag(cmd, f)
	s := cmd.Flags()
	f.Flags(s)
	s.BoolVar(&f.ignoreDockerVersion, "ignore-docker-version", false, "take hosts with any version of Docker")
	s.BoolVar(&f.dryRun, "dry-run", false, "look at everything and print what would be done; do nothing")
}

// certificateFlags are those of commands that take certificates that another authority issued.
func certificateFlags(cmd *cobra.Command, f *flags) {
	cmd.Flags().StringVar(&f.certDir, "cert-dir", "", "directory of certificates (default: the config's name without its ending, and _certs)")
	cmd.Flags().BoolVar(&f.customCerts, "custom-certs", false, "use the certificates in --cert-dir, and issue none")
}

// Command is `drover rke` with all its commands.
func (a *App) Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rke",
		Short: "Look after RKE1 clusters over SSH, with the files of the rke command line",
	}
	cmd.AddCommand(a.upCommand(), a.configCommand(), a.removeCommand(), a.certCommand(), a.encryptCommand(), a.etcdCommand(), a.utilCommand(),
		a.exportCommand(), a.importCommand(), a.migrateCommand(), a.versionCommand())
	cmd.Version = drover.Version // -v and --version
	globalFlags(a, cmd)
	console.InWords(cmd)
	return cmd
}

// cluster is what a command works on.
type cluster struct {
	*App
	flags
	files    state.Files
	config   *config.Cluster
	versions *versions.Data
	state    *state.State // nil for a new cluster
	given    pki.Bundle   // certificates of the user's own
	logger   *slog.Logger
	printer  *console.Printer
}

// known is what the version data say of versions, in the words of a config.
func known(v *versions.Data) config.Versions { return v.ForConfig() }

// open reads and checks the files of a cluster. Nothing of them is trusted half.
func (a *App) open(ctx context.Context, f flags) (*cluster, error) {
	c, err := a.openConfig(ctx, f)
	if err != nil {
		return nil, err
	}
	if f.customCerts {
		if c.given, err = pki.ReadDir(os.DirFS(c.certificates())); err != nil {
			return nil, fmt.Errorf("certificates in %s: %w", c.certificates(), err)
		}
	}
	s, unknown, err := state.Load(c.files, state.Against{Config: c.config, OwnCertificates: f.customCerts})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, key := range unknown {
		c.printer.Warn(fmt.Sprintf("%s: %s is not known here and will not be in the file any more", c.files.State, key))
	}
	c.state = s
	return c, nil
}

// certificates is the directory of the user's own.
func (c *cluster) certificates() string {
	if c.certDir != "" {
		return c.certDir
	}
	return c.files.Certificates
}

// openConfig reads and checks cluster.yml alone.
func (a *App) openConfig(ctx context.Context, f flags) (*cluster, error) {
	c := &cluster{App: a, flags: f, files: state.FilesOf(f.config)}
	c.printer, c.logger = a.surroundings()
	var err error
	if c.versions, err = a.loadVersions(ctx); err != nil {
		return nil, err
	}
	file, err := readConfig(f)
	if err != nil {
		return nil, err
	}
	c.printer.Warnings(file.Warnings)
	filled := config.WithDefaults(file.Cluster, known(c.versions))
	errs, warnings := check.Cluster(filled, known(c.versions), file)
	c.printer.Warnings(warnings)
	if len(errs) > 0 {
		return nil, errs
	}
	c.config = &filled
	c.withAgent()
	return c, nil
}

// withAgent logs in by the agent everywhere, if asked to.
func (c *cluster) withAgent() {
	if !c.sshAgentAuth {
		return
	}
	c.config.SSHAgentAuth = true
	for i := range c.config.Nodes {
		c.config.Nodes[i].SSHAgentAuth = true
	}
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: write one with `drover rke config --print > %s`, or name another with --config", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	if info.Size() > maxConfig {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxConfig)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	return text, nil
}

// lock keeps a second command from working on the same files; the file is the config itself, so
// that nothing is left over. It ends with the program.
func (c *cluster) lock() (unlock func(), err error) {
	f, err := os.Open(c.files.Config)
	if errors.Is(err, fs.ErrNotExist) && c.local { // a cluster of this host needs no config
		f, err = os.Open(filepath.Dir(c.files.Config))
	}
	if err != nil {
		return nil, fmt.Errorf("lock the config: %w", err)
	}
	if err := durable.TryLock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("another command works on %s just now: wait for its end", c.files.Config)
	}
	return func() { f.Close() }, nil
}

// work is what the engine is asked to do.
func (c *cluster) work() engine.Work {
	return engine.Work{Config: c.config, Before: c.state, Kubeconfig: c.files.Kubeconfig, IgnoreDockerVersion: c.ignoreDockerVersion, Certificates: c.given}
}

// options are the engine's surroundings: hosts over SSH, and the state in its file, which is
// this command's until end, which ends the connections, too.
func (c *cluster) options() (o engine.Options, end func(), err error) {
	unlock, err := c.lock()
	if err != nil {
		return o, nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	o = engine.Options{
		Dial: here, Versions: c.versions, Report: c.printer, Logger: c.logger, Now: time.Now,
		Source: func() pki.Source { return pki.NewSource(time.Now()) },
		Save:   c.save,
		Addons: addons.Sources{Files: true},
	}
	if c.local {
		return o, unlock, nil
	}
	way, hangUp, err := c.overSSH()
	if err != nil {
		return o, nil, err
	}
	o.Dial = way
	return o, func() { hangUp(); unlock() }, nil
}

// overSSH is the way to the hosts, until hangUp.
func (c *cluster) overSSH() (way func(config.Node) dial.Dialer, hangUp func(), err error) {
	keys, err := dial.KnownHosts(c.knownHosts, c.acceptNewHostKeys, c.printer.Line)
	if err != nil {
		return nil, nil, err
	}
	ssh := dial.Options{Keys: keys, AgentSocket: c.Environ("SSH_AUTH_SOCK"), Logger: c.logger}
	if b := c.config.BastionHost; b.Address != "" {
		ssh.Bastion = &dial.Login{
			Address: b.Address, Port: b.Port, User: b.User, Key: b.SSHKey, KeyPath: b.SSHKeyPath, Cert: b.SSHCert, CertPath: b.SSHCertPath, Agent: b.SSHAgentAuth,
		}
		if !b.IgnoreProxyEnvVars {
			ssh.Direct = fromEnvironment
		}
	}
	hosts := dial.NewSSH(ssh)
	return func(n config.Node) dial.Dialer { return hosts.Host(login(n)) }, hosts.Close, nil
}

func login(n config.Node) dial.Login {
	return dial.Login{
		Address: n.Address, Port: n.Port, User: n.User, Key: n.SSHKey, KeyPath: n.SSHKeyPath, Cert: n.SSHCert, CertPath: n.SSHCertPath, Agent: n.SSHAgentAuth,
	}
}

// fromEnvironment dials through the SOCKS proxy of ALL_PROXY, if there is one.
func fromEnvironment(ctx context.Context, network, address string) (net.Conn, error) {
	return proxy.Dial(ctx, network, address)
}

// save writes the state, and the administrator's kubeconfig beside it.
func (c *cluster) save(_ context.Context, s *state.State) error {
	return c.write(s, state.WriteOptions{})
}

// replace writes a state that may be that of a snapshot, from before the CA was another.
func (c *cluster) replace(_ context.Context, s *state.State) error {
	return c.write(s, state.WriteOptions{Replace: true})
}

func (c *cluster) write(s *state.State, o state.WriteOptions) error {
	o.Now, o.OwnCertificates = time.Now(), c.customCerts
	if err := state.Write(c.files.State, s, o); err != nil {
		return err
	}
	c.state = s
	return nil
}

// shown is a path as people gave it.
func shown(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") {
		return path
	}
	return "./" + path
}
