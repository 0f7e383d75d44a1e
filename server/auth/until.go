// What a token opened ends with the token, and with the right to it.

package auth

import (
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// Until calls end once the credential behind an identity that Authenticate returned is no
// longer valid: its token was deleted, disabled or has expired, its user was deleted or
// disabled, or the server is cut off from its store; or once the user may no longer do what
// still asks about. A nil still asks Lost. Neither may block. end is not called any more after stop.
func (a *Auth) Until(who Identity, still func(now Identity) bool, end func()) (stop func()) {
	if still == nil {
		still = func(now Identity) bool { return !Lost(who, now) }
	}
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
			!Expired(now.Value, a.now()) && !user.Value.Disabled && still(a.IdentityOf(user.Value, now.Value))
	}, end)
}

// follow checks what is open whenever a token, a user or what users may do changes, for as long as
// the store is open. Of a binding only its user's streams are looked at: bindings come and go with
// clusters.
func (a *Auth) follow() {
	checkUser := func(id string) {
		for _, d := range a.state.TokensByUser.Find(id) {
			a.streams.Check(d.Key)
		}
	}
	a.state.Tokens.Observe(func(e store.Event[records.Token]) {
		if e.Old != nil {
			a.streams.Check(e.Key)
		}
	})
	a.state.Store.OnStale(a.streams.CheckAll)
	a.state.Users.Observe(func(e store.Event[records.User]) {
		if e.Old != nil {
			checkUser(e.Key)
		}
	})
	a.state.Bindings.Observe(func(e store.Event[roles.Binding]) {
		if e.Type != store.Deleted && e.Old == nil {
			return // more than before
		}
		if id, ok := roles.LocalUserID(e.Value.Principal()); ok {
			checkUser(id)
		} else {
			a.streams.CheckAll()
		}
	})
	for _, kind := range []roles.Kind{roles.GlobalRole, roles.RoleTemplate} {
		a.state.RolesOf(kind).Observe(func(e store.Event[roles.Role]) {
			if e.Old != nil {
				a.streams.CheckAll()
			}
		})
	}
}
