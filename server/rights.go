// What people may do in clusters, carried into the clusters by the leader: which changes of the store concern
// which clusters.

package server

import (
	"context"
	"slices"

	"github.com/drover-project/drover/server/directories/desk"
	"github.com/drover-project/drover/server/downstream/accounts"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/downstream/rights"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/projects/membership"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

// peopleInClusters makes the accounts that people have in clusters, and what keeps their rights there.
func (s *Server) peopleInClusters(p *parts) {
	p.accounts = &accounts.Accounts{Client: p.clusters.Client, Now: s.Now}
	r := s.rules()
	p.rights = rights.NewKeeper(rights.Options{
		Clusters: r.clusters, Bindings: r.bindingsIn, Find: s.state.Role, Projects: &membership.Membership{State: s.state, Now: s.Now}, Secrets: r.secretsIn,
		Reports: func() bool { return s.settings.Get(settings.RightsByHand).Value == settings.Report }, Differs: r.differs, User: r.enabledUser, Uses: r.uses,
		Client: p.clusters.Client, Sweep: p.accounts.Sweep, Logger: s.Logger,
	})
	p.clusters.OnChange(func(key records.ClusterKey) { p.rights.Reached(key, p.clusters.API(key).Reachable) })
	// Observed for as long as the store is open.
	s.state.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Type == store.Deleted || e.Old == nil || e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() {
			p.rights.Match()
		}
	})
	s.state.Bindings.Observe(func(e store.Event[roles.Binding]) {
		p.rights.LookByID(e.Value.ClusterID)
		if e.Old != nil && e.Old.ClusterID != e.Value.ClusterID {
			p.rights.LookByID(e.Old.ClusterID)
		}
	})
	s.state.Namespaces.Observe(func(e store.Event[records.NamespacePage]) { p.rights.LookByID(records.ClusterOfPage(e.Key)) })
	s.state.Projects.Observe(func(e store.Event[records.Project]) { p.rights.LookByID(e.Value.ClusterID) })
	s.state.ProjectSecrets.Observe(func(e store.Event[records.ProjectSecret]) { p.rights.LookByID(roles.ClusterOf(e.Value.ProjectID)) })
	s.state.Settings.Observe(func(e store.Event[records.Setting]) {
		if e.Key == settings.RightsByHand {
			p.rights.LookByID("")
		}
	})
	anywhere := func(store.Event[roles.Role]) { p.rights.LookByID("") }
	s.state.RoleTemplates.Observe(anywhere)
	s.state.GlobalRoles.Observe(anywhere)
	s.state.Users.Observe(func(e store.Event[records.User]) {
		if e.Type == store.Deleted || e.Old == nil || e.Old.Disabled != e.Value.Disabled || !slices.Equal(e.Old.Principals(), e.Value.Principals()) {
			p.rights.LookByID("")
		}
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
