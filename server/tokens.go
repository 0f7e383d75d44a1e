// Tokens in clusters with an authorized endpoint, carried there by the leader.

package server

import (
	"context"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/records"
)

// tokensInClusters makes what keeps tokens in clusters.
func (s *Server) tokensInClusters(p *parts) {
	r := s.rules()
	p.tokens = authtokens.NewKeeper(authtokens.Options{
		Clusters: r.staying, Cluster: r.endpoint, Tokens: s.auth.Tokens, Uses: r.uses, Client: p.clusters.Client, Now: s.Now, Logger: s.Logger,
		User: func(id string) (records.User, bool) {
			d, ok := s.state.Users.Get(id)
			return d.Value, ok
		},
		Image: func() string {
			return installers.FromRegistry(s.settings.Get("system-default-registry").Value, s.settings.Get("agent-image").Value)
		},
	})
}

// tokenArrived waits until a token is in a cluster. It asks the cluster, since another server may be the leader.
func (p *parts) tokenArrived(ctx context.Context, cluster records.ClusterKey, token string) error {
	client, err := p.clusters.Client(cluster)
	if err != nil {
		return err
	}
	return authtokens.Await(ctx, client, token)
}
