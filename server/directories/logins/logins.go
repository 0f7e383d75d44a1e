// Package logins is where outside directories and the people of this server meet: logins by password and through a browser,
// what a directory says of a person who is away, and the configuration.
package logins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/directories/ldap"
	"github.com/drover-project/drover/server/directories/web"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// maxAsking bounds how many logins wait for directories at once: with one that is slow, others are refused instead of queued.
const maxAsking = 32

// Options are what a desk stands on.
type Options struct {
	State    *state.State
	Auth     *auth.Auth
	People   *people.People
	Settings *settings.Settings
	// Secret is shared by all servers of the store.
	Secret string
	// Outgoing is the way to directories.
	Outgoing *outgoing.Outgoing
	Now      func() time.Time
	Logger   *slog.Logger
}

// Desk is one.
type Desk struct {
	Options
	sealer *directories.Sealer
	asking chan struct{}
	// turns let one search at a time into each directory of LDAP, by its kind.
	turns map[string]ldap.Turn
}

// New makes one. The errors are those of directories.NewSealer.
func New(o Options) (*Desk, error) {
	sealer, err := directories.NewSealer(o.Secret, o.Now)
	if err != nil {
		return nil, err
	}
	d := &Desk{Options: o, sealer: sealer, asking: make(chan struct{}, maxAsking), turns: map[string]ldap.Turn{}}
	for _, kind := range directories.Kinds() {
		d.turns[kind] = ldap.NewTurn()
	}
	return d, nil
}

// side is one of the two ways to ask a directory; the other is nil.
type side struct {
	passwords directories.Passwords
	browsers  directories.Browsers
}

func (d *Desk) open(c records.Directory) (s side, err error) {
	switch {
	case c.LDAP != nil:
		s.passwords = ldap.Open(c.Kind, *c.LDAP, d.Outgoing.Configured(c.LDAP.URL), d.turns[c.Kind])
	case c.OIDC != nil:
		s.browsers, err = web.OpenOIDC(*c.OIDC, d.Outgoing.Configured(c.OIDC.Issuer), d.Now)
	case c.GitHub != nil:
		s.browsers, err = web.OpenGitHub(*c.GitHub, d.Outgoing)
	default:
		err = fmt.Errorf("directory %s has no configuration", c.Kind)
	}
	return s, err
}

// Ask is what a directory says of a principal; can is false where it cannot be asked.
func (d *Desk) Ask(ctx context.Context, c records.Directory, userID, principal string) (who directories.Person, can bool, err error) {
	s, err := d.open(c)
	if err != nil {
		return who, true, err
	}
	if s.passwords != nil {
		who, err = s.passwords.Find(ctx, principal)
	} else {
		kept, ok := d.State.DirectoryTokens.Get(userID)
		if !ok || kept.Value.Kind != c.Kind {
			return who, false, nil
		}
		who, err = s.browsers.Again(ctx, kept.Value.Token)
	}
	if err == nil && who.Principal != principal {
		err = directories.ErrGone // an entry that was renamed, or a token of another user
	}
	return who, true, err
}

// turn never waits: a login that comes when too many ask already is refused with a *auth.BusyError.
func (d *Desk) turn() (done func(), err error) {
	select {
	case d.asking <- struct{}{}:
		return func() { <-d.asking }, nil
	default:
		return nil, &auth.BusyError{RetryAfter: 2 * time.Second}
	}
}

// All are the directories, in the order of their kinds.
func (d *Desk) All() []records.Directory {
	var all []records.Directory
	for _, one := range d.State.Directories.List() {
		all = append(all, one.Value)
	}
	return all
}

// Get is a directory that is configured.
func (d *Desk) Get(kind string) (records.Directory, bool) {
	one, ok := d.State.Directories.Get(kind)
	return one.Value, ok
}

// Enabled is a directory that lets people in.
func (d *Desk) Enabled(kind string) (records.Directory, bool) {
	one, ok := d.Get(kind)
	return one, ok && !one.Disabled
}

// Set configures a directory by a document; see directories.Read for its errors. A directory that the document disables ends the logins that it
// let in.
func (d *Desk) Set(ctx context.Context, by auth.Identity, text []byte) (records.Directory, error) {
	for {
		set, err := directories.Read(text, d.Get)
		if err != nil {
			return set, &ConfigError{err}
		}
		set.Changed = d.Now().UTC()
		before, known := d.State.Directories.Get(set.Kind)
		if known {
			before.Value = set
			_, err = d.State.Directories.Update(ctx, before)
		} else {
			_, err = d.State.Directories.Create(ctx, set.Kind, set)
		}
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
			continue
		}
		if err != nil {
			return set, fmt.Errorf("store directory %s: %w", set.Kind, err)
		}
		d.Logger.Info("directory configured", "directory", set.Kind, "enabled", !set.Disabled, "access", set.Access, "user", by.UserID)
		if set.Disabled {
			err = d.letGo(ctx, set.Kind)
		}
		return set, err
	}
}

// ConfigError is what is wrong with a document.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// Remove forgets a directory, with what people have by it. The errors are those of the store.
func (d *Desk) Remove(ctx context.Context, by auth.Identity, kind string) error {
	if err := d.State.Directories.Delete(ctx, kind, 0); err != nil {
		return err
	}
	d.Logger.Info("directory removed", "directory", kind, "user", by.UserID)
	return d.letGo(ctx, kind)
}

// letGo takes from all users what they have by a directory. They stay, with their own roles.
func (d *Desk) letGo(ctx context.Context, kind string) error {
	for _, u := range d.State.Users.List() {
		if d.has(kind, u.Value) {
			if err := d.People.Leave(ctx, kind, u.Key, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// has says whether a user has anything by a directory.
func (d *Desk) has(kind string, u records.User) bool {
	for _, g := range u.Groups {
		if directories.Of(kind, g) {
			return true
		}
	}
	if kept, ok := d.State.DirectoryTokens.Get(u.ID); ok && kept.Value.Kind == kind {
		return true
	}
	for _, t := range d.State.TokensByUser.Find(u.ID) {
		if t.Value.Directory == kind {
			return true
		}
	}
	return false
}

// Test asks a directory as it is configured, also one that is disabled. With a name, which only directories of passwords take,
// it is whom name and password belong to; no user is let in or made. Its errors are those of directories.
func (d *Desk) Test(ctx context.Context, c records.Directory, username, password string) (directories.Person, error) {
	s, err := d.open(c)
	if err != nil {
		return directories.Person{}, err
	}
	done, err := d.turn()
	if err != nil {
		return directories.Person{}, err
	}
	defer done()
	switch {
	case s.passwords == nil && username != "":
		return directories.Person{}, directories.Denied("people of directory %s log in with a browser, so that there is no password to test", c.Kind)
	case s.passwords == nil:
		return directories.Person{}, s.browsers.Check(ctx)
	}
	if err := s.passwords.Check(ctx); err != nil || username == "" {
		return directories.Person{}, err
	}
	return s.passwords.Login(ctx, username, password)
}

// Search finds people and groups whose names begin with a text: at most so many of each in each directory that can be asked.
// Of the others there are the groups that people came with, which bindings may name. A directory that is away is left out,
// and the log says so: who looks for a user of this server is not to wait for another.
func (d *Desk) Search(ctx context.Context, text string, want directories.Sought, most int) []directories.Found {
	var found []directories.Found
	for _, c := range d.All() {
		if c.Disabled {
			continue
		}
		s, err := d.open(c)
		if err == nil && s.passwords == nil {
			found = append(found, d.knownGroups(c.Kind, text, want, most)...)
			continue
		}
		if err == nil {
			var some []directories.Found
			some, err = s.passwords.Search(ctx, text, want, most)
			found = append(found, some...)
		}
		if err != nil {
			d.Logger.Warn("a directory was not searched", "directory", c.Kind, "error", err)
		}
	}
	return found
}

// knownGroups are those of a directory that its people were found in, and that begin with a text.
func (d *Desk) knownGroups(kind, text string, want directories.Sought, most int) []directories.Found {
	var found []directories.Found
	if want == directories.People {
		return nil
	}
	seen := map[string]bool{}
	for _, u := range d.State.Users.List() {
		for _, group := range u.Value.Groups {
			_, name, _ := strings.Cut(group, "://")
			if directories.Of(kind, group) && !seen[group] && len(found) < most && strings.HasPrefix(strings.ToLower(name), strings.ToLower(text)) {
				seen[group] = true
				found = append(found, directories.Found{Principal: group, Name: name, Group: true})
			}
		}
	}
	return found
}
