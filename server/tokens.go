// Tokens in clusters with an authorized endpoint, carried there by the leader.

package server

import (
	"context"
	"time"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/reconcile"
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

// oldTokens forgets tokens that ended a while ago; people still see them until then.
func (s *Server) oldTokens() reconcile.Worker {
	const every, keep = time.Hour, 7 * 24 * time.Hour
	return reconcile.Worker{
		Name: "old-tokens", Title: "forgets tokens that ended a week ago", Resync: every,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			return reconcile.Result{}, s.auth.Purge(ctx, keep)
		},
	}
}

// tokenArrived waits until a token is in a cluster. It asks the cluster, since another server may be the leader.
func (p *parts) tokenArrived(ctx context.Context, cluster records.ClusterKey, token string) error {
	client, err := p.clusters.Client(cluster)
	if err != nil {
		return err
	}
	return authtokens.Await(ctx, client, token)
}
