// Getting the state back that the cluster itself keeps.

package engine

import (
	"context"
	"net"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
)

// StateOf reads the state of a cluster from the cluster, with the administrator's credentials. It
// is checked against the config. The errors are those of reaching the API, of reading the Secret, and of a state that is not the config's.
func StateOf(ctx context.Context, o run.Options, c *config.Cluster, credentials kube.Credentials) (*state.State, error) {
	r := run.New(o, run.Work{Config: c, IgnoreDockerVersion: true})
	defer r.Close()
	if err := reach.Any(ctx, r); err != nil {
		return nil, err
	}
	cluster, err := kube.Open(credentials, func(ctx context.Context) (net.Conn, error) { return api.Dial(ctx, r) })
	if err != nil {
		return nil, err
	}
	text, err := cluster.ReadState(ctx)
	if err != nil {
		return nil, err
	}
	s, err := state.Decode(text)
	if err != nil {
		return nil, err
	}
	return s, s.Check(state.Against{Config: c})
}
