// Package people changes users, roles and bindings in the store, and holds the rules that no right to
// do so goes beyond: no one gives or takes more than they have, the last administrator stays one,
// and no one locks themselves out.
package people

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// People changes users, roles and bindings.
type People struct {
	State *state.State
	Auth  *auth.Auth
	Now   func() time.Time
	Log   *slog.Logger

	terms Terms
}

// Terms are those under which a change is made.
type Terms struct {
	// DryRun decides and checks, and writes nothing.
	DryRun bool
	// Seen is the revision at which the caller has seen what is to be changed: when there is another one by now, the
	// change is refused with a *store.ConflictError. Of a built-in role that was never changed it is 1; 0 is any.
	Seen int64
}

// Under makes changes under terms.
func (p *People) Under(t Terms) *People {
	under := *p
	under.terms = t
	return &under
}

// fresh refuses a change of what the caller has seen otherwise.
func (p *People) fresh(collection, key string, revision int64) error {
	if revision = max(1, revision); p.terms.Seen == 0 || p.terms.Seen == revision {
		return nil
	}
	return &store.ConflictError{Collection: collection, Key: key, Wanted: p.terms.Seen, Current: revision}
}

// Why says what kind of refusal a RefusedError is.
type Why int

// Refusals.
const (
	// Escalation is more than the caller has.
	Escalation Why = iota + 1
	// LastAdmin would leave no administrator who can log in.
	LastAdmin
	// Oneself is what no one does to their own user.
	Oneself
	// Taken is a name that another user has.
	Taken
	// Unknown is a reference to what is not there.
	Unknown
	// Unfit is a role that does not fit where it is bound, or is locked.
	Unfit
	// Locked is a role that no new binding may give.
	Locked
	// InUse is a role that cannot go yet, and Fixed one that cannot be changed.
	InUse
	Fixed
	// TooMany is one more than there may be.
	TooMany
	// NotAdmitted is a user of a directory whose access does not let them in.
	NotAdmitted
)

// RefusedError says why something was not done. Field is named as /v3 names it, and may be empty.
type RefusedError struct {
	Why    Why
	Field  string
	Reason string
}

func (e *RefusedError) Error() string { return e.Reason }

func refuse(why Why, field, format string, args ...any) error {
	return &RefusedError{Why: why, Field: field, Reason: fmt.Sprintf(format, args...)}
}

// covers refuses rules that go beyond what the caller has at a place.
func covers(by auth.Identity, rules []roles.Rule, at roles.Place, what string) error {
	if missing, ok := by.Grants.Give(rules, at); !ok {
		return refuse(Escalation, "", "%s allows more than user %s has: %s", what, by.Username, describe(missing))
	}
	return nil
}

// describe is a rule in a few words.
func describe(r roles.Rule) string {
	if len(r.NonResourceURLs) > 0 {
		return fmt.Sprintf("%.80v on paths %.80v", r.Verbs, r.NonResourceURLs)
	}
	return fmt.Sprintf("%.80v on %.80v of groups %.80q", r.Verbs, r.Resources, r.APIGroups)
}

// above refuses to change a user who has what the caller has not: setting their password gives
// it, too.
func (p *People) above(by auth.Identity, u records.User) error {
	if !by.Grants.Contain(p.State.GrantsOf(u)) {
		return refuse(Escalation, "", "user %s may do what user %s may not, who therefore does not change them", u.Username, by.Username)
	}
	return nil
}

// witness finds an administrator who stays when a user or a binding goes, and has the transaction fail
// when they go at the same moment. A user who is one by a group, or by a role of another name, may
// be away or lose it elsewhere: they do not count.
func (p *People) witness(user, binding string) ([]store.Op, error) {
	for _, b := range p.State.BindingsByRole.Find(state.RoleKey{Kind: roles.GlobalRole, ID: roles.Admin}) {
		id, local := roles.LocalUserID(b.Value.User)
		u, ok := p.State.Users.Get(id)
		nowhere := u.Value.PasswordHash == "" // they log in by a directory, which can be away or remove them, or not at all yet
		if !local || !ok || u.Value.Disabled || nowhere || id == user || b.Key == binding {
			continue
		}
		return []store.Op{p.State.Users.Updating(u), p.State.Bindings.Updating(*b)}, nil
	}
	return nil, refuse(LastAdmin, "", "no one would be left who administrates this server: give the role admin to another user first")
}

// isAdmin says whether a user is bound to the role admin themselves.
func (p *People) isAdmin(u records.User) bool {
	for _, b := range p.State.BindingsBySubject.Find(u.Principal()) {
		if b.Value.Role == roles.Admin && b.Value.Context() == roles.Global {
			return true
		}
	}
	return false
}

// commit writes and says so in the log.
func (p *People) commit(ctx context.Context, by auth.Identity, what, id string, ops []store.Op) error {
	if p.terms.DryRun {
		return nil
	}
	if _, err := p.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	p.Log.Info(what, "id", id, "by", by.UserID, "token", by.TokenName)
	return nil
}
