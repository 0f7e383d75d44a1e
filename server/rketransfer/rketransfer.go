// Package rketransfer gives RKE1 clusters of the server away, to the rke command line, and takes in those that it made. A cluster
// that was given away, or was only brought here, has a mark, and the server does not touch it before a user has seen what
// would change and has it taken up.
//
// Wire source of the files: contract of the engine, section 8.
package rketransfer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"

	serverstate "github.com/drover-project/drover/server/state"
)

// Desk is where clusters are given away and taken in. All fields are required.
type Desk struct {
	State    *serverstate.State
	Clusters *clusters.Applier
	Versions *versions.Data
	// Client is that of a cluster's own API.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Compare asks the hosts of a cluster what a run of the engine would change, in lines, and says whether it is known to be nothing.
	Compare func(context.Context, records.Cluster) (lines []string, same bool, err error)
	// OnHosts reads the state of a cluster from its hosts, through the tunnels of their node agents.
	OnHosts func(context.Context, records.Cluster) (*adopt.Found, error)
	Now     func() time.Time
}

// RefusedError is that a cluster is not in a state for what was asked.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// ChangesError is that taking a cluster up would change something on its hosts, and no user has said that it may.
type ChangesError struct {
	Cluster string
	// Lines are what would change, the last one a summary.
	Lines []string
}

func (e *ChangesError) Error() string {
	last := ""
	if len(e.Lines) > 0 {
		last = ": " + e.Lines[len(e.Lines)-1]
	}
	return fmt.Sprintf("cluster %s is not taken up, as its hosts are not known to be as the server would have them%s; see the whole list with --dry-run, and say --yes to have it done", e.Cluster, last)
}

// find is an RKE1 cluster with its state, which is nil when nothing was deployed.
func (d *Desk) find(key records.ClusterKey) (store.Document[records.Cluster], store.Document[records.RKEState], *state.State, error) {
	cluster, ok := d.State.Clusters.Get(string(key))
	record, _ := d.State.RKEStates.Get(string(key))
	switch {
	case !ok:
		return cluster, record, nil, &store.NotFoundError{Collection: "clusters", Key: string(key)}
	case !cluster.Value.Spec.RKE1():
		return cluster, record, nil, refuse("cluster %s is not one of RKE1, and the rke command line cannot take it over", key.Name())
	case !cluster.Value.Deleting.IsZero():
		return cluster, record, nil, refuse("cluster %s is being removed", key.Name())
	}
	s, err := rke.State(&record.Value)
	return cluster, record, s, err
}

func (d *Desk) known() config.Versions { return desired.Known(d.Versions) }

// input is what the config of a cluster is made of.
func (d *Desk) input(cluster records.Cluster, before *state.State) desired.Input {
	in := desired.Input{Cluster: cluster, Before: before, Versions: d.Versions}
	for _, m := range d.State.MachinesByCluster.Find(records.NewClusterKey(cluster.Namespace, cluster.Name)) {
		in.Machines = append(in.Machines, m.Value)
	}
	return in
}

// some is a list for a sentence, the first ten.
func some(all []string) string {
	if len(all) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:10], ", "), len(all)-10)
	}
	return strings.Join(all, ", ")
}
