// Getting the state back that the cluster itself keeps.

package engine

import (
	"context"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
)

// StateOf reads the state of a cluster from the cluster, with the administrator's credentials. It
// is checked against the config.
func StateOf(ctx context.Context, o Options, c *config.Cluster, credentials kube.Credentials) (*state.State, error) {
	r := newRun(o, Work{Config: c, IgnoreDockerVersion: true})
	defer r.close()
	if err := r.reachAny(ctx); err != nil {
		return nil, err
	}
	api, err := kube.Open(credentials, r.dialAPI)
	if err != nil {
		return nil, err
	}
	text, err := api.ReadState(ctx)
	if err != nil {
		return nil, err
	}
	s, err := state.Decode(text)
	if err != nil {
		return nil, err
	}
	return s, s.Check(state.Against{Config: c})
}
