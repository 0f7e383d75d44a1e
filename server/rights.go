// What people may do in clusters, carried into the clusters by the leader: which changes of the store concern
// which clusters.

package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories/desk"
	"github.com/drover-project/drover/server/downstream/accounts"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/downstream/rights"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

// peopleInClusters makes the accounts that people have in clusters, and what keeps their rights there.
func (s *Server) peopleInClusters(p *parts) {
	p.accounts = &accounts.Accounts{Client: p.clusters.Client, Now: s.Now}
	p.rights = rights.NewKeeper(rights.Options{
		Clusters: s.ruledClusters, Bindings: s.bindingsIn, Find: s.state.Role, Projects: s.projectsIn,
		Reports: func() bool { return s.settings.Get(settings.RightsByHand).Value == settings.Report }, Differs: s.differs, User: s.enabledUser, Uses: s.uses,
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
	s.state.Projects.Observe(func(e store.Event[records.Project]) { p.rights.LookByID(e.Value.ClusterID) })
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
	p.directories, err = desk.New(desk.Options{State: s.state, Auth: s.auth, People: p.people, Settings: s.settings, Secret: secret, Now: s.Now, Logger: s.Logger})
	return err
}

// kubeProxy makes the way of people to the clusters' own APIs.
func (s *Server) kubeProxy(p *parts) *kubeproxy.Proxy {
	return &kubeproxy.Proxy{State: s.state, Until: s.auth.Until, Way: p.clusters.Way, Token: p.accounts.Token, Refused: p.accounts.Refused, Logger: s.Logger}
}

// ruledClusters are the clusters that stay, with their management IDs.
func (s *Server) ruledClusters() map[records.ClusterKey]string {
	all := map[records.ClusterKey]string{}
	for _, d := range s.state.Clusters.List() {
		if d.Value.Deleting.IsZero() {
			all[records.ClusterKey(d.Key)] = d.Value.ID
		}
	}
	return all
}

// bindingsIn are those of a cluster and its projects, and those of the server.
func (s *Server) bindingsIn(clusterID string) []roles.Binding {
	var all []roles.Binding
	for _, id := range []string{clusterID, ""} {
		for _, d := range s.state.BindingsByCluster.Find(id) {
			all = append(all, d.Value)
		}
	}
	return all
}

// projectsIn are the IDs of the projects of a cluster.
func (s *Server) projectsIn(clusterID string) []string {
	var ids []string
	cl, _ := s.state.ClustersByID.First(clusterID)
	for _, p := range s.state.ProjectsOf(cl.Value) {
		ids = append(ids, p.ID)
	}
	return ids
}

// maxDiffers is how many changes by hand are named.
const maxDiffers = 10

// differs keeps what somebody has changed by hand in a cluster, for its condition and its events.
func (s *Server) differs(ctx context.Context, key records.ClusterKey, what []string) error {
	named := what[:min(len(what), maxDiffers)]
	d, ok := s.state.Clusters.Get(string(key))
	if is := d.Value.Differs; !ok || is == nil && len(what) == 0 || is != nil && is.Count == len(what) && slices.Equal(is.What, named) {
		return nil
	}
	_, err := s.state.Clusters.Modify(ctx, string(key), func(cl records.Cluster) (records.Cluster, error) {
		cl.Differs = nil
		if len(what) > 0 {
			cl.Differs = &records.Differs{Since: s.Now().UTC(), What: named, Count: len(what)}
		}
		return cl, nil
	})
	if err != nil {
		return fmt.Errorf("keep what was changed by hand in %s: %w", key.Home(), err)
	}
	return nil
}

// enabledUser is the ID of the user whom a principal stands for; false for one who is gone or disabled.
func (s *Server) enabledUser(principal string) (id string, ok bool) {
	if id, local := roles.LocalUserID(principal); local {
		d, ok := s.state.Users.Get(id)
		return id, ok && !d.Value.Disabled
	}
	d, ok := s.state.UsersByPrincipal.First(principal)
	return d.Key, ok && !d.Value.Disabled
}

// uses says whether a user may use a cluster.
func (s *Server) uses(userID, clusterID string) bool {
	d, ok := s.state.Users.Get(userID)
	return ok && !d.Value.Disabled && auth.May(s.auth.IdentityOf(d.Value, records.Token{}), auth.Proxy, auth.OfCluster(clusterID))
}
