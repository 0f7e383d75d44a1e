// How it is shown: all that is served.

package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/connlimit"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/metrics"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/rketransfer"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/upgrades"
)

// surface is what callers see of the server.
type surface struct {
	*data
	*identity
	ways *ways
	api  *api.API
}

func newSurface(d *data, i *identity, w *ways, c *controllers) (*surface, error) {
	proxy := &kubeproxy.Proxy{
		State: d.state, Until: i.auth.Until, Way: w.clusters.Way, Token: w.accounts.Token, Refused: w.accounts.Refused,
		Membership: &state.Membership{State: d.state, Now: d.Now}, Logger: d.Logger,
	}
	measures := metrics.New(metrics.Options{
		Tunnels: w.hosts, State: d.state, Work: c.measured, Workers: c.workers.Status, Backups: d.backups.Status, Rights: c.rights.Kept, Audit: d.audit.Totals, Now: d.Now,
	})
	served, err := api.New(api.Options{
		Data: api.Data{
			State: d.state, Settings: d.settings, Versions: d.versions.Data, VersionStatus: d.versions.Status, RKE1Versions: d.rke1, Events: c.events, Audit: d.audit, Tracer: d.Tracer, Backups: d.backups,
			OnVersions: func(f func()) { d.versions.OnChange(func(_, _ *versions.Data) { f() }) },
		},
		Identity: api.Identity{Auth: i.auth, People: i.people, Directories: i.directories, Groups: c.groups},
		Ways: api.Ways{
			Registration: w.registration, Agents: forAgents(w, c), Hosts: w.hosts, ClusterAPIs: w.clusters, KubeProxy: proxy, TokenArrived: w.tokenArrived,
			Presence: w.hosts.Presence(), Leader: func() string { return d.state.Store.Leader(reconcile.Leadership) },
			Servers: native.Servers{State: d.state, Peers: w.hosts, Workers: c.workers.Status},
		},
		Work: api.Work{
			Clusters: c.applier, DayTwo: c.asker, Refresh: c.snapshots.Refresh, PreviewOperation: c.clusters.PreviewOperation, PreviewFleet: c.clusters.PreviewFleet, Files: c.files, Rehearsals: c.rehearsals, RKE: c.rke,
			Upgrades: &upgrades.Upgrader{
				State: d.state, Clusters: c.applier, Versions: d.versions.Data, RKE1Versions: d.rke1, API: w.clusters.API, Client: w.clusters.Client,
				Restorable: c.asker.Restorable, Now: d.Now,
			},
			Handover: &rketransfer.Desk{State: d.state, Clusters: c.applier, Versions: d.rke1, Client: w.clusters.Client, Compare: c.rke.Compare, OnHosts: c.rke.OnHosts, Now: d.Now},
		},
		Metrics: measures.Handler(), Now: d.Now, Logger: d.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &surface{d, i, w, served}, nil
}

// forAgents serves what agents and other servers ask for, each with a credential of its own.
func forAgents(w *ways, c *controllers) http.Handler {
	agents := http.NewServeMux()
	w.registration.Routes(agents)
	w.plans.Routes(agents)
	w.agents.Routes(agents)
	w.inClusters.Routes(agents)
	w.hosts.Routes(agents)
	w.hosts.ServeWorkers(agents, c.workers.Status)
	c.rehearsals.Routes(agents)
	return agents
}

// web is the web server, and the guard of its connections. What ends nothing here is ended
// where it is written: watches and tunnels.
func (f *surface) web(ctx context.Context) (*http.Server, *connlimit.Guard) {
	web := &http.Server{
		Handler: f.api.Handler(), TLSConfig: f.tls, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(f.Logger.Handler(), slog.LevelDebug),
	}
	web.Protocols = new(http.Protocols)
	web.Protocols.SetHTTP1(true)
	connections := connlimit.New(connlimit.Options{
		PerSource: func() int {
			n, err := strconv.Atoi(f.settings.Get("connections-per-source").Value)
			if err != nil {
				return 0
			}
			return n
		},
		Trusted: f.known,
		Logger:  f.Logger,
	})
	connections.Protect(web)
	return web, connections
}

// known says whether a request has credentials of any kind that are good now: a user's, a
// machine's, or a registration token. What they allow is for the handlers.
func (f *surface) known(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if _, machine := f.machines.MachineByToken(bearer); machine {
			return true
		}
		if f.ways.registration.KnowsToken(bearer) {
			return true
		}
	}
	_, err := f.auth.Authenticate(r)
	return err == nil
}
