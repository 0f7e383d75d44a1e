// What is done: the workers, and what people ask for of them.

package server

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/installers/versions"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/agents"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/controllers/certificates"
	"github.com/drover-project/drover/server/controllers/clusteragents"
	"github.com/drover-project/drover/server/controllers/clusters"
	"github.com/drover-project/drover/server/controllers/directories"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/nodes"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/controllers/requests"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/controllers/rke1"
	"github.com/drover-project/drover/server/controllers/snapshots"
	"github.com/drover-project/drover/server/controllers/traces"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/metrics"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// controllers are what the server does by itself, and where people ask for more of it.
type controllers struct {
	nodes      *nodes.Controller
	rke        *rke1.Clusters
	rke1       *rke1.Controller
	asker      *etcdops.Service
	snapshots  *snapshots.Controller
	files      *etcdops.Files
	rehearsals *rehearsals.Service
	events     *events.Log
	rights     *rights.Keeper
	clusters   *clusters.Controller
	applier    *asked.Applier
	measured   *metrics.Work
	groups     *directories.Controller
	workers    *reconcile.Runtime
}

func newControllers(d *data, i *identity, w *ways) *controllers {
	c := &controllers{measured: metrics.NewWork(), nodes: newNodes(d, w), rke: newRKE(d, w), groups: &directories.Controller{Desk: i.directories}}
	c.rke1 = rke1.New(c.rke)
	c.snapshots = &snapshots.Controller{State: d.state, Client: w.clusters.Client, Way: d.outgoing.People().Lead, Logger: d.Logger, Now: d.Now}
	c.asker = &etcdops.Service{State: d.state, Fault: c.snapshots.Fault, Agents: newAgents(d, w), Now: d.Now}
	c.files = &etcdops.Files{State: d.state, Ask: w.hosts.AskFor, Tunnel: w.hosts.Tunnel, Way: d.outgoing.People().Lead}
	c.rehearsals = &rehearsals.Service{
		State: d.state, Snapshots: c.asker, Watching: w.hosts.Watching, InstallerImage: d.installerImage, DefaultRegistry: d.defaultRegistry, Files: c.files,
		Server: func() (string, string) { return d.settings.ServerURL(), d.settings.CACerts() }, Now: d.Now, Logger: d.Logger,
	}
	c.events = events.New(events.Options{State: d.state, Now: d.Now, Logger: d.Logger})
	c.clusters = clusters.New(clusters.Options{
		State: d.state, Versions: d.versions.Data, RKE1Versions: d.rke1, InstallerImage: d.installerImage, DefaultRegistry: d.defaultRegistry,
		Hosts: w.hosts, API: w.clusters.API,
		Nodes: c.nodes, Tracer: d.Tracer, Observe: c.measured, Logger: d.Logger, Now: d.Now,
	})
	c.applier = &asked.Applier{
		State: d.state, Preview: c.clusters.Preview, Versions: d.versions.Data, CheckRKE1: c.rke.Check, PreviewRKE1: c.rke.Preview,
		DefaultRegistry: d.defaultRegistry, Now: d.Now,
	}
	c.observe(d, w)
	c.workers = reconcile.New(reconcile.Options{Store: d.state.Store, Identity: campaigner(), Logger: d.Logger, Now: d.Now}, c.list(d, i, w)...)
	return c
}

// observe has controllers look at what changes outside of the store.
func (c *controllers) observe(d *data, w *ways) {
	w.hosts.OnWatch(c.clusters.WatchChanged)
	w.hosts.OnTunnel(c.clusters.TunnelChanged)
	w.hosts.OnTunnel(c.rke1.TunnelChanged)
	w.clusters.OnChange(c.clusters.Changed)
	c.nodes.OnChange(c.clusters.Changed)
	d.versions.OnChange(c.clusters.VersionsChanged)
}

// list is all workers, in the order in which they begin: what performs orders and writes events down is there before the first
// decision, and until the last one is through.
func (c *controllers) list(d *data, i *identity, w *ways) []reconcile.Worker {
	r := rules{d.state, i.auth, d.Now}
	c.rights = rights.NewKeeper(rights.Options{
		Stored: r, Find: d.state.Role, Projects: &state.Membership{State: d.state, Now: d.Now},
		Reports: func() bool { return d.settings.Get(settings.RightsByHand).Value == settings.Report },
		Client:  w.clusters.Client, Sweep: w.accounts.Sweep, Logger: d.Logger,
	})
	tokens := authtokens.NewKeeper(authtokens.Options{
		Clusters: r.Staying, Cluster: r.endpoint, Tokens: i.auth.Tokens, User: r.user, Uses: r.Uses, Client: w.clusters.Client, Now: d.Now, Logger: d.Logger,
		Image: func() string { return d.settings.Get("agent-image").Value }, Registry: d.defaultRegistry,
	})
	inside := &clusteragents.Controller{
		Agents: w.inClusters, Client: w.clusters.Client, Authority: w.clusters.CA,
		Clear: func(ctx context.Context, key records.ClusterKey, client kubernetes.Interface) error {
			id, _ := r.Cluster(key)
			return w.clear(ctx, id, key, client)
		},
	}
	reached := &reconcile.Signal{Of: "clusters' APIs"}
	w.clusters.OnReach(func(key records.ClusterKey) {
		tokens.CameBack(key)
		reached.Add(string(key))
	})
	all := []reconcile.Worker{
		c.nodes.Worker(),
		c.events.Worker(),
		c.rke1.Worker(),
		c.snapshots.Worker(),
		(&requests.Controller{Asker: c.asker, Logger: d.Logger}).Worker(),
		c.agents(d, w).Worker(),
		(&certificates.Controller{State: d.state, Ask: w.hosts.Ask, Dial: w.hosts.Dial, Logger: d.Logger}).Worker(),
		c.rehearsals.Worker(),
		c.rights.Worker(append(rights.Watches(d.state), reached.Watch())...),
		tokens.Worker(append(authtokens.Watches(d.state), reached.Watch())...),
		inside.Worker(reached.Watch()),
		c.groups.Worker(),
		d.backups.Worker(),
		c.clusters.Worker(),
		i.oldTokens(),
		i.machines.Worker(),
		i.auth.Uses.Worker(),
		keepVersions(d.versions, d.outgoing.Configured(d.VersionData).Transport(nil)),
	}
	if d.Tracer != nil {
		all = append(all, traces.Worker(d.state, d.Tracer, d.Now))
	}
	return all
}

// newAgents are the agents that hosts are updated to.
func newAgents(d *data, w *ways) *etcdops.Agents {
	presence := w.hosts.Presence()
	return &etcdops.Agents{
		Release: presence.Self.Version, Checksum: w.registration.Checksum, Server: func() (string, string) { return d.settings.ServerURL(), d.settings.CACerts() }, Of: presence.Tunnels.Release,
	}
}

// agents makes what updates agents.
func (c *controllers) agents(d *data, w *ways) *agents.Controller {
	return &agents.Controller{
		Asker: c.asker, Automatic: func() bool { return d.settings.Get(settings.AgentUpdates).Value == settings.Automatic }, Logger: d.Logger, Now: d.Now,
		Servers: func() (all []string) {
			for _, one := range w.hosts.Presence().Servers() {
				all = append(all, one.Version)
			}
			return all
		},
	}
}

// newRKE makes what knows and asks RKE1 clusters.
func newRKE(d *data, w *ways) *rke1.Clusters {
	way := d.outgoing.People()
	return rke1.NewClusters(rke1.Options{
		State: d.state, Dial: w.hosts.Dial, Tunnel: w.hosts.Tunnel, Versions: d.rke1, Transport: way.Transport(nil), Way: way.Lead, Now: d.Now, Logger: d.Logger,
	})
}

// newNodes makes what performs orders on nodes.
func newNodes(d *data, w *ways) *nodes.Controller {
	c := nodes.New(nodes.Options{
		Client: w.clusters.Client,
		Secret: func(machine records.MachineKey) map[string]string {
			secret, _ := d.state.PlanSecrets.Get(machine.PlanSecret())
			return secret.Value.Annotations
		},
		Runtime: func(key records.ClusterKey) string {
			cluster, _ := d.state.Clusters.Get(string(key))
			return string(versions.RuntimeOf(cluster.Value.Spec.KubernetesVersion))
		},
		Now: d.Now, Logger: d.Logger,
	})
	// Hooks of drains write into plan Secrets. Observed for as long as the store is open.
	d.state.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) { c.SecretChanged(records.MachineOfPlanSecret(e.Key)) })
	return c
}
