// Reading the state of a cluster from its hosts.

package rke

import (
	"context"
	"errors"

	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
)

// OnHosts reads the state of a running cluster from those of its hosts whose node agents have joined. Nothing is changed there.
func (r *Runner) OnHosts(ctx context.Context, cluster records.Cluster) (*adopt.Found, error) {
	s := r.snapshot(cluster)
	if len(s.Machines) == 0 {
		return nil, errors.New("none of its hosts has a node agent that has joined")
	}
	var nodes []config.Node
	for _, m := range s.Machines {
		nodes = append(nodes, config.Node{Address: want.Address(m)})
	}
	return adopt.Read(ctx, adopt.Options{Dial: r.dialer(s.Machines), Now: r.Now, Logger: r.Logger}, nodes)
}
