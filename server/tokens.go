// Tokens in clusters with an authorized endpoint, carried there by the leader: which changes of the store concern
// which clusters.

package server

import (
	"context"
	"slices"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/downstream/authtokens"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// tokensInClusters makes what keeps tokens in clusters.
func (s *Server) tokensInClusters(p *parts) {
	r := s.rules()
	p.tokens = authtokens.NewKeeper(authtokens.Options{
		Clusters: r.endpoints, Tokens: s.auth.Tokens, Uses: r.uses, Client: p.clusters.Client, Now: s.Now, Logger: s.Logger,
		User: func(id string) (records.User, bool) {
			d, ok := s.state.Users.Get(id)
			return d.Value, ok
		},
		Image: func() string {
			return installers.FromRegistry(s.settings.Get("system-default-registry").Value, s.settings.Get("agent-image").Value)
		},
	})
	p.clusters.OnChange(func(key records.ClusterKey) { p.tokens.Reached(key, p.clusters.API(key).Reachable) })
	// Observed for as long as the store is open.
	s.state.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Type == store.Deleted || e.Old == nil || e.Old.Generation != e.Value.Generation || e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() {
			p.tokens.Match()
		}
	})
	s.state.Tokens.Observe(func(e store.Event[records.Token]) {
		if e.Value.ClusterID != "" {
			p.tokens.LookByID(e.Value.ClusterID)
		}
	})
	s.state.Users.Observe(func(e store.Event[records.User]) {
		if e.Type == store.Deleted || e.Old == nil || e.Old.Disabled != e.Value.Disabled || !slices.Equal(e.Old.Groups, e.Value.Groups) {
			p.tokens.LookByID("")
		}
	})
	// Who may not use a cluster any more has no token there.
	s.state.Bindings.Observe(func(e store.Event[roles.Binding]) {
		p.tokens.LookByID(e.Value.ClusterID)
		if e.Old != nil && e.Old.ClusterID != e.Value.ClusterID {
			p.tokens.LookByID(e.Old.ClusterID)
		}
	})
	anywhere := func(store.Event[roles.Role]) { p.tokens.LookByID("") }
	s.state.RoleTemplates.Observe(anywhere)
	s.state.GlobalRoles.Observe(anywhere)
	s.state.Settings.Observe(func(e store.Event[records.Setting]) {
		if e.Key == "agent-image" || e.Key == "system-default-registry" {
			p.tokens.LookByID("")
		}
	})
}

func endpoint(c records.Cluster) authtokens.Cluster {
	return authtokens.Cluster{ID: c.ID, Endpoint: c.Spec.AuthEndpoint().Enabled}
}

// tokenArrived waits until a token is in a cluster. It asks the cluster, since another server may be the leader.
func (p *parts) tokenArrived(ctx context.Context, cluster records.ClusterKey, token string) error {
	client, err := p.clusters.Client(cluster)
	if err != nil {
		return err
	}
	return authtokens.Await(ctx, client, token)
}
