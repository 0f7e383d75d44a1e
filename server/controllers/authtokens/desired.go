// Package authtokens carries tokens into the clusters that have an authorized endpoint, so that their
// API takes them while the server is away: those that are limited to the cluster, as hashes, and who
// their users are. It also puts there what answers the cluster's API (kube-api-auth). Desired says what
// should be there, as a function of a snapshot; Sync makes it so; Keeper does that for all clusters,
// again and again. What people may do with such a token is RBAC, which package rights keeps.
//
// Wire source: rancher/rancher v2.8.5 pkg/controllers/managementuser/clusterauthtoken; package clusterauth.
package authtokens

import (
	"slices"
	"time"

	"github.com/drover-project/drover/plans/clusterauth"
	"github.com/drover-project/drover/server/records"
)

// Snapshot is all that the tokens in one cluster depend on.
type Snapshot struct {
	// ClusterID is the management ID of the cluster.
	ClusterID string
	Tokens    []records.Token
	// User is a user of the server.
	User func(id string) (records.User, bool)
	// Uses says whether a user may use the cluster.
	Uses func(userID string) bool
	Now  time.Time
}

// Objects are what should be in a cluster, by name. Change none of them.
type Objects struct {
	Tokens map[string]clusterauth.Token
	// Hashes are those of the tokens.
	Hashes map[string]string
	// Users have no times: the writer sets those.
	Users map[string]clusterauth.User
}

// Desired is what should be in the cluster.
func Desired(s Snapshot) Objects {
	o := Objects{Tokens: map[string]clusterauth.Token{}, Hashes: map[string]string{}, Users: map[string]clusterauth.User{}}
	for _, t := range s.Tokens {
		user, ok := s.User(t.UserID)
		if t.ClusterID == "" || t.ClusterID != s.ClusterID || t.Disabled || !ok || user.Disabled || ended(t, s.Now) || !s.Uses(t.UserID) {
			continue
		}
		hash := t.ClusterHash
		if hash == "" { // from before there was one
			var err error
			if hash, err = clusterauth.OfSum(t.KeyHash); err != nil {
				continue
			}
		}
		o.Tokens[t.Name], o.Hashes[t.Name] = clusterauth.Token{UserName: t.UserID, ExpiresAt: end(t), Enabled: true}, hash
		groups := slices.Clone(user.Groups)
		slices.Sort(groups)
		o.Users[t.UserID] = clusterauth.User{Groups: slices.Compact(groups), Enabled: true}
	}
	return o
}

func ended(t records.Token, now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

func end(t records.Token) string {
	if t.Expires.IsZero() {
		return ""
	}
	return t.Expires.UTC().Format(time.RFC3339)
}
