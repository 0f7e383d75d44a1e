// What a token opened ends with the token.

package auth

import (
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Until calls end once the credential behind an identity that Authenticate returned is no
// longer valid: its token was deleted, disabled or has expired, or its user was deleted or
// disabled or lost a role, or the server is cut off from its store. end must not block. It is not called any more after stop.
func (a *Auth) Until(who Identity, end func()) (stop func()) {
	token, _ := a.state.Tokens.Get(who.TokenName)
	var life time.Duration
	if !who.Expires.IsZero() {
		// Never zero, which would be for ever.
		life = max(who.Expires.Sub(a.now()), time.Nanosecond)
	}
	return a.streams.Add(who.TokenName, life, func() bool {
		now, ok := a.state.Tokens.Get(who.TokenName)
		user, exists := a.state.Users.Get(who.UserID)
		_, stale := a.state.Store.Stale()
		return !stale && ok && exists && now.Value.KeyHash == token.Value.KeyHash && !now.Value.Disabled && now.Value.ClusterID == who.ClusterID &&
			!Expired(now.Value, a.now()) && !user.Value.Disabled && user.Value.Admin == who.Admin
	}, end)
}

// follow checks what is open whenever a token or a user changes, for as long as the store is open.
func (a *Auth) follow() {
	a.state.Tokens.Observe(func(e store.Event[records.Token]) {
		if e.Old != nil {
			a.streams.Check(e.Key)
		}
	})
	a.state.Store.OnStale(a.streams.CheckAll)
	a.state.Users.Observe(func(e store.Event[records.User]) {
		if e.Old != nil && (e.Type == store.Deleted || e.Value.Disabled != e.Old.Disabled || e.Value.Admin != e.Old.Admin) {
			a.streams.CheckAll()
		}
	})
}
