// Package daemon is the system agent on a host: what it is configured to do, the sources it
// takes plans from, the tunnel to its server, and what it reports to systemd about all that.
//
// A source that fails is started again by itself and takes nothing else down. When the
// agent stops, an instruction that runs goes on; the next life picks it up again.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/lifecycle"
	"github.com/drover-project/drover/daemon/outputstream"
	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/daemon/systemd"
	"github.com/drover-project/drover/installers/image"
	"github.com/drover-project/drover/installers/image/credentials"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/drop"
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
	// Notify sends a state to systemd; nil when systemd does not listen.
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
	liveStatus *liveStatus
	feed       *outputstream.Feed
	engine     *apply.Engine
	units      *systemd.Units
	drop       *drop.Source // nil without a directory
	parts      []lifecycle.Part
	life       *lifecycle.Life
	started    time.Time

	// updates is the directory of updates of the agent itself.
	updates string

	// What people see of the configuration.
	path    string // of the file
	ledgers string

	connection atomic.Pointer[connection] // nil without a server

	keeping sync.Mutex
	kept    []status.Failure // as they are on disk; guarded by keeping
}

// Run lives until the context ends, which is not an error. An error says what on this host
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
	a := &agent{Options: o, liveStatus: newLiveStatus(o.Now), feed: outputstream.New(), units: systemd.NewUnits(), started: o.Now(), path: path, ledgers: c.LedgerDirectory()}
	defer a.units.Close()
	if err := a.openStatus(ctx); err != nil {
		return err
	}
	if err := a.makeParts(c); err != nil {
		return err
	}
	a.updates = filepath.Join(a.Root, selfupdate.Dir(c.LedgerDirectory()))
	a.recallUpdate()
	a.recall()
	a.Logger.Info("agent starts", "config", path, "remote", c.RemoteEnabled, "local", c.LocalEnabled)
	return a.live(ctx)
}

// makeParts makes engine and parts as configured.
func (a *agent) makeParts(c *config.Agent) error {
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
		Units:           a.units.State,
		Supervisor:      a.Supervisor,
		Ready:           true,
		Limits:          apply.Limits{Timeout: timeout},
		Waiting:         a.liveStatus.setWait,
		Observe:         a.observe,
		Logger:          a.Logger,
		Now:             a.Now,
	})
	if err != nil {
		return err
	}
	if c.LocalEnabled {
		a.drop = drop.New(drop.Options{Dir: c.LocalPlanDirectory, Engine: noted{a.engine, a.liveStatus}, Logger: a.Logger, Now: a.Now})
		a.parts = append(a.parts, lifecycle.Part{Name: "drop directory", Run: a.drop.Run, Alive: a.drop.Alive})
	}
	if !c.RemoteEnabled {
		return nil
	}
	first, err := a.connect(c.ConnectionInfoFile)
	if err != nil {
		return err
	}
	a.connection.Store(first)
	a.parts = append(a.parts, lifecycle.Part{
		Name: "connection", Run: func(ctx context.Context) error { return a.stayConnected(ctx, c.ConnectionInfoFile) },
		Alive: func(ctx context.Context) bool { return a.connection.Load().remote.Alive(ctx) },
	}, lifecycle.Part{Name: "network", Run: a.heedNetwork})
	return nil
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
		Plugins: credentials.Plugins{
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

// live runs the parts and talks to systemd until the context ends.
func (a *agent) live(ctx context.Context) error {
	a.life = &lifecycle.Life{
		Parts: a.parts, Logger: a.Logger, Now: a.Now, Hopeless: hopeless, Fault: a.liveStatus.setFault,
		Notify: a.Notify, Watchdog: a.Watchdog, StopLimit: stopLimit,
		// An instruction that runs goes on, and is taken up again by the next life.
		Ended: a.engine.Close,
	}
	a.life.Parts = append(a.life.Parts, lifecycle.Part{Name: "signals", Run: a.heed}, lifecycle.Part{Name: "status line", Run: a.showStatus})
	stopping := context.AfterFunc(ctx, func() { a.Logger.Info("agent stops; an instruction that runs goes on and is taken up again") })
	defer stopping()
	err := a.life.Run(ctx)
	if hopeless(err) {
		return fmt.Errorf("%w; a new process may help", err)
	}
	return err
}
