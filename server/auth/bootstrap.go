// The first start: one user who may do everything, and a token for the server's own host.

package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Bootstrap makes the user admin when there is no user at all, with the password given
// or, when it is empty, a generated one, which is returned to be shown once. It then
// sees to it that tokenFile holds a token of the first admin that never expires, with
// mode 0600: a missing or invalid one is made anew. It is called at every start, by
// every replica; tokenFile "" leaves the file out.
func (a *Auth) Bootstrap(ctx context.Context, password, tokenFile string) (generated string, err error) {
	generated, err = a.firstUser(ctx, password)
	if err != nil {
		return "", fmt.Errorf("make the first user: %w", err)
	}
	if err := bindAdmins(ctx, a.state, a.now(), a.log); err != nil {
		return generated, fmt.Errorf("give administrators of an earlier version their role: %w", err)
	}
	if tokenFile == "" {
		return generated, nil
	}
	if err := a.ensureTokenFile(ctx, tokenFile); err != nil {
		return generated, fmt.Errorf("admin token file: %w", err)
	}
	return generated, nil
}

func (a *Auth) firstUser(ctx context.Context, password string) (generated string, err error) {
	// install-uuid is written in the same transaction: of two replicas that start at the
	// same moment one makes the admin and the other finds it made. So it is read before
	// the users are.
	const name = "install-uuid"
	once := a.state.Settings.Creating(name, records.Setting{Name: name, Value: randomid.UID()})
	if set, ok := a.state.Settings.Get(name); ok {
		once = a.state.Settings.Updating(set)
	}
	if off, ok := a.state.Settings.Get("no-default-admin"); ok && off.Value.Value == "true" || len(a.state.Users.List()) > 0 {
		return "", nil
	}
	user := records.User{
		ID: "user-" + randomid.ID(5), Username: "admin", DisplayName: "Default Admin",
		MustChange: password == wellKnown, Created: a.now().UTC(),
	}
	if password == "" {
		generated, user.MustChange = randomid.Secret(), true
		password = generated
	}
	if user.PasswordHash, err = a.hash(ctx, password); err != nil {
		return "", err
	}
	binding := adminBinding(user, a.now())
	_, err = a.state.Store.Commit(ctx, a.state.Users.Creating(user.ID, user), once,
		a.state.UserNames.Creating(user.Username, records.UserName{UserID: user.ID}), a.state.Bindings.Creating(binding.ID, binding))
	_, exists := errors.AsType[*store.ExistsError](err)
	_, conflict := errors.AsType[*store.ConflictError](err)
	if exists || conflict {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	a.log.Info("first user made", "user", user.ID, "username", user.Username)
	return generated, nil
}

func adminBinding(u records.User, now time.Time) roles.Binding {
	return roles.Binding{ID: "grb-" + randomid.ID(5), Role: roles.Admin, Subject: roles.Subject{User: u.Principal()}, Created: now.UTC()}
}

// bindAdmins makes bindings of the mark that administrators had before there were any. Of two
// replicas that do so at the same moment one does it.
func bindAdmins(ctx context.Context, st *state.State, now time.Time, log *slog.Logger) error {
	for _, d := range st.Users.List() {
		if !d.Value.Admin {
			continue
		}
		binding := adminBinding(d.Value, now)
		d.Value.Admin = false
		_, err := st.Store.Commit(ctx, st.Users.Updating(d), st.Bindings.Creating(binding.ID, binding))
		if _, other := errors.AsType[*store.ConflictError](err); err != nil && !other {
			return err
		}
		log.Info("administrator bound to the role admin", "user", d.Key)
	}
	return nil
}

// firstAdmin is the admin that was made first and may still log in.
func firstAdmin(st *state.State) (records.User, bool) {
	var first records.User
	for _, d := range st.Users.List() {
		if u := d.Value; st.GrantsOf(u).Everything() && !u.Disabled && (first.ID == "" || u.Created.Before(first.Created)) {
			first = u
		}
	}
	return first, first.ID != ""
}

// ensureTokenFile leaves a good file alone.
func (a *Auth) ensureTokenFile(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file (%s): remove it", path, info.Mode().Type())
	case info.Mode().Perm()&0o077 != 0:
		a.log.Warn("admin token file was open to others and is replaced", "path", path, "mode", info.Mode().Perm().String())
	default:
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if who, err := a.Check(strings.TrimSpace(string(text))); err == nil && who.Admin && who.Expires.IsZero() {
			return nil
		}
	}
	admin, ok := firstAdmin(a.state)
	if !ok {
		return nil // no user whose token it could be
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	description := fmt.Sprintf("file %s on %s", path, host)
	text, token, err := a.IssueToken(ctx, records.Token{UserID: admin.ID, Description: description})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return errors.Join(err, a.RevokeToken(ctx, token.Name))
	}
	// A user who lost the file, or took it, loses the token that was in it.
	for _, old := range a.Tokens() {
		if old.Description == description && old.UserID == admin.ID && old.Name != token.Name {
			if err := a.RevokeToken(ctx, old.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
