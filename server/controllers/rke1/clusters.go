// The RKE1 clusters of the server: what is known of each, the way to its hosts through the tunnels of their node agents, what people ask
// of it, and how each kind of that is carried out with the engine of rke1/engine.

package rke1

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/tunnel"
)

// Options are what Clusters stand on. All but the ways and Pause are required.
type Options struct {
	State *state.State
	// Dial opens a connection on a host through its tunnel.
	Dial func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	// Tunnel is what is known of a host's tunnel.
	Tunnel   func(records.Subject) observed.Tunnel
	Versions *versions.Data
	// Transport leads to add-ons that the configs of clusters name, and Way has another one lead to their buckets; nil goes directly.
	Transport http.RoundTripper
	Way       func(*http.Transport)
	Now       func() time.Time
	Logger    *slog.Logger
	// Pause is between two tries of one thing in a run; 0 is the engine's own.
	Pause time.Duration
}

// Clusters are all RKE1 clusters.
type Clusters struct{ Options }

// NewClusters makes Clusters.
func NewClusters(o Options) *Clusters { return &Clusters{o} }

// Snapshot is what is known of a cluster that is as given.
func (c *Clusters) Snapshot(cluster records.Cluster) desired.Snapshot {
	key := records.NewClusterKey(cluster.Namespace, cluster.Name)
	s := desired.Snapshot{
		Now: c.Now().UTC(), Cluster: cluster, Connected: func(m records.Machine) bool { return c.Tunnel(m.Subject()).Connected },
		Operations: c.State.OperationsOf(key), Versions: c.Versions,
	}
	for _, d := range c.State.MachinesByCluster.Find(key) {
		s.Machines = append(s.Machines, d.Value)
	}
	if d, ok := c.State.RKEStates.Get(string(key)); ok {
		s.Record = &d.Value
	}
	return s
}

// Engine is what the engine needs for machines of a cluster.
func (c *Clusters) Engine(machines []records.Machine, report engine.Report) engine.Options {
	return engine.Options{
		Dial: c.dialer(machines), Versions: c.Versions, Report: report, Logger: c.Logger, Now: c.Now, Pause: c.Pause,
		Source: func() pki.Source { return pki.NewSource(c.Now()) }, Addons: addons.Sources{Transport: c.Transport}, Buckets: engine.Buckets{Way: c.Way},
	}
}

// Check says what is wrong with the config of a cluster apart from its hosts, and what is accepted and likely a mistake. The error
// is a strictyaml.Errors.
func (c *Clusters) Check(cluster records.Cluster) (warnings []string, err error) {
	in := desired.Input{Cluster: cluster, Versions: c.Versions}
	if d, ok := c.State.RKEStates.Get(cluster.Key()); ok {
		if in.Before, err = rke.State(&d.Value); err != nil {
			return nil, err
		}
	}
	return desired.Check(in)
}

// Preview is what a run would do, in lines. It asks the hosts and does nothing. The errors are those of Compare.
func (c *Clusters) Preview(ctx context.Context, cluster records.Cluster) ([]string, error) {
	lines, _, err := c.Compare(ctx, cluster)
	return lines, err
}

// Compare is Preview, and says beside that whether it is known that a run would change nothing on any host. The errors are those of the stored state,
// of a config that cannot be brought up, and of the hosts.
func (c *Clusters) Compare(ctx context.Context, cluster records.Cluster) (lines []string, same bool, err error) {
	s := c.Snapshot(cluster)
	before, err := rke.State(s.Record)
	if err != nil {
		return nil, false, err
	}
	if needs := desired.Needs(cluster.Name, s.Machines, s.Connected); len(needs) > 0 {
		return []string{"nothing is done before this: " + desired.Sentence(needs)}, false, nil
	}
	cfg, _, err := desired.Config(desired.Input{Cluster: cluster, Machines: s.Machines, Before: before, Versions: s.Versions})
	if err != nil {
		return nil, false, err
	}
	changes, err := engine.Preview(ctx, c.Engine(s.Machines, Silent{}), workOf(cfg, before))
	if err != nil {
		return nil, false, fmt.Errorf("look at the hosts of cluster %s: %w", cluster.Name, err)
	}
	return append(changes.Lines(), changes.Summary()), changes.Empty() && len(changes.Unknown) == 0, nil
}

// OnHosts reads the state of a running cluster from those of its hosts whose node agents have joined. Nothing is changed there. Errors are adopt.Read's.
func (c *Clusters) OnHosts(ctx context.Context, cluster records.Cluster) (*adopt.Found, error) {
	s := c.Snapshot(cluster)
	if len(s.Machines) == 0 {
		return nil, errors.New("none of its hosts has a node agent that has joined")
	}
	var nodes []config.Node
	for _, m := range s.Machines {
		nodes = append(nodes, config.Node{Address: desired.Address(m)})
	}
	return adopt.Read(ctx, adopt.Options{Dial: c.dialer(s.Machines), Now: c.Now, Logger: c.Logger}, nodes)
}

// workOf is what the engine brings about. Its state names where a command line would have the administrator's kubeconfig.
func workOf(c *config.Cluster, before *rkestate.State) engine.Work {
	return engine.Work{Config: c, Before: before, Kubeconfig: "kube_config_cluster.yml"}
}

// Silent is the report of what does nothing.
type Silent struct{}

// Phase, Line and Warn implement engine.Report.
func (Silent) Phase(string, string) {}

// Line says nothing.
func (Silent) Line(string) {}

// Warn says nothing.
func (Silent) Warn(string, ...advice.Step) {}
