// Package daemon is the life of the system agent on a host: what it is configured to
// do, the sources it takes plans from, the tunnel to its server, and what it tells
// systemd about all that.
//
// A source that fails is started again by itself and takes nothing else down. When the
// agent stops, an instruction that runs goes on; the next life picks it up again.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/feed"
	"github.com/drover-project/drover/daemon/hostservice"
	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/daemon/systemd"
	"github.com/drover-project/drover/installers/image"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/drop"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/tunnel"
)

// stopLimit is how long the parts may take to end.
const stopLimit = 20 * time.Second

// Options are what an agent is made of. Getenv and Supervisor are required.
type Options struct {
	// Getenv reads the environment: which configuration to use, and Docker's credentials.
	Getenv func(string) string
	// Supervisor is the command line that runs one instruction, see apply.Options.
	Supervisor []string
	// Version is the agent's own, UserAgent its name in requests to the server.
	Version   string
	UserAgent string
	// Notify sends a state to systemd; nil when nobody listens.
	Notify func(state string) error
	// Watchdog is the time within which systemd wants a sign of life; 0 is never.
	Watchdog time.Duration
	// StatusSocket is where people on this host ask how the agent stands; empty: nowhere.
	StatusSocket string
	// Refresh has an entry whenever the name of the tunnel's server is to be looked up at once;
	// nil never does. Agents get it from SIGHUP.
	Refresh <-chan os.Signal
	// Root is put before paths on the host; empty is the host itself.
	Root   string
	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // default time.Now
}

// agent is one life.
type agent struct {
	Options
	board   *board
	feed    *feed.Feed
	engine  *apply.Engine
	units   *systemd.Units
	remote  *remote.Source // nil without a server
	drop    *drop.Source   // nil without a directory
	parts   []part
	started time.Time

	// updates is the directory of updates of the agent itself.
	updates string

	// What people are told of the configuration.
	path    string // of the file
	ledgers string
	server  string
	secret  string
	tunnel  string // empty when there is none

	keeping sync.Mutex
	kept    []status.Failure // as they are on disk; guarded by keeping

	refresh func() // looks the tunnel's server up; nil when there is no tunnel
}

// part is something that runs as long as the agent does.
type part struct {
	name string
	run  func(ctx context.Context) error
	// alive says whether it still turns, for the watchdog; nil: it cannot be asked.
	alive func(ctx context.Context) bool
}

// Run lives until the context ends, which is no error. An error says what on this host
// has to be mended before the agent can work at all.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	path := config.Find(o.Getenv)
	c, err := config.LoadAgent(path)
	if err != nil {
		return err
	}
	a := &agent{Options: o, board: newBoard(o.Now), feed: feed.New(), units: systemd.NewUnits(), started: o.Now(), path: path, ledgers: c.LedgerDirectory()}
	defer a.units.Close()
	if err := a.openStatus(ctx); err != nil {
		return err
	}
	if err := a.furnish(c); err != nil {
		return err
	}
	a.updates = filepath.Join(a.Root, selfupdate.Dir(c.LedgerDirectory()))
	a.recallUpdate()
	a.recall()
	a.Logger.Info("agent starts", "config", path, "remote", c.RemoteEnabled, "local", c.LocalEnabled)
	return a.live(ctx)
}

// furnish makes engine and parts as configured.
func (a *agent) furnish(c *config.Agent) error {
	timeout, err := c.Timeout()
	if err != nil {
		return err
	}
	images, err := a.stager(c)
	if err != nil {
		return err
	}
	a.engine, err = apply.New(apply.Options{
		Root:            a.Root,
		WorkDir:         c.WorkDirectory,
		PreserveWorkDir: c.PreserveWorkDirectory,
		LedgerDir:       a.ledgers,
		InterlockDir:    c.InterlockDirectory,
		AppliedDir:      c.AppliedPlanDirectory,
		Redirects:       redirects(c.Dir),
		Images:          images,
		WithProgress:    image.WithProgress,
		Units:           a.units.State,
		Supervisor:      a.Supervisor,
		Timeout:         timeout,
		Waiting:         a.board.setWait,
		Observe:         a.observe,
		Logger:          a.Logger,
		Now:             a.Now,
	})
	if err != nil {
		return err
	}
	if c.LocalEnabled {
		a.drop = drop.New(drop.Options{Dir: c.LocalPlanDirectory, Engine: told{a.engine, a.board}, Logger: a.Logger, Now: a.Now})
		a.parts = append(a.parts, part{name: "drop directory", run: a.drop.Run, alive: a.drop.Alive})
	}
	if !c.RemoteEnabled {
		return nil
	}
	return a.furnishRemote(c.ConnectionInfoFile)
}

// redirects keep the distributions' configuration beside the agent's own and link the
// usual place to it, so that both hold.
func redirects(dir string) []apply.Redirect {
	return []apply.Redirect{
		{Prefix: "/etc/rancher/k3s", Dir: filepath.Join(dir, "k3s")},
		{Prefix: "/etc/rancher/rke2", Dir: filepath.Join(dir, "rke2")},
	}
}

func (a *agent) stager(c *config.Agent) (*image.Stager, error) {
	docker := a.Getenv("DOCKER_CONFIG")
	if docker == "" && a.Getenv("HOME") != "" {
		docker = filepath.Join(a.Getenv("HOME"), ".docker")
	}
	limit, err := c.CacheLimit()
	if err != nil {
		return nil, err
	}
	s := &image.Stager{
		ImagesDir:  c.ImagesDirectory,
		Registries: []string{c.AgentRegistriesFile, "/etc/rancher/rke2/registries.yaml", "/etc/rancher/k3s/registries.yaml"},
		Plugins: image.Plugins{
			Config: c.ImageCredentialProviderConfig, Dir: c.ImageCredentialProviderBinDirectory, Env: apply.BaseEnv(os.Environ()),
		},
		CacheDir:   c.CacheDirectory(),
		CacheLimit: limit,
		Logger:     a.Logger,
		Now:        a.Now,
	}
	if docker != "" {
		s.DockerConfig = filepath.Join(docker, "config.json")
	}
	return s, nil
}

// furnishRemote adds the plan Secret of a server, and the tunnel to it when it offers one.
func (a *agent) furnishRemote(file string) error {
	c, err := config.LoadConnection(file)
	if err != nil {
		return err
	}
	access, err := remote.ParseKubeconfig(c.KubeConfig)
	if err != nil {
		return fmt.Errorf("connection information %s: %w", file, err)
	}
	a.remote, err = remote.New(remote.Options{
		Access: access, Namespace: c.Namespace, SecretName: c.SecretName, Engine: told{a.engine, a.board},
		UserAgent: a.UserAgent, Changed: a.board.setRemote, Logger: a.Logger, Now: a.Now,
	})
	if err != nil {
		return fmt.Errorf("connection information %s: %w", file, err)
	}
	a.server, a.secret = access.Server.Redacted(), c.Namespace+"/"+c.SecretName
	a.parts = append(a.parts, part{name: "plan Secret", run: a.remote.Run, alive: a.remote.Alive})
	if c.TunnelURL == "" {
		return nil
	}
	if u, err := url.Parse(c.TunnelURL); err != nil || u.Scheme != "wss" || u.Host == "" {
		return fmt.Errorf("connection information %s: tunnelURL %q is not of the form wss://host[:port]/path", file, c.TunnelURL)
	}
	a.tunnel = c.TunnelURL
	service := hostservice.New(hostservice.Options{Root: a.Root, Status: a.looking(), Logger: a.Logger})
	client := tunnel.NewClient(tunnel.ClientOptions{
		URL: c.TunnelURL, Header: a.tunnelHeader(access), TLS: access.TLS, Dial: service.Dial,
		Changed: a.board.setTunnel, Logger: a.Logger, Now: a.Now,
	})
	a.refresh = client.Refresh
	a.parts = append(a.parts, part{name: "host service", run: service.Run}, part{name: "tunnel", run: client.Run})
	return nil
}

// tunnelHeader has the credentials of the kubeconfig, read anew for each attempt.
func (a *agent) tunnelHeader(access *remote.Access) func() http.Header {
	return func() http.Header {
		h := http.Header{"User-Agent": {a.UserAgent}}
		authorization, err := access.Authorization()
		if err != nil {
			a.Logger.Error("credentials cannot be read", "error", err)
		} else if authorization != "" {
			h.Set("Authorization", authorization)
		}
		return h
	}
}

// live runs the parts and talks to systemd until the context ends.
func (a *agent) live(ctx context.Context) error {
	var running sync.WaitGroup
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, p := range a.parts {
		running.Go(func() { a.keep(ctx, stop, p) })
	}
	running.Go(func() { a.heed(ctx) })
	a.notify("READY=1")
	running.Go(func() { a.tell(ctx) })
	if a.Watchdog > 0 {
		running.Go(func() { a.watchdog(ctx) })
	}
	<-ctx.Done()
	a.Logger.Info("agent stops; an instruction that runs goes on and is taken up again")
	a.notify("STOPPING=1")
	ended := make(chan struct{})
	go func() {
		running.Wait()
		a.engine.Close()
		close(ended)
	}()
	late := time.NewTimer(stopLimit)
	defer late.Stop()
	select {
	case <-ended:
		if cause := context.Cause(ctx); hopeless(cause) {
			return fmt.Errorf("%w; a new process may help", cause)
		}
		return nil
	case <-late.C:
		return errors.New("the agent did not stop in time")
	}
}

// keep runs a part, and again whenever it ends.
func (a *agent) keep(ctx context.Context, stop context.CancelCauseFunc, p part) {
	pause := backoff.Backoff{Min: time.Second, Max: time.Minute, Floor: 0.5}
	for {
		began := a.Now()
		err := p.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if hopeless(err) {
			stop(err)
			return
		}
		if a.Now().Sub(began) > time.Hour {
			pause.Reset()
		}
		wait := pause.Next()
		a.Logger.Error("part of the agent ended and is started again", "part", p.name, "error", err, "next", wait.Round(time.Millisecond))
		a.board.setFault(p.name, err)
		if backoff.Wait(ctx, wait) != nil {
			return
		}
		a.board.setFault(p.name, nil)
	}
}
