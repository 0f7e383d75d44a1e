// The parts of a server and how they are connected: each gets what was made before it, and
// subscribes to what it has to react to.

package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/assets"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/clusteragents"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/controllers/certificates"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/nodes"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/daytwo"
	"github.com/drover-project/drover/server/directories/desk"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/downstream/accounts"
	"github.com/drover-project/drover/server/fleets"
	"github.com/drover-project/drover/server/handover"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/metrics"
	"github.com/drover-project/drover/server/nodeagents"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/rehearsals"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/upgrades"
	"github.com/drover-project/drover/server/versions"
)

// parts are what serve runs and closes.
type parts struct {
	versions     *versions.Source
	register     *registration.Registration
	plans        *planapi.API
	hosts        *hosts.Hosts
	agents       *nodeagents.Agents
	inClusters   *clusteragents.Agents
	deployed     *clusteragents.Keeper
	clusters     *downstream.Clusters
	accounts     *accounts.Accounts
	rights       *rights.Keeper
	tokens       *authtokens.Keeper
	nodes        *nodes.Controller
	rke          *rke.Runner
	mirror       *daytwo.Mirror
	requests     *daytwo.Requests
	rehearsals   *rehearsals.Asker
	certificates *certificates.Controller
	events       *events.Log
	backups      *backup.Keeper
	audit        *audit.Log
	people       *people.People
	directories  *desk.Desk
	control      *clusters.Controller
	workers      *reconcile.Runtime
	api          *api.API
	handler      http.Handler
}

// learn reads the version data, before the first start makes anything that a wrong file would leave behind.
func (s *Server) learn(context.Context) (err error) {
	s.parts.versions, err = versions.Open(versions.Options{
		Location: s.VersionData, DataDir: s.DataDir, Transport: s.outgoing.Configured(s.VersionData).Transport(nil), Logger: s.Logger, Now: s.Now,
	})
	return err
}

// wire makes the parts, in the order in which they need each other.
func (s *Server) wire(ctx context.Context) (err error) {
	p := &s.parts
	if p.register, err = s.registrar(p); err != nil {
		return err
	}
	p.plans = planapi.New(planapi.Options{
		State: s.state, Machine: p.register.MachineByToken, User: s.auth.Authenticate, Until: s.until, Discovery: api.Discovery(), Now: s.Now, Logger: s.Logger,
	})
	if p.hosts, err = s.reach(ctx, p); err != nil {
		return err
	}
	s.tunnelAgents(p)
	p.clusters = downstream.New(downstream.Options{State: s.state, Hosts: p.hosts, Logger: s.Logger, Now: s.Now})
	s.peopleInClusters(p)
	s.tokensInClusters(p)
	s.agentsInClusters(p)
	if err = s.outside(ctx, p); err != nil {
		return err
	}
	p.mirror = &daytwo.Mirror{State: s.state, Client: p.clusters.Client, Way: s.outgoing.People().Lead, Logger: s.Logger, Now: s.Now}
	p.certificates = &certificates.Controller{State: s.state, Ask: p.hosts.Ask, Dial: p.hosts.Dial, Logger: s.Logger}
	asker := &daytwo.Asker{State: s.state, Fault: p.mirror.Fault, Now: s.Now}
	p.requests = &daytwo.Requests{Asker: asker, Logger: s.Logger}
	image := func() string { return s.settings.Get("system-agent-installer-image").Value }
	registry := func() string { return s.settings.Get("system-default-registry").Value }
	snapshots := &daytwo.Files{State: s.state, Ask: p.hosts.AskFor, Tunnel: p.hosts.Tunnel, Way: s.outgoing.People().Lead}
	p.rehearsals = &rehearsals.Asker{
		State: s.state, Snapshots: asker, Watching: p.hosts.Watching, InstallerImage: image, DefaultRegistry: registry, Files: snapshots,
		Server: func() (string, string) { return s.settings.ServerURL(), s.settings.CACerts() }, Now: s.Now, Logger: s.Logger,
	}
	p.nodes = s.doer(p)
	if p.rke, err = s.engine(ctx, p); err != nil {
		return err
	}
	p.events = events.New(events.Options{State: s.state, Now: s.Now, Logger: s.Logger})
	p.backups = s.keeper()
	if p.audit, err = s.trail(); err != nil {
		return err
	}
	measures := metrics.New(metrics.Options{
		Tunnels: p.hosts, State: s.state, Workers: func() []reconcile.Status { return p.workers.Status() }, Backups: p.backups.Status, Rights: p.rights.Kept, Audit: p.audit.Totals, Now: s.Now,
	})
	p.control = clusters.New(clusters.Options{
		State: s.state, Versions: p.versions.Data, RKE1Versions: p.rke.Versions,
		InstallerImage: image, DefaultRegistry: registry,
		Watching: p.hosts.Watching, Tunnel: p.hosts.Tunnel, API: p.clusters.API,
		Work: p.nodes.Work, Order: p.nodes.Want, Observe: measures.Observer(), Logger: s.Logger, Now: s.Now,
	})
	p.notice()
	p.workers = reconcile.New(reconcile.Options{Store: s.state.Store, Identity: identity(), Logger: s.Logger, Now: s.Now}, s.list(p)...)
	applier := &clusters.Applier{
		State: s.state, Preview: p.control.Preview, Versions: p.versions.Data, CheckRKE1: p.rke.Check, PreviewRKE1: p.rke.Preview,
		DefaultRegistry: registry, Now: s.Now,
	}
	proxy := s.kubeProxy(p)
	p.api, err = api.New(api.Options{
		State: s.state, Auth: s.auth, Settings: s.settings, Registration: p.register, Versions: p.versions.Data, VersionStatus: p.versions.Status,
		OnVersions: func(f func()) { p.versions.OnChange(func(_, _ *versions.Data) { f() }) },
		Clusters:   applier,
		Handover:   &handover.Desk{State: s.state, Clusters: applier, Versions: p.rke.Versions, Client: p.clusters.Client, Compare: p.rke.Compare, OnHosts: p.rke.OnHosts, Now: s.Now},
		DayTwo:     asker, Refresh: p.mirror.Refresh, Files: snapshots,
		Rehearsals: p.rehearsals, PreviewOperation: p.control.PreviewOperation,
		Upgrades: &upgrades.Upgrader{
			State: s.state, Clusters: applier, Versions: p.versions.Data, RKE1Versions: p.rke.Versions, API: p.clusters.API, Client: p.clusters.Client,
			Restorable: asker.Restorable, Now: s.Now,
		},
		Fleets:    &fleets.Fleets{State: s.state, Preview: p.control.PreviewFleet, Now: s.Now},
		KubeProxy: proxy, AskCluster: proxy.Ask, Client: p.clusters.Client, ClusterAPI: p.clusters.API, ClusterCA: p.clusters.CA, TokenArrived: p.tokenArrived,
		Agents: p.forAgents(), Metrics: measures.Handler(), Events: p.events, RKE: p.rke, RKE1Versions: p.rke.Versions, Backups: p.backups, Audit: p.audit, People: p.people, Directories: p.directories,
		AskAgent: p.hosts.Ask, Dial: p.hosts.Dial, Servers: native.Servers{State: s.state, OpenTunnels: p.hosts.OpenTunnels, Workers: p.hosts.Workers}, Presence: p.hosts.Presence(), Leader: func() string { return s.state.Store.Leader(reconcile.Leadership) }, Now: s.Now, Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	p.handler = p.api.Handler()
	return nil
}

// notice has the controller look at what changes outside of the store.
func (p *parts) notice() {
	p.hosts.OnWatch(p.control.WatchChanged)
	p.hosts.OnTunnel(p.control.TunnelChanged)
	p.hosts.OnTunnel(p.rke.TunnelChanged)
	p.clusters.OnChange(p.control.Changed)
	p.nodes.OnChange(p.control.Changed)
	p.versions.OnChange(p.control.VersionsChanged)
}

// forAgents serves what agents ask for, each with a credential of its own.
func (p *parts) forAgents() http.Handler {
	agents := http.NewServeMux()
	p.register.Routes(agents)
	p.plans.Routes(agents)
	p.agents.Routes(agents)
	p.inClusters.Routes(agents)
	p.hosts.Routes(agents)
	p.rehearsals.Routes(agents)
	return agents
}

// registrar makes where hosts join.
func (s *Server) registrar(p *parts) (*registration.Registration, error) {
	files, err := assets.Open(s.AssetsDir)
	if err != nil {
		return nil, err
	}
	return registration.New(registration.Options{
		State: s.state, Settings: s.settings, Assets: files, Now: s.Now, Logger: s.Logger,
		Watching: func(secretKey string) bool {
			_, connected := p.hosts.Watching(secretKey) // made later, before anything is served
			return connected
		},
	}), nil
}

// trail opens the audit log.
func (s *Server) trail() (*audit.Log, error) {
	return audit.Open(audit.Options{
		Dir: filepath.Join(s.DataDir, "audit"), Server: s.names.own(), Setting: func(name string) string { return s.settings.Get(name).Value }, Now: s.Now, Logger: s.Logger,
	})
}

// engine makes what looks after RKE1 clusters.
func (s *Server) engine(ctx context.Context, p *parts) (*rke.Runner, error) {
	location := ""
	if s.Environ != nil {
		location = s.Environ("RANCHER_METADATA_URL")
	}
	known, err := rke1versions.Load(ctx, location, rke1versions.Options{
		Transport: s.outgoing.Configured(location).Transport(nil), Copy: filepath.Join(s.DataDir, "rke1-versions.json"), Logger: s.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("read the version data of RKE1 clusters: %w", err)
	}
	way := s.outgoing.People()
	return rke.New(rke.Options{
		State: s.state, Dial: p.hosts.Dial, Tunnel: p.hosts.Tunnel, Versions: known, Now: s.Now, Logger: s.Logger,
		Addons: addons.Sources{Transport: way.Transport(nil)}, Buckets: inbucket.Options{Way: way.Lead},
	}), nil
}

// list is all workers, in the order in which they begin: what performs orders and writes events down is there before the first
// decision, and until the last one is through.
func (s *Server) list(p *parts) []reconcile.Worker {
	reached := &reconcile.Signal{Of: "clusters' APIs"}
	p.clusters.OnReach(func(key records.ClusterKey) {
		p.tokens.CameBack(key)
		reached.Add(string(key))
	})
	return []reconcile.Worker{
		p.nodes.Worker(),
		p.events.Worker(),
		p.rke.Worker(),
		p.mirror.Worker(),
		p.requests.Worker(),
		p.certificates.Worker(),
		p.rehearsals.Worker(),
		p.rights.Worker(append(rights.Watches(s.state), reached.Watch())...),
		p.tokens.Worker(append(authtokens.Watches(s.state), reached.Watch())...),
		p.deployed.Worker(reached.Watch()),
		p.directories.Worker(),
		p.backups.Worker(),
		p.control.Worker(),
		s.oldTokens(),
		p.register.Worker(),
		s.auth.Uses.Worker(),
		p.versions.Worker(),
	}
}

// doer makes what performs orders on nodes.
func (s *Server) doer(p *parts) *nodes.Controller {
	d := nodes.New(nodes.Options{
		Client: p.clusters.Client,
		Secret: func(machine records.MachineKey) map[string]string {
			d, _ := s.state.PlanSecrets.Get(machine.PlanSecret())
			return d.Value.Annotations
		},
		Runtime: func(cluster records.ClusterKey) string {
			d, _ := s.state.Clusters.Get(string(cluster))
			return string(versions.RuntimeOf(d.Value.Spec.KubernetesVersion))
		},
		Now: s.Now, Logger: s.Logger,
	})
	// Hooks of drains write into plan Secrets. Observed for as long as the store is open.
	s.state.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) { d.SecretChanged(records.MachineOfPlanSecret(e.Key)) })
	return d
}

// reach makes the way to the hosts, through this server and the others of its store.
func (s *Server) reach(ctx context.Context, p *parts) (*hosts.Hosts, error) {
	secret, err := s.shared(ctx, secretRelay, func() (string, error) { return random.Secret(), nil })
	if err != nil {
		return nil, err
	}
	trust, err := s.peerTrust()
	if err != nil {
		return nil, err
	}
	return hosts.New(hosts.Options{
		State: s.state, Machine: p.register.MachineByToken, Until: s.until, Watches: p.plans,
		Self:  records.Replica{ID: random.ID(8), URL: s.names.url(s.PeerURL), Version: drover.Version, Started: s.Now().UTC(), Identity: identity()},
		Alone: len(s.Store.Endpoints) == 0, Secret: secret, TLS: trust,
		Workers:  func() []reconcile.Status { return p.workers.Status() }, // made later, before anything is served
		Messages: s.Environ != nil && s.Environ("CATTLE_TUNNEL_DATA_DEBUG") == "true", Logger: s.Logger, Now: s.Now,
	}), nil
}

// identity names this server among those that campaign for leadership.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "drover"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// until calls end once the credential of a request is no longer valid, until stop is called:
// a machine's token, or that of a person.
func (s *Server) until(r *http.Request, end func()) (stop func()) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); registration.IsMachineToken(token) {
		return s.parts.register.Until(token, end)
	}
	who, err := s.auth.Authenticate(r)
	if err != nil {
		end()
		return func() {}
	}
	return s.auth.Until(who, nil, end)
}
