// What is kept of people and their clusters, as those ask for it who carry it into the clusters.

package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

// rules reads what is kept.
type rules struct {
	state *state.State
	auth  *auth.Auth
	now   func() time.Time
}

// Staying are the clusters that stay.
func (r rules) Staying() (all []records.ClusterKey) {
	for _, d := range r.state.Clusters.List() {
		if d.Value.Deleting.IsZero() {
			all = append(all, records.ClusterKey(d.Key))
		}
	}
	return all
}

// Cluster is the management ID of a cluster that stays.
func (r rules) Cluster(key records.ClusterKey) (id string, ok bool) {
	d, ok := r.state.Clusters.Get(string(key))
	return d.Value.ID, ok && d.Value.Deleting.IsZero()
}

// endpoint is a cluster that stays, with whether it has an authorized endpoint.
func (r rules) endpoint(key records.ClusterKey) (authtokens.Cluster, bool) {
	d, ok := r.state.Clusters.Get(string(key))
	return authtokens.Cluster{ID: d.Value.ID, Endpoint: d.Value.Spec.AuthEndpoint().Enabled}, ok && d.Value.Deleting.IsZero()
}

// Bindings are those of a cluster and its projects, and those of the server.
func (r rules) Bindings(clusterID string) []roles.Binding {
	var all []roles.Binding
	for _, id := range []string{clusterID, ""} {
		for _, d := range r.state.BindingsByCluster.Find(id) {
			all = append(all, d.Value)
		}
	}
	return all
}

// Secrets are the secrets of the projects of a cluster.
func (r rules) Secrets(clusterID string) []records.ProjectSecret {
	var all []records.ProjectSecret
	for _, d := range r.state.ProjectSecrets.ListIn(clusterID + "/") {
		all = append(all, d.Value)
	}
	return all
}

// maxDiffers is how many changes by hand are named.
const maxDiffers = 10

// Differs keeps what was changed by hand in a cluster, for its condition and its events.
func (r rules) Differs(ctx context.Context, key records.ClusterKey, what []string) error {
	named := what[:min(len(what), maxDiffers)]
	d, ok := r.state.Clusters.Get(string(key))
	if is := d.Value.Differs; !ok || is == nil && len(what) == 0 || is != nil && is.Count == len(what) && slices.Equal(is.What, named) {
		return nil
	}
	_, err := r.state.Clusters.Modify(ctx, string(key), func(cl records.Cluster) (records.Cluster, error) {
		cl.Differs = nil
		if len(what) > 0 {
			cl.Differs = &records.Differs{Since: r.now().UTC(), What: named, Count: len(what)}
		}
		return cl, nil
	})
	if err != nil {
		return fmt.Errorf("keep what was changed by hand in %s: %w", key.Home(), err)
	}
	return nil
}

// EnabledUser is the ID of the user whom a principal stands for; false for one who is gone or disabled.
func (r rules) EnabledUser(principal string) (id string, ok bool) {
	if id, local := roles.LocalUserID(principal); local {
		d, ok := r.state.Users.Get(id)
		return id, ok && !d.Value.Disabled
	}
	d, ok := r.state.UsersByPrincipal.First(principal)
	return d.Key, ok && !d.Value.Disabled
}

func (r rules) user(id string) (records.User, bool) {
	d, ok := r.state.Users.Get(id)
	return d.Value, ok
}

// Uses says whether a user may use a cluster.
func (r rules) Uses(userID, clusterID string) bool {
	d, ok := r.state.Users.Get(userID)
	return ok && !d.Value.Disabled && auth.May(r.auth.IdentityOf(d.Value, records.Token{}), auth.Proxy, auth.OfCluster(clusterID))
}
