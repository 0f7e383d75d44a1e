package people

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// office is a store with an administrator, and with ann, whom an OpenLDAP knows.
type office struct {
	*testing.T
	*People
	admin auth.Identity
}

const (
	ann   = "openldap_user://uid=ann,dc=example"
	crew  = "openldap_group://cn=crew,dc=example"
	hubs  = "github_team://77"
	annID = "u-ann"
)

func newOffice(t *testing.T, password string) *office {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	o := &office{T: t, People: &People{State: st, Now: func() time.Time { return noon }, Log: log}}
	o.admin = auth.Identity{UserID: "u-root", Username: "root", Grants: roles.Of([]roles.Binding{{Role: roles.Admin}}, st.Role)}
	must(o, "u-root", st.Users, records.User{ID: "u-root", Username: "root", PasswordHash: "$3:1:x"})
	must(o, "grb-root", st.Bindings, roles.Binding{ID: "grb-root", Role: roles.Admin, Subject: roles.Subject{User: roles.LocalUser("u-root")}})
	must(o, annID, st.Users, records.User{ID: annID, Username: "ann", PasswordHash: password, Elsewhere: []string{ann, "github_user://5"}, Groups: []string{crew, hubs}})
	must(o, "ann", st.UserNames, records.UserName{UserID: annID})
	for name, token := range map[string]records.Token{
		"session": {Session: true}, "by-ldap": {Session: true, Directory: records.OpenLDAP}, "by-github": {Session: true, Directory: records.GitHub}, "api": {},
	} {
		token.Name, token.UserID, token.KeyHash = name, annID, "$3:1:"+name
		must(o, name, st.Tokens, token)
	}
	must(o, annID, st.DirectoryTokens, records.DirectoryToken{Kind: records.OpenLDAP, Token: "hunter2"})
	must(o, annID+"/theme", st.Preferences, records.Preference{})
	must(o, "u-annabel/theme", st.Preferences, records.Preference{})
	return o
}

func must[T any](o *office, key string, c *store.Collection[T], v T) {
	o.Helper()
	if _, err := c.Create(o.Context(), key, v); err != nil {
		o.Fatal(err)
	}
}

// tokens are the names of ann's.
func (o *office) tokens() string {
	var names []string
	for _, t := range o.State.TokensByUser.Find(annID) {
		names = append(names, t.Key)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestLeave: who is gone from their directory has no token any more, unless a password of this server is theirs; who is away from one
// directory keeps what they have by others.
func TestLeave(t *testing.T) {
	for _, c := range []struct {
		name, password, kind string
		gone                 bool
		tokens, groups       string
		kept                 bool // what the directory is asked by
	}{
		{"gone", "", records.OpenLDAP, true, "", hubs, false},
		{"gone, with a password here", "$3:1:x", records.OpenLDAP, true, "api by-github session", hubs, false},
		{"away", "", records.OpenLDAP, false, "api by-github session", hubs, false},
		{"away from another", "", records.GitHub, false, "api by-ldap session", crew, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice(t, c.password)
			if err := o.Leave(t.Context(), c.kind, annID, c.gone); err != nil {
				t.Fatal(err)
			}
			u, _ := o.State.Users.Get(annID)
			_, kept := o.State.DirectoryTokens.Get(annID)
			if got := o.tokens(); got != c.tokens || strings.Join(u.Value.Groups, " ") != c.groups || kept != c.kept || !u.Value.Asked.Equal(noon) {
				t.Errorf("tokens %q, groups %v, asked at %s, by a kept token %v", got, u.Value.Groups, u.Value.Asked, kept)
			}
		})
	}
	if err := newOffice(t, "").Leave(t.Context(), records.OpenLDAP, "u-nobody", true); err != nil {
		t.Errorf("who is not here: %v", err)
	}
}

// TestWhoIsNotLetInAnyMore: a directory that knows them still, but whose access has changed, is as one that knows them no more.
func TestWhoIsNotLetInAnyMore(t *testing.T) {
	o := newOffice(t, "")
	only := records.Directory{Kind: records.OpenLDAP, Access: records.Required, Allowed: []string{crew}}
	if err := o.Renew(t.Context(), only, annID, directories.Person{Principal: ann, Groups: []string{crew}}); err != nil || o.tokens() == "" {
		t.Fatalf("who is let in by a group: %v, tokens %q", err, o.tokens())
	}
	if err := o.Renew(t.Context(), only, annID, directories.Person{Principal: ann}); err != nil || o.tokens() != "" {
		t.Errorf("%v, and the tokens are %q", err, o.tokens())
	}
	var refused *RefusedError
	if _, err := o.Arrive(t.Context(), only, directories.Person{Principal: ann}); !errors.As(err, &refused) || refused.Why != NotAdmitted {
		t.Errorf("a login: %v", err)
	}
	if _, err := o.State.Users.Modify(t.Context(), annID, func(u records.User) (records.User, error) { u.Disabled = true; return u, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Arrive(t.Context(), only, directories.Person{Principal: ann, Groups: []string{crew}}); !errors.Is(err, auth.ErrDisabled) {
		t.Errorf("a login of a user who is disabled: %v", err)
	}
}

// TestDisabling removes sessions, and leaves API tokens for when the user is enabled again.
func TestDisabling(t *testing.T) {
	o := newOffice(t, "$3:1:x")
	no := false
	u, err := o.UpdateUser(t.Context(), o.admin, annID, UserChange{Enabled: &no})
	if err != nil || !u.Disabled || o.tokens() != "api" {
		t.Errorf("%v, disabled %v, tokens %q", err, u.Disabled, o.tokens())
	}
}

// TestRemovedUsersLeaveNothing: who gets their name, or is known by their principal, has none of what they had.
func TestRemovedUsersLeaveNothing(t *testing.T) {
	o := newOffice(t, "")
	for id, subject := range map[string]roles.Subject{"grb-local": {User: roles.LocalUser(annID)}, "grb-ldap": {User: ann}, "grb-crew": {Group: crew}} {
		must(o, id, o.State.Bindings, roles.Binding{ID: id, Role: "user", Subject: subject})
	}
	if err := o.RemoveUser(t.Context(), o.admin, annID); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, id := range []string{"grb-local", "grb-ldap", "grb-crew"} {
		if _, ok := o.State.Bindings.Get(id); ok {
			left = append(left, id)
		}
	}
	_, token := o.State.DirectoryTokens.Get(annID)
	_, name := o.State.UserNames.Get("ann")
	_, theirs := o.State.Preferences.Get(annID + "/theme")
	_, others := o.State.Preferences.Get("u-annabel/theme")
	if !slices.Equal(left, []string{"grb-crew"}) || token || name || theirs || !others || o.tokens() != "" {
		t.Errorf("left are %v, the name %v, tokens %q %v, preferences %v; another user's %v", left, name, o.tokens(), token, theirs, others)
	}
}

// TestLink: a principal is of one user, administrators alone give it, and groups go with the directory that said them.
func TestLink(t *testing.T) {
	o := newOffice(t, "$3:1:x")
	must(o, "u-bob", o.State.Users, records.User{ID: "u-bob", Username: "bob"})
	change := func(by auth.Identity, id string, principals ...string) (records.User, error) {
		return o.UpdateUser(t.Context(), by, id, UserChange{Principals: &principals})
	}
	manager := auth.Identity{UserID: "u-m", Username: "m", Grants: &roles.Grants{Global: []roles.Rule{{APIGroups: []string{"management.cattle.io"}, Resources: []string{"users"}, Verbs: []string{"*"}}}}}
	for name, c := range map[string]struct {
		by        auth.Identity
		principal string
		why       Why
	}{
		"of another user":       {o.admin, ann, Taken},
		"by a manager of users": {manager, "openldap_user://uid=bob,dc=example", Escalation},
	} {
		var refused *RefusedError
		if _, err := change(c.by, "u-bob", c.principal); !errors.As(err, &refused) || refused.Why != c.why {
			t.Errorf("%s: %v", name, err)
		}
	}
	if u, err := change(o.admin, annID, "github_user://5"); err != nil || !slices.Equal(u.Groups, []string{hubs}) || !slices.Equal(u.Elsewhere, []string{"github_user://5"}) {
		t.Errorf("without the one directory: %+v, %v", u, err)
	}
	if u, err := change(manager, annID, "github_user://5"); err != nil || len(u.Elsewhere) != 1 {
		t.Errorf("what stays is given by nobody: %v", err)
	}
}
