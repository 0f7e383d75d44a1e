// What people may do in clusters, carried into the clusters by the leader.

package server

import (
	"context"

	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/directories/desk"
	"github.com/drover-project/drover/server/downstream/accounts"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/projects/membership"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/settings"
)

// peopleInClusters makes the accounts that people have in clusters, and what keeps their rights there.
func (s *Server) peopleInClusters(p *parts) {
	p.accounts = &accounts.Accounts{Client: p.clusters.Client, Now: s.Now}
	r := s.rules()
	p.rights = rights.NewKeeper(rights.Options{
		Clusters: r.staying, Cluster: r.cluster, Bindings: r.bindingsIn, Find: s.state.Role, Projects: &membership.Membership{State: s.state, Now: s.Now}, Secrets: r.secretsIn,
		Reports: func() bool { return s.settings.Get(settings.RightsByHand).Value == settings.Report }, Differs: r.differs, User: r.enabledUser, Uses: r.uses,
		Client: p.clusters.Client, Sweep: p.accounts.Sweep, Logger: s.Logger,
	})
}

// outside makes what lets people of outside directories in.
func (s *Server) outside(ctx context.Context, p *parts) error {
	secret, err := s.shared(ctx, secretLogins, func() (string, error) { return random.Secret(), nil })
	if err != nil {
		return err
	}
	p.people = &people.People{State: s.state, Auth: s.auth, Now: s.Now, Log: s.Logger}
	p.directories, err = desk.New(desk.Options{State: s.state, Auth: s.auth, People: p.people, Settings: s.settings, Secret: secret, Outgoing: &s.outgoing, Now: s.Now, Logger: s.Logger})
	return err
}

// kubeProxy makes the way of people to the clusters' own APIs.
func (s *Server) kubeProxy(p *parts) *kubeproxy.Proxy {
	return &kubeproxy.Proxy{State: s.state, Until: s.auth.Until, Way: p.clusters.Way, Token: p.accounts.Token, Refused: p.accounts.Refused,
		Membership: &membership.Membership{State: s.state, Now: s.Now}, Logger: s.Logger}
}
