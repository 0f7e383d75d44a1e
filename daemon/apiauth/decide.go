// The decision who a token is, as a function of what is known.

package apiauth

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/clusterauth"
)

// credential are the two parts of a token's text.
type credential struct{ name, key string }

// tokenName is what a token, its Secret and a user may be called: what Kubernetes takes as a name.
var tokenName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`) })

// errNotOurs says that a text is not a token of a management server. API servers ask about every
// text that they do not know.
var errNotOurs = errors.New("it is not of the form <name>:<key>")

// parse takes a token's text apart. Newer servers write ext/ before the name.
func parse(text string) (credential, error) {
	name, key, ok := strings.Cut(strings.TrimPrefix(text, "ext/"), ":")
	if !ok || key == "" || !tokenName().MatchString(name) {
		return credential{}, errNotOurs
	}
	return credential{name, key}, nil
}

// known is what the cluster has of a token; what it does not have is nil.
type known struct {
	token *clusterauth.Token
	user  *clusterauth.User
	// hash is that of the token's Secret.
	hash string
}

// userInfo is who a user is, in the words of a TokenReview.
type userInfo struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// who is the user of a token; the error says why there is no such user, without the key.
func (c credential) who(k known, now time.Time) (*userInfo, error) {
	switch {
	case k.token == nil:
		return nil, fmt.Errorf("token %s is unknown in this cluster: it was removed or disabled, is not limited to this cluster, or has not arrived yet", c.name)
	case !k.token.Enabled:
		return nil, fmt.Errorf("token %s is disabled", c.name)
	case k.token.Expired(now):
		return nil, fmt.Errorf("token %s ended at %.40s", c.name, k.token.ExpiresAt)
	case !tokenName().MatchString(k.token.UserName):
		return nil, fmt.Errorf("token %s is of no valid user", c.name)
	case k.user == nil:
		return nil, fmt.Errorf("user %s of token %s is unknown in this cluster", k.token.UserName, c.name)
	case !k.user.Enabled:
		return nil, fmt.Errorf("user %s of token %s is disabled", k.token.UserName, c.name)
	}
	hash := cmp.Or(k.token.Hash, k.hash)
	if hash == "" {
		return nil, fmt.Errorf("token %s has no Secret with its hash in this cluster", c.name)
	}
	if err := clusterauth.Verify(hash, c.key); err != nil {
		return nil, fmt.Errorf("token %s: %w", c.name, err)
	}
	return &userInfo{
		Username: k.token.UserName, UID: k.token.UserName, Groups: groups(k.user.Groups),
		Extra: map[string][]string{"principalid": {"local://" + k.token.UserName}, "requesttokenid": {c.name}},
	}, nil
}

// groups are those of a user, and that of all people of the management server, as they are for those who come through it.
// Groups of Kubernetes itself belong to no user of a directory.
func groups(all []string) []string {
	out := slices.DeleteFunc(slices.Clone(all), func(g string) bool { return g == "" || strings.HasPrefix(g, "system:") })
	return append(out, "system:cattle:authenticated")
}

// useEvery is how exactly it is known when a token was used last: each use that is noted is a write in the cluster's etcd.
const useEvery = time.Minute

// noteUse says whether this use of a token is to be noted.
func noteUse(t clusterauth.Token, now time.Time) bool {
	last, err := time.Parse(time.RFC3339, t.LastUsedAt)
	return err != nil || now.Sub(last) >= useEvery || last.After(now.Add(useEvery))
}

// overdue says whether it is to be noted that a user is active whose groups are older than debounce.
func overdue(u clusterauth.User, debounce time.Duration, now time.Time) bool {
	last, err := time.Parse(time.RFC3339, u.LastRefresh)
	return err == nil && !u.NeedsRefresh && now.Sub(last) > debounce
}
