// Package clusterauth is what the authorized cluster endpoint keeps inside a cluster, so that its
// API can tell who a token is while the server is away: for each token a ClusterAuthToken and a Secret
// with its hash, and for each user a ClusterUserAttribute. The server writes them, and kube-api-auth on
// control-plane hosts reads them; either may be Rancher's instead.
//
// Wire source: rancher/kube-api-auth pkg/service/handlers, pkg/clusterauth; rancher/rancher
// pkg/apis/cluster.cattle.io/v3.
package clusterauth

import "time"

const (
	// Namespace is where all of it is.
	Namespace = "cattle-system"
	// Group and Version of the objects, and their resources below it.
	Group   = "cluster.cattle.io"
	Version = "v3"
	Tokens  = "clusterauthtokens"
	Users   = "clusteruserattributes"
	// TokenKind and UserKind are the kinds.
	TokenKind = "ClusterAuthToken"
	UserKind  = "ClusterUserAttribute"
	// HashKey is the key of the hash in the data of the Secret, which has the token's name.
	HashKey = "hash"
	// Debounce is the ConfigMap that says, under DebounceKey and in seconds, how old a user's groups may
	// grow before it is noted that they are in use.
	Debounce    = "auth-provider-refresh-debounce-seconds"
	DebounceKey = "value"
)

// Path is where a kind of object of the namespace is in the API; name is "" for all of them.
func Path(resource, name string) string {
	path := "/apis/" + Group + "/" + Version + "/namespaces/" + Namespace + "/" + resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// Token is a ClusterAuthToken; its name is that of the token.
type Token struct {
	UserName string `json:"userName"`
	// ExpiresAt is in the form of RFC 3339; empty is never.
	ExpiresAt string `json:"expiresAt"`
	Enabled   bool   `json:"enabled"`
	// Hash is where the hash was before there were Secrets for it; it counts when it is not empty.
	Hash string `json:"hash,omitempty"`
	// LastUsedAt is written by kube-api-auth, in the form of RFC 3339.
	LastUsedAt string `json:"lastUsedAt,omitempty"`
}

// Expired says whether the token has ended; one whose end cannot be read has.
func (t Token) Expired(now time.Time) bool {
	if t.ExpiresAt == "" {
		return false
	}
	end, err := time.Parse(time.RFC3339, t.ExpiresAt)
	return err != nil || !now.Before(end)
}

// User is a ClusterUserAttribute; its name is the user's ID.
type User struct {
	Groups  []string `json:"groups"`
	Enabled bool     `json:"enabled"`
	// LastRefresh is when the groups were last known to be right, in the form of RFC 3339.
	LastRefresh string `json:"lastRefresh"`
	// NeedsRefresh is set by kube-api-auth for a user who is active and whose groups are old.
	NeedsRefresh bool `json:"needsRefresh"`
}
