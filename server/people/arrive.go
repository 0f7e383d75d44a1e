// People whom directories know: made at their first login, kept as the directory says, and let go with it.

package people

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// Arrive is the user whom a directory has let in. At their first login they are made, with the global roles of new users. Its
// errors are auth.ErrDisabled, and *RefusedError where the access of the directory lets them not in.
func (p *People) Arrive(ctx context.Context, d records.Directory, who directories.Person) (u records.User, err error) {
	who = p.bounded(d, who)
	err = store.RetryNew(func() error {
		known, ok := p.State.UsersByPrincipal.First(who.Principal)
		if ok && known.Value.Disabled {
			return auth.ErrDisabled
		}
		if !directories.Admits(d, who, p.member(known.Value, who)) {
			return refuse(NotAdmitted, "", "the access of the directory %s is %s, and %s is neither in its list%s", d.Kind, d.Access, who.Principal, or(d.Access))
		}
		if ok {
			u, err = p.renew(ctx, d.Kind, known, who)
			return err
		}
		u, err = p.welcome(ctx, d.Kind, who)
		return err
	})
	return u, err
}

func or(mode records.AccessMode) string {
	if mode == records.Restricted {
		return " nor has a role in a cluster or a project"
	}
	return " nor in a group of it"
}

// Renew takes in what a directory says of a user who is away. Whom it would not let in any more loses what they have by it.
// A conflict with another write is a *store.ConflictError.
func (p *People) Renew(ctx context.Context, d records.Directory, userID string, who directories.Person) error {
	who = p.bounded(d, who)
	return store.RetryNew(func() error {
		known, ok := p.State.Users.Get(userID)
		if !ok {
			return &store.NotFoundError{Collection: "users", Key: userID}
		}
		if !directories.Admits(d, who, p.member(known.Value, who)) {
			p.Log.Warn("a user is not let in any more by the access of a directory", "directory", d.Kind, "user", userID)
			return p.leave(ctx, d.Kind, known, true)
		}
		_, err := p.renew(ctx, d.Kind, known, who)
		return err
	})
}

// Leave takes from a user what they have by a directory: their groups of it and the sessions that it opened. Of one who is
// gone, and has no password of this server, all tokens are removed, too. A conflict with another write is a *store.ConflictError.
func (p *People) Leave(ctx context.Context, kind, userID string, gone bool) error {
	return store.RetryNew(func() error {
		known, ok := p.State.Users.Get(userID)
		if !ok {
			return nil
		}
		return p.leave(ctx, kind, known, gone)
	})
}

// bounded is a user with the groups that are kept.
func (p *People) bounded(d records.Directory, who directories.Person) directories.Person {
	var left int
	who.Groups, left = directories.Kept(d.Kind, who.Groups, func(group string) bool {
		return slices.Contains(d.Allowed, group) || p.State.BindingsBySubject.Count(group) > 0
	})
	if left > 0 {
		p.Log.Warn("a directory says more groups of a user than are kept, those first that a binding names", "directory", d.Kind, "principal", who.Principal,
			"kept", len(who.Groups), "left_out", left)
	}
	return who
}

// member says whether a user has a role in a cluster or a project, by themselves or by a group.
func (p *People) member(known records.User, who directories.Person) bool {
	principals := append([]string{who.Principal}, who.Groups...)
	if known.ID != "" {
		principals = append(principals, known.Principal())
	}
	for _, principal := range principals {
		for _, b := range p.State.BindingsBySubject.Find(principal) {
			if b.Value.Context() != roles.Global {
				return true
			}
		}
	}
	return false
}

func (p *People) renew(ctx context.Context, kind string, known store.Document[records.User], who directories.Person) (records.User, error) {
	before := known.Value
	u := &known.Value
	u.Groups, u.Asked = directories.Merged(kind, u.Groups, who.Groups), p.Now().UTC()
	if name := shown(who.Name); name != "" && u.PasswordHash == "" {
		u.DisplayName = name
	}
	ops := append(p.keeping(kind, u.ID, who.Token), p.State.Users.Updating(known))
	if _, err := p.State.Store.Commit(ctx, ops...); err != nil {
		return *u, fmt.Errorf("take in what directory %s says of user %s: %w", kind, u.ID, err)
	}
	if !slices.Equal(before.Groups, u.Groups) {
		p.Log.Info("groups of a user changed", "directory", kind, "user", u.ID, "groups", len(u.Groups))
	}
	return *u, nil
}

// welcome makes a user.
func (p *People) welcome(ctx context.Context, kind string, who directories.Person) (records.User, error) {
	id := directories.UserID(who.Principal)
	if _, taken := p.State.Users.Get(id); taken { // by one who is known by another principal since
		id = "u-" + randomid.ID(10)
	}
	now := p.Now().UTC()
	u := records.User{
		ID: id, Username: p.freeName(kind, who.Login, id), DisplayName: shown(who.Name), Created: now, Asked: now,
		Elsewhere: []string{who.Principal}, Groups: who.Groups,
	}
	ops := append(p.keeping(kind, u.ID, who.Token), p.State.Users.Creating(u.ID, u), p.State.UserNames.Creating(strings.ToLower(u.Username), records.UserName{UserID: u.ID}))
	server := auth.Identity{UserID: "system", Username: "system", Grants: roles.Of([]roles.Binding{{Role: roles.Admin}}, p.State.Role)}
	for _, role := range p.NewUserRoles() {
		b, more, err := p.binding(server, roles.Binding{Role: role, Subject: roles.Subject{User: u.Principal()}})
		if err != nil {
			return records.User{}, fmt.Errorf("give a new user the role %s: %w", role, err)
		}
		ops = append(append(ops, more...), p.State.Bindings.Creating(b.ID, b))
	}
	return u, p.commit(ctx, server, "create user", u.ID+" of "+who.Principal, ops)
}

// freeName is a login name that no user has: the one of the directory, that with the directory behind it, or the user's ID.
func (p *People) freeName(kind, login, id string) string {
	for _, name := range []string{login, login + "@" + kind} {
		lower := strings.ToLower(name)
		_, known := p.State.UsersByName.First(lower)
		_, claimed := p.State.UserNames.Get(lower)
		if login != "" && checkUsername(name) == nil && !known && !claimed {
			return name
		}
	}
	return id
}

// shown is a name as it is kept; what cannot be shown is none.
func shown(name string) string {
	if checkText("name", name) != nil {
		return ""
	}
	return name
}

// keeping are the writes that keep by what the directory is asked about a user.
func (p *People) keeping(kind, userID, token string) []store.Op {
	if token == "" || len(token) > 16<<10 {
		return nil
	}
	value := records.DirectoryToken{Kind: kind, Token: token}
	kept, ok := p.State.DirectoryTokens.Get(userID)
	switch {
	case !ok:
		return []store.Op{p.State.DirectoryTokens.Creating(userID, value)}
	case kept.Value == value:
		return nil
	}
	kept.Value = value
	return []store.Op{p.State.DirectoryTokens.Updating(kept)}
}

func (p *People) leave(ctx context.Context, kind string, known store.Document[records.User], gone bool) error {
	u := &known.Value
	u.Groups, u.Asked = directories.Merged(kind, u.Groups, nil), p.Now().UTC()
	ops := []store.Op{p.State.Users.Updating(known)}
	if kept, ok := p.State.DirectoryTokens.Get(u.ID); ok && kept.Value.Kind == kind {
		ops = append(ops, p.State.DirectoryTokens.Deleting(u.ID, 0))
	}
	ended := 0
	for _, t := range p.State.TokensByUser.Find(u.ID) {
		if t.Value.Directory == kind || gone && u.PasswordHash == "" {
			ended++
			ops = append(ops, p.State.Tokens.Deleting(t.Key, 0))
		}
	}
	if _, err := p.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("take from user %s what they have by directory %s: %w", u.ID, kind, err)
	}
	p.Log.Info("a user has nothing by a directory any more", "directory", kind, "user", u.ID, "gone", gone, "tokens", ended)
	return nil
}

// link gives a user the principals by which directories know them. Groups of a directory that knows them no more go. What a new
// principal brings is known after the directory was asked: its groups, and bindings that name it. So it is given by those who may
// do everything, and by no others.
func (p *People) link(by auth.Identity, u *records.User, principals []string) error {
	var linked []string
	for _, principal := range principals {
		if principal == u.Principal() || slices.Contains(linked, principal) {
			continue
		}
		kind, ok := directories.KindOf(principal)
		if !ok || !strings.HasPrefix(principal, directories.UserOf(kind, "")) || len(principal) > directories.MaxPrincipal || checkText("principalIds", principal) != nil {
			return &roles.InvalidError{Field: "principalIds", Reason: "has an entry that is not the principal of a person in a directory, as in openldap_user://uid=ann,ou=people,dc=example,dc=com"}
		}
		if other, ok := p.State.UsersByPrincipal.First(principal); ok && other.Key != u.ID {
			return refuse(Taken, "principalIds", "principal %.200s is the one of user %s", principal, other.Value.Username)
		}
		if !slices.Contains(u.Elsewhere, principal) && !by.Grants.Everything() {
			return refuse(Escalation, "principalIds", "who is known by %.200s may have more than user %s: administrators alone link people to directories", principal, by.Username)
		}
		linked = append(linked, principal)
	}
	for _, gone := range u.Elsewhere {
		if kind, _ := directories.KindOf(gone); !slices.ContainsFunc(linked, func(l string) bool { return directories.Of(kind, l) }) {
			u.Groups = directories.Merged(kind, u.Groups, nil)
		}
	}
	u.Elsewhere = linked
	return nil
}
