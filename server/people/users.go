// Users of this server: made, changed, disabled and removed.

package people

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// NewUser is a user that is to be made.
type NewUser struct {
	// ID is the one that the caller chose; empty makes one up.
	ID                                 string
	Username, DisplayName, Description string
	Labels, Annotations                map[string]string
	// Password has at least MinLength characters. With NoPassword there is none, until it is set.
	Password   string
	NoPassword bool
	MinLength  int
	MustChange bool
	Disabled   bool
	// GlobalRoles are the IDs of roles that they get, and Principals those by which directories know them.
	GlobalRoles, Principals []string
}

// maxText bounds names and descriptions, in bytes.
const maxText = 1024

func checkText(field, text string) error {
	if len(text) > maxText || !plans.SafeText(text) {
		return &roles.InvalidError{Field: field, Reason: "is longer than 1024 bytes, not UTF-8, or holds a control character or a mark of direction"}
	}
	return nil
}

// checkUsername takes letters, digits and . _ @ + -, so that a name can stand in commands and paths.
func checkUsername(name string) error {
	bad := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._@+-", r)
	}
	if name == "" || len(name) > auth.MaxUsername || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) || name[0] == '-' {
		return &roles.InvalidError{Field: "username", Reason: "is not a valid name: letters, digits and . _ @ + -, at most 256 bytes, no dash at the beginning"}
	}
	return nil
}

// chosen is the ID that a caller chose, or one that is made up.
func chosen(id, prefix string) (string, error) {
	if id == "" {
		return prefix + randomid.ID(5), nil
	}
	if problems := validation.IsDNS1123Label(id); len(problems) > 0 {
		return "", &roles.InvalidError{Field: "id", Reason: fmt.Sprintf("%.80q is not a valid name: %s", id, problems[0])}
	}
	return id, nil
}

// chosenUser is chosen for users. Their IDs are their names inside clusters, where others have names of other forms, such as
// the certificates of Kubernetes' own parts: no user becomes one of those.
func chosenUser(id string) (string, error) {
	if id != "" && !strings.HasPrefix(id, "u-") && !strings.HasPrefix(id, "user-") {
		return "", &roles.InvalidError{Field: "id", Reason: fmt.Sprintf("%.80q is not a valid id of a user: it begins with u- or user-", id)}
	}
	return chosen(id, "u-")
}

// CreateUser makes a user with their global roles, in one transaction. Its errors are *roles.InvalidError,
// *RefusedError, *auth.PasswordError and *auth.BusyError.
func (p *People) CreateUser(ctx context.Context, by auth.Identity, n NewUser) (records.User, error) {
	if err := checkUsername(n.Username); err != nil {
		return records.User{}, err
	}
	id, err := chosenUser(n.ID)
	if err != nil {
		return records.User{}, err
	}
	for field, text := range map[string]string{"name": n.DisplayName, "description": n.Description} {
		if err := checkText(field, text); err != nil {
			return records.User{}, err
		}
	}
	taken := refuse(Taken, "username", "there is a user %q already; login names are compared without regard to case", n.Username)
	lower := strings.ToLower(n.Username)
	if _, known := p.State.UsersByName.First(lower); known {
		return records.User{}, taken
	}
	hash := ""
	if !n.NoPassword {
		if hash, err = p.Auth.HashNew(ctx, n.Username, n.Password, n.MinLength); err != nil {
			return records.User{}, err
		}
	}
	u := records.User{
		ID: id, Labels: n.Labels, Annotations: n.Annotations, Username: n.Username, DisplayName: n.DisplayName, Description: n.Description, PasswordHash: hash,
		MustChange: n.MustChange, Disabled: n.Disabled, Created: p.Now().UTC(), CreatorID: by.UserID,
	}
	if err := p.link(by, &u, n.Principals); err != nil {
		return records.User{}, err
	}
	ops := []store.Op{p.State.Users.Creating(u.ID, u)}
	for _, role := range n.GlobalRoles {
		b, more, err := p.binding(by, roles.Binding{Role: role, Subject: roles.Subject{User: u.Principal()}})
		if err != nil {
			return records.User{}, err
		}
		ops = append(append(ops, more...), p.State.Bindings.Creating(b.ID, b))
	}
	if _, claimed := p.State.UserNames.Get(lower); claimed {
		return records.User{}, taken
	}
	ops = append(ops, p.State.UserNames.Creating(lower, records.UserName{UserID: u.ID}))
	return u, p.commit(ctx, by, "create user", u.ID, ops)
}

// UserChange is what is to be changed of a user; nil stays as it is.
type UserChange struct {
	DisplayName, Description *string
	Enabled, MustChange      *bool
	Labels, Annotations      *map[string]string
	// Principals are those by which directories know the user; that of this server may be among them, and stays.
	Principals *[]string
}

// UpdateUser changes a user. One who is disabled is logged out everywhere: their sessions are removed
// and their tokens are refused until they are enabled again, and what those opened ends.
func (p *People) UpdateUser(ctx context.Context, by auth.Identity, id string, change UserChange) (u records.User, err error) {
	err = store.Retry(func() error {
		d, ok := p.State.Users.Get(id)
		if !ok {
			return &store.NotFoundError{Collection: "users", Key: id}
		}
		if err := p.fresh("users", id, d.Revision); err != nil {
			return err
		}
		if err := p.above(by, d.Value); err != nil {
			return err
		}
		for field, text := range map[string]*string{"name": change.DisplayName, "description": change.Description} {
			if text != nil {
				if err := checkText(field, *text); err != nil {
					return err
				}
			}
		}
		set(&d.Value.DisplayName, change.DisplayName)
		set(&d.Value.Description, change.Description)
		set(&d.Value.MustChange, change.MustChange)
		set(&d.Value.Labels, change.Labels)
		set(&d.Value.Annotations, change.Annotations)
		var ops []store.Op
		if change.Enabled != nil {
			if !*change.Enabled && !d.Value.Disabled {
				if ops, err = p.disabling(by, d.Value); err != nil {
					return err
				}
			}
			d.Value.Disabled = !*change.Enabled
		}
		if change.Principals != nil {
			if err := p.link(by, &d.Value, *change.Principals); err != nil {
				return err
			}
		}
		u = d.Value
		return p.commit(ctx, by, "change user", id, append(ops, p.State.Users.Updating(d)))
	})
	return u, err
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// disabling is what goes with a user who may not log in any more.
func (p *People) disabling(by auth.Identity, u records.User) ([]store.Op, error) {
	if u.ID == by.UserID {
		return nil, refuse(Oneself, "enabled", "no one disables themselves: ask another administrator")
	}
	var ops []store.Op
	if p.isAdmin(u) {
		var err error
		if ops, err = p.witness(u.ID, ""); err != nil {
			return nil, err
		}
	}
	for _, t := range p.State.TokensByUser.Find(u.ID) {
		if t.Value.Session {
			ops = append(ops, p.State.Tokens.Deleting(t.Key, 0))
		}
	}
	return ops, nil
}

// SetPassword gives another user a new password, which ends their sessions. Its errors are those of
// auth.SetPassword and *RefusedError.
func (p *People) SetPassword(ctx context.Context, by auth.Identity, id, password string, minLength int) (records.User, error) {
	d, ok := p.State.Users.Get(id)
	if !ok {
		return records.User{}, &store.NotFoundError{Collection: "users", Key: id}
	}
	if err := p.above(by, d.Value); err != nil {
		return records.User{}, err
	}
	return p.Auth.SetPassword(ctx, id, password, minLength, by.TokenName)
}

// RemoveUser removes a user with their tokens and bindings, in one transaction. What is not allowed is a *RefusedError.
func (p *People) RemoveUser(ctx context.Context, by auth.Identity, id string) error {
	return store.Retry(func() error {
		d, ok := p.State.Users.Get(id)
		if !ok {
			return &store.NotFoundError{Collection: "users", Key: id}
		}
		if err := p.fresh("users", id, d.Revision); err != nil {
			return err
		}
		if id == by.UserID {
			return refuse(Oneself, "", "no one removes themselves: ask another administrator")
		}
		if err := p.above(by, d.Value); err != nil {
			return err
		}
		ops := []store.Op{p.State.Users.Deleting(id, d.Revision)}
		if p.isAdmin(d.Value) {
			stays, err := p.witness(id, "")
			if err != nil {
				return err
			}
			ops = append(ops, stays...)
		}
		if claim, ok := p.State.UserNames.Get(strings.ToLower(d.Value.Username)); ok && claim.Value.UserID == id {
			ops = append(ops, p.State.UserNames.Deleting(claim.Key, claim.Revision))
		}
		for _, t := range p.State.TokensByUser.Find(id) {
			ops = append(ops, p.State.Tokens.Deleting(t.Key, 0))
		}
		for _, principal := range append([]string{d.Value.Principal()}, d.Value.Elsewhere...) {
			for _, b := range p.State.BindingsBySubject.Find(principal) {
				ops = append(ops, p.State.Bindings.Deleting(b.Key, 0))
			}
		}
		for _, kept := range p.State.Preferences.ListIn(id + "/") {
			ops = append(ops, p.State.Preferences.Deleting(kept.Key, 0))
		}
		if _, ok := p.State.DirectoryTokens.Get(id); ok {
			ops = append(ops, p.State.DirectoryTokens.Deleting(id, 0))
		}
		return p.commit(ctx, by, "remove user", id, ops)
	})
}
