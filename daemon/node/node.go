// Package node is the node agent on a Docker host of an RKE1 cluster, and the agent in a cluster (cluster.go): the
// checks at its start, the tunnel to its server, the node config it pulls and the
// containers it keeps as that says.
//
// Nothing that a host or a server lacks for a while ends the agent: each part waits and
// tries again by itself, and the live status says what it waits for and since when. A worker
// keeps its last node config and mends itself while the server is away.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/docker/client"

	"github.com/drover-project/drover/daemon/lifecycle"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// Options are what an agent is made of. Server, Token and, of a node agent, NodeName are required.
type Options struct {
	Server *url.URL // https://host[:port], without a path
	Token  string   // of registration; a secret
	Trust
	Host
	// NoRegister never registers the host, only connects.
	NoRegister bool
	// OnlyWriteCerts ends after the mounts of Share are shared and the certificates of the first
	// node config written.
	OnlyWriteCerts bool
	// Share are directories of the host that have to be on shared mounts.
	Share []string
	// Cluster makes it a cluster agent, to which nothing of hosts, Docker and node configs applies; nil is a node agent.
	Cluster *InCluster
	// Managed says that the agent is a pod, which replaces agents that were started by hand.
	Managed bool
	// TakeOver is how long the pod's tunnel has to be open before they go; default 15 s.
	TakeOver time.Duration
	Places
	// Conversations logs each target that the server dials, and how much passed.
	Conversations bool
	UserAgent     string
	// Resolve looks the server's name up; nil asks as the operating system is set up.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Refresh has an entry whenever the server's name is to be looked up, and its node config
	// fetched, at once; nil never does. Agents get it from SIGHUP.
	Refresh <-chan os.Signal
	Logger  *slog.Logger
	Now     func() time.Time // default time.Now
	spared  *backoff.Spared  // the server's request to be left alone, for all that one life sends
}

// Trust is by what the server is known.
type Trust struct {
	// CAChecksum pins the server's CA: the SHA-256 of its setting cacerts; empty trusts the system's.
	CAChecksum string
	// StrictVerify trusts the pinned CA alone.
	StrictVerify bool
	// PinAlways keeps to the pinned CA; otherwise it counts at the first start, and afterwards
	// the server may prove another one by the token.
	PinAlways bool
}

// Host is what a host is registered as.
type Host struct {
	NodeName string
	// Address and InternalAddress are literals, names of interfaces or of metadata services; see resolve.
	Address, InternalAddress string
	Roles                    []string
	Labels                   map[string]string
	Taints                   []string
}

// Places are where things are on the host.
type Places struct {
	// StateDir has the marker of registration and the last node config.
	StateDir string
	// DockerSocket is the path of the engine's socket.
	DockerSocket string
	// HealthSocket is where health is answered, and HealthAddress where else, host:port of loopback; empty is nowhere.
	HealthSocket, HealthAddress string
	// Root is put before the paths of certificates and files; empty is the host itself.
	Root string
}

// agent is one life.
type agent struct {
	Options
	liveStatus *liveStatus
	authority  *authority
	needs      map[string]bool // the conditions without which the agent does not do its work
	docker     *docker
	keeper     *keeper
	service    *service
	address    addresses
	connected  chan struct{} // has one entry when a tunnel has opened
	// credential is this host's own; a secret.
	credential string
}

// Run lives until the context ends, which is not an error. Another error says why this
// process cannot go on; *tunnel.StuckError that another one may.
func Run(ctx context.Context, o Options) error {
	o.spared = new(backoff.Spared)
	if o.Cluster != nil {
		return runCluster(ctx, o)
	}
	a, err := newAgent(ctx, o)
	if err != nil {
		return err
	}
	defer a.docker.client.Close()
	if o.OnlyWriteCerts {
		return a.writeCerts(ctx)
	}
	return a.live(ctx)
}

func newAgent(ctx context.Context, o Options) (*agent, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.TakeOver = cmp.Or(o.TakeOver, takeOver)
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the agent's state: %w", err)
	}
	own, err := credential(o.Root)
	if err != nil {
		return nil, err
	}
	a := &agent{Options: o, liveStatus: newLiveStatus(o.Logger, o.Now), needs: map[string]bool{onDocker: true, onTunnel: true}, connected: make(chan struct{}, 1), credential: own}
	engine, err := client.NewClientWithOpts(client.WithHost("unix://"+o.DockerSocket), client.WithAPIVersionNegotiation(), client.WithUserAgent(o.UserAgent))
	if err != nil {
		return nil, fmt.Errorf("make a client of Docker: %w", err)
	}
	a.address, err = a.addresses(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := connect.Encode(a.params(nil, 0)); err != nil {
		return nil, err
	}
	a.authority = newAuthority(o, a.liveStatus)
	a.docker = newDocker(engine, o.DockerSocket, a.liveStatus)
	a.keeper = newKeeper(a)
	a.service = newService(engine, o.Logger)
	return a, nil
}

// params are what the agent says of itself.
func (a *agent) params(info *connect.DockerInfo, version int) connect.Params {
	n := &connect.Node{
		CustomConfig: &connect.CustomConfig{
			Address: a.address.external, InternalAddress: a.address.internal, Roles: a.Roles, Label: a.Labels, Taints: a.Taints,
		},
		RequestedHostname: a.NodeName, DockerInfo: info,
	}
	for _, role := range a.Roles {
		n.Etcd = n.Etcd || role == connect.RoleEtcd
		n.ControlPlane = n.ControlPlane || role == connect.RoleControlPlane
		n.Worker = n.Worker || role == connect.RoleWorker
	}
	return connect.Params{Node: n, NodeVersion: version}
}

// live runs the parts until the context ends or one of them gives up for all.
func (a *agent) live(ctx context.Context) error {
	p := newPull(a)
	l := &line{agent: a, pull: p}
	parts := []lifecycle.Part{
		{Name: "Docker", Run: a.docker.run}, {Name: "containers", Run: a.keeper.run}, {Name: "host service", Run: a.service.run},
		{Name: "checks", Run: a.check}, {Name: "tunnel", Run: l.run}, {Name: "node config", Run: p.run}, {Name: "refresh", Run: l.refresh},
	}
	if a.HealthSocket != "" || a.HealthAddress != "" {
		parts = append(parts, lifecycle.Part{Name: "health", Run: a.serveHealth})
	}
	if a.Managed {
		parts = append(parts, lifecycle.Part{Name: "take-over", Run: a.sweep})
	}
	err := (&lifecycle.Life{Parts: parts, Logger: a.Logger, Now: a.Now, Hopeless: stuck}).Run(ctx)
	if err != nil {
		return fmt.Errorf("%w; its supervisor is to start it again", err)
	}
	return nil
}

// stuck says whether a tunnel has ended for good in this process.
func stuck(err error) bool {
	var end *tunnel.StuckError
	return errors.As(err, &end)
}

// marker says by its presence that this host is registered.
func (a *agent) marker() string { return filepath.Join(a.StateDir, "connected") }

func (a *agent) registered() bool {
	if a.NoRegister {
		return true
	}
	_, err := os.Lstat(a.marker())
	return err == nil
}

// endpoint is where the tunnel goes.
func (a *agent) endpoint() string {
	path := connect.RegisterPath
	if a.registered() {
		path = connect.Path
	}
	return "wss://" + a.Server.Host + path
}

var _ tunnel.DialFunc = (*agent)(nil).dial
